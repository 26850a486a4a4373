#include "planner/core/objective.hpp"

#include "planner/core/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto objectives = std::to_array<ObjectiveTraits>({
    {Objective::iteration_time, "iteration-time", "s", "less time"},
    {Objective::cost_per_token, "cost-per-token", "USD per million tokens", "cheaper per token"},
    {Objective::device_efficiency, "device-efficiency", "device-seconds", "less devices × time"},
    {Objective::comm_cost, "comm-cost", "s", "less time"},
});
static_assert(has_row_for_each(objectives, Objective::comm_cost));

}  // namespace

std::span<const ObjectiveTraits> objective_table() {
  return objectives;
}

const ObjectiveTraits& traits(Objective objective) {
  return row_of(objectives, objective);
}

std::string_view name_of(Objective objective) {
  return traits(objective).name;
}

}  // namespace dtfm
