#include "cli/swarm_run.hpp"

#include <fmt/format.h>

#include "cli/progress.hpp"
#include "simulator/report/run_totals.hpp"
#include "simulator/schemes/scheme.hpp"

namespace dtfm {

RecordedSwarm swarm_run(const SimulateOptions& options, const Problem& problem, const SwarmSetup& setup,
                        const Scenario& scenario, const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-sim");
  long long steps = 0;  // of all stages together
  const double all_steps = static_cast<double>(options.iterations) * setup.stages;
  const auto show = [&](const SwarmEvent& event) {
    steps += event.kind == SwarmEvent::Kind::stepped;
    if (!printer.is_due()) return;
    const double share =
        scenario.horizon_s ? event.date / *scenario.horizon_s : static_cast<double>(steps) / all_steps;
    printer.show(share, fmt::format("step {}, {:.6g} s simulated", steps / setup.stages, event.date));
  };
  SimOptions sim_options;
  sim_options.iterations = options.iterations;
  sim_options.seed = options.seed;
  sim_options.stop = watch.stop();
  auto [swarm, report] = simulate_as_swarm(problem, setup, scenario, sim_options, show);
  const auto cost = usd_per_million_tokens(problem, report, report.tokens_per_s);
  return {{std::move(swarm), cost}, std::move(report)};
}

}  // namespace dtfm
