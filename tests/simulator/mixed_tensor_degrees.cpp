// Stages of different tensor degrees, and which of their shards correspond.
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/rng.hpp"
#include "core/plan/shards.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

const Link instant = link_of(0, 1e18);

/// Returns hosts with the given numbers of GPUs at one site.
Topology hosts_of(const std::vector<int>& gpus, Link inside, Link between) {
  int all = 0;
  for (const int count : gpus) all += count;
  Topology topology = flat_topology({all}, between, between);
  int device = 0;
  for (std::size_t host = 0; host < gpus.size(); ++host)
    for (int i = 0; i < gpus[host]; ++i) topology.devices[at(device++)].host = static_cast<int>(host);
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.links.push_back(inside);
  rules.same_host(0, 0) = 2;
  return topology;
}

/// Returns pipelines whose stages have the given numbers of devices, assigned in order.
Plan degrees_plan(const Job& job, const std::vector<std::vector<int>>& degrees, int micro_batches) {
  Plan plan{1, job.execution, {}};
  int next = 0;
  for (const std::vector<int>& of_pipeline : degrees) {
    Pipeline pipeline{micro_batches, {}};
    const int stages = static_cast<int>(of_pipeline.size());
    for (int stage = 0; stage < stages; ++stage) {
      pipeline.stages.push_back({even_split(layer_count(job.model), stages, stage), {}});
      for (int rank = 0; rank < of_pipeline[at(stage)]; ++rank)
        pipeline.stages.back().devices.push_back(next++);
      plan.tensor = std::max(plan.tensor, of_pipeline[at(stage)]);
    }
    plan.pipelines.push_back(pipeline);
  }
  return plan;
}

std::vector<const Task*> tasks_of(const LabelledGraph& lowered, Activity activity) {
  std::vector<const Task*> tasks;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.labels[i].activity == activity) tasks.push_back(&lowered.graph.tasks[i]);
  return tasks;
}

double makespan(const Problem& problem, const Plan& plan) {
  return replay_makespan(iteration_graph(problem, plan));
}

}  // namespace

TEST_CASE("a part belongs to the shard that contains it") {
  std::vector<int> of_two, of_four;
  for (int part = 0; part < 4; ++part) {
    of_two.push_back(rank_of_part(part, 4, 2));
    of_four.push_back(rank_of_part(part, 4, 4));
    CHECK(rank_of_part(part, 4, 1) == 0);
  }
  CHECK(of_two == std::vector<int>{0, 0, 1, 1});
  CHECK(of_four == std::vector<int>{0, 1, 2, 3});
}

// Stage 0 has two devices: the forward pass of its two layers takes 2 (0.5 + x), the backward pass 2 (1 + x),
// with x = 2 · 2 (0.01 + 1) s for the all-reduces of a layer. Stage 1 has one device: 2 s and 4 s. The halves
// of a message are sent at the same time over separate links, 0.2 + 3 s.
TEST_CASE("a message has as many parts as the larger of two stages has devices") {
  const Job job = chain_job(4, 0, 2e6);
  const double x = 4 * 1.01, wide = 2 * (0.5 + x) + 2 * (1 + x);
  for (const auto& degrees : {std::vector{2, 1}, std::vector{1, 2}}) {
    CAPTURE(degrees);
    const Problem problem{hosts_of(degrees, link_of(0.01, 1e6), link_of(0.2, 1e6 / 3)), job, {}};
    CHECK(makespan(problem, degrees_plan(job, {degrees}, 1)) == Approx(wide + 6 + 2 * 3.2));
  }
}

TEST_CASE("total bytes do not depend on the degrees and a boundary has max(a b) messages") {
  const Job job = chain_job(6, 0, 3e6);
  const Problem problem{hosts_of({8, 8, 8}, instant, instant), job, {}};
  for (const auto& [degrees, messages] :
       {std::pair(std::vector{4, 2, 1}, 4 + 2), std::pair(std::vector{1, 3, 6}, 3 + 6),
        std::pair(std::vector{2, 8, 2}, 8 + 8)}) {
    CAPTURE(degrees);
    const LabelledGraph lowered = iteration_graph(problem, degrees_plan(job, {degrees}, 5));
    for (const Activity activity : {Activity::send_activations, Activity::send_gradients}) {
      const auto sent = tasks_of(lowered, activity);
      CHECK(sent.size() == at(5 * messages));
      double bytes = 0;
      for (const Task* task : sent) bytes += task->amount;
      CHECK(bytes == Approx(5 * 2 * 3e6));
    }
  }
}

// Each stage of l layers on t devices computes 3 l ÷ t s; a single micro-batch passes the stages one after
// the other.
TEST_CASE("with instant links a stage is faster in proportion to its devices") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const Job job = chain_job(8, 0, 1e6);
    std::vector<int> degrees;
    for (int stage = 0; stage < 4; ++stage) degrees.push_back(1 << rng.below(4));
    const Problem problem{hosts_of({8, 8, 8, 8}, instant, instant), job, {}};
    double seconds = 0;
    for (const int degree : degrees) seconds += 2.0 * 3 / degree;
    CHECK(makespan(problem, degrees_plan(job, {degrees}, 1)) == Approx(seconds));
  }
}

// The gradients of 4 layers have 8e6 bytes, over 1e6 bytes per second. The stage of one device computes 12 s;
// that of two is done before. With sharded-ps, two devices send half of each of its two parts in each
// direction, 4e6 bytes in total, over separate links.
TEST_CASE("every part of the gradients is synchronized by the devices that hold it") {
  const Job job = chain_job(4, 1e6, 0);
  const Link link = link_of(0, 1e6);
  const Problem problem{hosts_of({2, 1, 1}, link, link), job, {}};
  CHECK(makespan(problem, degrees_plan(job, {{2}, {1}}, 1)) == Approx(12 + 4));
  // With three replicas each device sends thirds of a part, 4e6 ÷ 3 bytes. The two stages of one device send
  // each other both parts over one link, one after the other: 4 messages.
  const LabelledGraph three = iteration_graph(problem, degrees_plan(job, {{2}, {1}, {1}}, 1));
  CHECK(replay_makespan(three) == Approx(12 + 4 * 4.0 / 3));
  // All of them in both directions: 2 (n − 1) S.
  double bytes = 0;
  for (const Task* task : tasks_of(three, Activity::gradient_sync)) bytes += task->amount;
  CHECK(bytes == Approx(2 * 2 * 8e6));
}

// In pipeline 0, layers 0 and 1 are on one device, 2 and 3 on two; in pipeline 1, all are on two devices. All
// gradients are split into two parts. Pipeline 1 computes 6 s. Pipeline 0 does 4 + 2 s backward after 2 + 1 s
// forward: the last 2 layers are done after 5 s, the first 2 after 9 s. 2 layers are 2 MB per part.
TEST_CASE("pipelines with different degrees at different layers synchronize layer by layer") {
  const Job job = chain_job(4, 1e6, 0);
  const Link link = link_of(0, 1e6);
  const Problem problem{hosts_of({1, 2, 2}, link, link), job, {}};
  CHECK(makespan(problem, degrees_plan(job, {{1, 2}, {2}}, 1)) == Approx(9 + 2));
}

TEST_CASE("tasks of stages of different degrees have unique names and come after their predecessors") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const bool overlap : {false, true}) {
      CAPTURE(schedule, overlap);
      Job job = chain_job(8, 1e6, 1e6);
      job.execution.schedule = schedule;
      job.execution.overlap = overlap;
      if (schedule == Schedule::interleaved) job.execution.chunks = 2;
      job.execution.compression = {0.5, 0.5, BitsPerSecond(1e9)};
      const Problem problem{hosts_of({4, 4, 4, 4, 4}, instant, instant), job, {}};
      const auto [graph, labels, links, starts, ends] =
          iteration_graph(problem, degrees_plan(job, {{4, 2}, {1, 4}, {1, 1}, {2, 2}}, 4));
      std::set<std::string> names;
      for (std::size_t i = 0; i < labels.size(); ++i) {
        CAPTURE(format_label(labels[i]));
        REQUIRE(names.insert(format_label(labels[i])).second);
        for (int k = 0; k < graph.tasks[i].after_count; ++k)
          REQUIRE(graph.after[at(graph.tasks[i].first_after + k)] < static_cast<int>(i));
      }
      CHECK(makespan(problem, degrees_plan(job, {{4, 2}, {1, 4}, {1, 1}, {2, 2}}, 4)) > 0);
    }
}

TEST_CASE("shards that overlap in part are rejected") {
  const Job job = chain_job(4, 1e6, 0);
  const Problem problem{hosts_of({8}, instant, instant), job, {}};
  const auto rejection_message = [&](const std::vector<std::vector<int>>& degrees) -> std::string {
    try {
      iteration_graph(problem, degrees_plan(job, degrees, 1));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(rejection_message({{2, 4}, {1}}) == "");
  CHECK(rejection_message({{2, 3}, {1}}) ==
        "stage 0 of pipeline 0 has 2 devices and stage 1 of pipeline 0 has 3: of any two tensor degrees, "
        "the larger must be a multiple of the smaller");
  CHECK(rejection_message({{1, 3}, {2}})
            .find("stage 0 of pipeline 1 has 2 devices and stage 1 of pipeline 0 has 3") == 0);
}

// 12 bytes of weights and optimizer state per parameter: 48e6 bytes for 4 layers.
TEST_CASE("a rejoining device fetches every part from a device that has it") {
  const Job job = chain_job(4, 1e6, 0);
  const Problem problem{hosts_of({2, 1}, instant, instant), job, {}};
  const Plan plan = degrees_plan(job, {{2}, {1}}, 1);
  const std::vector<StageShard> wanted = stage_shards(problem.topology, plan, {true, true});
  const auto to_one =
      plan_fetches(problem, plan, wanted, stage_shards(problem.topology, plan, {true, false}));
  REQUIRE(to_one.size() == 2);
  for (int part = 0; part < 2; ++part) {
    CHECK(to_one[at(part)].to == 2);
    CHECK(to_one[at(part)].from == part);
    CHECK(to_one[at(part)].bytes == Approx(24e6));
    CHECK(to_one[at(part)].layers == std::pair(0, 4));
  }
  const auto to_two =
      plan_fetches(problem, plan, wanted, stage_shards(problem.topology, plan, {false, true}));
  REQUIRE(to_two.size() == 2);
  for (int part = 0; part < 2; ++part) {
    CHECK(to_two[at(part)].to == part);
    CHECK(to_two[at(part)].from == 2);
    CHECK(to_two[at(part)].bytes == Approx(24e6));
  }
}
