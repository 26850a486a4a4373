#include "planner/search/iteration_time/plan_moves.hpp"

#include <array>

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "planner/search/iteration_time/random_change.hpp"

namespace dtfm::search {
namespace {

constexpr int near = 6;  // tensor-parallel groups on either side of a neighbour

int below(Rng& rng, int bound) {
  return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound)));
}

Slot random_slot(const EditablePlan& plan, Rng& rng) {
  return {below(rng, plan.pipelines()), below(rng, plan.stages())};
}

void swap_groups(EditablePlan& plan, Rng& rng) {
  const Slot a = random_slot(plan, rng), b = random_slot(plan, rng);
  plan.swap(a, b);
}

void use_another_group(EditablePlan& plan, Rng& rng) {
  if (plan.unused_groups() == 0) return swap_groups(plan, rng);
  const int number = below(rng, plan.unused_groups());
  plan.replace(random_slot(plan, rng), number);
}

/// Assigns a group to a random slot that is close to the group of a neighbouring slot.
void place_near_neighbour(EditablePlan& plan, Rng& rng) {
  const Slot slot = random_slot(plan, rng);
  Slot neighbour = slot;
  if (plan.stages() > 1 && (plan.pipelines() == 1 || below(rng, 2) == 0))
    neighbour.stage = slot.stage == 0                   ? 1
                      : slot.stage + 1 == plan.stages() ? slot.stage - 1
                                                        : slot.stage + (below(rng, 2) == 0 ? 1 : -1);
  else
    neighbour.pipeline = below(rng, plan.pipelines());
  const int group = plan.group_at(neighbour), count = static_cast<int>(plan.groups().size());
  const int step = below(rng, 2 * near + 1) - near;
  const int other = ((group + step) % count + count) % count;
  if (other != group && !plan.groups()[at(other)].empty()) plan.place(other, slot);
}

void swap_pipeline_tails(EditablePlan& plan, Rng& rng) {
  const int a = below(rng, plan.pipelines()), b = below(rng, plan.pipelines());
  if (a == b) return;
  for (int stage = below(rng, plan.stages()); stage < plan.stages(); ++stage)
    plan.swap({a, stage}, {b, stage});
}

void swap_stages(EditablePlan& plan, Rng& rng) {
  const int a = below(rng, plan.stages()), b = below(rng, plan.stages());
  if (a == b) return;
  for (int pipeline = 0; pipeline < plan.pipelines(); ++pipeline) plan.swap({pipeline, a}, {pipeline, b});
}

void shift_layers(EditablePlan& plan, Rng& rng) {
  if (plan.stages() < 2) return;
  const int boundary = below(rng, plan.stages() - 1);
  const bool forward = below(rng, 2) == 0;
  const int from = forward ? boundary : boundary + 1, to = forward ? boundary + 1 : boundary;
  if (plan.has_heterogeneous_pipelines() && below(rng, 4) == 0)
    return plan.shift_layer(below(rng, plan.pipelines()), from, to);
  for (int pipeline = 0; pipeline < plan.pipelines(); ++pipeline) plan.shift_layer(pipeline, from, to);
}

void shift_micro_batches(EditablePlan& plan, Rng& rng) {
  const int from = below(rng, plan.pipelines()), to = below(rng, plan.pipelines());
  plan.shift_micro_batches(from, to, batch_step(plan.job(), plan.stages()) * (1 + below(rng, 3)));
}

void halve_stage(EditablePlan& plan, Rng& rng) {
  plan.halve_stage(random_slot(plan, rng));
}

void double_stage(EditablePlan& plan, Rng& rng) {
  plan.double_stage(random_slot(plan, rng));
}

/// Moves half of a stage's devices to a stage of the same host that has as many as that half.
void move_half_stage(EditablePlan& plan, Rng& rng) {
  halve_stage(plan, rng);
  double_stage(plan, rng);
}

struct Move {
  int odds;
  void (*make)(EditablePlan& plan, Rng& rng);
  ChangeRequires required = ChangeRequires::nothing;
};

// Chosen by hand, not tuned. docs/how-it-works.md has the same odds.
constexpr std::array<Move, 10> moves = {{
    {30, swap_groups},
    {15, use_another_group},
    {25, place_near_neighbour},
    {8, swap_pipeline_tails},
    {4, swap_stages},
    {9, shift_layers},
    {9, shift_micro_batches},
    {7, halve_stage, ChangeRequires::mixed_degrees},
    {7, double_stage, ChangeRequires::mixed_degrees},
    {7, move_half_stage, ChangeRequires::mixed_degrees},
}};

}  // namespace

void make_random_move(EditablePlan& plan, Rng& rng) {
  random_change(moves, {false, plan.job().has_mixed_degrees()}, rng).make(plan, rng);
}

}  // namespace dtfm::search
