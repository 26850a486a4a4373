#include "cli/simulate/swarm_run.hpp"

#include <fmt/format.h>

#include "cli/common/progress.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "simulator/report/run_totals.hpp"

namespace dtfm::cli {

RecordedSwarm run_swarm(const SimulateOptions& options, const Problem& problem, const sim::SwarmSetup& setup,
                        const sim::Scenario& scenario, const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-sim");
  long long steps = 0;  // of all stages together
  const double all_steps = static_cast<double>(options.iterations) * setup.stages;
  const auto show = [&](const sim::SwarmEvent& event) {
    steps += event.kind == sim::SwarmEvent::Kind::stepped;
    if (!printer.is_due()) return;
    const double share =
        scenario.horizon_s ? event.date / *scenario.horizon_s : static_cast<double>(steps) / all_steps;
    printer.show(share, fmt::format("step {}, {:.6g} s simulated", steps / setup.stages, event.date));
  };
  sim::SimOptions sim_options;
  sim_options.iterations = options.iterations;
  sim_options.seed = options.seed;
  sim_options.stop = watch.stop();
  auto [swarm, report] = api::simulate_as_swarm(problem, setup, scenario, sim_options, show);
  const auto cost = sim::usd_per_million_tokens(problem, report, report.tokens_per_s);
  return {{std::move(swarm), cost}, std::move(report)};
}

}  // namespace dtfm::cli
