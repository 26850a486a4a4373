// Tests which plans a search keeps and in which order it returns them.
#include "planner/search/iteration_time/plan_pool.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/search/iteration_time/decisions.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

class Fixture {
 public:
  /// Returns a candidate that is identified by shape, job and score only.
  PlanCandidate candidate(int stages, int replicas, double score, bool is_of_other_job = false) const {
    PlanCandidate result{is_of_other_job ? other_ : job_, plan_of(problem_.job, stages, replicas, 1), score,
                         0};
    result.plan.pipelines.front().micro_batches = static_cast<int>(100 * score);
    result.score = score;
    return result;
  }

 private:
  Problem problem_{flat_topology({4}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  std::shared_ptr<const DecidedJob> job_ = Decisions(problem_).first(), other_ = Decisions(problem_).first();
};

std::vector<double> scores(const std::vector<PlanCandidate>& plans) {
  std::vector<double> result;
  for (const PlanCandidate& it : plans) result.push_back(it.score);
  return result;
}

}  // namespace

TEST_CASE("a pool keeps the best three plans per shape and job") {
  const Fixture f;
  PlanPool pool(10);
  CHECK(pool.empty());
  CHECK_FALSE(pool.has_fitting());
  for (const double score : {5.0, 3.0, 4.0, 6.0, 2.0}) pool.keep(f.candidate(2, 2, score));
  CHECK(scores(pool.best_diverse(10)) == std::vector{2.0, 3.0, 4.0});
  CHECK(pool.has_fitting());
  pool.keep(f.candidate(2, 2, 3));  // it is kept already
  CHECK(scores(pool.best_diverse(10)) == std::vector{2.0, 3.0, 4.0});
}

TEST_CASE("a pool keeps one plan of a single pipeline for all gradient synchronizations") {
  const Fixture f;
  PlanPool pool(10);
  for (const int replicas : {1, 2})
    for (const GradientSync sync : {GradientSync::ring, GradientSync::tree}) {
      PlanCandidate candidate = f.candidate(2, replicas, replicas, sync == GradientSync::tree);
      candidate.plan.execution.gradient_sync = sync;
      pool.keep(candidate);
    }
  CHECK(scores(pool.best_diverse(10)) == std::vector{1.0, 2.0, 2.0});
  CHECK(pool.best_jobs(10).size() == 2);
  CHECK(scores(pool.best_per_job(2)) == std::vector{1.0, 2.0});
}

TEST_CASE("of plans that differ in their flushes only a pool keeps the best") {
  const Fixture f;
  PlanPool pool(10);
  const auto keep = [&](double score, std::optional<int> flush) {
    PlanCandidate candidate = f.candidate(2, 2, 1);
    candidate.score = score;
    candidate.plan.execution.flush = flush;
    pool.keep(std::move(candidate));
  };
  keep(5, 1);
  keep(3, 2);
  keep(4, 4);
  CHECK(scores(pool.best_diverse(10)) == std::vector{3.0});
  CHECK(pool.best().plan.execution.flush == 2);
  // So the pool has room for two other plans of this shape and job.
  pool.keep(f.candidate(2, 2, 7));
  pool.keep(f.candidate(2, 2, 6));
  CHECK(scores(pool.best_diverse(10)) == std::vector{3.0, 6.0, 7.0});
}

// Of the plans of one shape, those with scores 1, 1.01 and 1.02 are better than one of another shape with
// 1.1, which is simulated nevertheless; one with 1.3 is too bad.
TEST_CASE("half of the finalists have different layouts, as far as they are nearly as good") {
  const Fixture f;
  PlanPool pool(10);
  for (const double score : {1.0, 1.01, 1.02}) pool.keep(f.candidate(2, 2, score));
  pool.keep(f.candidate(4, 1, 1.1));
  pool.keep(f.candidate(1, 2, 1.3));
  CHECK(scores(pool.finalists(4)) == std::vector{1.0, 1.01, 1.02, 1.1});
  CHECK(scores(pool.finalists(3)) == std::vector{1.0, 1.01, 1.1});
  CHECK(scores(pool.finalists(1)) == std::vector{1.0});
  CHECK(scores(pool.finalists(9)).size() == 5);
}

TEST_CASE("finalists do not differ only in interchangeable devices") {
  const Fixture f;
  PlanPool pool(10);
  const PlanCandidate candidate = f.candidate(2, 1, 1);
  PlanCandidate permuted = candidate, elsewhere = candidate;
  std::swap(permuted.plan.pipelines[0].stages[0].devices, permuted.plan.pipelines[0].stages[1].devices);
  elsewhere.plan.pipelines[0].stages[0].devices = {3};
  elsewhere.score = 1.05;
  for (const PlanCandidate& it : {candidate, permuted, elsewhere}) pool.keep(it);
  CHECK(scores(pool.best_diverse(10)) == std::vector{1.0, 1.0, 1.05});
  CHECK(scores(pool.finalists(10)) == std::vector{1.0, 1.05});
}

TEST_CASE("a full pool drops the worst plan") {
  const Fixture f;
  PlanPool pool(2);
  pool.keep(f.candidate(1, 1, 3));
  pool.keep(f.candidate(2, 1, 2));
  pool.keep(f.candidate(3, 1, 4));
  CHECK(scores(pool.best_diverse(10)) == std::vector{2.0, 3.0});
  pool.keep(f.candidate(4, 1, 1));
  CHECK(scores(pool.best_diverse(10)) == std::vector{1.0, 2.0});
}

TEST_CASE("different plans come first by shape and job or by shape only") {
  const Fixture f;
  PlanPool pool(10);
  pool.keep(f.candidate(2, 2, 1));
  pool.keep(f.candidate(2, 2, 2));
  pool.keep(f.candidate(2, 2, 3, true));
  pool.keep(f.candidate(1, 4, 4));
  CHECK(scores(pool.best_diverse(10)) == std::vector{1.0, 3.0, 4.0, 2.0});
  CHECK(scores(pool.best_per_shape(10)) == std::vector{1.0, 4.0, 3.0, 2.0});
  CHECK(scores(pool.best_per_shape(2)) == std::vector{1.0, 4.0});
  CHECK(pool.best_shapes(*pool.best().job, 10) == std::vector<Shape>{{2, 2}, {1, 4}});
}
