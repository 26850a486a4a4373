#include "planner/cost/iteration_time/iteration_time.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/rng.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/heterogeneous_layers.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/repetitions.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                         Schedule::zero_bubble_h1, Schedule::one_f_one_b_blocking};
const std::vector<GradientSync> syncs = {GradientSync::sharded_ps, GradientSync::central_ps,
                                         GradientSync::ring, GradientSync::tree, GradientSync::hierarchical};

/// Returns 16 devices at three sites, two per host, some of them slower, with links that share nothing.
Topology random_topology(Rng& rng) {
  Topology topology = flat_topology({6, 6, 4}, {}, {});
  Eigen::MatrixXd latency(16, 16), bandwidth(16, 16);
  for (int from = 0; from < 16; ++from)
    for (int to = 0; to < 16; ++to) {
      latency(from, to) = 0.1 * rng.uniform();
      bandwidth(from, to) = 8e6 * (0.5 + 5 * rng.uniform());
    }
  topology.links = MeasuredLinks{latency, bandwidth};
  for (int device = 0; device < 16; ++device) {
    topology.devices[at(device)].host = device / 2;
    if (rng.below(4) == 0) topology.devices[at(device)].speed = 0.5;
  }
  return topology;
}

/// Returns a rate in the range of the links, so that some are slower.
BitsPerSecond moderate_rate(Rng& rng) {
  return BitsPerSecond(8e6 * (0.5 + 5 * rng.uniform()));
}

/// Returns the same with uplinks and downlinks of devices and sites.
Topology shared_topology(Rng& rng) {
  Topology topology = random_topology(rng);
  for (Device& device : topology.devices) {
    device.uplink = BitsPerSecond(8e6 * (1 + 2 * rng.uniform()));
    device.downlink = BitsPerSecond(8e6 * (1 + 2 * rng.uniform()));
  }
  topology.sites[0].uplink = topology.sites[1].downlink = BitsPerSecond(8e6 * 6);
  return topology;
}

/// Gives every link a price.
void set_egress_prices(Rng& rng, Topology& topology) {
  const int devices = topology.size();
  RuleLinks rules;
  rules.table.setConstant(devices, devices, -1);
  for (int from = 0; from < devices; ++from) {
    rules.link_class.push_back(from);
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      rules.table(from, to) = static_cast<int>(rules.links.size());
      rules.links.push_back(topology.link(from, to));
      rules.links.back().egress = DollarsPerByte(1e-9 * rng.uniform());
    }
  }
  rules.same_host = rules.table;
  topology.links = rules;
}

/// Returns a random split in which every stage has at least two layers.
std::vector<std::pair<int, int>> random_split(Rng& rng, int layers, int stages) {
  std::vector<int> ends = {layers};
  for (int stage = stages - 1; stage > 0; --stage)
    ends.insert(ends.begin(), random_int(rng, 2 * stage, ends.front() - 2));
  std::vector<std::pair<int, int>> split;
  for (const int end : ends) split.emplace_back(split.empty() ? 0 : split.back().second, end);
  return split;
}

int random_micro_batches(Rng& rng, const Job& job, int stages, int most) {
  return traits(job.execution.schedule).in_rounds ? stages * random_int(rng, 1, most / 4)
                                                  : random_int(rng, 1, most);
}

/// Returns a plan of up to four pipelines of up to four stages with random devices, layer splits and numbers
/// of micro-batches, at most `most`. A stage has `tensor` devices of one host.
Plan random_plan(Rng& rng, const Job& job, int tensor, bool even = false, int most = 12) {
  std::vector<int> order(at(16 / tensor));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(std::span<int>(order));
  const int stages = random_int(rng, 1, 4), pipelines = random_int(rng, 1, std::min(4, 16 / tensor / stages));
  const int micro_batches = random_micro_batches(rng, job, stages, most), layers = layer_count(job.model);
  Plan plan{tensor, job.execution, {}};
  std::size_t next = 0;
  for (int i = 0; i < pipelines; ++i) {
    Pipeline pipeline{even ? micro_batches : random_micro_batches(rng, job, stages, most), {}};
    const auto split = random_split(rng, layers, stages);
    for (int stage = 0; stage < stages; ++stage) {
      Stage it{even ? even_split(layers, stages, stage) : split[at(stage)], {}};
      for (int rank = 0; rank < tensor; ++rank) it.devices.push_back(order[next] * tensor + rank);
      ++next;
      pipeline.stages.push_back(it);
    }
    plan.pipelines.push_back(pipeline);
  }
  return plan;
}

std::optional<int> random_flush(Rng& rng, int stages) {
  const int flush = stages * random_int(rng, 0, 2);
  return flush > 0 ? std::optional(flush) : std::nullopt;
}

/// Applies one of the changes that a search makes, or swaps two devices.
void change(Rng& rng, const Job& job, Plan& plan, int most) {
  const int pipelines = static_cast<int>(plan.pipelines.size());
  const int stages = static_cast<int>(plan.pipelines.front().stages.size());
  const int pipeline = random_int(rng, 0, pipelines - 1);
  switch (rng.below(5)) {
    case 4:
      plan.execution.flush = random_flush(rng, stages);
      return;
    case 0: {
      const auto split = random_split(rng, layer_count(job.model), stages);
      for (int stage = 0; stage < stages; ++stage)
        plan.pipelines[at(pipeline)].stages[at(stage)].layers = split[at(stage)];
      return;
    }
    case 1:
      plan.pipelines[at(pipeline)].micro_batches = random_micro_batches(rng, job, stages, most);
      return;
    default:
      const int other = random_int(rng, 0, pipelines - 1), stage = random_int(rng, 0, stages - 1),
                other_stage = random_int(rng, 0, stages - 1);
      std::swap(plan.pipelines[at(pipeline)].stages[at(stage)].devices,
                plan.pipelines[at(other)].stages[at(other_stage)].devices);
  }
}

void check_same(const IterationEstimate& changed, const IterationEstimate& fresh) {
  CHECK(changed.iteration_s == fresh.iteration_s);
  CHECK(changed.pipelines_s == fresh.pipelines_s);
  CHECK(changed.gradient_sync_end_s == fresh.gradient_sync_end_s);
  CHECK(changed.update_s == fresh.update_s);
  CHECK(changed.pipeline_s == fresh.pipeline_s);
  CHECK(changed.steady_s == fresh.steady_s);
  CHECK(changed.mean_end_s == fresh.mean_end_s);
  CHECK(changed.deficit_bytes == fresh.deficit_bytes);
  CHECK(changed.egress_usd == fresh.egress_usd);
}

/// An estimate that is pruned once its energy, as in annealing, exceeds a share of the final one: all bounds
/// on the way hold, and it is pruned exactly if the share is below 1.
void check_bounds(IterationEstimator& estimator, const Plan& plan, const IterationEstimate& fresh,
                  double share) {
  constexpr double rounding = 1 + 1e-12;
  bool all_hold = true, is_first = true;
  const auto energy = [](const auto& it) { return 0.95 * it.iteration_s + 0.05 * it.mean_end_s; };
  const auto should_prune = [&](const EstimateBounds& bounds) {
    if (std::exchange(is_first, false))  // bounds of the pipelines alone
      CHECK(bounds.iteration_s <= (fresh.pipelines_s + fresh.overhead_s) * rounding);
    all_hold = all_hold && bounds.iteration_s <= fresh.iteration_s * rounding &&
               bounds.mean_end_s <= fresh.mean_end_s * rounding &&
               bounds.egress_usd <= fresh.egress_usd * rounding &&
               bounds.deficit_bytes == fresh.deficit_bytes;
    return energy(bounds) > share * energy(fresh);
  };
  const IterationEstimate* estimate = estimator.estimate_or_prune(plan, should_prune);
  CHECK((estimate == nullptr) == (share < 1));
  CHECK(all_hold);
  if (estimate) check_same(*estimate, fresh);
}

}  // namespace

// The example of docs/how-it-works.md. Forward 1 + 0.5 + 1 s and 3 more micro-batches of 1 s: 5.5 s. Backward
// 2 + 0.5 + 2 s and 3 of 2 s: 10.5 s. Synchronizing 2e6 parameters of 2 bytes at 1e6 bytes per second: a half
// twice, 4 s. The optimizer moves 16 bytes per parameter at 32e6 bytes per second: 1 s.
TEST_CASE("an iteration consists of pipelines and gradient sync and updates and overhead") {
  Problem problem{flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6)),
                  chain_job(2, 2e6, 0.5e6),
                  {1, 0, 1, 0.5},
                  uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
  problem.topology.edit().gpus[0].memory_bandwidth = BitsPerSecond(8 * 32e6);
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  const IterationModel model(problem);
  const IterationEstimate estimate = estimate_iteration(model, plan);
  CHECK(estimate.pipelines_s == Approx(16));
  CHECK(estimate.gradient_sync_end_s == Approx(20));
  CHECK(estimate.mean_end_s == Approx((16 + 16 + 18 + 20) / 4.0));  // two pipelines and two synchronizations
  CHECK(estimate.update_s == Approx(1));
  CHECK(estimate.overhead_s == Approx(0.5));
  CHECK(estimate.iteration_s == Approx(21.5));
  CHECK(estimate.iteration_s == Approx(simulated_iteration_s(problem, plan)));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(estimate.pipeline_s[i] == Approx(16));
    CHECK(estimate.steady_s[i] == Approx(3));
  }
}

// Two layers share 1e6 parameters of 2 bytes. The second stage ends its backward pass after 1 + 1 + 2 s and
// the first one after 2 s more. Two replicas synchronize 2e6 bytes at 1e6 bytes per second in two halves of 1
// s: until 6 and 8 s. Then the two stages of each pipeline do the same until 10 s. A single pipeline has no
// replicas; its stages begin after 6 s. A single stage has one copy.
TEST_CASE("the stages that hold a tied embedding synchronize its gradients after the replicas have") {
  Problem problem{flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 1e6, 0), {}};
  std::get<LayerChain>(problem.job.model).layers.back().tied_parameters = 1e6;
  const auto check_seconds = [&](int stages, int replicas, double seconds) {
    CAPTURE(stages, replicas);
    const Plan plan = plan_of(problem.job, stages, replicas, 1);
    CHECK(estimated_iteration_s(problem, plan) == Approx(seconds));
    CHECK(simulated_iteration_s(problem, plan) == Approx(seconds));
  };
  check_seconds(2, 2, 8);
  problem.job.execution.tied_embedding_sync = true;
  check_seconds(2, 2, 10);
  check_seconds(2, 1, 8);
  check_seconds(1, 2, 8);
}

TEST_CASE("an estimator after changes equals a new one") {
  for (const Schedule schedule : schedules)
    for (const bool shared : {false, true})
      for (const bool overlap : {false, true})
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
          CAPTURE(schedule, shared, overlap, seed);
          Rng rng = Rng::for_task(1, seed);
          Problem problem{shared ? shared_topology(rng) : random_topology(rng),
                          heterogeneous_layers(rng, schedule, syncs[rng.below(5)]),
                          {1, 0.01, 0.9, 0.5}};
          problem.job.execution.overlap = overlap;
          problem.job.execution.compression = {0.25, 0.5, BitsPerSecond(8e9)};
          if (rng.below(2) == 0) problem.job.execution.compression.bandwidth_threshold = moderate_rate(rng);
          problem.topology.edit().gpus[0].memory = Bytes(1e8);
          if (rng.below(2) == 0) {  // messages take longer than computations
            std::get<MeasuredLinks>(problem.topology.edit().links).latency *= 200;
            for (Layer& layer : std::get<LayerChain>(problem.job.model).layers)
              layer.output = 20 * layer.output;
          }
          if (rng.below(2) == 0) set_egress_prices(rng, problem.topology.edit());
          const int tensor = random_int(rng, 1, 2);
          const IterationModel model(problem, tensor);
          IterationEstimator estimator(model);
          constexpr int most = 40;  // micro-batches: enough for extrapolated estimates
          Plan plan = random_plan(rng, problem.job, tensor, false, most);
          for (int step = 0; step < 20; ++step) {
            const Plan before = plan;
            for (int i = random_int(rng, 0, 2); i >= 0; --i) change(rng, problem.job, plan, most);
            const IterationEstimate fresh = estimate_iteration(model, plan);
            check_bounds(estimator, plan, fresh, 0.8 + 0.4 * rng.uniform());
            check_same(estimator.estimate(plan), fresh);
            CHECK(estimator.deficit_bytes(plan) == fresh.deficit_bytes);
            CHECK(estimator.estimate_pipelines(plan).pipelines_s == fresh.pipelines_s);
            if (rng.below(2) == 0) plan = before;  // like a search that rejects the change
          }
        }
}

// The closed form of 1f1b without contention may be longer than the extrapolation under contention.
TEST_CASE("no 1f1b plan is pruned too early if several hops cross one uplink") {
  for (const int stages : {3, 4})
    for (const double latency_s : {0.0, 1.5, 6.0})
      for (int micro_batches = 1; micro_batches <= 60; ++micro_batches) {
        CAPTURE(stages, latency_s, micro_batches);
        Problem problem{
            flat_topology({stages}, link_of(latency_s, 1e6), link_of(0, 1e6)), chain_job(stages, 0, 1e6), {}};
        problem.job.execution.schedule = Schedule::one_f_one_b;
        for (Device& device : problem.topology.edit().devices) device.uplink = BitsPerSecond(8e6);
        const IterationModel model(problem);
        IterationEstimator estimator(model);
        const Plan plan = plan_of(problem.job, stages, 1, micro_batches);
        check_bounds(estimator, plan, estimate_iteration(model, plan), 1 + 1e-9);
      }
}

TEST_CASE("the estimate equals the simulator for uniform pipelines without shared links") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      Rng rng = Rng::for_task(5, seed);
      const GradientSync sync = syncs[seed % 5];
      CAPTURE(schedule, sync, seed);
      const Problem problem{
          random_topology(rng), heterogeneous_layers(rng, schedule, sync), {1.5, 0.01, 0.9, 0.5}};
      Plan plan = random_plan(rng, problem.job, 1, true);
      for (Pipeline& pipeline : plan.pipelines) pipeline.micro_batches = random_int(rng, 1, 12);
      CHECK(estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
    }
}

/// Relative errors of estimates against the simulator.
struct Errors {
  double sum = 0, low = 0, high = 0;
  int count = 0;

  void add(const Problem& problem, const Plan& plan) {
    const double error = estimated_iteration_s(problem, plan) / simulated_iteration_s(problem, plan) - 1;
    sum += std::abs(error);
    low = std::min(low, error);
    high = std::max(high, error);
    ++count;
  }
  double mean() const { return sum / count; }
};

// If pipelines are split differently, or a device has several chunks, synchronizations follow each other over
// the same channels. The estimate assumes that a synchronization starts when its slowest channel is free.
TEST_CASE("without shared links the estimate is near the simulator for all splits and schedules and syncs") {
  for (const Schedule schedule : schedules) {
    Errors errors;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Rng rng = Rng::for_task(2, seed);
      const Problem problem{
          random_topology(rng), heterogeneous_layers(rng, schedule, syncs[seed % 5]), {1.5, 0.01, 0.9, 0.5}};
      errors.add(problem, random_plan(rng, problem.job, 1));
    }
    CAPTURE(schedule, errors.mean(), errors.low, errors.high);
    CHECK(errors.mean() < 0.03);
    CHECK(errors.low > -0.01);
    CHECK(errors.high < 0.25);
  }
}

TEST_CASE("the estimate is near the simulator if chunks wait for their sends") {
  Errors errors;
  for (std::uint64_t seed = 0; seed < repetitions(100); ++seed) {
    Rng rng = Rng::for_task(11, seed);
    const Problem problem{random_topology(rng),
                          heterogeneous_layers(rng, Schedule::interleaved_blocking, syncs[seed % 5]),
                          {1, 0.01, 0.9, 0.5}};
    errors.add(problem, random_plan(rng, problem.job, 1));
  }
  CAPTURE(errors.mean(), errors.low, errors.high);
  CHECK(errors.mean() < 0.03);
  CHECK(errors.low > -0.01);
  CHECK(errors.high < 0.35);
}

// Two stages of three layers of 1 s and 2 s, of which the first one of each stage is recomputed, four
// micro-batches, messages without time. gpipe: forward 3 + 3 + 3 · 3, backward 7 + 7 + 3 · 7. 1f1b: the
// pipeline is filled and emptied in 3 + 7, and then each device computes 4 · (3 + 7).
TEST_CASE("the estimate equals the simulated time of partly recomputed stages") {
  for (const auto& [schedule, seconds] :
       {std::pair(Schedule::gpipe, 15.0 + 35), std::pair(Schedule::one_f_one_b, 10.0 + 4 * 10)}) {
    Job job = chain_job(6, 0, 1);
    job.execution.schedule = schedule;
    job.execution.recomputation = Recomputation::full;
    job.execution.recompute_layers = 1;
    job.training.global_batch = 4;
    const Problem problem{flat_topology({2}, link_of(0, 1e18), link_of(0, 1e18)), job, {}};
    const Plan plan = plan_of(job, 2, 1, 4);
    CHECK(estimated_iteration_s(problem, plan) == Approx(seconds));
    CHECK(simulated_iteration_s(problem, plan) == Approx(seconds));
  }
}

TEST_CASE("recompute_layers applies to each chunk of an interleaved device") {
  Job job = chain_job(8, 0, 1);
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  job.execution.recomputation = Recomputation::full;
  job.execution.recompute_layers = 1;
  job.training.global_batch = 4;
  const Problem problem{flat_topology({2}, link_of(0, 1e18), link_of(0, 1e18)), job, {}};
  const Plan plan = plan_of(job, 2, 1, 4);
  const double simulated_s = simulated_iteration_s(problem, plan);
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_s));
  CHECK(simulated_s >=
        4 * (4 * 3 + 2));  // a device computes two chunks of two layers, one of them recomputed
  CHECK(simulated_s < 4 * (4 * 3 + 4));
}

TEST_CASE("without shared links the estimate is close to the simulator for all training settings") {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(3, seed);
    Problem problem{random_topology(rng),
                    heterogeneous_layers(rng, schedules[seed % schedules.size()], syncs[seed % 5]),
                    {1, 0.01, 0.9, 0.5},
                    uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
    Job& job = problem.job;
    job.execution.overlap = rng.below(2) == 0;
    if (rng.below(2) == 0) job.execution.compression = {0.25, 0.5, BitsPerSecond(8e9)};
    if (rng.below(2) == 0) problem.topology.edit().gpus[0].memory_bandwidth = BitsPerSecond(8e8);
    if (rng.below(3) == 0) job.execution.recomputation = Recomputation::full;
    if (job.execution.recomputation == Recomputation::full && !job.execution.overlap)
      job.execution.recompute_layers = static_cast<int>(seed % 5);
    const int tensor = random_int(rng, 1, 2);
    Plan plan = random_plan(rng, job, tensor, true);
    if (rng.below(2) == 0) job.execution.compression.bandwidth_threshold = moderate_rate(rng);
    if (rng.below(3) == 0 && !traits(job.execution.schedule).splits_backward)
      job.execution.flush = static_cast<int>(plan.pipelines[0].stages.size());
    plan.execution = job.execution;
    CAPTURE(job.execution.schedule, job.execution.gradient_sync, job.execution.overlap, tensor);
    CHECK(estimated_iteration_s(problem, plan) ==
          Approx(simulated_iteration_s(problem, plan)).epsilon(0.025));
  }
}

// The estimate assumes that all parts of a stage of several devices begin together.
TEST_CASE("the estimate is near the simulator if tied embeddings are synchronized") {
  for (const Schedule schedule : schedules) {
    Errors errors;
    for (std::uint64_t seed = 0; seed < repetitions(100); ++seed) {
      Rng rng = Rng::for_task(10, seed);
      Problem problem{random_topology(rng), heterogeneous_layers(rng, schedule, syncs[seed % 5]),
                      Calibration{1, 0.01, 0.9, 0.5}};
      Layer& head = std::get<LayerChain>(problem.job.model).layers.back();
      head.tied_parameters = head.parameters = 5e6;
      problem.job.execution.tied_embedding_sync = true;
      problem.job.execution.overlap = rng.below(2) == 0;
      errors.add(problem, random_plan(rng, problem.job, random_int(rng, 1, 2), true));
    }
    CAPTURE(schedule, errors.mean(), errors.low, errors.high);
    CHECK(errors.mean() < 0.005);
    CHECK(errors.low > -0.025);
    CHECK(errors.high < 0.15);
  }
}

// Two layers of 1 s forward and 2 s backward, on one device and on two. The gradients of each layer, 2e6
// bytes, are compressed in 2 s to half of that, synchronized in two halves of 0.5 s, and decompressed in 2 s.
// The single device finishes computing after 6 s, as does the last of the two. It compresses both layers
// until 10 s, the second one is synchronized until 11 s, and it decompresses both until 14 s. With overlap it
// has the gradients of the last layer after 4 s and could compress, but the first layer is computed first, so
// nothing changes.
TEST_CASE("a device compresses for one synchronization after the other") {
  Problem problem{flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 1e6, 0), {}};
  problem.job.execution.compression = {1, 0.5, BitsPerSecond(8e6)};
  Plan plan = plan_of(problem.job, 1, 1, 1);
  plan.pipelines.push_back({1, {{{0, 1}, {1}}, {{1, 2}, {2}}}});
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    problem.job.execution.overlap = plan.execution.overlap = overlap;
    CHECK(estimated_iteration_s(problem, plan) == Approx(14));
    CHECK(simulated_iteration_s(problem, plan) == Approx(14));
  }
  // If the first layer has four times the parameters, the last layer is compressed until 8 s, and the first
  // one is compressed until 16 s, synchronized until 20 s and decompressed until 28 s; meanwhile the last one
  // is decompressed.
  problem.job.execution.overlap = plan.execution.overlap = false;
  std::get<LayerChain>(problem.job.model).layers.front().parameters = 4e6;
  CHECK(estimated_iteration_s(problem, plan) == Approx(28));
  CHECK(simulated_iteration_s(problem, plan) == Approx(28));
}

// The link from one device of the first pipeline to one of the second is twenty times slower than the others.
// What all chunks send over it is sent one after the other, whatever goes to other devices meanwhile.
TEST_CASE("the estimate is near the simulator if chunks queue for one slow link") {
  for (const GradientSync sync : syncs) {
    Errors errors;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      Rng rng = Rng::for_task(8, seed);
      Problem problem{
          random_topology(rng), heterogeneous_layers(rng, Schedule::interleaved, sync), {1, 0.01, 0.9, 0.5}};
      Plan plan{1, problem.job.execution, {}};
      for (int i = 0; i < 3; ++i) {
        Pipeline pipeline{6, {}};
        const auto split = random_split(rng, layer_count(problem.job.model), 2);
        for (int stage = 0; stage < 2; ++stage)
          pipeline.stages.push_back({split[at(stage)], {2 * i + stage}});
        plan.pipelines.push_back(pipeline);
      }
      auto& links = std::get<MeasuredLinks>(problem.topology.edit().links);
      Eigen::MatrixXd bandwidth = links.bandwidth;
      bandwidth(0, 3) /= 20;
      bandwidth(3, 0) /= 20;
      links.bandwidth = bandwidth;
      errors.add(problem, plan);
    }
    CAPTURE(sync, errors.mean(), errors.low, errors.high);
    CHECK(errors.mean() < 0.06);
    CHECK(errors.low > -0.1);
    CHECK(errors.high < 0.25);
  }
}

// With overlap and chunks, devices compress and decompress between computations. Under `interleaved` part of
// this fits into the time in which they wait for messages, which the estimate ignores.
TEST_CASE("the estimate is near the simulator if gradient compression is slow") {
  for (const Schedule schedule : schedules)
    for (const bool overlap : {false, true}) {
      Errors errors;
      for (std::uint64_t seed = 0; seed < repetitions(300); ++seed) {
        Rng rng = Rng::for_task(7, seed);
        Problem problem{
            random_topology(rng), heterogeneous_layers(rng, schedule, syncs[seed % 5]), {1, 0.01, 0.9, 0.5}};
        Job& job = problem.job;
        job.execution.overlap = overlap;
        job.execution.compression = {rng.below(2) == 0 ? 0.25 : 1, 0.1,
                                     BitsPerSecond(1e7 * std::pow(100, rng.uniform()))};
        const int tensor = random_int(rng, 1, 2);
        Plan plan = random_plan(rng, job, tensor, rng.below(2) == 0);
        if (rng.below(2) == 0) job.execution.compression.bandwidth_threshold = moderate_rate(rng);
        plan.execution = job.execution;
        errors.add(problem, plan);
      }
      CAPTURE(schedule, overlap, errors.mean(), errors.low, errors.high);
      CHECK(errors.mean() < 0.015);
      CHECK(errors.low > -0.3);
      CHECK(errors.high < 0.2);
    }
}

// When pipelines contend for the links of sites depends on chance.
TEST_CASE("the estimate is near the simulator if links are shared") {
  for (const Schedule schedule : schedules) {
    Errors errors;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Rng rng = Rng::for_task(4, seed);
      Problem problem{
          shared_topology(rng), heterogeneous_layers(rng, schedule, syncs[seed % 5]), {1, 0.01, 0.9, 0.5}};
      problem.job.execution.overlap = seed % 2 == 1;
      errors.add(problem, random_plan(rng, problem.job, 1, true));
    }
    CAPTURE(schedule, errors.mean(), errors.low, errors.high);
    CHECK(errors.mean() < 0.03);
    CHECK(errors.low > -0.06);
    CHECK(errors.high < 0.35);
  }
}

TEST_CASE("a plan that the schedule cannot run is rejected") {
  const Problem problem{flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6)),
                        [] {
                          Job job = chain_job(4, 0, 0);
                          job.execution.schedule = Schedule::interleaved;
                          job.execution.chunks = 2;
                          return job;
                        }(),
                        {}};
  const IterationModel model(problem);
  CHECK(
      error_message([&] { estimate_iteration(model, plan_of(problem.job, 4, 1, 4)); }) ==
      "schedule interleaved: 2 chunks exceed the number of layers of a device, 1; use fewer chunks or fewer "
      "stages");
  CHECK(error_message([&] { estimate_iteration(model, plan_of(problem.job, 2, 1, 3)); }) ==
        "schedule interleaved requires a multiple of 2 micro-batches, the number of devices of a pipeline; "
        "found 3; change the number of micro-batches, the flush interval or the number of stages");
}

// Device 0 has layers 0 and 1 in its first chunk and none in its second; device 1 has layer 2 in the first
// and layer 3 in the second. A layer takes 1 s forward and 2 s backward; messages take no time. With two
// micro-batches a and b, F/c: forward of chunk c,
//   device 0: Fa/0 0–2, Fb/0 2–4, Fa/1 at 4, Fb/1 at 5, Ba/1 at 8, Bb/1 at 11, Ba/0 13–17, Bb/0 17–21
//   device 1: Fa/0 2–3, Fb/0 4–5, Fa/1 5–6, Ba/1 6–8, Fb/1 8–9, Bb/1 9–11, Ba/0 11–13, Bb/0 13–15.
// With an even split, one layer in every chunk, all four chunks pass the micro-batches on after 1 s and 2 s:
//   device 0: Fa/0 0–1, Fb/0 1–2, Fa/1 2–3, Fb/1 3–4, Ba/1 6–8, Bb/1 9–11, Ba/0 11–13, Bb/0 13–15
//   device 1: Fa/0 1–2, Fb/0 2–3, Fa/1 3–4, Ba/1 4–6, Fb/1 6–7, Bb/1 7–9, Ba/0 9–11, Bb/0 11–13.
TEST_CASE("the chunks of a device may have any numbers of layers") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 0, 0), {}};
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  const Plan even = plan_of(problem.job, 2, 1, 2);
  Plan uneven = even;
  uneven.pipelines[0].stages[0].virtual_layers = {2, 0};
  CHECK(estimated_iteration_s(problem, even) == Approx(15).epsilon(1e-9));
  CHECK(simulated_iteration_s(problem, even) == Approx(15).epsilon(1e-9));
  CHECK(estimated_iteration_s(problem, uneven) == Approx(21).epsilon(1e-9));
  CHECK(simulated_iteration_s(problem, uneven) == Approx(21).epsilon(1e-9));
  // An estimator does not take the time of an equal pipeline whose chunks differ.
  Plan both = plan_of(problem.job, 2, 2, 2);
  both.pipelines[1].stages[0].virtual_layers = {2, 0};
  const IterationEstimate estimate = estimate_iteration(IterationModel(problem), both);
  CHECK(estimate.pipeline_s[0] == Approx(15));
  CHECK(estimate.pipeline_s[1] == Approx(21));
}

TEST_CASE("the estimate equals the simulator for chunks of any numbers of layers") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(12, seed);
    const Problem problem{random_topology(rng),
                          heterogeneous_layers(rng, Schedule::interleaved, GradientSync::ring),
                          {1.5, 0.01, 0.9, 0.5}};
    Plan plan = random_plan(rng, problem.job, 1);
    plan.pipelines.resize(1);
    split_virtual_stages(rng, plan);
    CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
  }
}

// If nothing distinguishes the devices of a site, one of their messages represents all. With latencies that
// all differ by a negligible amount, no message is skipped.
TEST_CASE("equal devices have the same time as devices that are almost equal") {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Rng rng = Rng::for_task(seed, 21);
    Eigen::MatrixXd latency(12, 12), bandwidth(12, 12), almost(12, 12);
    const double base[3] = {0.1 * rng.uniform(), 0.1 * rng.uniform(), 0.1 * rng.uniform()};
    for (int from = 0; from < 12; ++from)
      for (int to = 0; to < 12; ++to) {
        latency(from, to) = base[(from / 4 + to / 4) % 3];
        almost(from, to) = latency(from, to) * (1 + 1e-13 * (12 * from + to));
        bandwidth(from, to) = 1e8 / (1 + (from / 4 + to / 4) % 3);
      }
    Job job = chain_job(24, 2e6, 1e6);
    job.execution.schedule = seed % 3 == 0 ? Schedule::one_f_one_b : Schedule::interleaved;
    job.execution.chunks = seed % 3 == 0 ? 1 : 2;
    job.execution.overlap = seed % 2 == 0;
    Problem problem{flat_topology({4, 4, 4}, {}, {}), job, {1, 0.001, 0.9, 0}};
    problem.topology.edit().links = MeasuredLinks{latency, bandwidth};
    Plan plan = plan_of(job, 3, 4, 12);
    for (int change = 0; change < 6; ++change) {
      std::swap(plan.pipelines[rng.below(4)].stages[rng.below(3)].devices,
                plan.pipelines[rng.below(4)].stages[rng.below(3)].devices);
      const double equal_devices_s = estimate_iteration(IterationModel(problem), plan).iteration_s;
      Problem other = problem;
      std::get<MeasuredLinks>(other.topology.edit().links).latency = almost;
      CAPTURE(seed, change, job.execution.schedule);
      CHECK(equal_devices_s ==
            Approx(estimate_iteration(IterationModel(other), plan).iteration_s).epsilon(1e-9));
    }
  }
}
