// The plans of a job that need least memory, to see early whether any fits.
#pragma once

#include <optional>
#include <vector>

#include "planner/cost/bounds/memory_bound.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"

namespace dtfm::search {

struct LeastMemory {
  std::optional<cost::MemoryNeed> shortage;  // of all plans, if sums of bytes prove that none fits
  /// Jobs without open settings, those with the smallest need relative to the memory first: for each
  /// combination of degrees and sharding, with the recomputation of which the bound needs least, and with the
  /// strongest one, of which stages of many layers need least; and if the schedule is open, also with
  /// flushes.
  std::vector<Job> jobs;
};

/// `decisions.first` must have been called. Evaluates no plan.
LeastMemory least_memory(const Decisions& decisions, const ShapeLimits& limits);

/// The fewest devices of which sums of bytes do not prove that no plan fits in memory, even if these are the
/// devices with most memory, on one host. 1 more than there are devices if that is proven for all. Throws
/// Error as Decisions::first.
int min_fitting_devices(const Problem& problem, const ShapeLimits& limits);

/// The least sum of bytes, without what processes take, that the devices of a plan have at least. Throws
/// Error as Decisions::first.
double min_fitting_bytes(const Problem& problem, const ShapeLimits& limits);

/// Numbers of stages to try: first the largest, powers of two, and those with which only the devices with
/// most memory are used; then the others.
enum class StageCounts : unsigned char { few, others };

/// Plans of a job that need little memory, to be fitted to the devices, the deepest first. They have as few
/// replicas as possible; if these partition state, others have as many. The tensor-parallel groups with most
/// memory are used, in nearness order and, if they differ, in both orders of memory.
std::vector<Plan> least_memory_plans(const DecidedJob& job, const ShapeLimits& limits, StageCounts counts);

}  // namespace dtfm::search
