#include "planner/cost/explanation/explain_plan.hpp"

#include <algorithm>
#include <string>

#include "planner/cost/explanation/network_upgrades.hpp"
#include "planner/cost/explanation/widened_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

constexpr double B = 1e6;  // bytes per second on a slow link
const Link fast = link_of(0, 1e15);

Problem problem_of(Topology topology, Job job) {
  return {std::move(topology), std::move(job), {}};
}

PlanBottleneck bottleneck_of(const Problem& problem, const Plan& plan) {
  const IterationModel model(problem);
  return find_bottleneck(model, plan);
}

double saved(const PlanBottleneck& bottleneck, Bottleneck::Kind kind) {
  return bottleneck.savings[static_cast<std::size_t>(kind)].seconds;
}

double seconds_of(const Problem& problem, const Plan& plan) {
  return estimate_iteration(IterationModel(problem), plan).iteration_s;
}

std::shared_ptr<const NetworkCost> network_of(const Problem& problem) {
  return std::make_shared<const NetworkCost>(problem.topology, problem.constants);
}

std::vector<WhatIf> what_ifs_of(const PlannedProblem& planned) {
  return what_ifs(planned, network_of(planned.problem), 2);
}

WhatIf found(const std::vector<WhatIf>& all, Change change, int first = -1, int second = -1) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const WhatIf& what) {
    return what.change == change && (first < 0 || (what.first == first && what.second == second));
  });
  REQUIRE(it != all.end());
  return *it;
}

/// Returns two sites of two devices with two pipelines of two stages that cross from one site to the other,
/// and eight micro-batches each. A message takes 5 s plus 0.5 s latency; the gradients of a stage take 20 s
/// inside a site.
PlannedProblem crossing_pipelines() {
  const double gradients = 20e6;  // bytes of one of the two layers, 2 per parameter
  Job job = chain_job(2, gradients / 2, 5e6);
  job.training.global_batch = 16;
  Plan plan = plan_of(job, 2, 2, 8);
  for (int pipeline = 0; pipeline < 2; ++pipeline)
    for (int stage = 0; stage < 2; ++stage)
      plan.pipelines[at(pipeline)].stages[at(stage)].devices = {2 * stage + pipeline};
  return {problem_of(flat_topology({2, 2}, link_of(0, B), link_of(0.5, B)), job), plan};
}

}  // namespace

// gpipe with stages of 1, 2 and 1 s forward, twice that backward, 8 micro-batches, and messages that take no
// time: 4 + 7 · 2 forward, 8 + 7 · 4 backward. Of this, all 8 · 6 s of stage 1 are on the critical path, and
// 3 s of each other stage, for warm-up and cool-down: they are the bubble of stage 1.
TEST_CASE("a slow stage is the bottleneck") {
  const Job job = chain_job(4, 0, 1);
  Plan plan = plan_of(job, 3, 1, 8);
  plan.pipelines[0].stages[0].layers = {0, 1};
  plan.pipelines[0].stages[1].layers = {1, 3};
  plan.pipelines[0].stages[2].layers = {3, 4};
  const PlanBottleneck bottleneck = bottleneck_of(problem_of(flat_topology({3}, fast, fast), job), plan);
  CHECK(bottleneck.dominant.kind == Bottleneck::Kind::stages);
  CHECK(bottleneck.dominant.seconds == Approx(54));
  CHECK(bottleneck.dominant.share == Approx(1));
  CHECK(!bottleneck.resource.is_hop);
  CHECK(bottleneck.resource.pipeline == 0);
  CHECK(bottleneck.resource.stage == 1);
  CHECK(bottleneck.resource.seconds == Approx(48));
  CHECK(bottleneck.parts.fill_s == Approx(12));
  CHECK(bottleneck.parts.steady_s == Approx(42));
  CHECK(bottleneck.parts.sum() == Approx(54));
  CHECK(bottleneck.critical_path.compute_s == Approx(54));
  CHECK(bottleneck.critical_path.sending_s == Approx(0).margin(1e-6));
  CHECK(bottleneck.shares.compute_s == Approx(48));
  CHECK(bottleneck.shares.bubble_s == Approx(6));
  CHECK(bottleneck.shares.messages_s == Approx(0).margin(1e-6));
  CHECK(saved(bottleneck, Bottleneck::Kind::bubble) == Approx(6));
  CHECK(saved(bottleneck, Bottleneck::Kind::hops) == Approx(0).margin(1e-6));
}

// Forward 1 + 5.5 + 1 + 7 · 5 s, backward 2 + 5.5 + 2 + 7 · 5 s: 87 s. Of these, 2 · (8 · 5 + 0.5) depend on
// the hop, 1 of them on its latency, and 6 on the stages. If all messages arrived at once, the stages would
// take 2 + 7 + 4 + 7 · 2 s: 24 s of each and 3 s of bubble. If computations took no time, 6 s would be saved,
// and in the steady state 10 s per micro-batch remain.
TEST_CASE("a slow hop is the bottleneck") {
  const Job job = chain_job(2, 0, 5e6);
  const Problem problem = problem_of(flat_topology({1, 1}, fast, link_of(0.5, B)), job);
  const PlanBottleneck bottleneck = bottleneck_of(problem, plan_of(job, 2, 1, 8));
  CHECK(bottleneck.dominant.kind == Bottleneck::Kind::hops);
  CHECK(bottleneck.dominant.seconds == Approx(60));
  CHECK(bottleneck.dominant.share == Approx(60.0 / 87));
  CHECK(saved(bottleneck, Bottleneck::Kind::stages) == Approx(6));
  CHECK(saved(bottleneck, Bottleneck::Kind::bubble) == Approx(7));
  CHECK(bottleneck.shares.compute_s == Approx(24));
  CHECK(bottleneck.shares.bubble_s == Approx(3));
  CHECK(bottleneck.shares.messages_s == Approx(60));
  CHECK(bottleneck.resource.is_hop);
  CHECK(bottleneck.resource.stage == 0);
  CHECK(bottleneck.resource.seconds == Approx(81));
  CHECK(bottleneck.resource.latency_s == Approx(1));
  CHECK(bottleneck.parts.fill_s == Approx(7.5 + 9.5));
  CHECK(bottleneck.parts.steady_s == Approx(70));
  CHECK(bottleneck.critical_path.compute_s == Approx(6));
  CHECK(bottleneck.critical_path.sending_s == Approx(81));
}

// One stage per pipeline, 2 · 3 s; then 20e6 bytes in two halves: 2 · (0.5 + 10) s.
TEST_CASE("slow gradient synchronization is the bottleneck") {
  const Job job = chain_job(1, 1e7, 1);
  const Problem problem = problem_of(flat_topology({2}, link_of(0.5, B), fast), job);
  const PlanBottleneck bottleneck = bottleneck_of(problem, plan_of(job, 1, 2, 2));
  CHECK(bottleneck.dominant.kind == Bottleneck::Kind::gradient_sync);
  CHECK(bottleneck.dominant.seconds == Approx(21));
  CHECK(bottleneck.dominant.share == Approx(21.0 / 27));
  CHECK(bottleneck.parts.steady_s == Approx(3));
  CHECK(bottleneck.parts.fill_s == Approx(3));
}

// One micro-batch through four stages, 4 · 3 s, all of it warm-up and cool-down; then 100 s overhead.
TEST_CASE("the overhead of an iteration is the bottleneck") {
  const Job job = chain_job(4, 0, 1);
  Problem problem = problem_of(flat_topology({4}, fast, fast), job);
  problem.constants.iteration_overhead_s = 100;
  const PlanBottleneck bottleneck = bottleneck_of(problem, plan_of(job, 4, 1, 1));
  CHECK(bottleneck.dominant.kind == Bottleneck::Kind::overhead);
  CHECK(bottleneck.dominant.share == Approx(100.0 / 112));
  CHECK(bottleneck.parts.fill_s == Approx(12));
  CHECK(bottleneck.parts.steady_s == Approx(0).margin(1e-9));
  CHECK(bottleneck.resource.seconds == Approx(3));
}

// Flushed every 4 of 8 micro-batches: two rounds of 12 + 3 · 6 s.
TEST_CASE("every flush adds a warm-up of the pipeline") {
  Job job = chain_job(4, 0, 1);
  job.execution.flush = 4;
  Plan plan = plan_of(job, 2, 1, 8);
  const PlanBottleneck bottleneck = bottleneck_of(problem_of(flat_topology({2}, fast, fast), job), plan);
  CHECK(bottleneck.parts.fill_s == Approx(24));
  CHECK(bottleneck.parts.steady_s == Approx(36));
}

// 1f1b with a hop whose latency is ten times the stages: the round trip of a micro-batch is the bottleneck.
TEST_CASE("latency is the bottleneck if a schedule waits for every micro-batch") {
  Job job = chain_job(2, 0, 1);
  job.execution.schedule = Schedule::one_f_one_b;
  const Problem problem = problem_of(flat_topology({1, 1}, fast, link_of(30, 1e15)), job);
  const PlanBottleneck bottleneck = bottleneck_of(problem, plan_of(job, 2, 1, 40));
  CHECK(bottleneck.dominant.kind == Bottleneck::Kind::hops);
  CHECK(bottleneck.resource.latency_s == Approx(bottleneck.critical_path.sending_s));
  CHECK(bottleneck.critical_path.compute_s + bottleneck.critical_path.sending_s ==
        Approx(bottleneck.parts.sum()));
}

// Stages of two layers and of one, 4 micro-batches; 16 bytes per parameter, 100 bytes of activations per
// layer and micro-batch, and buffers for an output of 10 bytes and its gradient.
TEST_CASE("the device with peak memory and its memory by purpose are reported") {
  const Job job = chain_job(3, 1e6, 10);
  Plan plan = plan_of(job, 2, 1, 4);
  plan.pipelines[0].stages[0].layers = {0, 2};
  plan.pipelines[0].stages[1].layers = {2, 3};
  const auto peak_memory = bottleneck_of(problem_of(flat_topology({2}, fast, fast), job), plan).peak_memory;
  REQUIRE(peak_memory);
  CHECK(peak_memory->device == 0);
  CHECK(peak_memory->state == Approx(2 * 16e6));
  CHECK(peak_memory->needed == Approx(2 * 16e6 + 4 * (2 * 100 + 2 * 10)).epsilon(1e-12));
}

TEST_CASE("what-ifs of links equal estimates for the changed network") {
  const PlannedProblem planned = crossing_pipelines();
  const Problem& problem = planned.problem;
  const auto all = what_ifs_of(planned);
  const auto expected = [&](const Link& inside, const Link& between) {
    return seconds_of(problem_of(flat_topology({2, 2}, inside, between), problem.job), planned.plan);
  };
  const double now = expected(link_of(0, B), link_of(0.5, B));
  const WhatIf between = found(all, Change::link_doubled, 0, 1);
  CHECK(between.iteration_s == Approx(expected(link_of(0, B), link_of(0.5, 2 * B))));
  CHECK(between.gain == Approx(1 - between.iteration_s / now));
  CHECK(between.gain > 0.3);
  // Stage 0 has its gradients one backward pass, 2 s, after stage 1 has sent its own; both synchronize for 20
  // s.
  CHECK(found(all, Change::link_doubled, 0, 0).iteration_s == Approx(now - 2));
  CHECK(found(all, Change::link_doubled, 1, 1).iteration_s == Approx(now));
  CHECK(std::is_sorted(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) {
    return a.impossible.empty() && b.impossible.empty() && a.gain > b.gain;
  }));
}

TEST_CASE("what-ifs of the job equal estimates for the changed job") {
  const PlannedProblem planned = crossing_pipelines();
  const auto all = what_ifs_of(planned);
  const auto expected = [&](const auto& change) {
    PlannedProblem other = planned;
    change(other);
    return seconds_of(other.problem, other.plan);
  };
  CHECK(found(all, Change::activations_halved).iteration_s ==
        Approx(expected([](PlannedProblem& it) { it.problem.job.execution.compression.activations = 0.5; })));
  CHECK(found(all, Change::activations_quartered).iteration_s == Approx(expected([](PlannedProblem& it) {
          it.problem.job.execution.compression.activations = 0.25;
        })));
  CHECK(found(all, Change::gradients_halved).iteration_s ==
        Approx(expected([](PlannedProblem& it) { it.problem.job.execution.compression.gradients = 0.5; })));
  CHECK(found(all, Change::gradients_quartered).iteration_s ==
        Approx(expected([](PlannedProblem& it) { it.problem.job.execution.compression.gradients = 0.25; })));
  CHECK(found(all, Change::micro_batch_doubled).iteration_s == Approx(expected([](PlannedProblem& it) {
          it.problem.job.execution.micro_batch = 2;
          for (Pipeline& pipeline : it.plan.pipelines) pipeline.micro_batches = 4;
        })));
  // Gradients of 20e6 bytes in two halves in each direction take 20 s; half the bytes save 10 s.
  CHECK(found(all, Change::gradients_halved).iteration_s ==
        Approx(seconds_of(planned.problem, planned.plan) - 10));
}

TEST_CASE("merging micro-batches of odd pipelines loses no sequence") {
  PlannedProblem planned = crossing_pipelines();
  planned.plan.pipelines[0].micro_batches = 5;
  planned.plan.pipelines[1].micro_batches = 3;
  WhatIf what;
  what.change = Change::micro_batch_doubled;
  const auto network = network_of(planned.problem);
  const PlannedProblem doubled = apply_change(planned, what, network);
  CHECK(doubled.plan.pipelines[0].micro_batches + doubled.plan.pipelines[1].micro_batches == 4);
  planned.plan.pipelines[1].micro_batches = 4;
  CHECK(error_message([&] { apply_change(planned, what, network); }).find("9 micro-batches") !=
        std::string::npos);
}

// Pipelines of one stage; the last device has half the speed. Twelve micro-batches of 3 s.
TEST_CASE("micro-batches are redistributed when a pipeline is removed or added") {
  Topology topology = flat_topology({4}, fast, fast);
  topology.devices[2].speed = 0.5;
  const Job job = chain_job(1, 0, 1);
  const PlannedProblem planned{problem_of(topology, job), plan_of(job, 1, 3, 4)};
  const auto all = what_ifs_of(planned);
  const WhatIf fewer = found(all, Change::pipeline_removed);
  CHECK(fewer.first == 2);  // 4 · 6 s; the other two then take 6 · 3 s
  CHECK(fewer.devices == std::vector{2});
  CHECK(fewer.iteration_s == Approx(18));
  CHECK(fewer.gain == Approx(1 - 18.0 / 24));
  const WhatIf more = found(all, Change::pipeline_added);
  CHECK(more.devices == std::vector{3});
  CHECK(more.iteration_s == Approx(12));  // 4, 3 and 4 · 3 s, and 1 or 2 · 6 s
}

TEST_CASE("an impossible change has a reason") {
  const Job job = chain_job(2, 0, 1);
  const auto all = what_ifs_of({problem_of(flat_topology({3}, fast, fast), job), plan_of(job, 2, 1, 3)});
  CHECK(found(all, Change::pipeline_removed).impossible == "the plan has only one pipeline");
  CHECK(found(all, Change::pipeline_added).impossible == "too few unused devices for another pipeline");
  CHECK(found(all, Change::micro_batch_doubled).impossible == "3 micro-batches cannot be merged in pairs");
  CHECK(all.back().impossible != "");
}

TEST_CASE("changes that exceed memory are listed after those that fit") {
  Topology topology = flat_topology({2}, fast, fast);
  const Job job = chain_job(2, 1e6, 10);
  const Plan plan = plan_of(job, 1, 2, 2);
  // The state of a device is 2 · 16e6 bytes. A pipeline of one stage stores 100 bytes per layer and
  // micro-batch: 400 with two micro-batches, and 800 with all four if the other pipeline is removed.
  topology.gpus[0].memory = Bytes(32e6 + 600);
  const auto all = what_ifs_of({problem_of(topology, job), plan});
  const WhatIf removed = found(all, Change::pipeline_removed);
  CHECK(removed.deficit_bytes == Approx(200));
  for (const WhatIf& what : all)
    if (what.impossible.empty() && what.change != Change::pipeline_removed) CHECK(what.deficit_bytes == 0);
  const auto rank = [](const WhatIf& it) {
    return !it.impossible.empty() ? 2 : it.deficit_bytes > 0 ? 1 : 0;
  };
  CHECK(std::is_sorted(all.begin(), all.end(),
                       [&](const WhatIf& a, const WhatIf& b) { return rank(a) < rank(b); }));
}

TEST_CASE("the simulator agrees with every what-if") {
  PlannedProblem planned = crossing_pipelines();
  Topology& topology = planned.problem.topology.edit();
  for (int i = 0; i < 2; ++i) {  // two additional unused devices
    topology.devices.push_back(topology.devices[at(2 * i)]);
    topology.devices.back().id = i == 0 ? "more/0" : "more/1";
    topology.devices.back().host = 4 + i;
    std::get<RuleLinks>(topology.links).link_class.push_back(i);
  }
  int compared = 0;
  for (const WhatIf& what : what_ifs_of(planned)) {
    CAPTURE(static_cast<int>(what.change), what.first, what.second, what.impossible);
    REQUIRE(what.impossible.empty());
    const PlannedProblem other = apply_change(planned, what, network_of(planned.problem));
    CHECK(replay_makespan(iteration_graph(other.problem, other.plan)) ==
          Approx(what.iteration_s).epsilon(1e-6));
    ++compared;
  }
  CHECK(compared == 3 + 7);  // links: inside either site and between them
}

TEST_CASE("doubling a link does not change others of the same rule") {
  Topology topology = flat_topology({2, 1, 1}, link_of(0, 1), link_of(0, 3));
  std::get<RuleLinks>(topology.links).links[1].capacity = BitsPerSecond(80);
  scale_link(topology, 0, 2, 2);
  const auto bandwidth = [&](int from, int to) { return topology.link(from, to).bandwidth.value() / 8; };
  CHECK(bandwidth(0, 3) == 6);
  CHECK(bandwidth(3, 1) == 6);
  CHECK(topology.link(0, 3).capacity.value() == 160);
  CHECK(bandwidth(0, 2) == 3);
  CHECK(bandwidth(2, 3) == 3);
  CHECK(topology.link(0, 2).capacity.value() == 80);
  CHECK(bandwidth(0, 1) == 1);
  scale_link(topology, 0, 0, 2);
  CHECK(bandwidth(0, 1) == 2);
  CHECK(bandwidth(0, 2) == 3);
}

TEST_CASE("doubling works for measured links and access links") {
  Topology topology = flat_topology({2, 1}, fast, fast);
  topology.links = MeasuredLinks{Eigen::MatrixXd::Zero(3, 3), Eigen::MatrixXd::Ones(3, 3)};
  scale_link(topology, 1, 0, 2);
  CHECK(topology.link(0, 2).bandwidth.value() == 2);
  CHECK(topology.link(2, 1).bandwidth.value() == 2);
  CHECK(topology.link(0, 1).bandwidth.value() == 1);
  topology.devices[1].uplink = BitsPerSecond(5);
  CHECK(limited_sites(topology, {0, 2}).empty());
  CHECK(limited_sites(topology, {1, 2}) == std::vector{0});
  double_site_access(topology, 0);
  CHECK(topology.devices[1].uplink.value() == 10);
  CHECK(!(topology.devices[0].uplink < unlimited));
}

// Stages of 1 s forward and 2 s backward, messages of x = 5 s ÷ c in each direction, 8 micro-batches.
// Messages of at most 1 s only lengthen warm-up and cool-down: 27 + 2 x s. 2 x is less than 5 % of that
// from 1.9 x < 1.35.
TEST_CASE("the compression from which a chain is compute-bound is found") {
  const Job job = chain_job(2, 0, 5e6);
  const Problem problem = problem_of(flat_topology({1, 1}, fast, link_of(0, B)), job);
  const auto explained = explain_plan({problem, plan_of(job, 2, 1, 8)}, network_of(problem), 1);
  const double expected = 5 / (1.35 / 1.9);
  REQUIRE(explained.compute_bound_compression);
  CHECK(*explained.compute_bound_compression >= expected * (1 - 1e-3));
  CHECK(*explained.compute_bound_compression <= expected * 1.011);
  CHECK(!explained.double_width);
  CHECK(!explained.compute_bound_width);
}

// Latency cannot be compressed: with 30 s per message under 1f1b, no compression helps.
TEST_CASE("no compression makes a latency-bound plan compute-bound") {
  Job job = chain_job(2, 0, 5e6);
  job.execution.schedule = Schedule::one_f_one_b;
  const Problem problem = problem_of(flat_topology({1, 1}, fast, link_of(30, B)), job);
  CHECK(!explain_plan({problem, plan_of(job, 2, 1, 40)}, network_of(problem), 1).compute_bound_compression);
}

namespace {

/// Returns two blocks, one per stage, with sequences so short that 24 s h² FLOPs are nearly all of a forward
/// pass: t seconds at 1 TFLOP/s. A message of 2 s h bytes takes 11 t, which is 5.5 times the 2 t of a
/// backward pass.
Problem narrow_problem() {
  const double s = 1, h = 512, t = 24 * s * h * h / 1e12;
  Job job;
  job.name = "narrow";
  Transformer model;
  model.layers = 2;
  model.hidden = 512;
  model.heads = 8;
  model.sequence = 1;
  model.vocabulary = 1;
  job.model = model;
  job.efficiency = 1;
  job.training.global_batch = 1000;
  return problem_of(flat_topology({1, 1}, fast, link_of(0, 2 * s * h / (11 * t))), job);
}

}  // namespace

// Twice the width has 4 times the FLOPs and twice the bytes. Per micro-batch, k times the width computes for
// 3 t k², and messages take max(0, 11 t k − t k²) + max(0, 11 t k − 2 t k²) longer than that: 10 of 310 t at
// k = 10, but 18 of 261 t at k = 9, which is over 5 %. With messages of 11 t ÷ c, 11 ÷ c − 1 of 11 ÷ c + 2
// are below 5 % from c = 11 · 0.95 ÷ 1.1.
TEST_CASE("the square-cube law gives the width from which compute dominates") {
  const Problem problem = narrow_problem();
  const Plan plan = plan_of(problem.job, 2, 1, 1000);
  const auto explained = explain_plan({problem, plan}, network_of(problem), 2);
  CHECK(explained.bottleneck.dominant.kind == Bottleneck::Kind::hops);
  CHECK(explained.compute_bound_width == 10);
  REQUIRE(explained.double_width);
  const PlanThroughput &now = explained.now, &wide = *explained.double_width;
  CHECK(wide.iteration_s == Approx(2 * now.iteration_s).epsilon(0.02));  // messages of twice the bytes
  CHECK(wide.model_flops_per_s == Approx(2 * now.model_flops_per_s).epsilon(0.02));
  CHECK(wide.compute_s == Approx(4 * now.compute_s).epsilon(0.02));
  CHECK(wide.sending_s == Approx(2 * now.sending_s).epsilon(0.02));
  CHECK(wide.tokens_per_s == Approx(1000 / wide.iteration_s));
  CHECK(explained.compute_bound_compression.value() == Approx(9.5).epsilon(0.02));
}

// If the peak of a GPU is unknown, measured layer times grow with the FLOPs, and updates with the parameters.
TEST_CASE("the profile of a wider model is scaled from the measured one") {
  Problem problem = narrow_problem();
  problem.job.efficiency.reset();
  problem.topology.edit().gpus[0].peak = problem.topology.edit().gpus[0].peak_fp32 = std::nullopt;
  LayerProfile profile;
  profile.gpu = "one";
  profile.precision = problem.job.training.precision;
  profile.shape = std::get<Transformer>(problem.job.model);
  for (const char* kind : {"embedding", "block", "head"})
    profile.rows.push_back({kind, 1, 1, {1, 0}, {2, 0}, Timing{0.5, 0}, {}, {}});
  problem.job.profiles = {profile};
  const Problem wide = widen_model(problem, 3);
  const double h = 512, flops = (24 * 9 * h * h + 4 * 3 * h) / (24 * h * h + 4 * h),
               parameters = (12 * 9 * h * h + 13 * 3 * h) / (12 * h * h + 13 * h);
  const ProfileRow& block = wide.job.profiles[0].rows[1];
  CHECK(block.forward.median_s == Approx(flops));
  CHECK(block.backward.median_s == Approx(2 * flops));
  CHECK(block.update->median_s == Approx(0.5 * parameters));
  CHECK(IterationModel(wide).stages.unknown(0).empty());  // the profile is that of the wider model
  CHECK(std::get<Transformer>(wide.job.model).hidden == 1536);
  CHECK(std::get<Transformer>(wide.job.model).heads == 24);
  CHECK(error_message([] {
          widen_model(problem_of(flat_topology({1}, fast, fast), chain_job(1, 0, 1)), 2);
        }) == "only transformers have a hidden size that can be widened");
}

// The shares of any plan add up to its iteration, and what a removed part saves is what the simulator saves.
TEST_CASE("savings agree with simulations of free messages and infinitely fast devices") {
  PlannedProblem planned = crossing_pipelines();
  const auto simulated = [](const PlannedProblem& it) {
    return replay_makespan(iteration_graph(it.problem, it.plan));
  };
  const double now_s = simulated(planned);
  const PlanBottleneck bottleneck = bottleneck_of(planned.problem, planned.plan);
  const TimeShares& shares = bottleneck.shares;
  CHECK(shares.compute_s + shares.messages_s + shares.bubble_s + shares.sync_s + shares.update_s +
            shares.overhead_s ==
        Approx(now_s));
  PlannedProblem other = planned;
  std::get<RuleLinks>(other.problem.topology.edit().links).links[1] = fast;
  // The stages then have their gradients 2 s apart, as now.
  CHECK(now_s - simulated(other) == Approx(saved(bottleneck, Bottleneck::Kind::hops)).epsilon(0.06));
  other = planned;
  for (Device& device : other.problem.topology.edit().devices) device.speed = 1e9;
  CHECK(now_s - simulated(other) == Approx(saved(bottleneck, Bottleneck::Kind::stages)).margin(2 + 1e-6));
}

namespace {

MessageReasons reasons_of(const Problem& problem, const Plan& plan) {
  return message_reasons(IterationModel(problem), plan);
}

/// 1F1B over two sites, 40 micro-batches of 1 + 2 s per stage, with messages of `latency_s`.
PlannedProblem waiting_pipeline(double latency_s) {
  Job job = chain_job(2, 0, 1);
  job.execution.schedule = Schedule::one_f_one_b;
  return {problem_of(flat_topology({1, 1}, fast, link_of(latency_s, 1e15)), job), plan_of(job, 2, 1, 40)};
}

}  // namespace

// The cycle of both stages and both messages, 6 + 2 a s, is shared by two micro-batches, and a stage computes
// for 3 s. So every micro-batch waits for a s. Without messages: 3 · 40 + 3 s.
TEST_CASE("strict 1F1B waits for a round trip, which eager-1f1b hides if memory allows") {
  PlannedProblem planned = waiting_pipeline(6);
  MessageReasons reasons = reasons_of(planned.problem, planned.plan);
  REQUIRE(reasons.hops.size() == 1);
  CHECK(reasons.hops[0].exposure == MessageReason::Exposure::round_trip);
  CHECK(reasons.hops[0].trip_s == Approx(12));
  CHECK(reasons.hops[0].latency_s == Approx(12));
  CHECK(reasons.hops[0].exposed_s == Approx(seconds_of(planned.problem, planned.plan) - 123));
  CHECK(reasons.hops[0].warm_up == 1);
  REQUIRE(reasons.longer_warm_up);
  CHECK(reasons.longer_warm_up->stage == -1);
  Plan eager = planned.plan;
  eager.execution.schedule = planned.problem.job.execution.schedule = Schedule::eager_one_f_one_b;
  const double eager_s = seconds_of(planned.problem, eager);
  CHECK(reasons.longer_warm_up->saved_s == Approx(reasons.hops[0].exposed_s + 123 - eager_s));
  // 18 s of a cycle ÷ 3 s: six micro-batches share it, so stage 0 is five ahead.
  const PlannedProblem chosen{planned.problem, with_planned_orders(planned.problem, eager)};
  CHECK(chosen.plan.pipelines[0].stages[0].warm_up == 5);
  reasons = reasons_of(chosen.problem, chosen.plan);
  CHECK(reasons.hops[0].exposure == MessageReason::Exposure::hidden);
  CHECK(reasons.hops[0].warm_up == 5);
  CHECK(!reasons.longer_warm_up);
}

// A micro-batch keeps 100 bytes in each stage and 2 buffers. 1F1B holds 2 of them in stage 0, eager-1f1b 6.
TEST_CASE("the memory that longer warm-ups lack is reported") {
  PlannedProblem planned = waiting_pipeline(6);
  Job& job = planned.problem.job;
  const auto needed = [&] { return device_memory(IterationModel(planned.problem), planned.plan)[0].needed; };
  const double strict = needed();
  job.execution.schedule = planned.plan.execution.schedule = Schedule::eager_one_f_one_b;
  planned.plan.pipelines[0].stages[0].warm_up = 5;
  planned.plan.pipelines[0].stages[1].warm_up = 0;
  const double eager = needed();
  job.execution.schedule = planned.plan.execution.schedule = Schedule::one_f_one_b;
  planned.plan = without_planned_orders(planned.plan);
  planned.problem.topology.edit().gpus[0].memory = Bytes(strict);
  const MessageReasons reasons = reasons_of(planned.problem, planned.plan);
  REQUIRE(reasons.longer_warm_up);
  CHECK(reasons.longer_warm_up->stage == 0);
  CHECK(reasons.longer_warm_up->micro_batches == 4);
  CHECK(reasons.longer_warm_up->deficit_bytes == Approx(eager - strict));
  CHECK(reasons.longer_warm_up->fitting_s == 0);
}

// A message of 5e6 bytes. The uplink of the first site has 3 B for both pipelines: each alone takes 5 s over
// its link of B, and both together keep the uplink busy for 10 ÷ 3 s per micro-batch. With an uplink of 1.5 B
// it is busy for longer than the links. The window of 1e5 bytes in 1 s round trip allows 1e5 B/s.
TEST_CASE("the flow's own limit and the shared capacity are both named") {
  PlannedProblem planned = crossing_pipelines();
  Topology& topology = planned.problem.topology.edit();
  topology.sites[0].uplink = BitsPerSecond(8 * 3 * B);
  MessageReason reason = reasons_of(planned.problem, planned.plan).hops.at(0);
  CHECK(reason.flow.kind == RateLimit::Kind::link);
  CHECK(reason.flow.bits_per_s == Approx(8 * B));
  CHECK(reason.flow.busy_s == Approx(8 * 5));
  CHECK(!reason.shared);
  topology.sites[0].uplink = BitsPerSecond(8 * 1.5 * B);
  reason = reasons_of(planned.problem, planned.plan).hops.at(0);
  CHECK(reason.flow.kind == RateLimit::Kind::link);
  REQUIRE(reason.shared);
  CHECK(reason.shared->kind == RateLimit::Kind::sites);
  CHECK(reason.shared->is_up);
  CHECK(reason.shared->busy_s == Approx(2 * 8 * 5 / 1.5));
  CHECK(reason.exposure == MessageReason::Exposure::busy_link);
  topology.transport = transports[0];
  topology.transport->window = Bytes(1e5);
  const auto limits = rate_limits(planned.problem.topology, {}, 0, 2);
  REQUIRE(limits.size() == 3);
  CHECK(limits[0].kind == RateLimit::Kind::window);
  CHECK(limits[0].bits_per_s == Approx(8e5));
  CHECK(limits[1].kind == RateLimit::Kind::link);
  CHECK(limits[2].kind == RateLimit::Kind::sites);
}

namespace {

DeviceReasons device_reasons_of(const Problem& problem, const Plan& plan) {
  return device_reasons(IterationModel(problem), plan, {});
}

}  // namespace

// Stages of 1, 3 and 2 layers under gpipe, 8 micro-batches, free messages: 3 · 6 + 7 · 9 s. One more layer in
// stage 0 gives 2, 2, 2: 3 · 6 + 7 · 6. One more in stage 2 gives 1, 2, 3: as long as now.
TEST_CASE("reasons for few layers are those of estimates with one layer more") {
  const Job job = chain_job(6, 1e6, 1);
  Plan plan = plan_of(job, 3, 1, 8);
  plan.pipelines[0].stages[0].layers = {0, 1};
  plan.pipelines[0].stages[1].layers = {1, 4};
  plan.pipelines[0].stages[2].layers = {4, 6};
  Problem problem = problem_of(flat_topology({4}, fast, fast), job);
  DeviceReasons reasons = device_reasons_of(problem, plan);
  REQUIRE(reasons.stages.size() == 3);
  using Limit = StageReason::Limit;
  CHECK(reasons.stages[0].limit == Limit::none);
  CHECK(reasons.stages[0].more_s == Approx(60));
  CHECK(reasons.stages[0].layers == 1);
  CHECK(reasons.stages[0].busy_share == Approx(24.0 / 81));
  CHECK(reasons.stages[1].limit == Limit::busiest);
  CHECK(reasons.stages[2].limit == Limit::compute);
  CHECK(reasons.stages[2].more_s == Approx(81));
  CHECK(reasons.stages[2].without_s == Approx(3 * 6 + 7 * 15));
  // One more stage with a layer of stage 1 leaves 1, 1, 2, 2 layers (or 1, 2, 1, 2).
  REQUIRE(reasons.idle.size() == 1);
  CHECK(reasons.idle[0].devices == std::vector{3});
  CHECK(reasons.idle[0].with_s == Approx(60));
  // 16 bytes per parameter: memory for one layer and for three.
  problem.topology.edit().gpus.push_back(problem.topology->gpus[0]);
  problem.topology.edit().gpus[1].memory = Bytes(24e6);
  problem.topology.edit().devices[0].gpu = 1;
  problem.topology.edit().devices[3].gpu = 1;
  reasons = device_reasons_of(problem, plan);
  CHECK(reasons.stages[0].limit == Limit::memory);
  CHECK(reasons.stages[0].deficit_bytes == Approx(8e6).epsilon(1e-3));
  CHECK(reasons.idle[0].with_s == Approx(60));
}

// 1F1B, and 100 s latency after stage 0. Its cycle with the next stage, 12 + 3 + 200 s, is shared by two
// micro-batches. If the next stage had the five layers behind the hop, it would be 12 + 15 + 200 s.
TEST_CASE("a stage of few layers after a slow hop shortens the round trip for which 1F1B waits") {
  Job job = chain_job(9, 0, 1);
  job.execution.schedule = Schedule::one_f_one_b;
  const Problem problem = problem_of(flat_topology({1, 2}, fast, link_of(100, 1e15)), job);
  Plan plan = plan_of(job, 3, 1, 40), without = plan_of(job, 2, 1, 40);
  plan.pipelines[0].stages[0].layers = without.pipelines[0].stages[0].layers = {0, 4};
  plan.pipelines[0].stages[1].layers = {4, 5};
  plan.pipelines[0].stages[2].layers = {5, 9};
  without.pipelines[0].stages[1] = {{4, 9}, {2}};
  const DeviceReasons reasons = device_reasons_of(problem, plan);
  const StageReason& relay = reasons.stages[1];
  CHECK(relay.limit == StageReason::Limit::messages);
  CHECK(relay.shortens_round_trip);
  CHECK(relay.without_s <= seconds_of(problem, without) * (1 + 1e-9));
  CHECK(relay.without_s > 1.04 * seconds_of(problem, plan));
  // Without latency, one device less computes for longer.
  Problem near = problem_of(flat_topology({3}, fast, fast), job);
  CHECK(!device_reasons_of(near, plan).stages[1].shortens_round_trip);
}
