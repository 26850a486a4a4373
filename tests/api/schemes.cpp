#include "planner/api/schemes/scheme.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "core/base/index.hpp"
#include "core/plan/settings.hpp"
#include "planner/api/devices/device_sets.hpp"
#include "planner/api/devices/sub_topology.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;
using namespace dtfm::sim;

namespace {

const Link fast = link_of(1e-4, 1e9), slow = link_of(0.05, 1e8);

/// Returns `per_site` devices at each of two sites, in hosts of `per_host` devices.
Problem small_problem(int per_site, int per_host, int layers) {
  Problem problem{flat_topology({per_site, per_site}, fast, slow), chain_job(layers, 1e7, 1e7),
                  Calibration{1, 0, 1, 0}};
  std::get<RuleLinks>(problem.topology.edit().links).same_host.setZero();
  for (Device& device : problem.topology.edit().devices) device.host /= per_host;
  problem.job.training.global_batch = 16;
  return problem;
}

const Scheme& scheme(std::string_view name) {
  return *std::find_if(schemes().begin(), schemes().end(), [&](const Scheme& it) { return it.name == name; });
}

const Layout* find_layout(const std::vector<Layout>& layouts, int tensor, std::size_t stages) {
  for (const Layout& it : layouts)
    if (it.plan.tensor == tensor && it.plan.pipelines.front().stages.size() == stages) return &it;
  return nullptr;
}

}  // namespace

// Rank t + T (d + D p): with D = 4 replicas of P = 2 stages, devices 0 … 3 are stage 0 of replicas 0 … 3.
TEST_CASE("Megatron ranks are in file order with replicas adjacent to each other") {
  const auto layouts = megatron_layouts(small_problem(4, 1, 4), {0});
  std::set<std::size_t> depths;
  for (const Layout& it : layouts) depths.insert(it.plan.pipelines.front().stages.size());
  CHECK(depths == std::set<std::size_t>{1, 2, 4});
  const Layout* layout = find_layout(layouts, 1, 2);
  REQUIRE(layout != nullptr);
  REQUIRE(layout->plan.pipelines.size() == 4);
  for (int d = 0; d < 4; ++d) {
    const Pipeline& pipeline = layout->plan.pipelines[at(d)];
    CHECK(pipeline.micro_batches == 4);
    CHECK(pipeline.stages[0] == Stage{{0, 2}, {d}});
    CHECK(pipeline.stages[1] == Stage{{2, 4}, {4 + d}});
  }
  CHECK(layout->plan.execution.gradient_sync == GradientSync::ring);
}

TEST_CASE("Megatron tensor degrees fit in hosts and divide the heads") {
  Problem problem = small_problem(4, 4, 4);
  CHECK(find_layout(megatron_layouts(problem, {0}), 2, 1) == nullptr);  // not a transformer
  Transformer model;
  model.layers = 4;
  model.hidden = 64;
  model.heads = 2;
  model.sequence = 16;
  model.vocabulary = 100;
  problem.job.model = model;
  const auto layouts = megatron_layouts(problem, {0});
  const Layout* two = find_layout(layouts, 2, 2);
  REQUIRE(two != nullptr);
  CHECK(two->plan.pipelines[1].stages[1].devices == std::vector<int>{6, 7});
  CHECK(two->job.parallelism.tensor == 2);
  CHECK(find_layout(layouts, 4, 1) == nullptr);  // 2 heads
  for (int i = 0; i < problem.topology->size(); ++i)
    problem.topology.edit().devices[at(i)].host = (i + 1) / 2;
  CHECK(find_layout(megatron_layouts(problem, {0}), 2, 2) == nullptr);
}

TEST_CASE("random ranks are permutations that depend on the seed only") {
  const Problem problem = small_problem(4, 1, 4);
  for (const auto of : {megatron_random_layouts, gpipe_random_layouts}) {
    const auto first = of(problem, {1}), again = of(problem, {1}), other = of(problem, {2});
    REQUIRE(first.size() == again.size());
    bool differs = false;
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].plan == again[i].plan);
      differs |= first[i].plan != other[i].plan;
      std::vector<int> devices = pipeline_major(first[i].plan);
      std::sort(devices.begin(), devices.end());
      CHECK(std::adjacent_find(devices.begin(), devices.end()) == devices.end());
      int micro_batches = 0;
      for (const Pipeline& pipeline : first[i].plan.pipelines) micro_batches += pipeline.micro_batches;
      CHECK(micro_batches == 16);
    }
    CHECK(differs);
  }
}

// 8 layers on 4 devices. Megatron's stages have equally many layers.
TEST_CASE("DeepSpeed's pipelines may have any depth, and replicas have neighbouring ranks") {
  const Problem problem = small_problem(4, 1, 8);
  bool has_three_stages = false, has_replicas = false;
  for (const Layout& it : deepspeed_layouts(problem, {0})) {
    const std::vector<Pipeline>& pipelines = it.plan.pipelines;
    CHECK(it.plan.execution.schedule == Schedule::one_f_one_b_blocking);
    CHECK(it.plan.execution.gradient_sync == GradientSync::ring);
    has_three_stages = has_three_stages || depth(it.plan) == 3;
    if (depth(it.plan) != 2 || pipelines.size() != 2) continue;
    has_replicas = true;
    for (int d = 0; d < 2; ++d)
      for (int p = 0; p < 2; ++p) CHECK(pipelines[at(d)].stages[at(p)].devices == std::vector{d + 2 * p});
  }
  CHECK(has_three_stages);
  CHECK(has_replicas);
  for (const Layout& it : megatron_layouts(problem, {0})) CHECK(depth(it.plan) != 3);
}

TEST_CASE("the fastest layout that fits in memory is chosen for any number of threads") {
  Problem problem = small_problem(4, 1, 8);
  for (const std::string_view name : {"megatron", "megatron-random", "deepspeed", "gpipe-random"}) {
    CAPTURE(name);
    const ChosenLayout chosen = choose_layout(problem, scheme(name), {3}, 1);
    REQUIRE(chosen.layout);
    CHECK(chosen.fitting == chosen.tried);
    const auto seconds = [&](const Layout& layout) {
      return undisturbed_seconds({problem.topology, layout.job, problem.constants, {}}, layout.plan);
    };
    for (const Layout& it : scheme(name).layouts(problem, {3})) CHECK(seconds(*chosen.layout) <= seconds(it));
    const ChosenLayout threaded = choose_layout(problem, scheme(name), {3}, 3);
    CHECK(threaded.layout->plan == chosen.layout->plan);
  }
}

namespace {

/// Simulated seconds of the fastest layout that fits, of all layouts of a scheme on these devices alone.
double fastest_s(const Problem& problem, const Scheme& scheme, const std::vector<int>& devices) {
  const Problem own{sub_topology(problem.topology, devices).topology, problem.job, problem.constants, {}};
  double best_s = std::numeric_limits<double>::infinity();
  try {
    for (const Layout& it : scheme.layouts(own, {3})) {
      const SimReport report = simulate({own.topology, it.job, own.constants, {}}, it.plan, {}, {});
      if (report.out_of_memory.empty()) best_s = std::min(best_s, report.iteration_time_s.mean);
    }
  } catch (const NoLayout&) {
  }
  return best_s;
}

}  // namespace

// Three kinds of devices at two sites; the slow ones have too little memory for a whole model.
TEST_CASE("a scheme is as fast as on the best of all device sets") {
  Problem problem = small_problem(4, 2, 8);
  Topology& topology = problem.topology.edit();
  topology.gpus.push_back(topology.gpus.front());
  topology.gpus.back().memory = Bytes(0.5e9);
  topology.gpus.back().name = "small";
  for (const int device : {0, 1, 2, 3}) topology.devices[at(device)].gpu = 1;
  for (const int device : {4, 5}) topology.devices[at(device)].speed = 2;
  for (const double slow_bandwidth : {1e6, 1e8, 1e10}) {
    std::get<RuleLinks>(problem.topology.edit().links).links[1] = link_of(0.05, slow_bandwidth);
    for (const std::string_view name :
         {"megatron", "megatron-random", "deepspeed", "gpipe-random", "data-parallel", "zero2", "zero3"}) {
      CAPTURE(slow_bandwidth, name);
      double best_s = std::numeric_limits<double>::infinity();
      for (const std::vector<int>& devices : device_sets(problem))
        best_s = std::min(best_s, fastest_s(problem, scheme(name), devices));
      const ChosenLayout chosen = choose_layout(problem, scheme(name), {3}, 1);
      REQUIRE(chosen.layout);
      CHECK(simulate_chosen(problem, chosen, {}, {}).iteration_time_s.mean == Approx(best_s).epsilon(1e-9));
    }
  }
}

// A layer has 1e7 parameters of 16 bytes: 0.16 GB, or 1.28 GB for 8 layers. At most 3 layers fit in GPUs of
// 0.5 GB.
TEST_CASE("layouts that exceed memory are not chosen and the smallest deficit is reported") {
  Problem problem = small_problem(4, 1, 8);
  problem.topology.edit().gpus[0].memory = Bytes(0.5e9);
  const ChosenLayout chosen = choose_layout(problem, scheme("megatron"), {0}, 1);
  REQUIRE(chosen.layout);
  CHECK(chosen.layout->plan.pipelines.front().stages.size() >= 4);
  CHECK(chosen.fitting < chosen.tried);
  const ChosenLayout none = choose_layout(problem, scheme("data-parallel"), {0}, 1);
  CHECK_FALSE(none.layout);
  CHECK(none.no_layout_reason == "does not fit: s0/0 needs 1.3 GB of 0.5");
  REQUIRE(none.fitting_changes.size() == 1);  // the optimizer's 12 of 16 bytes move to the host
  CHECK(none.fitting_changes.front().settings.front().first == Setting::optimizer);
  // an eighth of the state takes 0.16 GB, as do two gathered layers
  problem.topology.edit().gpus[0].memory = Bytes(0.3e9);
  CHECK(choose_layout(problem, scheme("zero3"), {0}, 1).layout);
}

// A stage of 4 of 8 layers has 0.64 GB of state. A micro-batch holds 4 · 100 B and buffers of 1e7 B: two at
// the first stage, for its output and the gradient of that, and one at the last stage, for its input's.
TEST_CASE("GPipe flushes as often as its memory requires") {
  Problem problem = small_problem(1, 1, 8);
  CHECK_FALSE(find_layout(gpipe_random_layouts(problem, {0}), 1, 2)->job.execution.flush);
  problem.topology.edit().gpus[0].memory = Bytes(0.64e9 + 3.5 * 2e7);
  const Layout two = *find_layout(gpipe_random_layouts(problem, {0}), 1, 2);
  CHECK(two.job.execution.flush == 3);
  CHECK(choose_layout(problem, scheme("gpipe-random"), {0}, 1).layout);
}

// Four devices at two sites: replicas of two stages are within one site each. An iteration takes t without
// synchronization and t + x with it; rounds of n take n t + x.
TEST_CASE("local SGD synchronizes in the last of every n iterations") {
  const Problem problem = small_problem(2, 1, 4);
  const auto layouts = local_sgd_layouts(problem, {0, 4});
  const Layout* two = find_layout(layouts, 1, 2);
  REQUIRE(two != nullptr);
  CHECK(two->plan.pipelines[0].stages[1].devices == std::vector<int>{1});
  CHECK(two->plan.pipelines[1].stages[0].devices == std::vector<int>{2});
  CHECK(two->sync_every == 4);
  CHECK(diloco_layouts(problem, {}).front().sync_every == 500);

  const Problem two_replicas{problem.topology, two->job, problem.constants, {}};
  const double with = undisturbed_seconds(two_replicas, two->plan),
               mean = undisturbed_seconds(two_replicas, two->plan, 4);
  const double without = (4 * mean - with) / 3;
  CHECK(without < with);
  ChosenLayout chosen;
  chosen.layout = *two;
  SimOptions options;
  options.iterations = 2;
  const SimReport report = simulate_chosen(problem, chosen, {}, options);
  REQUIRE(report.iterations.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(report.iterations[i].duration_s() == Approx(i % 4 == 3 ? with : without));
  CHECK(report.tokens_per_s == Approx(16 / mean));
}

TEST_CASE("the single-GPU scheme chooses the fastest device") {
  Problem problem = small_problem(2, 1, 2);
  problem.topology.edit().devices[2].speed = 2;
  const ChosenLayout chosen = choose_layout(problem, scheme("single-gpu"), {0}, 1);
  REQUIRE(chosen.layout);
  CHECK(chosen.tried == 2);
  CHECK(pipeline_major(chosen.layout->plan) == std::vector<int>{2});
  CHECK(chosen.layout->plan.pipelines.front().micro_batches == 16);
}

TEST_CASE("a swarm has the fastest number of stages for any number of threads") {
  const Problem problem = small_problem(4, 1, 4);
  const ChosenLayout chosen = choose_layout(problem, scheme("swarm"), {7}, 1);
  REQUIRE(chosen.swarm);
  CHECK(chosen.tried == 3);
  CHECK(chosen.fitting == 3);
  SimOptions options;
  options.iterations = swarm_trial_steps;
  options.seed = 7;
  const SimReport best = simulate_chosen(problem, chosen, {}, options);
  REQUIRE(best.iterations.size() == swarm_trial_steps);
  // The rate is that after the first step.
  CHECK(best.tokens_per_s ==
        Approx(16 * (swarm_trial_steps - 1) / (best.length_s - best.iterations[0].end_s)));
  CHECK(best.iterations[1].start_s == best.iterations[0].end_s);
  for (const int stages : {1, 2, 4}) {
    SwarmSetup setup = *chosen.swarm;
    setup.stages = stages;
    CHECK(simulate_as_swarm(problem, setup, {}, options).report.tokens_per_s <= best.tokens_per_s);
  }
  CHECK(choose_layout(problem, scheme("swarm"), {7}, 3).swarm->stages == chosen.swarm->stages);
}

// Three stages do not divide four layers. Five stages are more than the layers, and nine more than the
// devices.
TEST_CASE("a swarm has the number of stages that the job gives") {
  Problem problem = small_problem(4, 1, 4);
  for (const int stages : {1, 3, 4}) {
    problem.job.parallelism.pipeline = stages;
    const ChosenLayout chosen = choose_layout(problem, scheme("swarm"), {7}, 1);
    REQUIRE(chosen.swarm);
    CHECK(chosen.swarm->stages == stages);
    CHECK(chosen.tried == 1);
    CHECK(chosen.fitting == 1);
    CHECK(simulate_chosen(problem, chosen, {}, {}).iterations.size() > 0);
  }
  problem.job.parallelism.pipeline = 5;
  ChosenLayout none = choose_layout(problem, scheme("swarm"), {7}, 1);
  CHECK_FALSE(none.is_any());
  CHECK_FALSE(none.is_input_error);
  CHECK(none.no_layout_reason == "`pipeline: 5` in the job exceeds the 4 layers of the model");
  problem = small_problem(4, 1, 16);
  problem.job.parallelism.pipeline = 9;
  none = choose_layout(problem, scheme("swarm"), {7}, 1);
  CHECK_FALSE(none.is_any());
  CHECK(none.no_layout_reason == "`pipeline: 9` in the job exceeds the 8 devices");
}

// A layer has 0.16 GB of state, and every peer may have to serve any stage. With four stages the deficit is
// smallest.
TEST_CASE("the stages of a swarm fit every device") {
  Problem problem = small_problem(4, 1, 4);
  problem.topology.edit().gpus[0].memory = Bytes(0.4e9);
  const ChosenLayout chosen = choose_layout(problem, scheme("swarm"), {0}, 1);
  REQUIRE(chosen.swarm);
  CHECK(chosen.fitting == 2);
  CHECK(chosen.swarm->stages >= 2);
  problem.topology.edit().gpus[0].memory = Bytes(0.1e9);
  const ChosenLayout none = choose_layout(problem, scheme("swarm"), {0}, 1);
  CHECK_FALSE(none.is_any());
  CHECK(none.no_layout_reason.starts_with("does not fit: s0/0 needs 0.2 GB of 0.1"));
  // With one stage the deficit is small on the first device and much larger on the others.
  problem.topology.edit().gpus.push_back(problem.topology->gpus[0]);
  problem.topology.edit().gpus[0].memory = Bytes(0.6e9);
  for (int device = 1; device < 4; ++device) problem.topology.edit().devices[at(device)].gpu = 1;
  CHECK(choose_layout(problem, scheme("swarm"), {0}, 1)
            .no_layout_reason.starts_with("does not fit: s0/1 needs 0.2 GB of 0.1"));
}

namespace {

double rate_of(const Problem& problem, std::string_view name) {
  const ChosenLayout chosen = choose_layout(problem, scheme(name), {0}, 1);
  SimOptions options;
  options.iterations = chosen.swarm ? swarm_trial_steps : 1;
  return simulate_chosen(problem, chosen, {}, options).tokens_per_s;
}

/// Checks that the scheme is as fast with a list of values as with the fastest of them.
void check_tries_all(Problem problem, std::string_view name, Setting setting,
                     const std::vector<SettingValue>& values) {
  CAPTURE(name, name_of(setting));
  std::vector<double> rates;
  for (const SettingValue& value : values) {
    traits(setting).set(problem.job, value);
    rates.push_back(rate_of(problem, name));
  }
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  CHECK(*least < *most);
  traits(setting).set(problem.job, values.front());
  problem.job.automatic[setting] = true;
  problem.job.listed[setting] = values;
  CHECK(rate_of(problem, name) == *most);
}

}  // namespace

TEST_CASE("schemes try all values that the job lists for settings that they take from it") {
  Problem problem = small_problem(4, 1, 8);
  const std::vector<SettingValue> recomputations = {"full", "none"};
  for (const std::string_view name : {"megatron", "deepspeed", "gpipe-random", "data-parallel", "zero3",
                                      "local-sgd", "skip-pipe", "single-gpu"})
    check_tries_all(problem, name, Setting::recompute, recomputations);
  for (const std::string_view name : {"gpipe-random", "skip-pipe"})
    check_tries_all(problem, name, Setting::gradient_sync, {"central-ps", "ring"});
  problem.constants.micro_batch_overhead_s = 0.1;
  check_tries_all(problem, "swarm", Setting::micro_batch, {1, 2});
}

TEST_CASE("of values that are automatic schemes try all recomputations but one gradient synchronization") {
  Problem problem = small_problem(4, 1, 8);
  const auto tried = [&] { return choose_layout(problem, scheme("gpipe-random"), {0}, 1).tried; };
  const int once = tried();
  const auto assumed = [&] { return assumptions(scheme("gpipe-random"), {}, problem.job); };
  const std::string fixed = assumed();
  problem.job.automatic = {Setting::gradient_sync};
  CHECK(tried() == once);
  CHECK(assumed() == fixed + "; of gradient_sync auto, only sharded-ps is tried");
  problem.job.automatic = {Setting::gradient_sync, Setting::recompute};
  CHECK(tried() == once * static_cast<int>(recomputation_table().size() -
                                           4));  // without moe_act, mlp, as-needed, offload
}

// Four devices, with links so fast that all are used, and a batch of 16: micro-batches of at most 4, each
// with 100 bytes of activations per layer.
TEST_CASE("ZeRO has the job's micro-batch or, if it is open, the largest one that fits") {
  Problem problem = small_problem(2, 1, 2);
  for (Link& it : std::get<RuleLinks>(problem.topology.edit().links).links) it = fast;
  const auto chosen_size = [&] {
    const Layout layout = choose_layout(problem, scheme("zero3"), {0}, 1).layout.value();
    return std::pair(layout.job.execution.micro_batch, static_cast<int>(layout.plan.pipelines.size()));
  };
  CHECK(chosen_size() == std::pair(1, 4));
  problem.job.automatic[Setting::micro_batch] = true;
  CHECK(chosen_size() == std::pair(4, 4));
  problem.topology.edit().gpus[0].memory = Bytes(2e7 * 16 / 4 + 6e7 + 2 * (2 * 100) + 1);
  CHECK(chosen_size() == std::pair(2, 4));
  problem.job.listed[Setting::micro_batch] = {1};
  CHECK(chosen_size() == std::pair(1, 4));
  problem.job.training.global_batch = 3;
  CHECK(error_message([&] { zero3_layouts(problem, {0}); }) ==
        "a batch of 3 leaves some of 4 devices without a sequence");
}
