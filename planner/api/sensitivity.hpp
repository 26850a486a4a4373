// How much slower plans become if reality is worse than the topology says.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "planner/core/ranks.hpp"
#include "planner/core/stop.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::api {

/// What is worse: all links have 20 % less bandwidth; all links have 20 % more latency; the device of the
/// plan that computes longest is 20 % slower; or devices do not compute while they send activations or their
/// gradients, as in trainers with blocking sends. It is small and always the same, so that the results of
/// plans can be compared.
enum class Perturbation { bandwidth, latency, slow_device, blocking_sends };
inline constexpr std::array perturbations = {Perturbation::bandwidth, Perturbation::latency,
                                             Perturbation::slow_device, Perturbation::blocking_sends};
/// The key in files: "bandwidth", "latency", "slow_device", "blocking_sends".
std::string_view name_of(Perturbation perturbation);

/// [perturbation]: by what share of the undisturbed iteration the iteration is longer, as simulated. Empty if
/// it is not known.
using Sensitivity = std::vector<double>;

/// One result per candidate, all of which must fit their memory. Those that take long to simulate, or that
/// the simulator rejects, and all if `stop` has returned true before the end, have none. The results do not
/// depend on the number of workers.
std::vector<Sensitivity> simulate_sensitivity(const std::vector<search::PlanCandidate>& candidates,
                                              const Workers& workers, const StopFunction& stop);

/// Mean over all perturbations; 0 if the sensitivity is not known.
double mean_loss(const Sensitivity& sensitivity);

}  // namespace dtfm::api
