// The comm-cost search: from a cost model to a placement. A strategy is one function and one row in the table
// of strategy.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/search_options.hpp"

namespace dtfm::search {

struct LowerBound {
  double value = 0;    // s: no placement costs less
  std::string method;  // description of how it was found
};

struct SearchResult {
  Placement placement;
  cost::CommCost cost;  // cost of `placement` as deployed
  long long evaluations = 0;
  Stopped stopped = Stopped::converged;
  std::vector<ConvergencePoint> convergence;
  LowerBound lower_bound;
};

class SearchRun;

struct Strategy {
  std::string_view name;
  std::string_view summary;
  Stopped (*run)(SearchRun&);
  bool is_divided = false;  // among ranks; otherwise only the root runs it
};

inline constexpr std::string_view default_strategy = "evolutionary";

std::span<const Strategy> strategies();
/// Throws Error for an unknown name.
const Strategy& strategy_named(std::string_view name);
/// Runs the strategy, then computes a lower bound for its result, which among ranks only the root does.
/// `stopped` is what ended the search or, if that came first, the work on the bound. Throws Error for an
/// unknown name.
SearchResult search_comm_cost(const cost::CommCostModel& model, std::string_view strategy,
                              const SearchOptions& options);

}  // namespace dtfm::search
