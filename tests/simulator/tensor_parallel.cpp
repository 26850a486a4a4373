// Stages of several devices, and the cost of their all-reduces.
#include <set>
#include <string>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/report/run_statistics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/stage_groups.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

const Link instant = link_of(0, 1e18);

double bytes_of(const LabelledGraph& lowered, Activity activity) {
  double sum = 0;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.labels[i].activity == activity) sum += lowered.graph.tasks[i].amount;
  return sum;
}

double makespan(const Problem& problem, const Plan& plan) {
  return replay_makespan(iteration_graph(problem, plan));
}

}  // namespace

// L = 3 layers of 1 s and 2 s, m = 2 micro-batches of 5 sequences, outputs of S = 5 · 1e6 bytes, and an
// effective B = 8e7 · 1/2 bytes per second. Every layer has 4 all-reduces, 6 and one more forward pass with
// `full`, or 5 with `mlp` (of which a chain does not say what MLPs compute).
TEST_CASE("all-reduces of a stage pass around its ring message by message") {
  struct Case {
    Recomputation recomputation;
    double seconds, all_reduces;  // per layer and sequence; per layer and micro-batch
  };
  for (const Case& it : {Case{Recomputation::none, 3, 4}, Case{Recomputation::selective, 3, 4},
                         Case{Recomputation::mlp, 3, 5}, Case{Recomputation::full, 4, 6}})
    for (const auto& [hosts, t] : {std::pair(1, 2), std::pair(1, 4), std::pair(4, 4)}) {
      CAPTURE(name_of(it.recomputation), hosts, t);
      Job job = chain_job(3, 0, 1e6);
      job.execution.micro_batch = 5;
      job.execution.recomputation = it.recomputation;
      job.execution.compression.activations = 0.25;  // does not apply to all-reduces
      const Link link = link_of(0.003, 8e7);
      Problem problem{hosts_with(hosts, t / hosts, link, link), job, {1, 0.002, 0.5, 0}};
      problem.constants.local_message_overhead_s = 0.001;
      const double overhead = hosts > 1 ? 0.002 : 0.001;
      const double messages = 2 * 3 * it.all_reduces * 2 * (t - 1);
      const LabelledGraph lowered = iteration_graph(problem, staged_plan(job, 1, 1, t, 2));
      CHECK(replay_makespan(lowered) ==
            Approx(2 * 3 * 5 * it.seconds / t + messages * (0.003 + overhead + 5e6 / (t * 4e7))));
      CHECK(bytes_of(lowered, Activity::all_reduce) == Approx(messages * 5e6));
    }
}

// 1 s and 2 s per sequence and layer; of 3 layers, one is recomputed: 10 s and 2 · (2 + 3 + 1) all-reduces,
// each of 2 messages, which take 1 s.
TEST_CASE("only recomputed layers repeat their all-reduces") {
  Job job = chain_job(3, 0, 2e6);
  job.execution.recomputation = Recomputation::full;
  job.execution.recompute_layers = 1;
  const Link link = link_of(0, 1e6);
  const Problem problem{hosts_with(1, 2, link, link), job, {}};
  const Plan plan = staged_plan(job, 1, 1, 2, 1);
  const LabelledGraph lowered = iteration_graph(problem, plan);
  const double all_reduces = 2 * (3 + 3 + 1);
  CHECK(replay_makespan(lowered) == Approx(10 / 2.0 + all_reduces * 2));
  CHECK(bytes_of(lowered, Activity::all_reduce) == Approx(all_reduces * 2 * 2 * 1e6));
}

TEST_CASE("an all-reduce of a transformer has micro-batch · sequence · hidden numbers") {
  Job job = chain_job(1, 0, 0);
  job.model = Transformer{4, 8, 2, 16, 100};
  job.execution.micro_batch = 3;
  for (const auto& [precision, bytes] : {std::pair(Precision::bf16, 2), std::pair(Precision::fp32, 4)}) {
    job.training.precision = precision;
    const Problem problem{hosts_with(1, 2, instant, instant), job, {}};
    // 4 layers, 4 all-reduces, in which each of two devices sends everything it has.
    CHECK(bytes_of(iteration_graph(problem, staged_plan(job, 1, 1, 2, 1)), Activity::all_reduce) ==
          4 * 4 * 2 * 3.0 * 16 * 8 * bytes);
  }
}

// Ranks 0 and 1 are on one host, 2 and 3 on another: two of the four messages of the ring, of 1e6 bytes each,
// are between hosts. Both GPUs of a host send half of them.
TEST_CASE("a ring is as fast as the slowest of its messages, which all GPUs of a host send") {
  const Job job = chain_job(1, 0, 4e6);
  Problem problem{hosts_with(2, 2, link_of(0, 1e9), link_of(0.1, 1e6)), job, {}};
  const Plan plan = staged_plan(job, 1, 1, 4, 1);
  CHECK(makespan(problem, plan) == Approx(3.0 / 4 + 4 * 6 * (0.1 + 0.5)));
  for (Device& device : problem.topology.edit().devices) device.host_uplink = BitsPerSecond(8 * 1.25e6);
  CHECK(makespan(problem, plan) == Approx(3.0 / 4 + 4 * 6 * (0.1 + 0.8)));
  // In any order of the ranks the ring enters each host once.
  Plan mixed = plan;
  mixed.pipelines[0].stages[0].devices = {0, 2, 1, 3};
  CHECK(makespan(problem, mixed) == Approx(3.0 / 4 + 4 * 6 * (0.1 + 0.8)));
}

// Two stages of two devices and two layers. A layer's all-reduces in one direction take x = 2 · 2 (0.01 + 1)
// s; each rank sends its half of a message to the other host, 0.2 + 3 s.
TEST_CASE("a stage sends its output after its all-reduces") {
  const Job job = chain_job(4, 0, 2e6);
  const Problem problem{hosts_with(2, 2, link_of(0.01, 1e6), link_of(0.2, 1e6 / 3)), job, {}};
  const double x = 4 * 1.01, forward = 2 * (0.5 + x), backward = 2 * (1 + x);
  CHECK(makespan(problem, staged_plan(job, 2, 1, 2, 1)) == Approx(2 * (forward + backward + 3.2)));
  // m micro-batches: (m + p − 1) forward and backward passes, as messages of 3.2 s hide behind passes of 9.08
  // s, except for the first and the last message.
  CHECK(makespan(problem, staged_plan(job, 2, 1, 2, 8)) == Approx(9 * (forward + backward) + 2 * 3.2));
  // Without sequence parallelism each rank sends all of it, 0.2 + 6 s, unless its part is enough.
  Job whole = job;
  whole.parallelism.sequence_parallel = false;
  const Problem sent_whole{problem.topology, whole, {}};
  const Plan plan = staged_plan(job, 2, 1, 2, 1);
  CHECK(makespan(sent_whole, plan) == Approx(2 * (forward + backward + 6.2)));
  CHECK(bytes_of(iteration_graph(sent_whole, plan), Activity::send_activations) == Approx(2 * 2e6));
  whole.parallelism.scatter_gather = true;
  CHECK(makespan({problem.topology, whole, {}}, plan) == Approx(2 * (forward + backward + 3.2)));
}

// Two replicas of one stage of two devices with 4 layers: each rank synchronizes its half of the gradients
// with its peer, 1 s per layer, independent of the all-reduces of x = 2 · 2 · 0.1 s per layer and direction.
TEST_CASE("with overlap the gradients of a layer are synchronized after its all-reduces") {
  Job job = chain_job(4, 1e6, 2e5);
  const Topology topology = hosts_with(2, 2, link_of(0, 1e6), link_of(0, 1e6));
  Plan plan = staged_plan(job, 1, 2, 2, 1);
  const double x = 0.4, computed = 4 * (0.5 + x) + 4 * (1 + x);
  CHECK(makespan({topology, job, {}}, plan) == Approx(computed + 4));
  const double bytes = bytes_of(iteration_graph({topology, job, {}}, plan), Activity::all_reduce);
  plan.execution.overlap = true;
  const LabelledGraph overlapped = iteration_graph({topology, job, {}}, plan);
  CHECK(replay_makespan(overlapped) == Approx(computed + 1));
  CHECK(bytes_of(overlapped, Activity::all_reduce) == Approx(bytes));
}

TEST_CASE("with instant links t devices take 1 / t of the time") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const int t : {2, 3, 8}) {
      CAPTURE(schedule, t);
      Job job = chain_job(4, 1e6, 1e6);
      job.execution.schedule = schedule;
      if (schedule == Schedule::interleaved) job.execution.chunks = 2;
      const Problem problem{hosts_with(4, t, instant, instant), job, {}};
      CHECK(makespan(problem, staged_plan(job, 2, 2, t, 4)) ==
            Approx(makespan(problem, staged_plan(job, 2, 2, 1, 4)) / t).epsilon(1e-6));
    }
}

TEST_CASE("t devices are never more than t times as fast as one") {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
      for (const int t : {2, 4}) {
        CAPTURE(seed, schedule, t);
        Rng rng = Rng::for_task(seed, 0);
        Job job = chain_job(8, 2e7 * rng.uniform(), 2e7 * rng.uniform());
        job.execution.schedule = schedule;
        job.execution.overlap = rng.below(2) == 1;
        if (schedule == Schedule::interleaved) job.execution.chunks = 2;
        const Link inside = link_of(0.01 * rng.uniform(), 1e8), between = link_of(0.5 * rng.uniform(), 1e7);
        const Problem problem{hosts_with(4, t, inside, between), job, {1, 0.001, 1, 0}};
        Plan one = staged_plan(job, 2, 2, t, 4);
        for (Pipeline& pipeline : one.pipelines)
          for (Stage& stage : pipeline.stages) stage.devices.resize(1);
        CHECK(makespan(problem, staged_plan(job, 2, 2, t, 4)) > makespan(problem, one) / t);
      }
}

TEST_CASE("tasks of tensor-parallel stages have unique names and come after their predecessors") {
  for (const bool overlap : {false, true}) {
    Job job = chain_job(4, 1e6, 1e6);
    job.execution.overlap = overlap;
    job.execution.compression = {0.5, 0.5, BitsPerSecond(1e9)};
    const Problem problem{hosts_with(4, 3, instant, instant), job, {}};
    const auto [graph, labels, links, starts, ends] = iteration_graph(problem, staged_plan(job, 2, 2, 3, 4));
    std::set<std::string> names;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CAPTURE(overlap, format_label(labels[i]));
      REQUIRE(names.insert(format_label(labels[i])).second);
      for (int k = 0; k < graph.tasks[i].after_count; ++k)
        REQUIRE(graph.after[at(graph.tasks[i].first_after + k)] < static_cast<int>(i));
    }
    CHECK(names.count("AR p1 s0 m3 r2 k0") == 1);
  }
}

// One layer: 0.5 s, then x = 2 · 2 · 1 s, 1 s, x. Ranks 0 and 1 compute, then wait for the network, and hold
// the micro-batch until the end.
TEST_CASE("all-reduces count as waiting for the network and hold activation memory") {
  const Job job = chain_job(1, 0, 2e6);
  const Problem problem{hosts_with(1, 2, link_of(0, 1e6), instant), job, {}};
  const LabelledGraph lowered = iteration_graph(problem, staged_plan(job, 1, 1, 2, 1));
  const Replay result = replay(lowered.graph);
  const RunInterval run_interval{RunInterval::Kind::iteration, 0, 0, result.makespan, lowered, result};
  const StageMemoryOf memory_of = [](int, int) { return StageMemory{1000, 100, 7}; };
  RunStatistics statistics(problem.topology, memory_of, {{}, {}});
  statistics.on_interval(run_interval);
  SimReport report;
  statistics.add_to(report, {0, 1}, result.makespan);
  for (const DeviceReport& device : report.devices) {
    CHECK(device.compute_s == Approx(1.5));
    CHECK(device.waiting_network_s == Approx(8));
    CHECK(device.waiting_others_s == Approx(0).margin(1e-9));
    CHECK(device.sending_s == Approx(8));
  }
  REQUIRE(report.critical_path.size() == 4);
  CHECK(report.critical_path[1].text.find("all-reduce inside a stage s0/") == 0);
  CHECK(report.critical_path[3].end_s == Approx(9.5));
  const std::vector<MemoryStep> steps = memory_steps(run_interval, memory_of);
  REQUIRE(steps.size() == 4);
  for (const std::size_t device : {0U, 1U}) {
    CHECK(steps[device].bytes == 1107);
    CHECK(steps[2 + device].bytes == 1000);
    CHECK(steps[2 + device].date == Approx(9.5));
  }
}
