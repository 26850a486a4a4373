// A reduced graph gives the times of the whole graph.
#include "simulator/iteration/plan_symmetry.hpp"

#include <map>
#include <span>
#include <string>

#include "simulator/simulate.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Sites of a few equal hosts, with random links and capacities between sites, between hosts and inside
/// hosts.
Topology regular_topology(Rng& rng) {
  Topology topology;
  topology.name = "regular";
  Gpu gpu{"one", Bytes(1e15), FlopsPerSecond(1e12)};
  gpu.peak_fp32 = gpu.peak;
  gpu.memory_bandwidth = unlimited;
  topology.gpus = {gpu};
  const auto maybe = [&](double low, double high) {
    return rng.below(2) == 0 ? BitsPerSecond(random_size(rng, low, high)) : unlimited;
  };
  const int sites = 1 + static_cast<int>(rng.below(3)), gpus = 1 << rng.below(3);
  RuleLinks rules;
  rules.table = Eigen::MatrixXi::Zero(sites, sites);
  rules.same_host = Eigen::MatrixXi::Constant(sites, sites, -1);
  const auto add_link = [&](double low, double high) {
    Link link{Seconds(random_size(rng, 1e-5, 0.1)), BitsPerSecond(random_size(rng, low, high))};
    link.shared_by_sender = rng.below(3) == 0;
    if (rng.below(3) == 0) link.capacity = BitsPerSecond(link.bandwidth.value() * (1 + 10 * rng.uniform()));
    rules.links.push_back(link);
    return static_cast<int>(rules.links.size()) - 1;
  };
  for (int site = 0; site < sites; ++site) {
    topology.sites.push_back({fmt::format("s{}", site), maybe(1e9, 1e11), maybe(1e9, 1e11)});
    rules.same_host(site, site) = add_link(1e10, 1e12);
    for (int other = 0; other < sites; ++other) rules.table(site, other) = add_link(1e8, 1e11);
  }
  const BitsPerSecond uplink = maybe(1e9, 1e11), downlink = maybe(1e9, 1e11);
  const BitsPerSecond host_uplink = maybe(1e9, 1e11), host_downlink = maybe(1e9, 1e11);
  int host = 0;
  for (int site = 0; site < sites; ++site)
    for (int hosts = 2 + static_cast<int>(rng.below(5)); hosts > 0; --hosts, ++host) {
      const double speed = rng.below(8) == 0 ? 0.5 : 1;
      for (int i = 0; i < gpus; ++i) {
        Device device;
        device.id = fmt::format("s{}/{}:{}", site, host, i);
        device.site = site;
        device.host = host;
        device.gpu = 0;
        device.speed = speed;
        device.uplink = uplink;
        device.downlink = downlink;
        device.host_uplink = host_uplink;
        device.host_downlink = host_downlink;
        topology.devices.push_back(device);
        rules.link_class.push_back(site);
      }
    }
  topology.links = std::move(rules);
  return topology;
}

/// Equal stages on the devices in file order, in transposed order, or in any order. The last pipelines may
/// have one micro-batch less than the first.
Plan regular_plan(Rng& rng, Problem& problem) {
  Job& job = problem.job;
  const int devices = problem.topology->size(), tensor = rng.below(3) == 0 && devices % 2 == 0 ? 2 : 1;
  const int groups = devices / tensor, chunks = job.execution.chunks.value_or(1);
  const int stages = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(std::min(4, groups))));
  const int replicas = groups / stages, micro_batches = stages * (1 + static_cast<int>(rng.below(3)));
  std::vector<int> order;
  const bool transposes = rng.below(2) == 0;
  for (int i = 0; i < stages * replicas; ++i)
    order.push_back(transposes ? i % stages * replicas + i / stages : i);
  if (rng.below(4) == 0) rng.shuffle(std::span<int>(order));
  const int longer = static_cast<int>(rng.below(static_cast<std::uint32_t>(replicas + 1)));
  Plan plan{tensor, job.execution, {}};
  job.training.global_batch = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    Pipeline pipeline{micro_batches + (replica < longer ? stages : 0), {}};
    for (int stage = 0; stage < stages; ++stage) {
      Stage it{even_split(layer_count(job.model), stages, stage), {}};
      for (int rank = 0; rank < tensor; ++rank)
        it.devices.push_back(order[at(replica * stages + stage)] * tensor + rank);
      pipeline.stages.push_back(it);
    }
    job.training.global_batch += pipeline.micro_batches;
    plan.pipelines.push_back(pipeline);
  }
  REQUIRE(chunks * stages <= layer_count(job.model));
  return plan;
}

/// When the messages between two devices arrive, by the name of the message.
std::map<std::string, double> arrivals(const LabelledGraph& lowered) {
  const Replay result = replay(lowered.graph);
  std::map<std::string, double> arrivals;
  for (std::size_t i = 0; i < result.tasks.size(); ++i) {
    REQUIRE(result.tasks[i].state == TaskState::done);
    if (lowered.labels[i].activity == Activity::gradient_sync ||
        lowered.labels[i].activity == Activity::all_gather)
      arrivals[format_label(lowered.labels[i])] = result.tasks[i].finish;
  }
  arrivals["end"] = result.makespan;
  return arrivals;
}

/// One kind of link inside sites and one between them, with a limited uplink per site.
Problem uniform_problem(int sites, int devices_per_site) {
  Problem problem{
      flat_topology(std::vector<int>(at(sites), devices_per_site), link_of(1e-5, 1e9), link_of(0.02, 1e8)),
      chain_job(8, 1e8, 1e6), Calibration()};
  for (Site& site : problem.topology.edit().sites) site.uplink = BitsPerSecond(1e10);
  return problem;
}

}  // namespace

TEST_CASE("a reduced graph has the times of the whole graph") {
  int reduced_graphs = 0;
  for (std::uint64_t number = 0; number < repetitions(800); ++number) {
    Rng rng = Rng::for_task(91, number);
    Problem problem{regular_topology(rng), random_chain_job(rng, 8), Calibration{1, 1e-3, 0.9, 0.1}};
    problem.topology.edit().fairness = rng.below(3) == 0 ? Fairness::rtt : Fairness::equal;
    set_training(rng, problem.job);
    problem.job.execution.tied_embedding_sync = number % 3 == 0;
    if (number % 3 == 0) tie_last_layer(problem.job);
    problem.job.execution.iteration_barrier = number % 2 == 0;
    const Plan plan = rng.below(5) == 0 ? arbitrary_plan(rng, problem, 2 - problem.topology->size() % 2, true)
                                        : regular_plan(rng, problem);
    INFO("problem " << number);
    const LabelledGraph whole = iteration_graph(problem, plan),
                        reduced = reduced_iteration_graph(problem, plan);
    const auto expected = arrivals(whole);
    for (const auto& [name, seconds] : arrivals(reduced)) {
      INFO(name);
      REQUIRE(expected.count(name) == 1);
      CHECK(seconds == Approx(expected.at(name)).epsilon(1e-9));
    }
    CHECK(steady_seconds(reduced) == Approx(steady_seconds(whole)).epsilon(1e-9));
    REQUIRE(reduced.labels.size() <= whole.labels.size());
    if (reduced.labels.size() < whole.labels.size()) ++reduced_graphs;
  }
  CHECK(reduced_graphs > repetitions(100));
}

TEST_CASE("a reduced graph of a sharded optimizer has the times of the whole graph") {
  int reduced_graphs = 0;
  for (std::uint64_t number = 0; number < repetitions(200); ++number) {
    Rng rng = Rng::for_task(92, number);
    Problem problem{regular_topology(rng), random_chain_job(rng, 8), Calibration{1, 1e-3, 0.9, 0.1}};
    set_training(rng, problem.job);
    problem.job.execution.gradient_sync = number % 4 == 0 ? GradientSync::ring : GradientSync::sharded_ps;
    problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
    const Plan plan = regular_plan(rng, problem);
    INFO("problem " << number);
    const LabelledGraph whole = iteration_graph(problem, plan),
                        reduced = reduced_iteration_graph(problem, plan);
    const auto expected = arrivals(whole);
    for (const auto& [name, seconds] : arrivals(reduced)) {
      INFO(name);
      REQUIRE(expected.count(name) == 1);
      CHECK(seconds == Approx(expected.at(name)).epsilon(1e-9));
    }
    if (reduced.labels.size() < whole.labels.size()) ++reduced_graphs;
  }
  CHECK(reduced_graphs > repetitions(30));
}

TEST_CASE("an undisturbed iteration is that of a full simulation") {
  for (const GradientSync sync : {GradientSync::sharded_ps, GradientSync::hierarchical}) {
    Problem problem = uniform_problem(3, 8);
    problem.job.execution.gradient_sync = sync;
    const Plan plan = plan_of(problem.job, 2, 12, 4);
    SimOptions options;
    options.iterations = 1;
    const SimReport report = simulate(problem, plan, {}, options);
    const UndisturbedIteration iteration = simulate_undisturbed(problem, plan);
    CHECK(iteration.is_complete);
    CHECK(iteration.seconds == Approx(report.iteration_time_s.mean).epsilon(1e-12));
    CHECK(iteration.exceeds_memory == !report.out_of_memory.empty());
    problem.topology.edit().gpus.front().memory = Bytes(1e6);
    CHECK(simulate_undisturbed(problem, plan).exceeds_memory);
  }
}

TEST_CASE("an undisturbed iteration can be stopped") {
  const Problem problem = uniform_problem(1, 4);
  // More event times than dates_per_stop_check.
  const Plan plan = plan_of(problem.job, 2, 2, dates_per_stop_check);
  CHECK(simulate_undisturbed(problem, plan).is_complete);
  CHECK_FALSE(simulate_undisturbed(problem, plan, [] { return true; }).is_complete);
  CHECK_THROWS_AS(reduced_iteration_graph(problem, plan, [] { return true; }), WorkStopped);
}

// 8 sites of n interchangeable replicas: one representative and one twin per site, so the number of messages
// does not depend on n.
TEST_CASE("the size of a reduced graph does not depend on the number of interchangeable replicas") {
  for (const GradientSync sync :
       {GradientSync::sharded_ps, GradientSync::central_ps, GradientSync::hierarchical}) {
    std::vector<std::size_t> tasks;
    for (const int per_site : {4, 32, 128}) {
      Problem problem = uniform_problem(8, per_site);
      problem.job.execution.gradient_sync = sync;
      tasks.push_back(
          reduced_iteration_graph(problem, plan_of(problem.job, 1, 8 * per_site, 1)).graph.tasks.size());
    }
    CHECK(tasks[1] == tasks[0]);
    CHECK(tasks[2] == tasks[0]);
  }
}

TEST_CASE("pipelines on one host, and with different micro-batches, do not represent each other") {
  Problem problem = uniform_problem(1, 6);
  Plan plan = plan_of(problem.job, 1, 6, 1);
  plan.pipelines[1].micro_batches = 2;
  problem.topology.edit().devices[3].host = problem.topology->devices[2].host;
  std::get<RuleLinks>(problem.topology.edit().links).same_host(0, 0) = 0;
  const auto [reduced, symmetry] = reduce_by_symmetry(problem.topology, plan);
  // {0, 4, 5}, {1}, {2, 3}: the devices of a shared host are one block.
  REQUIRE(reduced.pipelines.size() == 4);
  CHECK(symmetry.representative == std::vector{0, 1, 2, 3, 0, 0});
  CHECK(symmetry.blocks == std::vector{3, 1, 1, 1, 3, 3});
  CHECK(symmetry.twin == std::vector{4, no_index, no_index, no_index, no_index, no_index});
}
