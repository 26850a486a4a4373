// What both searches, by communication cost and by iteration time, are told and report.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/work.hpp"

namespace dtfm::search {

struct SearchOptions : Work {
  std::uint64_t seed = 0;
  std::optional<long long> evaluations = {};  // candidates to evaluate; empty: the search's default
  bool prove = false;  // continue until the lower bound meets the cost; takes half of a time limit
};

/// Elapsed share of the time limit since `begin`, which must be set if there is one; 0 without a limit.
double time_share(const SearchOptions& options);

/// What ended a search: the requested evaluations were used up; the search converged; the result is proven
/// optimal; all candidates were evaluated; the time limit or an interrupt; or no plan was found that fits in
/// memory.
enum class Stopped { evaluations, converged, optimal, complete, time_limit, interrupted, no_fit };
std::string_view name_of(Stopped stopped);

/// The best cost known after a number of evaluations.
struct ConvergencePoint {
  long long evaluations = 0;
  double cost = 0;  // s, or the unit of an objective's score
};

}  // namespace dtfm::search
