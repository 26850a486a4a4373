#include "planner/cost/bounds/weighted_time_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::cost {
namespace {

constexpr double rounding_margin =
    1e-9;  // relative: the simulator rounds times to a grid, and sums are rounded

double min_sum(std::vector<double> values, int count) {
  const auto end = values.begin() + std::min<std::ptrdiff_t>(count, std::ssize(values));
  std::partial_sort(values.begin(), end, values.end());
  double sum = 0;
  for (auto it = values.begin(); it != end; ++it) sum += *it;
  return sum;
}

/// Devices that a stage may use at the tensor degree of `costs`.
std::vector<int> usable(const StageCosts& costs, const std::vector<double>& weight) {
  std::vector<int> devices;
  for (int device = 0; device < static_cast<int>(weight.size()); ++device)
    if (std::isfinite(weight[at(device)]) && costs.unknown(device).empty()) devices.push_back(device);
  return devices;
}

}  // namespace

// Let T be the iteration time. A device d of the plan's set D computes for b(d) and is occupied for all of T
// ≥ b(d) + o, with the iteration overhead o. So, with weights w,
//
//   T · Σ_D w(d) = Σ_D w(d) T ≥ Σ_D w(d) b(d) + o Σ_D w(d).
//
// Each of M micro-batches passes each layer l in one stage, and each of the k devices of that stage (k: the
// tensor degree) computes its share for c(d, l) seconds. A stage adds its overheads of one forward and one
// backward, and there is at least one stage. So, with least_k the sum of the k smallest values over all
// devices that a plan may use,
//
//   Σ_D w(d) b(d) ≥ M · (Σ_l least_k w(d) c(d, l) + least_k w(d) · 2 overheads),
//
// and Σ_D w(d) is at least the sum of as many of the smallest weights as the plan has devices. If stages may
// have several tensor degrees, each layer counts at the degree where it costs least, and the overheads at the
// smallest degree. Communication, bubbles and idle devices are not counted.
double min_weighted_time(const IterationModel& model, const std::vector<double>& weight, int min_devices) {
  const StageCosts& narrowest = model.by_degree.front();
  std::vector<double> weights, of_layer(at(narrowest.layers()), std::numeric_limits<double>::infinity());
  for (const StageCosts& costs : model.by_degree) {
    const std::vector<int> devices = usable(costs, weight);
    if (static_cast<int>(devices.size()) < costs.devices()) continue;
    for (int layer = 0; layer < costs.layers(); ++layer) {
      std::vector<double> values;
      for (const int device : devices) {
        const std::pair<int, int> one = {layer, layer + 1};
        const ComputeTime time = costs.compute(costs.kind_of(device), one, costs.min_recomputed(one));
        values.push_back(weight[at(device)] * (time.forward_s + time.backward_s));
      }
      of_layer[at(layer)] = std::min(of_layer[at(layer)], min_sum(std::move(values), costs.devices()));
    }
  }
  for (const int device : usable(narrowest, weight)) weights.push_back(weight[at(device)]);
  DTFM_ASSERT(static_cast<int>(weights.size()) >= narrowest.devices());
  double per_micro_batch =
      min_sum(weights, narrowest.devices()) * 2 * model.problem.constants.micro_batch_overhead_s;
  for (const double seconds : of_layer) per_micro_batch += seconds;
  const double overhead = model.problem.constants.iteration_overhead_s *
                          min_sum(weights, std::max(min_devices, narrowest.devices()));
  return (micro_batch_count(model.problem.job) * per_micro_batch + overhead) * (1 - rounding_margin);
}

double min_compute_s(const IterationModel& model, int device) {
  double min_s = std::numeric_limits<double>::infinity();
  for (const StageCosts& costs : model.by_degree)
    for (int layer = 0; layer < costs.layers(); ++layer) {
      const std::pair<int, int> one = {layer, layer + 1};
      const ComputeTime time = costs.compute(costs.kind_of(device), one, costs.min_recomputed(one));
      min_s = std::min(min_s, time.forward_s + time.backward_s);
    }
  return min_s;
}

}  // namespace dtfm::cost
