#include "simulator/run/departure_policy.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {
namespace {

std::vector<bool> whole_pipelines(const Plan& plan, const std::vector<bool>& there) {
  std::vector<bool> whole;
  for (const Pipeline& pipeline : plan.pipelines)
    whole.push_back(std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      return std::all_of(stage.devices.begin(), stage.devices.end(),
                         [&](int device) { return there[at(device)]; });
    }));
  return whole;
}

Decision without_broken_pipelines(const FleetState& state) {
  return {state.plan, whole_pipelines(state.plan, state.there)};
}

Decision wait_for_all(const FleetState& state) {
  Decision decision = without_broken_pipelines(state);
  const bool all = std::all_of(decision.running.begin(), decision.running.end(), [](bool it) { return it; });
  decision.running.assign(decision.running.size(), all);
  return decision;
}

/// A device keeps all its stages (interleaved schedules give it several), so it is replaced as a whole.
void replace(Plan& plan, int device, int spare) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      std::replace(stage.devices.begin(), stage.devices.end(), device, spare);
}

Decision with_spares(const FleetState& state) {
  Plan plan = state.plan;
  const std::vector<int> placed = pipeline_major(plan);
  std::set<int> taken(placed.begin(), placed.end());
  for (const int device : placed) {
    if (state.there[at(device)] || taken.count(device) == 0) continue;
    const auto spare = std::find_if(state.spares.begin(), state.spares.end(), [&](int candidate) {
      return state.there[at(candidate)] && taken.count(candidate) == 0;
    });
    if (spare == state.spares.end()) break;
    replace(plan, device, *spare);
    taken.erase(device);
    taken.insert(*spare);
  }
  return without_broken_pipelines({plan, state.there, state.spares});
}

constexpr std::array policies{
    DeparturePolicy{"restart-without-pipeline",
                    "pipelines that lost a device pause until it is back; the others do their micro-batches",
                    without_broken_pipelines},
    DeparturePolicy{"wait", "all wait until the device is back", wait_for_all},
    DeparturePolicy{"spare",
                    "a device that has no place takes that of one that left; without one, as "
                    "restart-without-pipeline",
                    with_spares}};

/// How many micro-batches a pipeline is given at a time.
int deal_size(const Plan& plan, const std::vector<bool>& running, int total) {
  if (plan.schedule != "interleaved") return 1;
  int size = 1;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!running[i]) continue;
    std::set<int> devices;
    for (const Stage& stage : plan.pipelines[i].stages) devices.insert(stage.devices.front());
    size = std::lcm(size, static_cast<int>(devices.size()));
  }
  return total % size == 0 ? size : 1;
}

}  // namespace

std::span<const DeparturePolicy> departure_policies() {
  return policies;
}

const DeparturePolicy& departure_policy(std::string_view name) {
  const auto policy = std::find_if(policies.begin(), policies.end(),
                                   [&](const DeparturePolicy& it) { return it.name == name; });
  if (policy == policies.end()) throw Error("", "unknown policy of departures " + std::string(name));
  return *policy;
}

Plan running_plan(const Plan& plan, const std::vector<bool>& running) {
  Plan result = plan;
  result.pipelines.clear();
  long long total = 0, shares = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    total += plan.pipelines[i].micro_batches;
    if (!running[i]) continue;
    shares += plan.pipelines[i].micro_batches;
    result.pipelines.push_back(plan.pipelines[i]);
  }
  if (total == shares) return result;
  const int deal = deal_size(plan, running, static_cast<int>(total));
  const long long deals = total / deal;
  long long left = deals;
  std::vector<std::pair<long long, std::size_t>> remainders;  // the largest first, then the first pipeline
  const bool is_even = shares == 0;                           // none of those left had any
  if (is_even) shares = static_cast<long long>(result.pipelines.size());
  for (std::size_t i = 0; i < result.pipelines.size(); ++i) {
    const long long share = deals * (is_even ? 1 : result.pipelines[i].micro_batches);
    result.pipelines[i].micro_batches = static_cast<int>(share / shares) * deal;
    left -= share / shares;
    remainders.emplace_back(-(share % shares), i);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t k = 0; k < static_cast<std::size_t>(left); ++k)
    result.pipelines[remainders[k].second].micro_batches += deal;
  return result;
}

}  // namespace dtfm
