#include "planner/cost/bounds/load_balance_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.hpp"

namespace dtfm::cost {
namespace {

constexpr int ascent_steps = 300;

std::vector<double> sum_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

template <class Seconds>
WorkBound work_bound(const std::vector<DeviceKindTimes>& kinds, const Seconds& seconds) {
  std::vector<double> fastest_s(kinds.front().forward_s.size(), std::numeric_limits<double>::infinity());
  for (const DeviceKindTimes& kind : kinds) {
    const std::vector<double> layer_s = seconds(kind);
    for (std::size_t i = 0; i < layer_s.size(); ++i) fastest_s[i] = std::min(fastest_s[i], layer_s[i]);
  }
  WorkBound work;
  work.before_s = {0};
  for (const double it : fastest_s) work.before_s.push_back(work.before_s.back() + it);
  std::sort(fastest_s.begin(), fastest_s.end());
  work.smallest_sums_s = {0};
  for (const double it : fastest_s) work.smallest_sums_s.push_back(work.smallest_sums_s.back() + it);
  work.largest_s = fastest_s.back();
  work.sum_s = work.smallest_sums_s.back();
  return work;
}

/// Returns Σ over layers of min over kinds of r t. If `taken` is given, adds to it, by kind, the terms for
/// which that kind is the minimum.
double weighted(const std::vector<std::vector<double>>& times, const std::vector<double>& rates,
                std::vector<double>* taken = nullptr) {
  double sum = 0;
  for (std::size_t layer = 0; layer < times.front().size(); ++layer) {
    std::size_t best = 0;
    for (std::size_t kind = 1; kind < times.size(); ++kind)
      if (rates[kind] * times[kind][layer] < rates[best] * times[best][layer]) best = kind;
    const double min_product = rates[best] * times[best][layer];
    sum += min_product;
    if (taken) (*taken)[best] += min_product;
  }
  return sum;
}

/// Maximizes Σ min r t ÷ Σ n r by exponentiated gradient ascent with decreasing steps: a kind that accounts
/// for more than its share of the numerator gets a larger rate. Any rates give a valid bound, so the best
/// iterate is returned. Starts from the rates with which all kinds take equally long for the whole chain.
std::vector<double> best_rates(const std::vector<DeviceKindTimes>& kinds,
                               const std::vector<std::vector<double>>& times) {
  std::vector<double> rates;
  for (const auto& layer_s : times) {
    const double sum = std::accumulate(layer_s.begin(), layer_s.end(), 0.0);
    rates.push_back(sum > 0 ? 1 / sum : 1);
  }
  std::vector<double> best = rates;
  double best_value = -1;
  for (int step = 0; step < (kinds.size() > 1 ? ascent_steps : 1); ++step) {
    double all = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) all += kinds[i].devices * rates[i];
    std::vector<double> taken(kinds.size());
    const double value = weighted(times, rates, &taken);
    if (value / all > best_value) {
      best_value = value / all;
      best = rates;
    }
    if (!(value > 0)) break;
    for (std::size_t i = 0; i < kinds.size(); ++i)
      rates[i] *= std::exp((taken[i] / value - kinds[i].devices * rates[i] / all) / (1 + 0.1 * step));
  }
  return best;
}

}  // namespace

LayerTimesBound min_layer_times(const std::vector<DeviceKindTimes>& kinds) {
  DTFM_ASSERT(!kinds.empty());
  LayerTimesBound bound;
  bound.forward_backward =
      work_bound(kinds, [](const DeviceKindTimes& it) { return sum_of(it.forward_s, it.backward_s); });
  bound.forward = work_bound(kinds, [](const DeviceKindTimes& it) { return it.forward_s; });
  bound.backward = work_bound(kinds, [](const DeviceKindTimes& it) { return it.backward_s; });
  bound.first_update_s = std::numeric_limits<double>::infinity();
  for (const DeviceKindTimes& it : kinds)
    bound.first_update_s = std::min(bound.first_update_s, it.first_update_s);
  return bound;
}

BalancedWork balanced_work(const std::vector<DeviceKindTimes>& kinds) {
  DTFM_ASSERT(!kinds.empty());
  std::vector<std::vector<double>> forward_backward, backward;
  for (const DeviceKindTimes& it : kinds) {
    forward_backward.push_back(sum_of(it.forward_s, it.backward_s));
    backward.push_back(it.backward_s);
  }
  BalancedWork work;
  work.rates = best_rates(kinds, forward_backward);
  work.forward_backward = weighted(forward_backward, work.rates);
  work.backward = weighted(backward, work.rates);
  return work;
}

}  // namespace dtfm::cost
