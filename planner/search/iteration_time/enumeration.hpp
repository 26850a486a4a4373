// Enumerates the plans of small problems: exact where searches are not.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// A plan that a lower bound does not rule out.
struct EnumeratedPlan {
  PlanCandidate candidate;
  double lower_bound_s = 0;  // of its iteration time
};

struct Enumeration {
  std::vector<EnumeratedPlan> plans;  // those that fit in memory, ascending by estimate
  long long evaluations = 0, steps = 0;
  bool is_complete = true;  // otherwise there were too many plans

  void sort();
};

/// How much an enumeration may do before it gives up: by default, a few seconds and 200 MB.
struct EnumerationLimits {
  std::size_t jobs = 500;          // combinations of what the job leaves open
  std::size_t pipelines = 30'000;  // without their micro-batches
  long long steps = 20'000'000;    // pipelines added to plans; a complete plan counts as 10
  std::size_t bounds = 1'000'000;  // of pipelines with their micro-batches
  std::size_t plans = 50'000;      // that no bound rules out
};

/// Whether the first decided job of the problem has no more pipelines than `limits` allow.
bool has_few_pipelines(const Problem& problem, const ShapeLimits& shape, const EnumerationLimits& limits);

/// All plans of a decided job whose lower bound is below `limit_s`: any number of pipelines of any depths,
/// any devices, layers and micro-batches, and any order of the pipelines where gradient synchronization
/// depends on it. Plans that differ in interchangeable devices only count as one. Incomplete with
/// tensor parallelism, whose groups are tried only as they are formed in nearness order.
Enumeration enumerate_plans(const std::shared_ptr<const DecidedJob>& job, const ShapeLimits& shape,
                            double limit_s, const EnumerationLimits& limits,
                            const std::function<bool()>& stop);

/// The same for all combinations of what the job leaves open. `limits` are for all of them together.
Enumeration enumerate_plans(const Problem& problem, const ShapeLimits& shape, double limit_s,
                            const EnumerationLimits& limits, const std::function<bool()>& stop);

}  // namespace dtfm::search
