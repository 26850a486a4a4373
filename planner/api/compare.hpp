// Plans and simulates every scheme for one job on one topology: what dtfm-compare does, without text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/api/schemes/scheme.hpp"
#include "planner/core/problem.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::api {

/// The name of the planner's own plan among the schemes.
inline constexpr std::string_view planned_scheme = "planned";

/// The names of all schemes that can be compared, `planned` first.
std::vector<std::string> compared_schemes();

struct ComparisonProgress {
  std::string_view scheme;                     // that is being planned
  double share = 0;                            // of the schemes, 0 to 1
  const search::Progress* planning = nullptr;  // of the search, if the scheme is `planned`
};

struct CompareRequest {
  Problem problem;
  std::vector<sim::Scenario> scenarios = {sim::Scenario()};  // at least one
  std::vector<std::string> schemes = {};                     // by name; empty: all
  SchemeOptions options = {};  // their seed is also that of the search and the simulations
  int iterations = 3;          // of each run; a scenario's horizon takes their place
  int threads = 1;
  std::function<void(const ComparisonProgress&)> on_progress = {};  // called by one thread at a time
  std::function<bool()> stop = {};  // asked by any thread; once true, the comparison so far is returned
};

/// The run of a scheme under a scenario.
struct ComparedRun {
  std::string failure;  // why the run is no result, for example an exceeded memory; empty if it is one
  sim::SimReport report;
  double tokens_per_s = 0;                        // 0 if the run is no result; so are the next two
  double seconds_per_batch = 0;                   // for as many tokens as an iteration of the job has
  double time_ratio = 0;                          // its time ÷ that of the first scheme of the comparison
  std::optional<double> cost_per_million_tokens;  // USD; empty if a price is unknown
};

struct ComparedScheme {
  std::string name, what, assumes;  // `what` and `assumes` are those of `schemes()`
  ChosenLayout chosen;
  std::vector<ComparedRun> runs;  // by scenario; empty without a layout
};

struct Comparison {
  std::vector<ComparedScheme> schemes;  // in the order of `compared_schemes`
  bool is_interrupted = false;          // then schemes may be missing, and runs short

  /// Whether any scheme has a layout that fits the memory of the devices.
  bool is_any_feasible() const;
  /// The schemes under a scenario: those with complete runs by throughput, then those whose run ended early
  /// by theirs, then those without a result in the order of `schemes`.
  std::vector<const ComparedScheme*> fastest_first(std::size_t scenario) const;
};

/// Chooses the fastest layout of every scheme and simulates it under every scenario, scheme by scheme. The
/// result does not depend on the number of threads. Throws Error for an unknown scheme, and if the input
/// allows no scheme to be simulated.
Comparison compare(const CompareRequest& request);

}  // namespace dtfm::api
