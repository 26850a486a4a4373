// Tiny heterogeneous problems, and the best plan of each: every plan is enumerated, and the simulator
// decides.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"
#include "core/base/rng.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/plan_enumeration.hpp"
#include "tests/support/random_problem.hpp"

namespace dtfm {

inline constexpr int tiny_problem_count = 100;

/// Ranges of a random problem, both ends included.
struct ProblemSize {
  int min_devices = 4, max_devices = 6, min_layers = 4, max_layers = 6, min_batch = 4, max_batch = 8;
};
inline constexpr ProblemSize medium_problems{12, 16, 8, 16, 16, 64};

/// Devices of different speeds, layers of different sizes, a directed link of its own for every pair of
/// devices, gpipe or 1f1b, and a ring or sharded parameter servers. Memory is never short.
inline Problem tiny_problem(int number, const ProblemSize& size = {}) {
  Rng rng = Rng::for_task(22, static_cast<std::uint64_t>(number));
  Problem problem{Topology(), Job(), Calibration{1, 1e-3, 1, 0}};
  Topology& topology = problem.topology.edit();
  topology.name = fmt::format("tiny {}", number);
  Gpu gpu{"one", Bytes(1e15), FlopsPerSecond(1e12)};
  gpu.peak_fp32 = gpu.peak;
  gpu.memory_bandwidth = unlimited;
  topology.gpus = {gpu};
  topology.sites = {{"here"}};
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint32_t>(high - low + 1)));
  };
  const int devices = between(size.min_devices, size.max_devices),
            layers = between(size.min_layers, size.max_layers);
  MeasuredLinks links{Eigen::MatrixXd::Zero(devices, devices), Eigen::MatrixXd::Ones(devices, devices)};
  for (int from = 0; from < devices; ++from) {
    Device device;
    device.id = fmt::format("here/{}", from);
    device.host = from;
    device.gpu = 0;
    device.speed = random_size(rng, 0.4, 2.5);
    topology.devices.push_back(device);
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      links.latency(from, to) = random_size(rng, 1e-3, 0.15);
      links.bandwidth(from, to) = random_size(rng, 1e8, 1e10);
    }
  }
  topology.links = std::move(links);
  problem.job.name = topology.name;
  LayerChain chain{1, {}};
  for (int i = 0; i < layers; ++i) {
    chain.layers.push_back(random_layer(rng, i, {1e6, 1e8}, {1e11, 1e12}, {1e5, 1e8}));
    chain.layers.back().activation_memory = chain.layers.back().output;
  }
  problem.job.model = std::move(chain);
  problem.job.training.global_batch = between(size.min_batch, size.max_batch);
  problem.job.execution.recomputation = Recomputation::none;
  problem.job.execution.schedule = number % 2 == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
  problem.job.execution.gradient_sync = number / 2 % 2 == 0 ? GradientSync::ring : GradientSync::sharded_ps;
  return problem;
}

/// Enumerates all plans of a tiny problem: any devices, any number of pipelines of any depths, any layers per
/// stage, any micro-batches per pipeline, and any ring.
class TinyPlans {
 public:
  explicit TinyPlans(const Problem& problem)
      : problem_(problem),
        model_(problem),
        devices_(problem.topology->size()),
        batches_(micro_batch_count(problem.job)),
        shapes_(std::size_t{1} << devices_) {
    std::vector<int> order;
    add_pipelines(order);
  }

  /// Calls `use` with every plan whose `lower_bound_s` is below `limit_s`, which `use` may lower.
  void for_each(double& limit_s, const std::function<void(const Plan&, double lower_bound_s)>& use) const {
    Plan plan{1, problem_.job.execution, {}};
    extend(plan, (1u << devices_) - 1, 0, batches_, 0, limit_s, use);
  }

 private:
  struct Shape {  // a pipeline without its micro-batches
    std::vector<Stage> stages;
    std::vector<double> end_s;  // lower bound of its end, by number of micro-batches
  };

  void add_pipelines(std::vector<int>& order) {
    if (!order.empty()) {
      std::vector<int> counts;
      for_each_composition(model_.stages.layers(), static_cast<int>(order.size()), counts,
                           [&] { add_pipeline(order, counts); });
    }
    if (static_cast<int>(order.size()) == std::min(devices_, model_.stages.layers())) return;
    for (int device = 0; device < devices_; ++device) {
      if (std::find(order.begin(), order.end(), device) != order.end()) continue;
      order.push_back(device);
      add_pipelines(order);
      order.pop_back();
    }
  }

  void add_pipeline(const std::vector<int>& order, const std::vector<int>& counts) {
    Shape shape;
    unsigned used = 0;
    int first = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      shape.stages.push_back({{first, first + counts[i]}, {order[i]}});
      used |= 1u << order[i];
      first += counts[i];
    }
    for (int batches = 0; batches <= batches_; ++batches)
      shape.end_s.push_back(pipeline_bound_s(shape.stages, batches));
    shapes_[used].push_back(std::move(shape));
  }

  /// No schedule is faster: a device cannot compute before its first input has come, and after its last
  /// computation the gradients have to travel back.
  double pipeline_bound_s(const std::vector<Stage>& stages, int batches) const {
    double before = 0, after = 0, least = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const int device = stages[i].devices.front();
      const ComputeTime time = model_.stages.compute(model_.stages.kind_of(device), stages[i].layers);
      least = std::max(least, before + batches * (time.forward_s + time.backward_s) + after);
      if (i + 1 == stages.size()) break;
      const int next = stages[i + 1].devices.front();
      const double bytes = model_.boundary_bytes(device, next, 1, stages[i].layers.second);
      before += time.forward_s + model_.network.message(device, next).total_s(bytes);
      after += time.backward_s + model_.network.message(next, device).total_s(bytes);
      const double sent = batches * std::min(model_.network.message(device, next).occupancy_s(bytes),
                                             model_.network.message(next, device).occupancy_s(bytes));
      least = std::max(least, before - model_.network.message(device, next).total_s(bytes) + sent);
    }
    return least;
  }

  /// All orders of the pipelines but for sharded parameter servers; those of a ring up to rotation.
  void use_all_orders(const Plan& plan, double bound_s,
                      const std::function<void(const Plan&, double)>& use) const {
    const GradientSync sync = plan.execution.gradient_sync;
    if (sync == GradientSync::sharded_ps) return use(plan, bound_s);
    std::vector<std::size_t> order(plan.pipelines.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Plan ordered = plan;
    do {
      for (std::size_t i = 0; i < order.size(); ++i) ordered.pipelines[i] = plan.pipelines[order[i]];
      use(ordered, bound_s);
    } while (std::next_permutation(order.begin() + (sync == GradientSync::ring ? 1 : 0), order.end()));
  }

  /// Adds pipelines on `free` devices (as bits), whose first device is not below `first`, until no
  /// micro-batches are left.
  void extend(Plan& plan, unsigned free, int first, int batches, double bound_s, double& limit_s,
              const std::function<void(const Plan&, double)>& use) const {
    if (batches == 0) return use_all_orders(plan, bound_s, use);
    for (; first < devices_; ++first) {
      const unsigned bit = 1u << first;
      if ((free & bit) == 0) continue;
      const unsigned others = free & ~((bit << 1) - 1);
      for (unsigned more = others;; more = (more - 1) & others) {
        for (const Shape& shape : shapes_[more | bit]) {
          plan.pipelines.push_back({0, shape.stages});
          for (int own = 1; own <= batches && shape.end_s[at(own)] < limit_s; ++own) {
            plan.pipelines.back().micro_batches = own;
            extend(plan, others & ~more, first + 1, batches - own, std::max(bound_s, shape.end_s[at(own)]),
                   limit_s, use);
          }
          plan.pipelines.pop_back();
        }
        if (more == 0) break;
      }
    }
  }

  const Problem& problem_;
  IterationModel model_;
  int devices_, batches_;
  std::vector<std::vector<Shape>> shapes_;  // by their devices, as bits
};

struct TinyOptimum {
  Plan plan;
  double seconds = std::numeric_limits<double>::infinity();  // as simulated
  long long plans = 0, simulated = 0;
};

/// The best of all plans. Plans whose lower bound exceeds what another plan takes need not be simulated;
/// those with low bounds are therefore simulated first.
inline TinyOptimum tiny_optimum(const Problem& problem) {
  constexpr std::size_t most = 1000;
  const TinyPlans plans(problem);
  TinyOptimum best;
  const auto simulate = [&](const Plan& plan) {
    ++best.simulated;
    const double seconds = simulated_iteration_s(problem, plan);
    if (seconds >= best.seconds) return;
    best.seconds = seconds;
    best.plan = plan;
  };
  double limit = std::numeric_limits<double>::infinity();
  std::multimap<double, Plan> promising;
  plans.for_each(limit, [&](const Plan& plan, double bound) {
    ++best.plans;
    if (promising.size() == most && bound >= promising.rbegin()->first) return;
    promising.emplace(bound, plan);
    if (promising.size() > most) promising.erase(std::prev(promising.end()));
  });
  for (const auto& [bound, plan] : promising) simulate(plan);
  plans.for_each(best.seconds, [&](const Plan& plan, double) { simulate(plan); });
  return best;
}

}  // namespace dtfm
