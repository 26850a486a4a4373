#include "planner/search/comm_cost/strategy.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "planner/search/comm_cost/lower_bound.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {
namespace {

constexpr std::array table{
    Strategy{"evolutionary", "memetic: islands of annealed placements that recombine, from structured ones",
             run_evolutionary, true},
    Strategy{"genetic", "genetic search of Yuan et al.: crossover and cyclic local search", run_genetic},
    Strategy{"kernighan-lin", "the baseline of Yuan et al.: genetic with the Kernighan-Lin gain",
             run_kernighan_lin},
    Strategy{"random", "the best of many random partitions", run_random, true},
    Strategy{"exhaustive", "every partition; feasible for up to a dozen devices", run_exhaustive},
    Strategy{"identity", "file order, pipeline by pipeline", run_identity},
    Strategy{"megatron", "file order, stage by stage, as Megatron-LM numbers its ranks", run_megatron},
};

/// The strategy that this rank runs. If a strategy is sequential, only the root runs it. The other ranks need
/// only some placement, whichever it is.
const Strategy& strategy_of_rank(const Strategy& given, const SearchOptions& options) {
  if (!options.ranks || given.is_divided) return given;
  options.ranks->leave();
  return options.ranks->is_root() ? given : strategy_named("identity");
}

}  // namespace

const Strategy& strategy_named(std::string_view name) {
  const auto* found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  if (found != table.end()) return *found;
  std::string known;
  for (const Strategy& row : table) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  throw Error("--strategy", fmt::format("unknown strategy `{}`; known: {}", name, known));
}

std::span<const Strategy> strategies() {
  return table;
}

SearchResult search_comm_cost(const cost::CommCostModel& model, std::string_view strategy,
                              const SearchOptions& options) {
  SearchRun run(model, options);
  Stopped stopped = strategy_of_rank(strategy_named(strategy), options).run(run);
  const bool is_own_end = stopped == Stopped::evaluations && !options.evaluations;
  if (is_own_end) stopped = Stopped::converged;  // the strategy's default number of evaluations is used up
  if (options.ranks) {
    options.ranks->leave();
    if (!options.ranks->is_root()) return run.result(stopped);
  }
  run.use_full_time_limit();
  const auto stop = [&] { return run.must_stop(); };
  if (run.lower_bound().method.empty()) run.set_lower_bound(quick_lower_bound(model, run.best_cost(), stop));
  if (options.prove && !run.is_optimal() && !run.must_stop()) {
    prove_lower_bound(model, run.best_cost(), stop, [&](LowerBound bound) {
      run.set_lower_bound(std::move(bound));
      run.report_progress();
    });
  }
  const bool ended_by_itself = stopped == Stopped::evaluations || stopped == Stopped::converged;
  if (ended_by_itself && run.must_stop()) stopped = run.reason_to_stop();
  if (run.is_optimal() && stopped != Stopped::complete) stopped = Stopped::optimal;
  return run.result(stopped);
}

}  // namespace dtfm::search
