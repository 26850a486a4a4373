// Estimated iteration times against simulated ones, on random plans.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/core/rng.hpp"

namespace dtfm {

/// Some devices of the topology in a random order, in a random number of pipelines of one random depth; the
/// layers as even as possible. With schedule interleaved the micro-batches are multiples of the stages, and
/// may be others than the job's.
Plan random_plan(const Problem& problem, Rng& rng);

struct EstimateError {
  double mean = 0,
         worst = 0;  // of estimated ÷ simulated − 1: its absolute value; with its sign, the farthest
  double far = 0;    // share that is off by more than 5 %
  double rank_correlation = 0;  // Kendall's τ-b
  int plans = 0;
};

/// Of `plans` random plans, of streams `seed`.
EstimateError estimate_error(const Problem& problem, int plans, std::uint64_t seed, int threads);

/// Of any plans of so many random jobs with this schedule, each on a random topology of up to nine devices
/// (tests/support/arbitrary_plan.hpp), of streams 0 … ; `shared`: some capacities are of several messages.
EstimateError random_job_error(const std::string& schedule, int jobs, bool shared, int threads);

/// Of pipelines in the regular layout (tests/support/regular_layout.hpp): 2 and 4 of 4 and 8 stages, with 1
/// to 64 micro-batches, on devices whose speeds differ by up to `unlike`.
EstimateError regular_layout_error(const std::string& schedule, double speed_spread);

/// Kendall's τ-b of pairs (a, b): the share of pairs of pairs in the same order less that in opposite orders,
/// where ties are in neither.
double kendall_tau(const std::vector<std::pair<double, double>>& pairs);

}  // namespace dtfm
