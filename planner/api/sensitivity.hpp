// How much slower plans become if reality is worse than the topology says.
#pragma once

#include <array>
#include <vector>

#include "core/base/work.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::api {

/// What is worse: all links have 20 % less bandwidth; all links have 20 % more latency; the busiest device
/// runs at 80 % of its speed; or devices do not compute while they send activations or their gradients, as in
/// trainers with blocking sends. It is small and always the same, so that the results of plans can be
/// compared.
enum class Perturbation { bandwidth, latency, slow_device, blocking_sends };
struct PerturbationTraits {
  Perturbation kind;
  const char* key;   // in files
  const char* text;  // in summaries
};
inline constexpr std::array perturbation_table = {
    PerturbationTraits{Perturbation::bandwidth, "bandwidth", "80 % bandwidth"},
    PerturbationTraits{Perturbation::latency, "latency", "120 % latency"},
    PerturbationTraits{Perturbation::slow_device, "slow_device", "slow device"},
    PerturbationTraits{Perturbation::blocking_sends, "blocking_sends", "blocking sends"}};

/// By row of `perturbation_table`: relative increase of the simulated iteration time. Empty if unknown.
using Sensitivity = std::vector<double>;

/// One result per candidate, all of which must fit in memory. It is empty if the plan takes long to simulate
/// or is rejected, or if the work is stopped before the end. The results do not depend on the number of
/// workers.
std::vector<Sensitivity> simulate_sensitivity(const std::vector<search::PlanCandidate>& candidates,
                                              const Work& work);

/// Mean over all perturbations; 0 if the sensitivity is not known.
double mean_rise(const Sensitivity& sensitivity);

}  // namespace dtfm::api
