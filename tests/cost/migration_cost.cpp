#include "planner/cost/iteration_time/migration_cost.hpp"

#include <algorithm>
#include <map>

#include "planner/cost/iteration_time/stage_cost.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

/// Returns devices of two sites with 100 bytes/s and 0.01 s inside, 25 bytes/s and 0.1 s between. A layer has
/// 10 parameters, for each of which adam-16 saves 12 bytes: 120 bytes per layer.
Problem small_problem(const std::vector<int>& per_site, int layers) {
  return {flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}, {}};
}

Plan plan_with(std::vector<std::vector<Stage>> pipelines) {
  Plan plan{1, {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::sharded_ps}, {}};
  for (auto& stages : pipelines) plan.pipelines.push_back({1, std::move(stages)});
  for (const Pipeline& pipeline : plan.pipelines)
    plan.tensor = std::max(plan.tensor, static_cast<int>(pipeline.stages.front().devices.size()));
  return plan;
}

Migration migration(const Problem& problem, const Plan& before, const Plan& after) {
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  return MigrationCost(problem, network, before, 1).of(after, 1);
}

/// Returns the simulated time of all messages sent at once, with those of a pair merged.
double simulated_s(const Problem& problem, const Migration& migration) {
  std::map<std::pair<int, int>, double> bytes;
  for (const MigratedPart& part : migration.parts)
    if (part.from != no_device) bytes[{part.from, part.to}] += part.bytes;
  GraphBuilder builder(problem.topology, problem.constants);
  for (const auto& [pair, size] : bytes) {
    TaskLabel label;
    label.activity = Activity::fetch;
    builder.send(builder.channel(pair.first, pair.second, Activity::fetch), size, {}, label);
  }
  return replay_makespan(builder.take());
}

/// Returns pipelines of random splits over devices in random order.
Plan random_plan(Rng& rng, int devices, int layers, int stages) {
  std::vector<int> order(at(devices));
  for (int i = 0; i < devices; ++i) order[at(i)] = i;
  for (int i = devices - 1; i > 0; --i)
    std::swap(order[at(i)], order[rng.below(static_cast<std::uint32_t>(i + 1))]);
  std::vector<std::vector<Stage>> pipelines;
  for (int p = 0; (p + 1) * stages <= devices; ++p) {
    pipelines.emplace_back();
    int first = 0;
    for (int s = 0; s < stages; ++s) {
      const int room = layers - first - (stages - s - 1);
      const int last = s + 1 == stages
                           ? layers
                           : first + 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(room)));
      pipelines.back().push_back({{first, last}, {order[at(p * stages + s)]}});
      first = last;
    }
  }
  return plan_with(std::move(pipelines));
}

}  // namespace

TEST_CASE("an unchanged plan needs no migration") {
  const Problem problem = small_problem({4}, 4);
  const Plan plan = plan_with({{{{0, 2}, {0}}, {{2, 4}, {1}}}, {{{0, 1}, {2}}, {{1, 4}, {3}}}});
  const Migration none = migration(problem, plan, plan);
  CHECK(none.parts.empty());
  CHECK(none.bytes == 0);
  CHECK(none.checkpoint_bytes == 0);
  CHECK(none.seconds == 0);
}

TEST_CASE("a device fetches missing layers from one that has them") {
  // Layer 1 goes from device 0 to device 1: 120 bytes at 100 bytes/s plus 0.01 s latency.
  const Problem problem = small_problem({2}, 4);
  const Migration one = migration(problem, plan_with({{{{0, 2}, {0}}, {{2, 4}, {1}}}}),
                                  plan_with({{{{0, 1}, {0}}, {{1, 4}, {1}}}}));
  CHECK(one.parts == std::vector<MigratedPart>{{1, 0, {1, 2}, 120}});
  CHECK(one.bytes == 120);
  CHECK(one.seconds == Approx(1.21));

  // If the devices swap stages, each fetches two layers, both at once.
  const Migration both = migration(problem, plan_with({{{{0, 2}, {0}}, {{2, 4}, {1}}}}),
                                   plan_with({{{{0, 2}, {1}}, {{2, 4}, {0}}}}));
  CHECK(both.parts == std::vector<MigratedPart>{{1, 0, {0, 2}, 240}, {0, 1, {2, 4}, 240}});
  CHECK(both.seconds == Approx(2.41));
}

TEST_CASE("the fastest holder sends and equally fast ones share the work") {
  // Devices 0, 1, 2 of one site and 3 of another hold everything; 4 and 5 join. 2 layers are 240 bytes.
  const Problem problem = small_problem({3, 3}, 2);
  const Plan before = plan_with({{{{0, 2}, {0}}}, {{{0, 2}, {1}}}, {{{0, 2}, {3}}}});
  const auto with = [](int device) { return plan_with({{{{0, 2}, {device}}}}); };
  CHECK(migration(problem, before, with(4)).parts == std::vector<MigratedPart>{{4, 3, {0, 2}, 240}});
  CHECK(migration(problem, before, with(2)).parts == std::vector<MigratedPart>{{2, 0, {0, 2}, 240}});
  const Plan far = plan_with({{{{0, 2}, {0}}}, {{{0, 2}, {1}}}});
  const Migration both = migration(problem, far, plan_with({{{{0, 2}, {4}}}, {{{0, 2}, {5}}}}));
  CHECK(both.parts == std::vector<MigratedPart>{{4, 0, {0, 2}, 240}, {5, 1, {0, 2}, 240}});
  CHECK(migration(problem, far, with(5)).seconds == Approx(240 / 25.0 + 0.1));
}

TEST_CASE("migration over links with a price costs egress") {
  // 240 bytes between sites at 0.5 USD each; traffic inside a site is free.
  Problem problem = small_problem({2, 2}, 2);
  std::get<RuleLinks>(problem.topology.edit().links).links[1].egress = DollarsPerByte(0.5);
  const auto with = [](int device) { return plan_with({{{{0, 2}, {device}}}}); };
  CHECK(migration(problem, with(0), with(2)).usd == Approx(120));
  CHECK(migration(problem, with(0), with(1)).usd == 0);
}

TEST_CASE("without a network the same bytes migrate from any holder") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 78);
    const int layers = 6 + static_cast<int>(rng.below(6));
    const Problem problem{random_topology(rng, 12, false), random_chain_job(rng, layers), {}, {}};
    Plan before = random_plan(rng, 12, layers, 3), after = random_plan(rng, 12, layers, 2);
    // One device has failed, and one side has stages of four and of three devices.
    Plan& wide = seed % 2 == 0 ? before : after;
    wide = plan_with({{{{0, layers}, {0, 1, 2, 3}}}, {{{0, layers}, {4, 5, 6}}}});
    before.pipelines[0].stages[0].devices[0] = no_device;
    const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
    const Migration with = MigrationCost(problem, network, before, 1).of(after, 1);
    const Migration without = MigrationCost(problem, nullptr, before, 1).of(after, 1);
    CHECK(without.bytes == Approx(with.bytes));
    CHECK(without.checkpoint_bytes == Approx(with.checkpoint_bytes));
    CHECK(without.seconds == 0);
    for (const MigratedPart& part : without.parts)
      CHECK((part.from == unspecified_source || part.from == no_device));
  }
}

TEST_CASE("the number of steps is known beforehand and small without a network") {
  // One stage of 200 devices against 200 pipelines of one: each of these is missing 199 shares.
  const Problem problem = small_problem({200}, 2);
  Plan wide = plan_with({{{{0, 2}, {}}}}), narrow = plan_with({});
  for (int device = 0; device < 200; ++device) {
    wide.pipelines[0].stages[0].devices.push_back(device);
    narrow.pipelines.push_back({1, {{{0, 2}, {device}}}});
  }
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  CHECK(MigrationCost(problem, network, wide, 1).max_steps(200) == 200.0 * 200 * 200);
  const MigrationCost bare(problem, nullptr, wide, 1);
  CHECK(bare.max_steps(200) == 200);
  const Migration moved = bare.of(narrow, 1);
  CHECK(moved.bytes == Approx(200 * 240 * 199 / 200.0));
  CHECK(moved.parts.size() <= 2 * 200);
}

TEST_CASE("layers that no device holds come from a checkpoint and are counted separately") {
  // The only holder of layers 2 and 3 has failed; device 1 replaces it and must fetch layer 1 from device 0.
  const Problem problem = small_problem({2}, 4);
  const Migration it = migration(problem, plan_with({{{{0, 2}, {0}}, {{2, 4}, {no_device}}}}),
                                 plan_with({{{{0, 1}, {0}}, {{1, 4}, {1}}}}));
  CHECK(it.parts == std::vector<MigratedPart>{{1, 0, {1, 2}, 120}, {1, no_device, {2, 4}, 240}});
  CHECK(it.bytes == 120);
  CHECK(it.checkpoint_bytes == 240);
  CHECK(it.seconds == Approx(1.21));
}

TEST_CASE("tied weights migrate once") {
  // Layer 0 has 30 parameters, of which the last layer has a copy of 20 among its 25.
  Problem problem = small_problem({2}, 4);
  auto& chain = std::get<LayerChain>(problem.job.model).layers;
  chain.front().parameters = 30;
  chain.back().parameters = 25;
  chain.back().tied_parameters = 20;
  const Plan before = plan_with({{{{0, 2}, {0}}, {{2, 4}, {1}}}});
  // Device 0 already has the matrix and is missing layer 2 and the rest of layer 3: 10 + 5 parameters of 12
  // bytes.
  CHECK(migration(problem, before, plan_with({{{{0, 4}, {0}}}})).bytes == Approx(180));
  // Device 1 has it from the last layer: 10 of layer 0 and 10 of layer 1.
  CHECK(migration(problem, before, plan_with({{{{0, 4}, {1}}}})).bytes == Approx(240));
  // A new device receives everything once: 30 + 10 + 10 + 5.
  problem.topology = small_problem({3}, 4).topology;
  const Migration all = migration(problem, before, plan_with({{{{0, 4}, {2}}}}));
  CHECK(all.bytes == Approx(55 * 12));
  // Either layers 0 and 1 with the matrix come from device 0, or the matrix comes from device 1. Of equally
  // fast holders, the first pipeline sends first.
  CHECK(all.parts == std::vector<MigratedPart>{{2, 0, {0, 2}, 480}, {2, 1, {2, 4}, 180}});
}

TEST_CASE("a changed tensor degree migrates what the shares do not overlap") {
  const Problem problem = small_problem({4}, 4);  // 480 bytes
  const Plan halves = plan_with({{{{0, 4}, {0, 1}}}}), quarters = plan_with({{{{0, 4}, {0, 1, 2, 3}}}});
  // Device 0 keeps its first quarter; 1 gets the second from 0, and 2 and 3 get theirs from 1.
  CHECK(migration(problem, halves, quarters).parts ==
        std::vector<MigratedPart>{{1, 0, {0, 4}, 120}, {2, 1, {0, 4}, 120}, {3, 1, {0, 4}, 120}});
  // In reverse, device 0 is missing the second quarter, which 1 has; 1 is missing the third and the fourth.
  CHECK(migration(problem, quarters, halves).parts ==
        std::vector<MigratedPart>{{0, 1, {0, 4}, 120}, {1, 2, {0, 4}, 120}, {1, 3, {0, 4}, 120}});
  // From thirds to halves: 0 gets the rest up to a half, a sixth; 1 has [1/3, 2/3) and is missing the last
  // third.
  const Migration third = migration(problem, plan_with({{{{0, 4}, {0, 1, 2}}}}), halves);
  REQUIRE(third.parts.size() == 2);
  CHECK(third.parts[0].from == 1);
  CHECK(third.parts[0].bytes == Approx(80));
  CHECK(third.parts[1].from == 2);
  CHECK(third.parts[1].bytes == Approx(160));
  // The second quarter is lost: a quarter comes from a checkpoint, between the parts that remain.
  const Migration gone =
      migration(problem, plan_with({{{{0, 4}, {0, no_device, 2, 3}}}}), plan_with({{{{0, 4}, {1}}}}));
  CHECK(gone.checkpoint_bytes == Approx(120));
  CHECK(gone.bytes == Approx(360));
}

TEST_CASE("with chunks a device holds its part of every chunk") {
  // 4 layers on 2 devices in 2 chunks: device 0 computes layers 0 and 2, device 1 layers 1 and 3.
  const Problem problem = small_problem({2}, 4);
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  const Plan plan = plan_with({{{{0, 2}, {0}}, {{2, 4}, {1}}}});
  const Migration to_even = MigrationCost(problem, network, plan, 2).of(plan, 1);
  CHECK(to_even.parts == std::vector<MigratedPart>{{0, 1, {1, 2}, 120}, {1, 0, {2, 3}, 120}});
  CHECK(MigrationCost(problem, network, plan, 2).of(plan, 2).bytes == 0);
}

TEST_CASE("a device that holds nothing receives what a recovering device fetches") {
  Rng rng = Rng::for_task(3, 0);
  Problem problem{random_topology(rng, 8, false), {}, {}, {}};
  problem.job.model = Transformer{.layers = 8, .hidden = 64, .heads = 4, .sequence = 32, .vocabulary = 100};
  problem.job.training.global_batch = 8;
  problem.job.efficiency = 0.5;
  for (const Optimizer optimizer : {Optimizer::adam_16, Optimizer::adam_20, Optimizer::sgd_12}) {
    problem.job.training.optimizer = optimizer;
    const StageCosts costs(problem, 1);
    const Plan plan = random_plan(rng, 8, 8, 4);
    double expected = 0;
    for (const Pipeline& pipeline : plan.pipelines)
      for (const Stage& stage : pipeline.stages) expected += costs.saved_bytes(stage.layers);
    const Plan gone = plan_with({{{{0, 8}, {no_device}}}});
    CHECK(migration(problem, gone, plan).checkpoint_bytes == Approx(expected));
  }
}

TEST_CASE("migration time equals the simulator without contention and is a lower bound with it") {
  double sum = 0, worst = 1;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const bool shared = seed % 2 == 1;
    Rng rng = Rng::for_task(seed, 77);
    const int layers = 6 + static_cast<int>(rng.below(6));
    Problem problem{random_topology(rng, 12, shared), random_chain_job(rng, layers), {}, {}};
    problem.constants.network_efficiency = 0.8;
    problem.constants.message_overhead_s = 0.002;
    const Migration it = migration(problem, random_plan(rng, 12, layers, 2 + static_cast<int>(rng.below(3))),
                                   random_plan(rng, 12, layers, 1 + static_cast<int>(rng.below(4))));
    const double simulated = simulated_s(problem, it);
    REQUIRE(simulated > 0);
    if (!shared) {
      CHECK(it.seconds == Approx(simulated).epsilon(1e-6));
      continue;
    }
    // The estimate may exceed the simulation only by the latency of a link, which is at most 0.3 s.
    CHECK(it.seconds <= simulated * (1 + 1e-6) + 0.3);
    worst = std::min(worst, it.seconds / simulated);
    sum += it.seconds / simulated;
  }
  CHECK(sum / 30 >= 0.99);  // as stated in docs/validation.md
  CHECK(sum / 30 <= 1.001);
  CHECK(worst >= 0.88);
}

TEST_CASE("a migration timer after changes equals a new one") {
  Rng rng = Rng::for_task(5, 5);
  const Problem problem{random_topology(rng, 12, true), random_chain_job(rng, 9), {}, {}};
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  const MigrationCost cost(problem, network, random_plan(rng, 12, 9, 3), 1);
  MigrationTimer timer(cost, 1);
  Plan plan = random_plan(rng, 12, 9, 3);
  for (int step = 0; step < 50; ++step) {
    const auto pipelines = static_cast<std::uint32_t>(plan.pipelines.size());
    Stage &a = plan.pipelines[rng.below(pipelines)].stages[rng.below(3)],
          &b = plan.pipelines[rng.below(pipelines)].stages[rng.below(3)];
    std::swap(a.devices, b.devices);
    if (step % 5 == 0) plan.pipelines[rng.below(pipelines)] = random_plan(rng, 12, 9, 3).pipelines.front();
    CHECK(timer.seconds(plan) == MigrationTimer(cost, 1).seconds(plan));
    CHECK(timer.seconds(plan) == cost.of(plan, 1).seconds);
  }
}
