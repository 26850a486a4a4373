// Compares estimates of plans whose stages have different numbers of devices with the simulator.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/rng.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/layer_split.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_layers.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/validation/estimates.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

const std::vector<GradientSync> syncs = {GradientSync::sharded_ps, GradientSync::central_ps,
                                         GradientSync::ring, GradientSync::tree, GradientSync::hierarchical};
const std::vector<int> degrees = {1, 2, 4, 8};
const std::vector<int> hosts = {8, 4, 4, 2, 2, 1, 1, 1, 1};

/// Returns the devices of `hosts` at two sites, with random links between hosts and faster ones inside.
Topology heterogeneous_hosts(Rng& rng, bool shared) {
  Topology topology = flat_topology({16, 8}, {}, {});
  int device = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const BitsPerSecond uplink(8e6 * (2 + 4 * rng.uniform()));
    for (int i = 0; i < hosts[host]; ++i) {
      Device& it = topology.devices[at(device++)];
      it.host = static_cast<int>(host);
      it.speed = host % 3 == 0 ? 0.5 : 1;
      if (shared) it.host_uplink = uplink;
    }
  }
  const int n = topology.size();
  Eigen::MatrixXd latency(n, n), bandwidth(n, n);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      const bool inside = topology.devices[at(from)].host == topology.devices[at(to)].host;
      latency(from, to) = (inside ? 0.001 : 0.1) * rng.uniform();
      bandwidth(from, to) = 8e6 * (inside ? 100 : 0.5 + 5 * rng.uniform());
    }
  topology.links = MeasuredLinks{latency, bandwidth};
  return topology;
}

/// Splits every host into tensor-parallel groups of 1, 2, 4 or 8 devices and returns them in random order.
std::vector<std::vector<int>> random_tensor_groups(Rng& rng) {
  std::vector<std::vector<int>> tensor_groups;
  int device = 0;
  for (int left : hosts)
    while (left > 0) {
      int size = 1 << rng.below(4);
      while (size > left) size /= 2;
      tensor_groups.emplace_back();
      for (int i = 0; i < size; ++i) tensor_groups.back().push_back(device++);
      left -= size;
    }
  rng.shuffle(std::span<std::vector<int>>(tensor_groups));
  return tensor_groups;
}

Plan heterogeneous_plan(Rng& rng, const Job& job, bool even) {
  const auto tensor_groups = random_tensor_groups(rng);
  const int stages = random_int(rng, 1, 4), most = static_cast<int>(tensor_groups.size()) / stages;
  const int pipelines = random_int(rng, 1, std::min(4, most));
  const int layers = layer_count(job.model), rounds = random_int(rng, 1, 4);
  Plan plan{1, job.execution, {}};
  std::size_t next = 0;
  for (int i = 0; i < pipelines; ++i) {
    Pipeline pipeline{stages * rounds, {}};
    int begin = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const auto all = even_split(layers, stages, stage);
      const int end = stage + 1 == stages ? layers : all.second - (even ? 0 : random_int(rng, 0, 1));
      pipeline.stages.push_back({{begin, end}, tensor_groups[next++]});
      begin = end;
      plan.tensor = std::max(plan.tensor, static_cast<int>(pipeline.stages.back().devices.size()));
    }
    plan.pipelines.push_back(pipeline);
  }
  return plan;
}

struct Errors {
  double worst = 0, mean = 0, tau = 0;
};

/// Returns the errors on 60 random plans, with every gradient-sync algorithm in turn, or with `sync` only.
Errors errors_of(Schedule schedule, bool shared, bool overlap, std::uint64_t stream,
                 std::optional<GradientSync> sync = {}, const Compression& compression = {},
                 const Parallelism& parallelism = {}) {
  Errors errors;
  std::vector<std::pair<double, double>> pairs;
  Rng of_problem = Rng::for_task(stream, 1000);
  Problem problem{heterogeneous_hosts(of_problem, shared),
                  heterogeneous_layers(of_problem, schedule, GradientSync::ring),
                  {1, 0.01, 0.9, 0.5}};
  problem.job.execution.overlap = overlap;
  problem.job.execution.compression = compression;
  problem.job.parallelism = parallelism;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng = Rng::for_task(stream, seed);
    problem.job.execution.gradient_sync = sync.value_or(syncs[seed % 5]);
    const Plan plan = heterogeneous_plan(rng, problem.job, seed % 2 == 0);
    const IterationModel model(problem, degrees,
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    const double estimated = estimate_iteration(model, plan).iteration_s,
                 simulated = replay_makespan(iteration_graph(problem, plan));
    pairs.emplace_back(estimated, simulated);
    errors.mean += std::abs(estimated / simulated - 1) / 60;
    if (std::abs(estimated / simulated - 1) > std::abs(errors.worst))
      errors.worst = estimated / simulated - 1;
  }
  errors.tau = kendall_tau(pairs);
  return errors;
}

}  // namespace

// Stage 0 has two devices: the forward pass of a layer takes 0.5 + x s and the backward pass 1 + x, with x =
// 2 · 2 (0.01 + 1) for its all-reduces. Stage 1 has one device: 1 s and 2 s. The halves of a message take 3 +
// 0.2 s. The second micro-batch is limited by stage 0: 2 (0.5 + x) forward and 2 (1 + x) backward.
TEST_CASE("messages between stages of two devices and of one are sent in two parts") {
  Job job = chain_job(4, 0, 2e6);
  Topology topology = flat_topology({3}, link_of(0.2, 1e6 / 3), link_of(0.2, 1e6 / 3));
  topology.devices[1].host = topology.devices[0].host;
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(link_of(0.01, 1e6));
  rules.same_host(0, 0) = 2;
  const Plan plan{2,
                  {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::sharded_ps},
                  {{2, {{{0, 2}, {0, 1}}, {{2, 4}, {2}}}}}};
  const auto takes = [&](const Calibration& constants, double seconds) {
    const Problem problem{topology, job, constants};
    const IterationModel model(problem, {1, 2},
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    CHECK(estimate_iteration(model, plan).iteration_s == Approx(seconds));
    CHECK(replay_makespan(iteration_graph(problem, plan)) == Approx(seconds));
  };
  const auto seconds = [](double forward, double backward) {
    return 2 * 2 * forward + 3.2 + 2 + 4 + 3.2 + 2 * 2 * backward;
  };
  const double x = 4 * 1.01;
  takes({}, seconds(0.5 + x, 1 + x));
  Calibration slow;
  slow.local_message_overhead_s = 0.1;  // of each of the four messages of a pass
  takes(slow, seconds(0.9 + x, 1.4 + x));
  // A profile in which the times of two devices contain the all-reduces.
  LayerProfile profile;
  profile.gpu = topology.gpus[0].name;
  profile.precision = job.training.precision;
  profile.model = job.name;
  profile.rows = {{"layer", 1, 1, {1}, {2}, {}, {}, {}}, {"layer", 1, 2, {0.75}, {1.25}, {}, {}, {}}};
  job.profiles = {profile};
  takes({}, seconds(0.75 + x, 1.25 + x));
  job.profiles.front().includes_all_reduces = true;
  // Now the message limits the second micro-batch in the forward phase, and stage 1 in the backward phase.
  takes(slow, 2 * 0.75 + 3.2 + 2 + 3 + 4 + 3.2 + 2 * 1.25 + 4);
}

// Two replicas of one device and one of two: every part of the gradients is sent in thirds, and the two
// single devices send each other both parts over one link (4 messages of 4e6 ÷ 3 bytes at 1e6 bytes per
// second).
TEST_CASE("parts that the same devices hold are synchronized one after the other") {
  const Job job = chain_job(4, 1e6, 0);
  Topology topology = flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6));
  const Problem problem{topology, job, {}};
  const IterationModel model(problem, {1, 2},
                             std::make_shared<const NetworkCost>(problem.topology, problem.constants));
  const Plan plan{2,
                  {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::sharded_ps},
                  {{1, {{{0, 4}, {0, 1}}}}, {1, {{{0, 4}, {2}}}}, {1, {{{0, 4}, {3}}}}}};
  CHECK(estimate_iteration(model, plan).iteration_s == Approx(12 + 4 * 4.0 / 3));
}

// If pipelines have different degrees, a device takes part in several synchronizations, as if they were split
// differently.
TEST_CASE("without shared links the estimate is close to the simulator for all degrees") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const bool overlap : {false, true})
      for (std::uint64_t stream = 1; stream <= 3; ++stream) {
        const Errors errors = errors_of(schedule, false, overlap, stream);
        CAPTURE(schedule, overlap, stream, errors.worst, errors.mean, errors.tau);
        CHECK(std::abs(errors.worst) <= 0.2);
        CHECK(errors.mean <= 0.01);
        CHECK(errors.tau >= 0.97);
      }
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    const Errors errors = errors_of(schedule, false, false, 4, GradientSync::sharded_ps);
    CAPTURE(schedule, errors.worst);
    CHECK(std::abs(errors.worst) <= 0.02);
  }
}

// Every message between two stages then has the whole boundary.
TEST_CASE("without sequence parallelism the estimate is close to the simulator for all degrees") {
  Parallelism parallelism;
  parallelism.sequence_parallel = false;
  for (const bool scatter_gather : {false, true})
    for (const bool shared : {false, true})
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        parallelism.scatter_gather = scatter_gather;
        const Errors errors = errors_of(schedule, shared, false, 6, {}, {}, parallelism),
                     compressed = errors_of(schedule, shared, false, 7, {}, {0.25, 0.1, BitsPerSecond(1e8)},
                                            parallelism);
        CAPTURE(schedule, shared, scatter_gather, errors.worst, errors.mean, compressed.worst,
                compressed.mean);
        CHECK(std::abs(errors.worst) <= 0.2);
        CHECK(errors.mean <= 0.02);
        CHECK(std::abs(compressed.worst) <= 0.3);
        CHECK(compressed.mean <= 0.08);
      }
}

// A device that holds several parts compresses and decompresses them one after the other.
TEST_CASE("with slow compression the estimate is close to the simulator for all degrees") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const bool overlap : {false, true})
      for (const double throughput : {1e7, 1e8}) {
        const Errors errors =
            errors_of(schedule, false, overlap, 5, {}, {0.25, 0.1, BitsPerSecond(throughput)});
        CAPTURE(schedule, overlap, throughput, errors.worst, errors.mean, errors.tau);
        CHECK(std::abs(errors.worst) <= 0.3);
        CHECK(errors.mean <= 0.08);
        CHECK(errors.tau >= 0.85);
      }
}

TEST_CASE("with shared host uplinks the estimate is near the simulator for all degrees") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const bool overlap : {false, true})
      for (std::uint64_t stream = 1; stream <= 3; ++stream) {
        const Errors errors = errors_of(schedule, true, overlap, stream);
        CAPTURE(schedule, overlap, stream, errors.worst, errors.mean, errors.tau);
        CHECK(std::abs(errors.worst) <= 0.2);
        CHECK(errors.mean <= 0.02);
        CHECK(errors.tau >= 0.95);
        const Errors default_sync = errors_of(schedule, true, overlap, stream, GradientSync::sharded_ps);
        CAPTURE(default_sync.worst);
        CHECK(std::abs(default_sync.worst) <= 0.1);
      }
}

TEST_CASE("after swapping stages of different degrees an estimator equals a new one") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(3, seed);
    const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved};
    Problem problem{heterogeneous_hosts(rng, seed % 2 == 0),
                    heterogeneous_layers(rng, schedules[seed % 3], syncs[seed % 5]),
                    {1, 0.01, 0.9, 0.5}};
    problem.topology.edit().gpus[0].memory = Bytes(1e8);
    problem.job.execution.overlap = rng.below(2) == 0;
    if (rng.below(2) == 0) problem.job.execution.compression = {0.25, 0.1, BitsPerSecond(1e8)};
    const IterationModel model(problem, degrees,
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    IterationEstimator estimator(model);
    Plan plan = heterogeneous_plan(rng, problem.job, false);
    const int pipelines = static_cast<int>(plan.pipelines.size());
    const int stages = static_cast<int>(plan.pipelines.front().stages.size());
    for (int step = 0; step < 20; ++step) {
      const int a = random_int(rng, 0, pipelines - 1), b = random_int(rng, 0, pipelines - 1);
      const int stage = random_int(rng, 0, stages - 1), other = random_int(rng, 0, stages - 1);
      std::swap(plan.pipelines[at(a)].stages[at(stage)].devices,
                plan.pipelines[at(b)].stages[at(other)].devices);
      const IterationEstimate changed = estimator.estimate(plan), fresh = estimate_iteration(model, plan);
      CHECK(changed.iteration_s == fresh.iteration_s);
      CHECK(changed.deficit_bytes == fresh.deficit_bytes);
    }
  }
}

// All 19 splits of 20 layers over a stage of four devices and one of one device. Nothing is shared, so the
// time is that of `pipeline_time`, which the split minimizes.
TEST_CASE("the best split gives more layers to the larger stage") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(4, seed);
    const Problem problem{heterogeneous_hosts(rng, false),
                          heterogeneous_layers(rng, Schedule::gpipe, GradientSync::ring),
                          {1, 0.01, 0.9, 0}};
    const IterationModel model(problem, degrees,
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    const std::vector<int> wide = {8, 9, 10, 11}, single = {20};
    const int layers = layer_count(problem.job.model);
    double best = 1e300;
    for (int cut = 1; cut < layers; ++cut)
      best = std::min(
          best, estimate_iteration(
                    model, {4, problem.job.execution, {{6, {{{0, cut}, wide}, {{cut, layers}, single}}}}})
                    .iteration_s);
    const LayerSplit split = best_layer_split(model, {{{wide, single}, 6}});
    CHECK(split.time_s == Approx(best));
  }
}

TEST_CASE("shards that overlap in part are not estimated") {
  const Problem problem{flat_topology({5}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 1e6, 0), {}};
  const IterationModel model(problem, {2, 3},
                             std::make_shared<const NetworkCost>(problem.topology, problem.constants));
  const Plan plan{3,
                  {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::ring},
                  {{2, {{{0, 2}, {0, 1}}, {{2, 4}, {2, 3, 4}}}}}};
  CHECK_THROWS_AS(estimate_iteration(model, plan), Error);
}
