// Enumerates all plans of a small problem, so that the best one is certain to be among them.
#pragma once

#include <memory>
#include <vector>

#include "core/base/stop.hpp"
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
  long long evaluations = 0;
  bool is_complete = true;  // false if a limit was reached, the caller stopped it, or there are tensor groups
};

/// How much an enumeration may do before it gives up, in total over all combinations of open decisions. The
/// defaults take up to 4 s and 120 MB (tests/benchmarks/tiny_problems.cpp).
struct EnumerationLimits {
  std::size_t jobs = 500;        // combinations of what the job leaves open
  long long pipelines = 30'000;  // without their micro-batches
  long long steps = 20'000'000;  // pipelines added to plans; a complete plan counts as 10
  long long bounds = 1'000'000;  // of pipelines with their micro-batches
  long long plans = 50'000;      // that no bound rules out
};

/// Whether the problem has no more pipelines and decisions than `limits` allow, and no tensor parallelism.
/// (With tensor parallelism, not all ways to form groups on a host would be tried.)
bool can_enumerate(const Problem& problem, const ShapeLimits& shape, const EnumerationLimits& limits);

/// All plans of a problem whose lower bound is below `limit_s`: all combinations of what the job leaves open,
/// any number of pipelines of any depths, any devices, layers and micro-batches, and any order of the
/// pipelines where gradient synchronization depends on it. Plans that differ in interchangeable devices only
/// count as one. Throws Error if the compute times of no device are known.
Enumeration enumerate_plans(const Problem& problem, const ShapeLimits& shape, double limit_s,
                            EnumerationLimits limits, const StopFunction& stop);

}  // namespace dtfm::search
