#include "planner/api/schemes/skip_pipe.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "simulator/model/stage_load.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;
using namespace dtfm::sim;

namespace {

Problem small_problem(int per_site, int layers) {
  Problem problem{flat_topology({per_site, per_site}, link_of(1e-4, 1e9), link_of(0.05, 1e8)),
                  chain_job(layers, 1e7, 1e7), Calibration{1, 0, 1, 0}};
  problem.job.training.global_batch = 16;
  return problem;
}

SchemeOptions skipping(double share) {
  SchemeOptions options;
  options.skip = share;
  return options;
}

const Scheme& scheme() {
  return *std::find_if(schemes().begin(), schemes().end(),
                       [](const Scheme& it) { return it.name == "skip-pipe"; });
}

std::set<std::pair<std::size_t, int>> pipeline_shapes(const Problem& problem, double share) {
  std::set<std::pair<std::size_t, int>> depths;
  for (const Layout& it : skip_pipe_layouts(problem, skipping(share)))
    depths.emplace(it.plan.pipelines.front().stages.size(), it.skipped.value());
  return depths;
}

StageLoad load_of(const Problem& problem, const Plan& plan, const Visit& place) {
  return LoadModel(problem, plan).of(plan.pipelines[at(place.pipeline)].stages[at(place.stage)]);
}

}  // namespace

// Visits of 4 stages if one of the two middle ones is skipped: 1, ½, ½, 1, in total 3. 12 devices: 4, 2, 2,
// 4; 8 devices: 2.7, 1.3, 1.3, 2.7.
TEST_CASE("a stage has devices in proportion to its visits") {
  CHECK(stage_widths(12, 4, 1) == std::vector<int>{4, 2, 2, 4});
  CHECK(stage_widths(8, 4, 1) == std::vector<int>{3, 1, 1, 3});
  CHECK(stage_widths(8, 4, 0) == std::vector<int>{2, 2, 2, 2});
  CHECK(stage_widths(12, 12, 9) == std::vector<int>(12, 1));
}

TEST_CASE("a share of whole stages is skipped and some middle stage is always visited") {
  const Problem problem = small_problem(8, 12);
  using Depths = std::set<std::pair<std::size_t, int>>;
  CHECK(pipeline_shapes(problem, 0) == Depths{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {6, 0}, {12, 0}});
  CHECK(pipeline_shapes(problem, 0.25) == Depths{{4, 1}, {6, 1}, {12, 3}});
  CHECK(pipeline_shapes(problem, 0.5) == Depths{{6, 3}, {12, 6}});
  CHECK(error_message([&] {
          skip_pipe_layouts(problem, skipping(0.9));
        }).starts_with("no number of stages divides 12 layers, fits 16 devices"));
  CHECK(pipeline_shapes(small_problem(5, 10), 0.3).count({10, 3}) == 1);
}

TEST_CASE("every device has one stage of its own or of its neighbourhood") {
  const Problem problem = small_problem(8, 4);
  for (const double share : {0.0, 0.25}) {
    const auto layouts = skip_pipe_layouts(problem, skipping(share));
    for (const Layout& it : layouts) {
      std::vector<int> devices = pipeline_major(it.plan);
      std::sort(devices.begin(), devices.end());
      CHECK(std::adjacent_find(devices.begin(), devices.end()) == devices.end());
      CHECK(total_micro_batches(it.plan) == 16);
    }
    const Layout& runs = layouts[layouts.size() - 2];  // four stages on all devices
    const Layout& balanced = layouts[layouts.size() - 1];
    REQUIRE(runs.plan.pipelines.front().stages.size() == 4);
    CHECK(runs.plan.pipelines[1].stages[0].devices == std::vector<int>{1});
    if (share == 0) {
      for (int p = 0; p < 4; ++p)
        for (int s = 0; s < 4; ++s)
          CHECK(balanced.plan.pipelines[at(p)].stages[at(s)].devices == std::vector<int>{4 * p + s});
    } else {
      CHECK(balanced.plan.pipelines.size() == 5);  // 5.3, 2.7, 2.7, 5.3
    }
  }
}

TEST_CASE("compute time is that of the visited stages and a lower bound of the iteration") {
  Problem problem = small_problem(4, 8);
  problem.topology.edit().devices[3].speed = 0.5;
  for (const double share : {0.0, 0.25}) {
    CAPTURE(share);
    const ChosenLayout chosen = choose_layout(problem, scheme(), skipping(share), 1);
    REQUIRE(chosen.layout);
    CHECK(chosen.fitting == chosen.tried);
    const Plan& plan = chosen.layout->plan;
    std::vector<double> seconds(8);
    double flops = 0;
    for (const auto& path : chosen.layout->routing->schedule.paths)
      for (const Visit& place : path) {
        const StageLoad load = load_of(problem, plan, place);
        seconds[at(plan.pipelines[at(place.pipeline)].stages[at(place.stage)].devices.front())] +=
            load.forward_s + load.backward_s;
        flops += load.model_flops;
      }
    SimOptions options;
    options.iterations = 2;
    const SimReport report = simulate_chosen(problem, chosen, {}, options);
    for (const DeviceReport& it : report.devices) {
      CHECK(it.compute_s == Approx(2 * seconds[at(it.device)]));
      CHECK(report.iterations.front().duration_s() >= seconds[at(it.device)]);
    }
    const double duration = report.iterations.back().duration_s();
    CHECK(report.tokens_per_s == Approx(16 / duration));
    CHECK(report.model_flops_per_s == Approx(flops / duration));
    const double all = 16 * 8 * 3e12;
    const auto stages = static_cast<double>(plan.pipelines.front().stages.size());
    CHECK(flops == Approx(all * (1 - *chosen.layout->skipped / stages)));
    CHECK(choose_layout(problem, scheme(), skipping(share), 3).layout->routing->schedule.order ==
          chosen.layout->routing->schedule.order);
  }
}

TEST_CASE("a layout reports what it skips") {
  const Problem problem = small_problem(4, 4);
  const ChosenLayout chosen = choose_layout(problem, scheme(), {}, 1);
  REQUIRE(chosen.layout);
  CHECK(format_shape(problem, chosen).find(", micro-batch 1, skips 1 of 4") != std::string::npos);
  ChosenLayout greedy = chosen;
  greedy.layout->routing->greedy = 7;
  CHECK(format_shape(problem, greedy).ends_with("skips 1 of 4, 7 of 16 paths greedy"));
}

// A stage of one of 4 layers has 0.16 GB of state, and each micro-batch in flight 1e7 bytes of output and 100
// of activations.
TEST_CASE("a device holds no more micro-batches than fit in its memory") {
  Problem problem = small_problem(4, 4);
  const ChosenLayout free = choose_layout(problem, scheme(), {}, 1);
  problem.topology.edit().gpus[0].memory = Bytes(0.16e9 + 2.5e7);
  const ChosenLayout tight = choose_layout(problem, scheme(), {}, 1);
  REQUIRE(tight.layout);
  SimOptions options;
  options.iterations = 1;
  const SimReport report = simulate_chosen(problem, tight, {}, options);
  CHECK(report.out_of_memory.empty());
  for (const DeviceReport& it : report.devices) CHECK(it.peak_memory_bytes <= 0.16e9 + 2.5e7);
  CHECK(report.iterations.front().duration_s() >=
        simulate_chosen(problem, free, {}, options).iterations.front().duration_s());
}

TEST_CASE("stages with different outputs are not skipped") {
  Problem problem = small_problem(4, 4);
  std::get<LayerChain>(problem.job.model).layers[1].output = Bytes(2e7);
  CHECK(choose_layout(problem, scheme(), {}, 1).no_layout_reason ==
        "none of 4 stages can be skipped: their outputs differ in size");
  CHECK(choose_layout(problem, scheme(), skipping(0), 1).layout);
}
