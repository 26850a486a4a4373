// Plans and simulates every scheme for one job on one topology: what dtfm-compare does, without text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/work.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "planner/api/speedup.hpp"
#include "core/plan/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::api {

/// The name of the planner's own plan among the schemes.
inline constexpr std::string_view planned_scheme = "planned";

/// The names of all schemes that can be compared, `planned` first.
std::vector<std::string> compared_schemes();

struct CompareRequest {
  /// With a canonical topology (canonical_topology.hpp), the result does not depend on the order of lines in
  /// the topology file.
  Problem problem;
  std::vector<sim::Scenario> scenarios = {sim::Scenario()};  // at least one
  std::vector<std::string> schemes = {};                     // by name; empty: all
  SchemeOptions options = {};          // their seed is also that of the search and the simulations
  std::optional<int> iterations = {};  // per run; empty: the default, or the scenario's horizon
  /// Its progress names the scheme, and is that of the search while this is `planned`.
  Work work = {};
};

/// The run of a scheme under a scenario.
struct ComparedRun {
  std::string failure;  // why there is no result, such as out of memory; empty if there is one
  sim::SimReport report;
  double tokens_per_s = 0;                        // this and the next two are 0 if there is no result
  double seconds_per_batch = 0;                   // for the tokens of one iteration of the job
  double time_ratio = 0;                          // its time ÷ that of the first scheme of the comparison
  std::optional<double> cost_per_million_tokens;  // USD; empty if a price is unknown
};

struct ComparedScheme {
  std::string name, what, assumes;  // `what` and `assumes` are those of `schemes()`
  ChosenLayout chosen;
  std::vector<ComparedRun> runs;  // by scenario; empty without a layout
};

struct Comparison {
  /// In the order of `compared_schemes`. With `planned` and others, these are followed by plans with the
  /// schedule and the collective of others: "planned (1f1b-blocking, ring)".
  std::vector<ComparedScheme> schemes;
  std::vector<Speedup> speedups;  // of `planned`, nominal, for every decomposable scheme with a result
  bool is_interrupted = false;    // schemes may be missing, and runs may be incomplete

  /// Whether any scheme has a layout that fits the memory of the devices.
  bool is_any_feasible() const;
  /// Returns the schemes, sorted for a scenario: complete runs first, then runs that ended early, both by
  /// throughput, then schemes without a result in the order of `schemes`.
  std::vector<const ComparedScheme*> fastest_first(std::size_t scenario) const;
};

/// Chooses the fastest layout of every scheme and simulates it under every scenario, scheme by scheme. Then
/// plans again with the settings between those of each decomposable scheme and those of `planned`. The result
/// does not depend on the number of threads. Throws Error for an unknown scheme, and if the input allows no
/// scheme to be simulated.
Comparison compare(const CompareRequest& request);

}  // namespace dtfm::api
