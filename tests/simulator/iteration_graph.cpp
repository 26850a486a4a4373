#include "simulator/iteration/iteration_graph.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "core/plan/compression.hpp"
#include "core/base/rng.hpp"
#include "core/schedule/schedule.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compute_seconds.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

const Link instant = link_of(0, 1e18);

/// Returns the bytes of all transfers of a kind.
double bytes_of(const LabelledGraph& lowered, Activity activity) {
  double sum = 0;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.labels[i].activity == activity) sum += lowered.graph.tasks[i].amount;
  return sum;
}

/// Returns two sites with shared links of every kind, heterogeneous devices, and a job that uses them.
Problem busy_problem(Schedule schedule, GradientSync sync) {
  Problem problem{flat_topology({4, 4}, link_of(0.001, 5e8), link_of(0.03, 1e8)), chain_job(8, 2e8, 3e7),
                  Calibration{1, 0.002, 0.9, 0.5}};
  Topology& topology = problem.topology.edit();
  topology.sites[0].uplink = BitsPerSecond(12e8);
  topology.devices[5].downlink = BitsPerSecond(3e8);
  topology.devices[6].speed = 0.75;
  auto& links = std::get<RuleLinks>(topology.links).links;
  links[0].shared_by_sender = true;
  links[1].capacity = BitsPerSecond(2e9);
  problem.job.execution.schedule = schedule;
  problem.job.execution.gradient_sync = sync;
  if (schedule == Schedule::interleaved) problem.job.execution.chunks = 2;
  return problem;
}

/// Returns two pipelines of four stages, each across both sites.
Plan busy_plan(const Job& job) {
  Plan plan = plan_of(job, 4, 2, 8);
  const int devices[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t s = 0; s < 4; ++s) plan.pipelines[p].stages[s].devices = {devices[p][s]};
  return plan;
}

double makespan(const Problem& problem, const Plan& plan) {
  return replay_makespan(iteration_graph(problem, plan));
}

const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                         Schedule::one_f_one_b_blocking};
const std::vector<GradientSync> syncs = {GradientSync::sharded_ps,   GradientSync::central_ps,
                                         GradientSync::ring,         GradientSync::tree,
                                         GradientSync::hierarchical, GradientSync::hierarchical_ring};

}  // namespace

TEST_CASE("tasks come after their predecessors and all can be run") {
  for (const Schedule schedule : schedules)
    for (const GradientSync sync : syncs)
      for (const bool overlap : {false, true}) {
        CAPTURE(schedule, sync, overlap);
        Problem problem = busy_problem(schedule, sync);
        problem.job.execution.overlap = overlap;
        const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
        const TaskGraph& graph = lowered.graph;
        for (std::size_t i = 0; i < graph.tasks.size(); ++i)
          for (int k = 0; k < graph.tasks[i].after_count; ++k)
            REQUIRE(graph.after[at(graph.tasks[i].first_after + k)] < static_cast<int>(i));
        REQUIRE(lowered.labels.size() == graph.tasks.size());
        REQUIRE(lowered.links.size() == graph.links.size());
        REQUIRE(replay_makespan(lowered) > 0);
      }
}

// Two stages of 1 s forward and 2 s backward, messages of 0.5 s, two micro-batches. Under 1f1b the first
// stage does F0 F1 B0 B1, the second F0 B0 F1 B1.
//   overlapped second: F0 1.5–2.5, B0 –4.5, F1 –5.5, B1 –7.5; first: B0 5–7, B1 8–10
//   blocking   first: F0 0–1, sent 1.5, F1 –2.5, sent 3; second: F0 1.5–2.5, B0 –4.5, sent 5, F1 –6,
//              B1 –8, sent 8.5; first: B1 8.5–10.5
TEST_CASE("a device with blocking sends computes on when its message has arrived") {
  const Problem problem{flat_topology({2}, link_of(0, 2e8), link_of(0, 2e8)), chain_job(2, 0, 1e8),
                        Calibration{1, 0, 1, 0}};
  Plan plan = plan_of(problem.job, 2, 1, 2);
  plan.execution.schedule = Schedule::one_f_one_b;
  CHECK(makespan(problem, plan) == Approx(10));
  plan.execution.schedule = Schedule::one_f_one_b_blocking;
  CHECK(makespan(problem, plan) == Approx(10.5));
}

TEST_CASE("every task has a unique name") {
  for (const Schedule schedule : schedules)
    for (const GradientSync sync : syncs) {
      Problem problem = busy_problem(schedule, sync);
      problem.job.execution.overlap = true;
      problem.job.execution.compression = {0.5, 0.5, BitsPerSecond(1e10)};
      const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
      std::set<std::string> names;
      for (const TaskLabel& label : lowered.labels) {
        CAPTURE(schedule, sync, format_label(label));
        REQUIRE(names.insert(format_label(label)).second);
      }
      CHECK(names.count("F p0 s3 m7") == 1);
      CHECK(names.count("step") == 1);
    }
}

// m micro-batches over p - 1 boundaries of 3e7 bytes in both directions; twice S (n - 1) for the gradients of
// a group, S = 2 layers · 2e8 parameters · 2 bytes; compressed to 1 / 4 and 1 / 2.
TEST_CASE("transfers have the bytes that the plan requires") {
  for (const GradientSync sync :
       {GradientSync::sharded_ps, GradientSync::central_ps, GradientSync::ring, GradientSync::tree}) {
    Problem problem = busy_problem(Schedule::one_f_one_b, sync);
    problem.job.execution.compression = {0.25, 0.5, std::nullopt};
    const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
    CHECK(bytes_of(lowered, Activity::send_activations) == Approx(2 * 8 * 3 * 3e7 * 0.25));
    CHECK(bytes_of(lowered, Activity::send_gradients) == Approx(2 * 8 * 3 * 3e7 * 0.25));
    CHECK(bytes_of(lowered, Activity::gradient_sync) == Approx(4 * 2 * 8e8 * 0.5));
  }
  // Interleaved: 8 stages on 4 devices, 7 boundaries.
  const Problem problem = busy_problem(Schedule::interleaved, GradientSync::ring);
  const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
  CHECK(bytes_of(lowered, Activity::send_activations) == Approx(2 * 8 * 7 * 3e7));
  CHECK(bytes_of(lowered, Activity::gradient_sync) == Approx(4 * 2 * 8e8));
}

TEST_CASE("computations have the durations that the plan requires") {
  for (const Schedule schedule : schedules)
    for (const bool overlap : {false, true}) {
      Problem problem = busy_problem(schedule, GradientSync::ring);
      problem.job.execution.overlap = overlap;
      const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
      for (int device = 0; device < 8; ++device)  // 8 micro-batches, two layers, 3 s each
        CHECK(compute_seconds(lowered, device) == Approx(8 * 2 * 3 / (device == 6 ? 0.75 : 1.0)));
    }
}

// Two stages of four layers: forward passes of 4 s, backward passes of 8 s. The first micro-batch passes both
// stages, and the others follow it one by one; the backward passes likewise.
TEST_CASE("micro-batch overhead applies once to every forward and every backward pass") {
  const double overhead = 0.25;
  const int m = 3;
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    Problem problem{flat_topology({2}, instant, instant), chain_job(8, 0, 1), {}};
    problem.job.execution.overlap = overlap;
    problem.constants.micro_batch_overhead_s = overhead;
    const double forward = 4 + overhead, backward = 8 + overhead;
    CHECK(makespan(problem, plan_of(problem.job, 2, 1, m)) == Approx((m + 1) * (forward + backward)));
    const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, 2, 1, m));
    CHECK(compute_seconds(lowered, 0) == Approx(m * (forward + backward)));
    CHECK(compute_seconds(lowered, 1) == Approx(m * (forward + backward)));
  }
}

TEST_CASE("sync efficiency has no effect without gradient synchronization") {
  Problem problem = busy_problem(Schedule::one_f_one_b, GradientSync::ring);
  const Plan alone = plan_of(problem.job, 4, 1, 8), both = busy_plan(problem.job);
  const double without_sync = makespan(problem, alone), with_sync = makespan(problem, both);
  problem.constants.sync_efficiency = 0.5;
  CHECK(makespan(problem, alone) == without_sync);
  CHECK(makespan(problem, both) > with_sync);
}

// Case p08: m = 8, p = 4. Messages of 0.4 s + a = 0.1 s hide behind forward passes of 1 s:
// (m + p - 1)(tf + tb) + 2 (p - 1)(a + S / B).
TEST_CASE("messages that are shorter than computations are hidden") {
  Job job = chain_job(4, 0, 0.4e6);
  const Topology topology = flat_topology({4}, link_of(0.1, 1e6), link_of(0.1, 1e6));
  CHECK(makespan({topology, job, {}}, plan_of(job, 4, 1, 8)) == Approx(11 * 3 + 6 * 0.5));
}

// Messages of 4 s on an open connection follow each other without their latency of 10 s: the first forward
// pass, 1 s, then 8 messages of 4 s and the latency once, the second device's last forward pass and its first
// backward pass, 8 messages back, the last backward pass: 1 + 32 + 10 + 1 + (2 + 32 + 10) + 2, as backward
// passes of 2 s keep up.
TEST_CASE("the latency of consecutive messages is paid once") {
  Job job = chain_job(2, 0, 4e6);
  const Topology topology = flat_topology({2}, link_of(10, 1e6), link_of(10, 1e6));
  CHECK(makespan({topology, job, {}}, plan_of(job, 2, 1, 8)) == Approx(1 + 32 + 10 + 1 + 2 + 32 + 10 + 2));
}

// Case p11: the first stage's last backward pass ends after (m + p - 1) 3 s, later than that of the others;
// then its ring of 4, and the fixed overhead.
TEST_CASE("gradients are synchronized after the last backward pass and before the optimizer step") {
  Job job = chain_job(4, 1e6, 0);
  job.execution.gradient_sync = GradientSync::ring;
  const Topology topology = flat_topology({16}, link_of(0.01, 1e6), link_of(0.01, 1e6));
  const Plan plan = plan_of(job, 4, 4, 8);
  // Messages without bytes take the latency: 0.01 s in each direction at every boundary.
  const double pipeline = 11 * 3 + 6 * 0.01, ring = 2 * 3 * (0.01 + 2e6 / (4 * 1e6));
  CHECK(makespan({topology, job, Calibration{1, 0, 1, 7}}, plan) == Approx(pipeline + ring + 7));
}

// Two replicas of one stage with 4 layers, one micro-batch: 4 + 8 s. Synchronizing all pairs of 2: a layer of
// 2e6 bytes takes 2 · 1 s at 1e6 B/s, as long as its backward pass. With overlap only the last layer's
// remains exposed: 12 + 2.
TEST_CASE("with overlap a layer is synchronized while the next is computed") {
  Job job = chain_job(4, 1e6, 0);
  const Topology topology = flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6));
  Plan plan = plan_of(job, 1, 2, 1);
  CHECK(makespan({topology, job, {}}, plan) == Approx(12 + 8));
  plan.execution.overlap = true;
  CHECK(makespan({topology, job, {}}, plan) == Approx(12 + 2));
}

// Three replicas of two layers, one micro-batch: 2 + 4 s. Without pieces, what layers send overlaps. The
// gradients of each, 50 MiB, are two pieces, which 2 · 2 rounds of a ring send in 2 (4 · 1 s + 4 · 25 MiB ÷
// (3 · 25 MiB/s)) = 10.67 s. The last layer has its gradients after 2 + 2 s. The first one is next.
TEST_CASE("with overlap a ring synchronizes pieces one after another") {
  constexpr double mib = 1024 * 1024;
  Job job = chain_job(2, 25 * mib, 0);
  job.execution.gradient_sync = GradientSync::ring;
  Plan plan = plan_of(job, 1, 3, 1);
  plan.execution.overlap = true;
  const Topology topology = flat_topology({3}, link_of(1, 25 * mib), link_of(1, 25 * mib));
  CHECK(makespan({topology, job, {}}, plan) == Approx(4 + 2 * 2 * (4 + 4.0 / 3)));
}

// The GPU's memory moves 8e6 B/s. An update of 1e6 parameters, 16 bytes each with adam-16, takes 2 s per
// layer (and `update` 1). Forward and backward passes store only 100 bytes and move weights of 2e6 bytes:
// 0.25 s and, twice that, 0.5 s more than 1 and 2 s.
TEST_CASE("a device updates its weights after its computations and gradient synchronization") {
  const auto updating = [](int devices) {
    Topology topology = flat_topology({devices}, link_of(0, 1e6), link_of(0, 1e6));
    topology.gpus[0].memory_bandwidth = BitsPerSecond(8 * 8e6);
    return topology;
  };
  Job job = chain_job(4, 1e6, 0);
  const double forward = 1.25, backward = 2.5, update = 2, small = 1e-3;
  const Calibration overhead{1, 0, 1, 7};
  // One device: four layers, then their update, then the fixed overhead.
  CHECK(makespan({updating(1), job, overhead}, plan_of(job, 1, 1, 3)) ==
        Approx(3 * 4 * (forward + backward) + 4 * update + 7).margin(small));
  // Two replicas: in addition, synchronizing 4 layers between all pairs takes 8 s as above.
  CHECK(makespan({updating(2), job, overhead}, plan_of(job, 1, 2, 1)) ==
        Approx(4 * (forward + backward) + 8 + 4 * update + 7).margin(small));
  // With overlap, synchronizing a later layer takes 2 s, less than a backward pass: only that of the first
  // layer remains exposed.
  job.execution.overlap = true;
  CHECK(makespan({updating(2), job, overhead}, plan_of(job, 1, 2, 1)) ==
        Approx(4 * (forward + backward) + 2 + 4 * update + 7).margin(small));
}

// Two stages of 3 layers and 1, m micro-batches: stage 1 ends its last backward pass before stage 0 and
// updates its layer meanwhile.
TEST_CASE("a stage updates as soon as it is done") {
  Job job = chain_job(4, 1e6, 0);
  Topology topology = flat_topology({2}, instant, instant);
  topology.gpus[0].memory_bandwidth = BitsPerSecond(8 * 8e6);
  Plan plan = plan_of(job, 2, 1, 1);
  plan.pipelines[0].stages[0].layers = {0, 3};
  plan.pipelines[0].stages[1].layers = {3, 4};
  const LabelledGraph lowered = iteration_graph({topology, job, {}}, plan);
  CHECK(replay_makespan(lowered) == Approx(4 * 3.75 + 3 * 2).margin(1e-3));
  const std::vector<TaskRecord> records = replay(lowered.graph).tasks;
  std::map<std::string, std::pair<double, double>> updates;
  for (std::size_t i = 0; i < records.size(); ++i)
    if (lowered.labels[i].activity == Activity::update)
      updates[format_label(lowered.labels[i])] = {records[i].start, records[i].finish};
  REQUIRE(updates.size() == 2);
  CHECK(updates["update d0"].first == Approx(4 * 3.75).margin(1e-3));
  CHECK(updates["update d1"].first == Approx(3 * 1.25 + 3.75).margin(1e-3));
  CHECK(updates["update d1"].second == Approx(3 * 1.25 + 3.75 + 2).margin(1e-3));
  CHECK(compute_seconds(lowered, 0) == Approx(3 * (3.75 + 2)).margin(1e-3));
}

TEST_CASE("interleaved: a device updates the layers of its chunks together") {
  Problem problem = busy_problem(Schedule::interleaved, GradientSync::ring);
  problem.topology.edit().gpus[0].memory_bandwidth = BitsPerSecond(8 * 16e9);
  const LabelledGraph lowered = iteration_graph(problem, busy_plan(problem.job));
  int updates = 0;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    if (lowered.labels[i].activity != Activity::update) continue;
    ++updates;
    // 2 of 8 layers of 2e8 parameters, 16 bytes each.
    const double seconds = lowered.labels[i].device == 6 ? 0.4 / 0.75 : 0.4;
    CHECK(lowered.graph.tasks[i].amount == Approx(seconds));
  }
  CHECK(updates == 8);
}

// Pipelines of [0, 2) [2, 4) and [0, 1) [1, 4): layer 0 is on (0, 2), layer 1 on (0, 3), layers 2 and 3 on
// (1, 3). Every group of two sends its bytes twice.
TEST_CASE("pipelines with different layer splits synchronize each layer among its holders") {
  Job job = chain_job(4, 1e6, 0);
  Plan plan = plan_of(job, 2, 2, 3);
  plan.pipelines[1].stages[0].layers = {0, 1};
  plan.pipelines[1].stages[1].layers = {1, 4};
  const Problem problem{flat_topology({4}, instant, instant), job, {}};
  const LabelledGraph lowered = iteration_graph(problem, plan);
  std::map<std::pair<int, int>, double> bytes;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (const TaskLabel& label = lowered.labels[i]; label.activity == Activity::gradient_sync)
      bytes[std::minmax(label.device, label.peer)] += lowered.graph.tasks[i].amount;
  CHECK(bytes == std::map<std::pair<int, int>, double>{{{0, 2}, 4e6}, {{0, 3}, 4e6}, {{1, 3}, 8e6}});
  // Another pipeline with all layers on one device, 9 micro-batches and no messages.
  plan.pipelines.push_back({9, {{{0, 4}, {4}}}});
  CHECK(makespan({flat_topology({5}, instant, instant), job, {}}, plan) == Approx(9 * 12).epsilon(1e-6));
}

TEST_CASE("a pipeline without micro-batches still synchronizes gradients") {
  Job job = chain_job(2, 1e6, 0);
  Plan plan = plan_of(job, 2, 2, 4);
  plan.pipelines[1].micro_batches = 0;
  const LabelledGraph lowered = iteration_graph({flat_topology({4}, instant, instant), job, {}}, plan);
  CHECK(replay_makespan(lowered) == Approx(5 * 3));
  CHECK(bytes_of(lowered, Activity::gradient_sync) == Approx(2 * 2 * 2e6));
}

TEST_CASE("interleaved splits the layers of a device into chunks") {
  Job job = chain_job(10, 0, 0);
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  const Plan computed = expand_virtual_stages(plan_of(job, 4, 1, 4));  // 2, 3, 2 and 3 layers
  REQUIRE(computed.pipelines[0].stages.size() == 8);
  std::vector<std::pair<int, int>> layers;
  for (const Stage& stage : computed.pipelines[0].stages) layers.push_back(stage.layers);
  CHECK(layers ==
        std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 7}, {7, 8}, {8, 10}});
  // Stages 1 and 3 have 3 layers: all in the second chunk, and all in the first one.
  Plan uneven = plan_of(job, 4, 1, 4);
  uneven.pipelines[0].stages[1].virtual_layers = {0, 3};
  uneven.pipelines[0].stages[3].virtual_layers = {3, 0};
  uneven = expand_virtual_stages(uneven);
  layers.clear();
  for (const Stage& stage : uneven.pipelines[0].stages) layers.push_back(stage.layers);
  CHECK(layers ==
        std::vector<std::pair<int, int>>{{0, 1}, {1, 1}, {1, 2}, {2, 5}, {5, 6}, {6, 9}, {9, 10}, {10, 10}});
  job.execution.chunks = 3;
  CHECK(
      error_message([&] { expand_virtual_stages(plan_of(job, 4, 1, 4)); }) ==
      "schedule interleaved: 3 chunks exceed the number of layers of a device, 2; use fewer chunks or fewer "
      "stages");
}

// Two devices per stage: each takes half of the time and half of every message.
TEST_CASE("tensor parallelism halves times and messages per device") {
  Job job = chain_job(2, 1e6, 3e6);
  Plan plan{2, {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::ring}, {}};
  plan.pipelines.push_back({4, {{{0, 1}, {0, 1}}, {{1, 2}, {2, 3}}}});
  plan.pipelines.push_back({4, {{{0, 1}, {4, 5}}, {{1, 2}, {6, 7}}}});
  const LabelledGraph lowered = iteration_graph({flat_topology({8}, instant, instant), job, {}}, plan);
  CHECK(replay_makespan(lowered) == Approx(5 * 1.5));
  CHECK(bytes_of(lowered, Activity::send_activations) == Approx(2 * 4 * 3e6));
  CHECK(bytes_of(lowered, Activity::gradient_sync) == Approx(2 * 2 * 2e6));
  std::set<std::string> names;
  for (const TaskLabel& label : lowered.labels) REQUIRE(names.insert(format_label(label)).second);
}

// One boundary, one micro-batch, 8e6 bytes at 1e6 B/s. A quarter of them takes 2 s, compressing and
// decompressing 8 s each: forward passes 2 s, backward passes 4 s, and twice 8 + 2 + 8 s.
TEST_CASE("compression can take time on both devices") {
  Job job = chain_job(2, 0, 8e6);
  job.execution.compression = {0.25, 1, BitsPerSecond(8e6)};
  const Topology topology = flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6));
  CHECK(makespan({topology, job, {}}, plan_of(job, 2, 1, 1)) == Approx(2 + 4 + 2 * 18));
  job.execution.compression.throughput.reset();
  CHECK(makespan({topology, job, {}}, plan_of(job, 2, 1, 1)) == Approx(2 + 4 + 2 * 2));
}

// Stages on devices 0 and 1 of one site and 2 of another, over 2e6 and 1e6 B/s. Messages of 8e6 bytes take 4
// s uncompressed over the first link; over the second as above 2 s, plus 8 s on either device.
TEST_CASE("adaptive compression skips links that are fast enough") {
  Job job = chain_job(3, 0, 8e6);
  job.execution.compression = {0.25, 1, BitsPerSecond(8e6)};
  job.execution.compression.bandwidth_threshold = BitsPerSecond(16e6);
  const Problem problem{flat_topology({2, 1}, link_of(0, 2e6), link_of(0, 1e6)), job, {}};
  CHECK(makespan(problem, plan_of(job, 3, 1, 1)) == Approx(3 + 6 + 2 * (4 + 18)));
}

// Replicas of a stage in one site synchronize 8e6 bytes uncompressed; over the slow link they send a quarter,
// with 8 s before and after.
TEST_CASE("gradients are compressed if any two members of a group have a slow link") {
  Job job = chain_job(1, 4e6, 0);
  job.execution.compression = {1, 0.25, BitsPerSecond(8e6)};
  job.execution.compression.bandwidth_threshold = BitsPerSecond(16e6);
  job.execution.gradient_sync = GradientSync::ring;
  const Plan plan = plan_of(job, 1, 2, 1);
  CHECK(makespan({flat_topology({2}, link_of(0, 2e6), link_of(0, 2e6)), job, {}}, plan) == Approx(3 + 4));
  CHECK(makespan({flat_topology({1, 1}, link_of(0, 2e6), link_of(0, 1e6)), job, {}}, plan) ==
        Approx(3 + 8 + 2 + 8));
  // One of three is remote: all messages are compressed, even those between the near ones.
  const Problem three{flat_topology({2, 1}, link_of(0, 2e6), link_of(0, 1e6)), job, {}};
  CHECK(makespan(three, plan_of(job, 1, 3, 1)) == Approx(3 + 8 + 4 * 2 / 3.0 + 8));
}

TEST_CASE("data that stays on a device is not compressed") {
  Job job = chain_job(2, 0, 8e6);
  job.execution.compression = {0.25, 1, BitsPerSecond(8e6)};
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  const Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), job, {}};
  CHECK(makespan(problem, plan_of(job, 1, 1, 2)) == Approx(2 * (2 + 4)));
}

// As above with 4 bits of 16 and their scales, 9/32 of the bytes; a memory that moves 1e7 B/s reads and
// writes 41/32 of 8e6 bytes in 1.025 s.
TEST_CASE("a compression preset takes the time of its memory traffic on both devices") {
  Job job = chain_job(2, 0, 8e6);
  compress_activations(job, {CompressionMethod::quantize_4_bit});
  Topology topology = flat_topology({2}, link_of(0, 1e6), link_of(0, 1e6));
  topology.gpus.front().memory_bandwidth = BitsPerSecond(8e7);
  const double seconds = 8 * 9 / 32.0 + 2 * 0.8 * 41 / 32;
  CHECK(makespan({topology, job, {}}, plan_of(job, 2, 1, 1)) == Approx(2 + 4 + 2 * seconds));
}

TEST_CASE("k times the bandwidth and speed with 1 / k of the latency take 1 / k of the time") {
  for (const Schedule schedule : schedules)
    for (const GradientSync sync : syncs) {
      CAPTURE(schedule, sync);
      const double k = 4;  // a power of two, to avoid rounding
      Problem problem = busy_problem(schedule, sync);
      const double before = makespan(problem, busy_plan(problem.job));
      for (Site& site : problem.topology.edit().sites) site.uplink = site.uplink * k;
      for (Device& device : problem.topology.edit().devices) {
        device.downlink = device.downlink * k;
        device.speed *= k;
      }
      for (Link& link : std::get<RuleLinks>(problem.topology.edit().links).links) {
        link.latency = link.latency / k;
        link.bandwidth = link.bandwidth * k;
        link.capacity = link.capacity * k;
      }
      problem.constants.message_overhead_s /= k;
      problem.constants.iteration_overhead_s /= k;
      CHECK(makespan(problem, busy_plan(problem.job)) == Approx(before / k).epsilon(1e-6));
    }
}

// Not tested for rings with contention, where ties are broken by the order of the devices.
TEST_CASE("renumbering the devices changes no time") {
  for (const Schedule schedule : schedules)
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(schedule, seed);
      const Problem problem = busy_problem(schedule, GradientSync::sharded_ps);
      const Plan plan = busy_plan(problem.job);
      std::vector<int> number(8);  // the new index of each device
      std::iota(number.begin(), number.end(), 0);
      Rng rng = Rng::for_task(seed, 0);
      rng.shuffle(std::span(number));
      Problem permuted = problem;
      auto& link_classes = std::get<RuleLinks>(permuted.topology.edit().links).link_class;
      const auto& old_link_classes = std::get<RuleLinks>(problem.topology->links).link_class;
      for (std::size_t i = 0; i < 8; ++i) {
        permuted.topology.edit().devices[at(number[i])] = problem.topology->devices[i];
        link_classes[at(number[i])] = old_link_classes[i];
      }
      Plan renamed = plan;
      for (Pipeline& pipeline : renamed.pipelines)
        for (Stage& stage : pipeline.stages) stage.devices[0] = number[at(stage.devices[0])];
      CHECK(makespan(permuted, renamed) == Approx(makespan(problem, plan)).epsilon(1e-9));
    }
}

TEST_CASE("the simulator follows the settings of the plan and not those of the job") {
  Problem problem = busy_problem(Schedule::interleaved, GradientSync::ring);
  problem.job.execution.micro_batch = 2;
  problem.job.execution.overlap = true;
  problem.job.execution.recomputation = Recomputation::full;
  problem.job.execution.compression = {0.5, 0.25, BitsPerSecond(1e10), {}, {}, BitsPerSecond(2e8)};
  const Plan plan = busy_plan(problem.job);
  const double expected = makespan(problem, plan);
  Plan flushed = plan_of(problem.job, 4, 2, 8);
  flushed.execution.schedule = Schedule::gpipe;
  flushed.execution.flush = 4;
  const double expected_flushed = makespan(problem, flushed);
  problem.job.execution = {};
  CHECK(makespan(problem, plan) == expected);
  CHECK(makespan(problem, flushed) == expected_flushed);
  CHECK(makespan(problem, busy_plan(problem.job)) != expected);
  const SimReport report = simulate(problem, plan, {}, {});
  CHECK(report.tokens_per_s * report.iteration_time_s.mean ==
        Approx(2.0 * 16 * sequence_length(problem.job.model)));
}
