#include "simulator/report/run_totals.hpp"

#include "core/base/index.hpp"

namespace dtfm::sim {

double peak_flops_per_s(const Problem& problem, const SimReport& report) {
  double sum = 0;
  for (const DeviceReport& it : report.devices) {
    const Device& device = problem.topology->devices[at(it.device)];
    if (device.gpu < 0) return 0;
    const auto peak = peak_of(problem.topology->gpus[at(device.gpu)], problem.job.training.precision);
    if (!peak) return 0;
    sum += peak->value() * device.speed;
  }
  return sum;
}

double bubble(const SimReport& report) {
  double computing = 0;
  for (const DeviceReport& device : report.devices) computing += device.compute_s;
  const double time = static_cast<double>(report.devices.size()) * report.length_s;
  return time > 0 ? 1 - computing / time : 0;
}

std::optional<double> usd_per_million_tokens(const Problem& problem, const SimReport& report,
                                             double tokens_per_s) {
  const double length = report.length_s;
  if (tokens_per_s <= 0 || length <= 0) return std::nullopt;
  double usd_per_s = 0;
  for (const DeviceReport& it : report.devices) {
    const auto price = price_of(problem.topology, it.device);
    if (!price) return std::nullopt;
    usd_per_s += price->value() / seconds_per_hour * (1 - it.down_s / length);
  }
  return usd_per_s / tokens_per_s * 1e6;
}

}  // namespace dtfm::sim
