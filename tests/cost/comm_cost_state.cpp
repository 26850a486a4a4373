#include "planner/cost/comm_cost/comm_cost_state.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/repetitions.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;

/// Returns the cost of groups in their order with the best matchings: by the definition, or for large groups
/// by the matcher, which is tested separately.
double cost_in_order(const CommCostModel& model, const Groups& groups) {
  if (groups.front().size() <= 4) return exhaustive_cost_in_order(model, groups);
  double slowest = 0, path = 0;
  BottleneckMatcher matcher(model.replicas);
  for (const auto& group : groups) slowest = std::max(slowest, exhaustive_sync_cost(model, group));
  for (std::size_t i = 1; i < groups.size(); ++i)
    path += matching_cost(model, groups[i - 1], groups[i], matcher);
  return slowest + path;
}

/// Returns the cost with every maximum replaced by a mean: over all devices for synchronization, and over all
/// pairs of each hop.
double mean_cost(const CommCostModel& model, const Placement& placement) {
  double cost = 0;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    for (const int a : placement.group(stage))
      for (const int b : placement.group(stage))
        if (a != b) cost += model.sync(a, b) / model.devices();
    for (int replica = 0; stage > 0 && replica < placement.replicas(); ++replica)
      cost +=
          model.hop(placement.at(stage - 1, replica), placement.at(stage, replica)) / placement.replicas();
  }
  return cost;
}

Groups groups_of(const CommCostState& state, int stages) {
  Groups groups;
  for (int stage = 0; stage < stages; ++stage)
    groups.emplace_back(state.group(stage).begin(), state.group(stage).end());
  return groups;
}

/// Returns two devices of different groups; the groups are adjacent in about half of the calls.
std::pair<int, int> random_swap(Rng& rng, const CommCostState& state, const CommCostModel& model) {
  const auto stages = static_cast<std::uint32_t>(model.stages),
             replicas = static_cast<std::uint32_t>(model.replicas);
  const int from = static_cast<int>(rng.below(stages));
  int to = from;
  if (rng.below(2) == 0) to = from + 1 < model.stages ? from + 1 : from - 1;
  while (to == from) to = static_cast<int>(rng.below(stages));
  return {state.group(from)[rng.below(replicas)], state.group(to)[rng.below(replicas)]};
}

void check_groups(const CommCostState& state, const CommCostModel& model) {
  std::vector<int> times(at(model.devices()));
  for (int stage = 0; stage < model.stages; ++stage) {
    for (const int device : state.group(stage)) {
      ++times[at(device)];
      REQUIRE(state.group_of(device) == stage);
    }
  }
  REQUIRE(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
  auto deployed = groups_of(state.placement()), groups = groups_of(state, model.stages);
  for (Groups* each : {&deployed, &groups})
    for (auto& group : *each) std::sort(group.begin(), group.end());
  REQUIRE(deployed == groups);  // including the order of the stages
}

/// Checks that the state is a valid deployment with the best matchings and that its cost is correct.
void check_state(const CommCostState& state, const CommCostModel& model, double guidance) {
  check_groups(state, model);
  const Placement placement = state.placement();
  const CommCost cost = comm_cost(model, placement);
  REQUIRE(state.cost() == Approx(cost.total()).epsilon(rounding));
  REQUIRE(state.cost() == Approx(cost_in_order(model, groups_of(placement))).epsilon(rounding));
  REQUIRE(state.energy() == Approx(cost.total() + guidance * mean_cost(model, placement)).epsilon(rounding));
}

/// Checks that the critical device has the longest synchronization and that each critical pair costs as much
/// as the hop.
void check_critical(const CommCostState& state, const CommCostModel& model) {
  const auto device_sync_cost = [&](int device) {
    double sum = 0;
    for (const int peer : state.group(state.group_of(device)))
      if (peer != device) sum += model.sync(peer, device);
    return sum;
  };
  const Placement placement = state.placement();
  const double slowest = device_sync_cost(state.critical_device(0, false));
  for (const int device : placement.devices()) REQUIRE(device_sync_cost(device) <= slowest * (1 + rounding));
  for (int stage = 1; stage < model.stages; ++stage) {
    const int first = state.critical_device(stage, false), second = state.critical_device(stage, true);
    REQUIRE(state.group_of(first) == stage - 1);
    REQUIRE(state.group_of(second) == stage);
    bool are_partners = false;
    for (int replica = 0; replica < model.replicas; ++replica) {
      const int a = placement.at(stage - 1, replica), b = placement.at(stage, replica);
      REQUIRE(model.hop(a, b) <= model.hop(first, second));
      are_partners |= a == first && b == second;
    }
    REQUIRE(are_partners);
  }
}

/// Evaluates the swap of `a` and `b` in every way, performs it and checks the result.
void check_swap(CommCostState& state, const CommCostModel& model, double guidance, int a, int b) {
  auto groups = groups_of(state, model.stages);
  for (auto& group : groups)
    for (int& device : group) device = device == a ? b : device == b ? a : device;
  const double exact = cost_in_order(model, groups);
  const EvaluatedSwap swap = state.evaluate_swap(a, b, infinity);
  REQUIRE(swap.a == a);
  REQUIRE(swap.b == b);
  if (guidance == 0) REQUIRE(swap.energy >= exact * (1 - rounding));
  REQUIRE(state.evaluate_swap(b, a, infinity).energy >= exact * (1 - rounding));
  for (const double factor : {0.0, 0.5, 0.9, 0.999999, 1.000001, 1.5}) {
    const double limit = factor * swap.energy;
    const double limited = state.evaluate_swap(a, b, limit).energy;
    CAPTURE(limit, limited, swap.energy);
    REQUIRE((limited == swap.energy || (limited == infinity && swap.energy >= limit)));
  }
  const double at_limit = state.evaluate_swap(a, b, swap.energy).energy;
  REQUIRE((at_limit == swap.energy || at_limit == infinity));
  check_groups(state, model);  // evaluation has no side effects
  state.apply(swap);
  // Large groups keep pairs that are as fast as before, although others might be faster.
  if (model.replicas <= 16)
    REQUIRE(state.cost() == Approx(exact).epsilon(rounding));
  else
    REQUIRE(state.cost() >= exact * (1 - rounding));
  if (guidance == 0) REQUIRE(state.cost() <= swap.energy * (1 + rounding));
}

void check_random_swaps(Rng& rng, const CommCostModel& model, double guidance, int swaps) {
  CommCostState state(model, random_placement(rng, model.stages, model.replicas), guidance);
  check_state(state, model, guidance);
  for (int i = 0; i < swaps; ++i) {
    CAPTURE(i);
    const auto [a, b] = random_swap(rng, state, model);
    check_swap(state, model, guidance, a, b);
    check_state(state, model, guidance);
    check_critical(state, model);
  }
}

/// Returns two disjoint segments of stages of one random length; the later one comes first in about half of
/// the calls.
std::tuple<StageSlot, StageSlot, int> random_runs(Rng& rng, const CommCostModel& model) {
  const auto below = [&rng](int end) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(end))); };
  const int length = 1 + below(model.stages / 2);
  const int first = below(model.stages - 2 * length + 1);
  const int second = first + length + below(model.stages - first - 2 * length + 1);
  const StageSlot one{first, below(model.replicas)}, other{second, below(model.replicas)};
  if (below(2) == 0) return {one, other, length};
  return {other, one, length};
}

/// Returns the groups after two segments of stages along the pipelines of `state` have been swapped.
Groups with_runs_swapped(const CommCostState& state, StageSlot a, StageSlot b, int length) {
  const Placement placement = state.placement();
  const auto pipeline_of = [&](StageSlot run) {
    const int device = state.group(run.stage)[at(run.slot)];
    int pipeline = 0;
    while (placement.at(run.stage, pipeline) != device) ++pipeline;
    return pipeline;
  };
  const int pipeline_a = pipeline_of(a), pipeline_b = pipeline_of(b);
  Groups groups = groups_of(placement);
  for (int i = 0; i < length; ++i)
    std::swap(groups[at(a.stage + i)][at(pipeline_a)], groups[at(b.stage + i)][at(pipeline_b)]);
  return groups;
}

void check_random_runs(Rng& rng, const CommCostModel& model, double guidance, int run_swaps) {
  CommCostState state(model, random_placement(rng, model.stages, model.replicas), guidance);
  for (int i = 0; i < run_swaps; ++i) {
    const auto [a, b, length] = random_runs(rng, model);
    CAPTURE(i, length, a.stage, b.stage);
    Groups after = with_runs_swapped(state, a, b, length);
    const double exact = cost_in_order(model, after), energy_before = state.energy();
    const double energy = state.evaluate_segment_swap(a, b, length, infinity);
    if (guidance == 0) REQUIRE(energy >= exact * (1 - rounding));
    for (const double factor : {0.0, 0.5, 0.9, 0.999999, 1.000001, 1.5}) {
      const double limited = state.evaluate_segment_swap(a, b, length, factor * energy);
      CAPTURE(factor, limited, energy);
      REQUIRE(limited == (factor > 1 ? energy : infinity));
    }
    REQUIRE(state.energy() == energy_before);  // evaluation has no side effects
    check_groups(state, model);
    state.swap_segments(a, b, length);
    check_groups(state, model);
    Groups now = groups_of(state, model.stages);
    for (Groups* each : {&after, &now})
      for (auto& group : *each) std::sort(group.begin(), group.end());
    REQUIRE(now == after);
    REQUIRE(state.cost() >= exact * (1 - rounding));
    if (guidance == 0) REQUIRE(state.cost() <= energy * (1 + rounding));
    if (model.replicas <= 16) check_state(state, model, guidance);
    REQUIRE(state.energy() == Approx(state.cost() + guidance * mean_cost(model, state.placement())));
    check_critical(state, model);
    const auto [x, y] = random_swap(rng, state, model);
    check_swap(state, model, guidance, x, y);
  }
}

}  // namespace

TEST_CASE("swaps of stage segments are never evaluated below their cost and swap whole segments") {
  const auto [stages, replicas] =
      GENERATE(table<int, int>({{2, 1}, {5, 1}, {2, 4}, {4, 4}, {6, 2}, {8, 8}, {4, 20}, {5, 70}}));
  for (const Network network : all_networks)
    for (const double guidance : {0.0, 0.3}) {
      CAPTURE(stages, replicas, static_cast<int>(network), guidance);
      Rng rng = Rng::for_task(4, static_cast<std::uint64_t>(stages * 100 + replicas));
      check_random_runs(rng, random_model(rng, network, stages, replicas), guidance, repetitions(40));
    }
}

TEST_CASE("swaps are never evaluated below their cost and the state stays consistent") {
  const auto [stages, replicas] =
      GENERATE(table<int, int>({{2, 1}, {5, 1}, {2, 2}, {2, 4}, {3, 3}, {4, 4}, {6, 2}, {8, 8}, {3, 12}}));
  for (const Network network : all_networks) {
    for (const double guidance : {0.0, 0.3}) {
      for (int seed = 0; seed < repetitions(3); ++seed) {
        CAPTURE(stages, replicas, static_cast<int>(network), guidance, seed);
        Rng rng = Rng::for_task(static_cast<std::uint64_t>(seed),
                                static_cast<std::uint64_t>(stages * 100 + replicas));
        check_random_swaps(rng, random_model(rng, network, stages, replicas), guidance, repetitions(40));
      }
    }
  }
}

// Sets of partners are stored in 64-bit words.
TEST_CASE("groups of 64 or of more than 64 or 128 devices are evaluated correctly") {
  const int replicas = GENERATE(63, 64, 65, 100, 130);
  for (const Network network : {Network::smooth, Network::ties, Network::sites, Network::even_sites}) {
    CAPTURE(replicas, static_cast<int>(network));
    Rng rng = Rng::for_task(1, static_cast<std::uint64_t>(replicas));
    check_random_swaps(rng, random_model(rng, network, 2, replicas), 0, repetitions(12));
    check_random_swaps(rng, random_model(rng, network, 3, replicas), 0.1, repetitions(12));
  }
}

// Synchronization costs are updated by addition and subtraction, which must not accumulate errors.
TEST_CASE("after thousands of swaps the cost is still that of the placement") {
  Rng rng = Rng::for_task(2, 0);
  const CommCostModel model = random_model(rng, Network::smooth, 5, 6);
  CommCostState state(model, random_placement(rng, 5, 6), 0.2);
  for (int i = 0; i < 5000; ++i) {
    const auto [a, b] = random_swap(rng, state, model);
    state.apply(state.evaluate_swap(a, b, infinity));
  }
  check_state(state, model, 0.2);
  check_critical(state, model);
}

TEST_CASE("a single stage has a cost and no swaps") {
  Rng rng = Rng::for_task(3, 0);
  const CommCostModel model = random_model(rng, Network::smooth, 1, 5);
  const CommCostState state(model, random_placement(rng, 1, 5), 0.5);
  check_state(state, model, 0.5);
  check_critical(state, model);
}

// Two groups {0, 1} and {2, 3}: hops 0–2 and 1–3 cost 1, others 5; synchronization of 0–1 and 2–3 costs 4, of
// others 2. The cost is 4 + 1. After swapping 1 and 2, the groups are {0, 2} and {1, 3}: synchronization
// costs 2, and the hops 0–1, 2–3 or 0–3, 2–1 cost 5.
TEST_CASE("a swap has the cost derived by hand") {
  CommCostModel model = empty_model(2, 2);
  model.hop << 0, 5, 1, 5, 5, 0, 5, 1, 1, 5, 0, 5, 5, 1, 5, 0;
  model.sync << 0, 4, 2, 2, 4, 0, 2, 2, 2, 2, 0, 4, 2, 2, 4, 0;
  Placement placement(2, 2);
  for (int i = 0; i < 4; ++i) placement.at(i / 2, i % 2) = i;
  CommCostState state(model, placement, 0);
  CHECK(state.cost() == 5);
  CHECK(state.evaluate_swap(1, 2, infinity).energy == 7);
  CHECK(state.evaluate_swap(1, 2, 6).energy == infinity);
  state.apply(state.evaluate_swap(1, 2, infinity));
  CHECK(state.cost() == 7);
  CHECK(state.group_of(2) == 0);
  CHECK(state.group_of(1) == 1);
}
