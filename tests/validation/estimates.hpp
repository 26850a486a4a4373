// Compares estimated with simulated iteration times on random plans.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/base/rng.hpp"

namespace dtfm {

/// Returns a plan of some of the devices in random order, in a random number of pipelines of one random
/// depth, with the layers split as evenly as possible. With schedule interleaved the number of micro-batches
/// is a multiple of the stages, which may differ from the job's.
Plan random_plan(const Problem& problem, Rng& rng);

struct EstimateError {
  double mean = 0,
         worst = 0;  // of estimated ÷ simulated − 1: mean absolute value; largest deviation, with its sign
  double far = 0;    // share of plans with a deviation of more than 5 %
  double rank_correlation = 0;  // Kendall's τ-b
  int plans = 0;
};

/// Returns the error over `plans` random plans drawn from the streams of `seed`.
EstimateError estimate_error(const Problem& problem, int plans, std::uint64_t seed, int threads);

/// Returns the error over one random plan for each of `jobs` random jobs with this schedule, on random
/// topologies of up to nine devices (tests/support/arbitrary_plan.hpp), drawn from streams 0 … . If `shared`,
/// some capacities are shared by several messages.
EstimateError random_job_error(Schedule schedule, int jobs, bool shared, int threads);

/// Returns the error over pipelines in the regular layout (tests/support/regular_layout.hpp): 2 and 4
/// pipelines of 4 and 8 stages, with 1 to 64 micro-batches, on devices whose speeds differ by up to
/// `speed_spread`.
EstimateError regular_layout_error(Schedule schedule, double speed_spread);

/// Returns Kendall's τ-b of pairs (a, b): the share of pairs of pairs in the same order minus the share in
/// opposite order, corrected for ties.
double kendall_tau(const std::vector<std::pair<double, double>>& pairs);

}  // namespace dtfm
