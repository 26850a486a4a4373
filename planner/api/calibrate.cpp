#include "planner/api/calibrate.hpp"

#include <cmath>

namespace dtfm::api {
namespace {

MeanErrors mean_errors(const std::vector<sim::MeasuredRun>& runs, const CalibrateResult& result) {
  MeanErrors mean;
  double count = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const sim::RunFit& fit = result.fit.runs[i];
    if (fit.is_outlier) continue;
    const auto error = [&](double simulated_s) { return std::abs(simulated_s / runs[i].seconds - 1); };
    mean.fitted += error(fit.simulated_s);
    mean.leave_one_out += error(fit.leave_one_out_s);
    mean.prior += error(result.prior_s[i]);
    ++count;
  }
  return {mean.fitted / count, mean.leave_one_out / count, mean.prior / count};
}

}  // namespace

CalibrateResult calibrate(const CalibrateRequest& request) {
  const auto& [topology, runs, prior, work] = request;
  CalibrateResult result;
  result.fit = sim::calibrate(runs, {prior, work.threads, work.stop, work.on_progress});
  result.prior_s = sim::simulate_seconds(runs, prior, work.threads);
  result.errors = mean_errors(runs, result);
  return result;
}

}  // namespace dtfm::api
