#include "planner/api/sensitivity.hpp"

#include "planner/api/api.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

/// The plan of one device for each of `stages`, as a candidate.
search::PlanCandidate candidate_of(const Problem& problem, int stages, int replicas, int micro_batches) {
  return score({problem}, {plan_of(problem.job, stages, replicas, micro_batches)})
      .finalists.front()
      .candidate;
}

Sensitivity sensitivity_of(const search::PlanCandidate& candidate) {
  return simulate_sensitivity({candidate}, 1).front();
}

/// Without overheads. Messages take 1 s for their bytes and 0.5 s of latency, stages 1 s forward and 2 s
/// backward.
Problem network_bound_problem() {
  return {flat_topology({2}, link_of(0.5, 1e6), link_of(0.5, 1e6)), chain_job(2, 1e3, 1e6),
          Calibration{1, 0, 1, 0}};
}

}  // namespace

TEST_CASE("the perturbed times of two stages match their formulas") {
  Problem problem = network_bound_problem();
  problem.job.training.global_batch = 1;
  const search::PlanCandidate candidate = candidate_of(problem, 2, 1, 1);
  const double all_s =
      simulate_finalists({candidate}, {nominal_scenario()}, RobustCriterion::mean, 1).front().seconds;
  const Sensitivity found = sensitivity_of(candidate);
  REQUIRE(found.size() == perturbation_table.size());
  // One message forward and one backward.
  CHECK(found[0] * all_s == Approx(2 * (1 / 0.8 - 1)));
  CHECK(found[1] * all_s == Approx(2 * 0.1));
  CHECK(found[2] * all_s == Approx((all_s - 3) / 2 * (1 / 0.8 - 1)));
  CHECK(found[3] == Approx(0).margin(1e-12));  // with one micro-batch, nothing is computed meanwhile
}

TEST_CASE("1f1b with blocking sends takes as long as 1f1b-blocking") {
  Problem problem = network_bound_problem();
  problem.job.training.global_batch = 6;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  const search::PlanCandidate candidate = candidate_of(problem, 2, 1, 6);
  Plan blocking = candidate.plan;
  blocking.execution.schedule = problem.job.execution.schedule = Schedule::one_f_one_b_blocking;
  const double without_s =
      simulate_finalists({candidate}, {nominal_scenario()}, RobustCriterion::mean, 1).front().seconds;
  const double with_s = score({problem}, {blocking}).seconds.value();
  const Sensitivity found = sensitivity_of(candidate);
  REQUIRE(found.size() == perturbation_table.size());
  CHECK(with_s > 1.04 * without_s);
  CHECK(found[3] == Approx(with_s / without_s - 1));
}

TEST_CASE("sensitivities of stopped simulations are not known") {
  const search::PlanCandidate candidate = candidate_of(network_bound_problem(), 2, 1, 1);
  const auto found = simulate_sensitivity({candidate, candidate}, {1, nullptr, [] { return true; }});
  REQUIRE(found.size() == 2);
  CHECK(found[0].empty());
  CHECK(found[1].empty());
  CHECK(mean_rise(found[0]) == 0);
}

TEST_CASE("of near-equal plans the one that is best under perturbations is chosen") {
  const auto perturbed_s = [](const FinalistResult& it) {
    return it.seconds * (1 + mean_rise(it.sensitivity));
  };
  int changed = 0;
  // One and four pipelines are equally good at 1.75e6.
  for (const double bandwidth : {1.5e6, 1.6e6, 1.7e6, 8e6}) {
    Problem problem{flat_topology({4, 4}, link_of(1e-4, 2 * bandwidth), link_of(0.05, bandwidth)),
                    chain_job(12, 1e8, 1e7), Calibration{1, 0, 1, 0}};
    problem.job.training.global_batch = 32;
    PlanRequest request{problem};
    request.options.common.evaluations = 2000;
    request.near_equal = 0;
    const FoundPlans fastest = find_plans(request);
    const double best_s = fastest.finalist_results.front().seconds;
    REQUIRE(fastest.finalist_results.front().sensitivity.size() == perturbation_table.size());
    request.near_equal = 0.5;
    const FoundPlans robust = find_plans(request);
    const FinalistResult& chosen = robust.finalist_results.front();
    for (std::size_t i = 0; i < robust.plans.size(); ++i) {
      const FinalistResult& it = robust.finalist_results[i];
      CHECK(it.sensitivity.empty() == !(it.seconds <= 1.5 * best_s));
      if (!it.sensitivity.empty()) CHECK(perturbed_s(it) >= perturbed_s(chosen));
      if (i > 1) CHECK(robust.finalist_results[i - 1].seconds <= it.seconds);
    }
    if (chosen.seconds > best_s) ++changed;
  }
  CHECK(changed > 0);
}
