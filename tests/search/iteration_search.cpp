#include "planner/search/iteration_time/iteration_search.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/index.hpp"
#include "core/plan/settings.hpp"
#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/search/iteration_time/device_order.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/plan_enumeration.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

/// Returns layers of 1 s forward and 2 s backward at speed 1, and messages of 1 s inside a site and 4 s
/// between sites.
Problem small_problem(const std::vector<int>& per_site, int layers, int micro_batches) {
  Problem problem{
      flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}};
  problem.job.training.global_batch = micro_batches;
  return problem;
}

IterationSearchOptions search_options(long long evaluations = 20'000) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  return options;
}

/// Returns the minimum estimate over all plans of one shape in which every pipeline has the same layers.
double min_of_shape(const IterationModel& model, int stages, int replicas) {
  const int devices = model.problem.topology->size(), layers = model.stages.layers();
  const int batches = model.problem.job.training.global_batch;
  double least = 1e300;
  std::vector<int> order(at(devices)), layer_counts, batch_counts;
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> seen;
  do {
    std::vector<int> used(order.begin(), order.begin() + stages * replicas);
    if (!seen.empty() && seen.back() == used) continue;  // the rest of the order is unused
    seen.push_back(used);
    for_each_composition(layers, stages, layer_counts, [&] {
      for_each_composition(batches, replicas, batch_counts, [&] {
        Plan plan{1, model.problem.job.execution, {}};
        for (int replica = 0; replica < replicas; ++replica) {
          Pipeline pipeline{batch_counts[at(replica)], {}};
          int first = 0;
          for (int stage = 0; stage < stages; ++stage) {
            pipeline.stages.push_back(
                {{first, first + layer_counts[at(stage)]}, {used[at(replica * stages + stage)]}});
            first += layer_counts[at(stage)];
          }
          plan.pipelines.push_back(std::move(pipeline));
        }
        least = std::min(least, estimate_iteration(model, plan).iteration_s);
      });
    });
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

double min_of_all(const Problem& problem) {
  const IterationModel model(problem);
  double least = 1e300;
  for (int stages = 1; stages <= std::min(problem.topology->size(), model.stages.layers()); ++stages)
    for (int replicas = 1;
         stages * replicas <= problem.topology->size() && replicas <= problem.job.training.global_batch;
         ++replicas)
      least = std::min(least, min_of_shape(model, stages, replicas));
  return least;
}

}  // namespace

TEST_CASE("the search finds the exhaustive optimum even with heterogeneous devices") {
  for (const int slow : {0, 1, 2}) {
    Problem problem = small_problem({2, 2}, 4, 4);
    for (int device = 0; device < slow; ++device) problem.topology.edit().devices[at(device)].speed = 0.5;
    CAPTURE(slow);
    const double least = min_of_all(problem);
    const IterationSearchResult found = search_iteration(problem, search_options());
    CHECK(found.finalists.front().iteration_s <= least * 1.0001);
  }
}

TEST_CASE("with equally many half-speed and fast devices the search finds the exhaustive optimum") {
  for (const bool by_site : {true, false}) {
    Problem problem = small_problem({3, 3}, 6, 5);
    for (int device = 0; device < 6; ++device)
      if (by_site ? device >= 3 : device % 2 == 1) problem.topology.edit().devices[at(device)].speed = 0.5;
    CAPTURE(by_site);
    CHECK(search_iteration(problem, search_options()).finalists.front().iteration_s <=
          min_of_all(problem) * 1.0001);
  }
}

TEST_CASE("two kinds of devices share the work in proportion to their speeds") {
  // One pipeline of a fast and a half-speed device with 9 layers and many micro-batches: 6 layers of 1 s on
  // the fast device take as long as 3 of 2 s on the other.
  Problem problem = small_problem({2}, 9, 64);
  problem.topology.edit().devices[1].speed = 0.5;
  IterationSearchOptions options = search_options();
  options.limits.stages = 2;
  const PlanCandidate found = search_iteration(problem, options).finalists.front();
  for (const Stage& stage : found.plan.pipelines.front().stages)
    CHECK(stage.layers.second - stage.layers.first == (stage.devices.front() == 0 ? 6 : 3));
}

TEST_CASE("a device that would slow down the others is unused") {
  const Problem before = small_problem({4, 4}, 8, 32);
  const double without = search_iteration(before, search_options()).finalists.front().iteration_s;
  SECTION("because it is slow") {
    Problem problem = small_problem({4, 5}, 8, 32);
    problem.topology.edit().devices.back().speed = 1e-3;
    const PlanCandidate found = search_iteration(problem, search_options()).finalists.front();
    CHECK(found.iteration_s <= without * 1.01);
    for (const int device : pipeline_major(found.plan)) CHECK(device != 8);
  }
  SECTION("because it is so slow that no plan can use it and the search ignores it") {
    for (const int place : {0, 3, 8}) {
      CAPTURE(place);
      Problem problem = small_problem({4, 5}, 8, 32);
      problem.topology.edit().devices[at(place)].speed = 1e-3;
      Problem absent = small_problem(place < 4 ? std::vector{3, 5} : std::vector{4, 4}, 8, 32);
      const double found = search_iteration(problem, {}).finalists.front().iteration_s;
      CHECK(found == search_iteration(absent, {}).finalists.front().iteration_s);
    }
  }
  SECTION("because its access link is slow") {
    Problem problem = small_problem({4, 5}, 8, 32);
    problem.topology.edit().devices.back().uplink = problem.topology.edit().devices.back().downlink =
        BitsPerSecond(1);
    const PlanCandidate found = search_iteration(problem, search_options()).finalists.front();
    CHECK(found.iteration_s <= without * 1.01);
    for (const int device : pipeline_major(found.plan)) CHECK(device != 8);
  }
}

TEST_CASE("a model that fits one device stays there if the network is slow") {
  Problem problem{flat_topology({1, 1}, link_of(0.01, 100), link_of(1, 1)), chain_job(4, 1000, 1000), {}};
  problem.job.training.global_batch = 2;
  // One device alone: 2 micro-batches × 4 layers × 3 s. Sending gradients or activations takes minutes.
  const PlanCandidate found = search_iteration(problem, search_options()).finalists.front();
  CHECK(found.shape() == Shape{1, 1});
  CHECK(found.iteration_s == Approx(24));
}

TEST_CASE("the same seed gives the same plans for any number of threads") {
  Problem problem = small_problem({3, 3, 2}, 6, 12);
  problem.topology.edit().devices[4].speed = 0.7;
  problem.job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::micro_batch};
  IterationSearchOptions options = search_options(5000);
  const IterationSearchResult first = search_iteration(problem, options);
  for (const int threads : {2, 3, 8}) {
    options.common.threads = threads;
    const IterationSearchResult other = search_iteration(problem, options);
    REQUIRE(other.finalists.size() == first.finalists.size());
    for (std::size_t i = 0; i < first.finalists.size(); ++i) {
      CHECK(other.finalists[i].plan == first.finalists[i].plan);
      CHECK(other.finalists[i].iteration_s == first.finalists[i].iteration_s);
    }
  }
}

TEST_CASE("automatic decisions are made and never make the plan worse") {
  Problem fixed = small_problem({4, 4}, 8, 32);
  const double before = search_iteration(fixed, search_options()).finalists.front().iteration_s;
  Problem open = fixed;
  open.job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::activations, Setting::gradients};
  const PlanCandidate found = search_iteration(open, search_options()).finalists.front();
  CHECK(found.iteration_s <= before * 1.001);
  CHECK(found.job->problem.job.automatic == SettingSet{});
  // Compression is free in this problem, so the plan compresses whatever it sends.
  const Compression& compression = found.job->problem.job.execution.compression;
  CHECK(std::min(compression.activations, compression.gradients) == 0.25);
}

TEST_CASE("automatic compression that is free is found as if it were given") {
  Problem given = small_problem({4, 4}, 8, 32);
  given.job.execution.compression.activations = given.job.execution.compression.gradients = 0.25;
  Problem open = small_problem({4, 4}, 8, 32);
  open.job.automatic = {Setting::activations, Setting::gradients};
  const PlanCandidate found = search_iteration(open, search_options()).finalists.front();
  const PlanCandidate expected = search_iteration(given, search_options()).finalists.front();
  CHECK(found.iteration_s == expected.iteration_s);
  CHECK(found.plan == expected.plan);
}

TEST_CASE("an automatic micro-batch is no worse than any given one whatever the shapes that each needs") {
  int larger = 0;
  for (const double memory : {600.0, 1000.0, 1500.0, 2500.0})
    for (const int devices : {3, 4}) {
      CAPTURE(memory, devices);
      Problem problem = small_problem({devices}, 6, 16);
      problem.topology.edit().gpus[0].memory = Bytes(memory);
      problem.topology.edit().devices[0].speed = 0.7;
      problem.constants.micro_batch_overhead_s = 2;
      problem.job.automatic[Setting::micro_batch] = true;
      const IterationSearchResult open = search_iteration(problem, search_options());
      problem.job.automatic[Setting::micro_batch] = false;
      for (const int size : {1, 2, 4, 8, 16}) {
        CAPTURE(size);
        problem.job.execution.micro_batch = size;
        const PlanCandidate fixed = search_iteration(problem, search_options()).finalists.front();
        CHECK_FALSE(is_better(fixed, open.finalists.front()));
      }
      larger += open.finalists.front().job->problem.job.execution.micro_batch > 1;
    }
  CHECK(larger > 0);
}

TEST_CASE("micro-batches are chosen from the list that the job gives") {
  for (const std::vector<int>& sizes : {std::vector{2, 8}, std::vector{4, 16}, std::vector{1, 2, 4, 8, 16}}) {
    Problem problem = small_problem({4}, 6, 16);
    problem.constants.micro_batch_overhead_s = 2;
    double best_s = std::numeric_limits<double>::infinity();
    for (const int size : sizes) {
      problem.job.execution.micro_batch = size;
      best_s = std::min(best_s, search_iteration(problem, search_options()).finalists.front().iteration_s);
    }
    problem.job.automatic[Setting::micro_batch] = true;
    problem.job.listed[Setting::micro_batch] = {sizes.begin(), sizes.end()};
    problem.job.execution.micro_batch = sizes.front();
    const IterationSearchResult open = search_iteration(problem, search_options());
    for (const PlanCandidate& it : open.finalists)
      CHECK(std::count(sizes.begin(), sizes.end(), it.plan.execution.micro_batch) == 1);
    CHECK(open.finalists.front().iteration_s <= best_s);
  }
}

TEST_CASE("the search chooses among the values that the job lists, and no worse than any of them") {
  Problem problem = small_problem({3, 2}, 6, 16);
  double best_s = std::numeric_limits<double>::infinity();
  for (const Schedule schedule : {Schedule::gpipe, Schedule::zero_bubble_h1})
    for (const GradientSync sync : {GradientSync::tree, GradientSync::central_ps}) {
      problem.job.execution.schedule = schedule;
      problem.job.execution.gradient_sync = sync;
      best_s = std::min(best_s, search_iteration(problem, search_options()).finalists.front().iteration_s);
    }
  problem.job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::recompute};
  problem.job.listed = {{Setting::schedule, {"gpipe", "zb-h1"}},
                        {Setting::gradient_sync, {"tree", "central-ps"}},
                        {Setting::recompute, {"none", "selective"}}};
  const IterationSearchResult open = search_iteration(problem, search_options());
  for (const PlanCandidate& it : open.finalists)
    for (const auto& [setting, listed] : problem.job.listed)
      CHECK(is_among(listed, traits(setting).get_in_plan(it.plan.execution)));
  CHECK(open.finalists.front().iteration_s <= best_s);
}

// 8 layers keep 1 GB each and an input of 1 MB. With k recomputed ones, one of which exists as a whole while
// it is computed again, (8 − k + 1) GB and k MB fit in 6.5 GB if k is 3 or more.
TEST_CASE("the search recomputes only as many layers as memory requires if their number is open") {
  Problem problem{flat_topology({1}, {}, {}), chain_job(8, 0, 1e6), {}};
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers) layer.activation_memory = Bytes(1e9);
  problem.topology.edit().gpus.front().memory = Bytes(6.5e9);
  problem.job.training.global_batch = 2;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  problem.job.automatic = {Setting::recompute, Setting::recompute_layers};
  const ExecutionConfig chosen =
      search_iteration(problem, search_options(1000)).finalists.front().plan.execution;
  CHECK(chosen.recomputation == Recomputation::full);
  CHECK(chosen.recompute_layers == 3);
  problem.topology.edit().gpus.front().memory = Bytes(9e9);
  CHECK(search_iteration(problem, search_options(1000)).finalists.front().plan.execution.recomputation ==
        Recomputation::none);
}

// Eight layers that keep 1 GB of each micro-batch, on a device of 3.6 GB and one of 40 GB. The small one is
// last, where it holds one micro-batch: three layers (and the other device takes 15 s per micro-batch), or
// four of which it recomputes two: 2 + 1 GB, and 14 s. If all are recomputed, both take 16 s.
TEST_CASE("an open recomputation is decided by stage where the memory of devices differs") {
  Problem problem{flat_topology({2}, link_of(0, 1e12), {}), chain_job(8, 0, 1e6), {}};
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers) layer.activation_memory = Bytes(1e9);
  Topology& topology = problem.topology.edit();
  topology.gpus.push_back(topology.gpus.front());
  topology.gpus[0].memory = Bytes(3.6e9);
  topology.gpus[1].memory = Bytes(40e9);
  topology.devices[1].gpu = 1;
  problem.job.training.global_batch = 12;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  IterationSearchOptions options = search_options(3000);
  options.limits.stages = 2;
  const auto found = [&](SettingSet open, Recomputation recomputation) {
    problem.job.automatic = open;
    problem.job.execution.recomputation = recomputation;
    return search_iteration(problem, options).finalists.front();
  };
  const PlanCandidate open = found({Setting::recompute}, Recomputation::none);
  CHECK(open.plan.execution.recomputation == Recomputation::as_needed);
  CHECK(open.deficit_bytes <= 0);
  std::vector<int> counts;
  for (const Stage& stage : open.plan.pipelines.front().stages)
    counts.push_back(stage.recompute_layers.value());
  CHECK(counts == std::vector{0, 2});
  for (const Recomputation uniform : {Recomputation::none, Recomputation::full}) {
    const PlanCandidate other = found({}, uniform);
    CHECK((other.deficit_bytes > 0 || other.iteration_s > 1.02 * open.iteration_s));
  }
}

// Two stages of four layers on two devices of 7.5 GB. A layer keeps 1 GB per micro-batch, and two are in
// flight on the first device: 8 GB, or 7 GB with one layer recomputed or offloaded. Recomputing a layer takes
// 1 s. Its transfer takes 0.5 s at 2 GB/s, hidden by the forward pass of 4 s, and 20 s at 0.05 GB/s. Without
// a host link, layers can only be recomputed.
TEST_CASE("a listed offload is chosen where every host link carries it, and never by auto") {
  Problem problem{flat_topology({2}, link_of(0, 1e12), {}), chain_job(8, 0, 1e6), {}};
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers) layer.activation_memory = Bytes(1e9);
  problem.topology.edit().gpus.front().memory = Bytes(7.5e9);
  problem.job.training.global_batch = 12;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  problem.job.automatic = {Setting::recompute};
  for (const RecomputationTraits& it : recomputation_table())
    problem.job.listed[Setting::recompute].emplace_back(it.name);
  IterationSearchOptions options = search_options(3000);
  options.limits.stages = 2;
  const auto found = [&](std::optional<double> bytes_per_s) {
    Gpu& gpu = problem.topology.edit().gpus.front();
    gpu.host_link.reset();
    if (bytes_per_s) gpu.host_link = BitsPerSecond(8 * *bytes_per_s);
    return search_iteration(problem, options).finalists.front();
  };
  const PlanCandidate offloaded = found(2e9), recomputed = found({}), slow = found(5e7);
  CHECK(offloaded.plan.execution.recomputation == Recomputation::offload);
  CHECK(offloaded.deficit_bytes <= 0);
  CHECK(offloaded.plan.pipelines.front().stages[0].recompute_layers == 1);
  CHECK(offloaded.plan.pipelines.front().stages[1].recompute_layers == 0);
  CHECK(recomputed.plan.execution.recomputation == Recomputation::as_needed);
  CHECK(recomputed.iteration_s > 1.05 * offloaded.iteration_s);
  CHECK(slow.plan.execution.recomputation == Recomputation::as_needed);
  CHECK(slow.iteration_s == Approx(recomputed.iteration_s));
  problem.job.listed.clear();
  CHECK(found(2e9).plan.execution.recomputation == Recomputation::as_needed);
}

// Two stages of 3 s per micro-batch, messages of 10 s. 1F1B takes (2 · 3 + 2 · 10) ÷ 2 = 13 s per
// micro-batch. With room for the micro-batches that are on their way, both stages are always busy.
TEST_CASE("an open schedule hides slow messages if memory allows") {
  Problem problem{flat_topology({1, 1}, {}, link_of(10, 1e12)), chain_job(2, 0, 100), {}};
  problem.job.training.global_batch = 200;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  IterationSearchOptions options = search_options(1000);
  options.limits = {2, 1};
  const PlanCandidate before = search_iteration(problem, options).finalists.front();
  problem.job.automatic = {Setting::schedule};
  const PlanCandidate found = search_iteration(problem, options).finalists.front();
  CHECK(before.iteration_s > 199 * 13);
  CHECK(found.iteration_s < before.iteration_s);
  CHECK(found.plan.execution.schedule != Schedule::one_f_one_b);
  problem.job.listed = {{Setting::schedule, {"1f1b", "eager-1f1b"}}};
  const PlanCandidate eager = search_iteration(problem, options).finalists.front();
  CHECK(eager.plan.execution.schedule == Schedule::eager_one_f_one_b);
  CHECK(eager.plan.pipelines.front().stages.front().warm_up == 8);  // ceil(26 ÷ 3) − 1
  CHECK(eager.iteration_s == Approx(200 * 3 + 3 + 20));
}

TEST_CASE("every sequence is trained within the limits whatever is automatic") {
  for (const int batch : {1, 3, 7, 23, 36, 40, 52})
    for (const int layers : {1, 2, 5, 12})
      for (const std::optional<int> stages :
           {std::optional<int>(), std::optional<int>(std::min(layers, 3))}) {
        Problem problem = small_problem({3, 2}, layers, batch);
        problem.job.automatic = {Setting::micro_batch, Setting::schedule, Setting::recompute,
                                 Setting::gradient_sync};
        if (batch == 36) problem.job.execution.flush = 5;
        IterationSearchOptions options = search_options(1000);
        options.limits.stages = stages;
        CAPTURE(batch, layers, stages.value_or(0));
        for (const PlanCandidate& it : search_iteration(problem, options).finalists) {
          int trained = 0;
          for (const Pipeline& pipeline : it.plan.pipelines) {
            CHECK(pipeline.micro_batches > 0);
            trained += pipeline.micro_batches * it.job->problem.job.execution.micro_batch;
          }
          CHECK(trained == batch);
          if (stages) CHECK(it.shape().stages == *stages);
          CHECK(iteration_bound(bound_inputs(it.job->model)).value <= it.iteration_s * (1 + 1e-9));
        }
      }
}

TEST_CASE("limits are kept and impossible ones are reported") {
  const Problem problem = small_problem({4}, 8, 8);
  IterationSearchOptions options = search_options(2000);
  options.limits = {2, 2};
  for (const PlanCandidate& it : search_iteration(problem, options).finalists)
    CHECK(it.shape() == Shape{2, 2});
  options.limits = {5, {}};
  CHECK_THROWS_AS(search_iteration(problem, options), NoSuchShape);
}

TEST_CASE("devices of unknown speed are unused and reported") {
  Problem problem = small_problem({3}, 4, 4);
  problem.topology.edit().devices[1].gpu = -1;
  const IterationSearchResult found = search_iteration(problem, search_options(2000));
  REQUIRE(found.unusable.size() == 1);
  CHECK(found.unusable.front().first == 1);
  for (const int device : pipeline_major(found.finalists.front().plan)) CHECK(device != 1);
}

TEST_CASE("if memory is short pipelines flush or the smallest sufficient changes are reported") {
  Problem problem = small_problem({2}, 4, 64);
  // A layer has 10 parameters of 16 bytes, so a stage of two layers has 320 B of state. A micro-batch keeps 2
  // × 100 B of activations and, at the boundary, 200 B or 100 B of buffers: 400 B and 300 B. 2,000 B hold 4
  // of them.
  problem.topology.edit().gpus[0].memory = Bytes(2000);
  IterationSearchOptions options = search_options(2000);
  options.limits = {2, 1};
  const PlanCandidate found = search_iteration(problem, options).finalists.front();
  CHECK(found.deficit_bytes == 0);
  CHECK(found.plan.execution.flush == 4);
  problem.topology.edit().gpus[0].memory = Bytes(300);
  const IterationSearchResult none = search_iteration(problem, options);
  REQUIRE(none.finalists.size() == 1);
  CHECK(none.finalists.front().deficit_bytes > 0);
  CHECK(none.shortage);
  const auto changes = feasible_changes(problem, options);
  REQUIRE_FALSE(changes.empty());
  CHECK(changes.back().kind == FeasibleChange::Kind::memory);
  CHECK(changes.back().gigabytes == 1);
}

TEST_CASE("other objectives prefer fewer or cheaper devices") {
  Problem problem = small_problem({4, 4}, 8, 32);
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(1);
  IterationSearchOptions options = search_options();
  options.objective = Objective::device_efficiency;
  // without communication
  CHECK(search_iteration(problem, options).finalists.front().shape() == Shape{1, 1});
  for (int device = 0; device < 7; ++device)
    problem.topology.edit().devices[at(device)].price = DollarsPerHour(3);
  options.objective = Objective::cost_per_token;
  CHECK(pipeline_major(search_iteration(problem, options).finalists.front().plan) == std::vector<int>{7});
  problem.topology.edit().devices[7].price.reset();
  const IterationSearchResult found = search_iteration(problem, options);
  CHECK(found.unpriced == std::vector<int>{7});
  for (const PlanCandidate& it : found.finalists)
    for (const int device : pipeline_major(it.plan)) CHECK(device != 7);
  for (Device& device : problem.topology.edit().devices) device.price.reset();
  CHECK_THAT(error_message([&] { search_iteration(problem, options); }),
             contains("no device has a price, which cost-per-token needs"));
}

TEST_CASE("egress counts if the objective is cost") {
  // Two devices per site at 3.6 USD/h, 1e-3 USD per second; 8 layers and 32 micro-batches are 768 s of work.
  // Hops inside a site are fast; between the sites every byte is so expensive that no plan sends any.
  Problem problem = small_problem({2, 2}, 8, 32);
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(3.6);
  problem.constants.iteration_overhead_s = 100;  // makes two devices slightly more expensive than one
  std::get<RuleLinks>(problem.topology.edit().links).links[1].egress = DollarsPerByte(1);
  IterationSearchOptions options = search_options();
  options.objective = Objective::cost_per_token;
  options.limits.stages = 2;
  const PlanCandidate found = search_iteration(problem, options).finalists.front();
  CHECK(found.egress_usd == 0);
  CHECK(found.score ==
        Approx(found.iteration_s * 1e-3 * static_cast<double>(pipeline_major(found.plan).size())));
  // Four stages need one of the expensive hops: 32 micro-batches of 100 bytes in each direction.
  options.limits.stages = 4;
  const PlanCandidate four = search_iteration(problem, options).finalists.front();
  CHECK(four.egress_usd == Approx(32 * 200));
  CHECK(four.score == Approx(four.iteration_s * 4e-3 + 32 * 200));
}

TEST_CASE("nearby devices are adjacent in the order at every scale") {
  Topology topology = flat_topology({3, 3}, link_of(0.01, 100), link_of(1, 1));
  const NetworkCost network(topology, Calibration{});
  const std::vector<int> order = nearness_order(topology, network, 100);
  std::vector<int> sites;
  for (const int device : order) sites.push_back(topology.devices[at(device)].site);
  CHECK(sites == std::vector<int>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("a tensor-parallel group has devices of one host only") {
  Topology topology = flat_topology({5}, link_of(0.01, 100), link_of(1, 1));
  const int hosts[] = {0, 1, 0, 1, 2};
  for (int device = 0; device < 5; ++device) topology.devices[at(device)].host = hosts[device];
  CHECK(stage_tensor_groups(topology, {4, 3, 2, 1, 0}, 2) == std::vector<std::vector<int>>{{1, 3}, {0, 2}});
  CHECK(stage_tensor_groups(topology, {4, 3, 2, 1, 0}, 1).size() == 5);
}
