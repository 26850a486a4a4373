// Runs in which one simulator constant dominates the time, as if measured on machines with these constants.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/calibration/calibrate.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace sim;

inline const Calibration shipped{1, 1.5e-3, 0.939, 0.973, 0, 1};
inline const Calibration truth{1.3, 0.1, 0.8, 0.6, 0.06, 0.7, 1.4, 2e-5};

class RunTable {
 public:
  /// Adds a run of layers with `flops` forward, as if measured without noise.
  void add(int layers, double flops, double output, double parameters, int stages, int replicas,
           int micro_batches) {
    Job job = chain_job(layers, parameters, output);
    for (Layer& layer : std::get<LayerChain>(job.model).layers) {
      layer.forward = Flops(flops);
      layer.backward = Flops(2 * flops);
    }
    const Plan plan = plan_of(job, stages, replicas, micro_batches);
    runs_.push_back({"", "", std::make_shared<Workload>(Workload{topology_, job, plan}), 1});
  }
  /// Adds a run of layers that take only the time to launch their kernels, 0.1 s by the roofline.
  void add_launches(int layers, int micro_batches) {
    Job job = chain_job(layers, 0, 1);
    for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.forward = layer.backward = Flops(1);
    const Plan plan = plan_of(job, 1, 1, micro_batches);
    runs_.push_back(
        {"", "",
         std::make_shared<Workload>(Workload{topology_, job, plan, uniform_roofline({.launch_s = 0.1})}), 1});
  }
  /// Adds a run of eight tensor-parallel devices of one host that exchange tiny sums.
  void add_local_messages(int layers, int micro_batches) {
    Job job = chain_job(layers, 0, 1);
    for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.forward = layer.backward = Flops(1);
    Topology host = flat_topology({8}, link_of(0, 1e9), link_of(0, 1e9));
    for (Device& device : host.devices) device.host = 0;
    std::get<RuleLinks>(host.links).same_host(0, 0) = 0;
    Plan plan = plan_of(job, 1, 1, micro_batches);
    plan.tensor = 8;
    plan.pipelines[0].stages[0].devices = {0, 1, 2, 3, 4, 5, 6, 7};
    runs_.push_back(
        {"", "", std::make_shared<Workload>(Workload{std::make_shared<Topology>(host), job, plan}), 1});
  }
  std::vector<MeasuredRun> measured_with(const Calibration& constants) {
    const std::vector<double> seconds = simulate_seconds(runs_, constants, 1);
    for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].seconds = seconds[i];
    return runs_;
  }

 private:
  std::shared_ptr<const Topology> topology_ =
      std::make_shared<Topology>(flat_topology({8}, link_of(0.01, 1e8), link_of(0.01, 1e8)));
  std::vector<MeasuredRun> runs_;
};

/// Returns 58 runs, in each of which one constant dominates the time. If `with_gradient_sync`, some have
/// several replicas.
inline std::vector<MeasuredRun> designed_runs(const Calibration& constants, bool with_gradient_sync = true) {
  RunTable runs;
  for (const int m : {2, 3})
    for (const int stages : {1, 2, 4}) runs.add(8, 2e11, 1e4, 0, stages, 1, m);  // compute
  for (const int layers : {2, 3, 4, 5, 6})
    for (const int copy : {1, 2}) runs.add(layers * copy, 3e8, 1e4, 0, 1, 1, 1);  // the iteration
  for (const int m : {2, 3, 4})
    for (const int stages : {2, 4, 8}) runs.add(8, 1e9, 2e8, 0, stages, 1, m);  // the network
  for (const int m : {12, 16, 20})
    for (const int stages : {2, 3}) runs.add(6, 3e8, 1e4, 0, stages, 1, m);        // messages
  for (const int m : {16, 24, 32, 40, 48, 56}) runs.add(1, 3e8, 1e4, 0, 1, 1, m);  // micro-batches
  for (const double parameters : {2e8, 4e8, 8e8})
    for (const int replicas : {2, 3})
      for (const int stages : {1, 2})
        if (with_gradient_sync) runs.add(2, 3e8, 1e4, parameters, stages, replicas, 1);
  for (const int m : {1, 2})
    for (const int layers : {8, 16}) runs.add_launches(layers, m);
  for (const int layers : {300, 450, 600, 750, 900}) runs.add_local_messages(layers, 5);
  return runs.measured_with(constants);
}

/// Returns a standard normal number (Box-Muller).
inline double noise(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) * std::cos(2 * std::acos(-1.0) * rng.uniform());
}

inline std::vector<MeasuredRun> with_noise(std::vector<MeasuredRun> runs, std::uint64_t seed,
                                           double deviation) {
  Rng rng = Rng::for_task(seed, 0);
  for (MeasuredRun& run : runs) run.seconds *= std::exp(deviation * noise(rng));
  return runs;
}

inline double value(const Calibration& constants, std::size_t i) {
  return constants.*calibration_constants[i].value;
}

inline std::vector<std::size_t> outlier_rows(const CalibrationFit& fit) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < fit.runs.size(); ++i)
    if (fit.runs[i].is_outlier) rows.push_back(i);
  return rows;
}

}  // namespace dtfm
