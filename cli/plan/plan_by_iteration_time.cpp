#include "cli/plan/plan_by_iteration_time.hpp"

#include <chrono>

#include <fmt/format.h>

#include "cli/common/common_work.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/write_output.hpp"
#include "cli/plan/iteration_summary.hpp"
#include "cli/plan/pareto.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/search_from_options.hpp"
#include "cli/plan/search_termination.hpp"
#include "cli/plan/warm_start.hpp"
#include "planner/api/time_limit.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"

namespace dtfm::cli {
namespace {

/// Writes the front to its file, and returns its part of the summary.
std::string write_pareto_front(const PlanOptions& options, const Topology& topology,
                               const io::ParetoRecord& front) {
  write_output_file(*options.pareto, io::pareto_json(topology, front));
  return format_pareto_front(front, *options.pareto);
}

/// Notes that no plan fits the memory, and which changes of the job would make one fit.
std::vector<std::string> out_of_memory_notes(const api::PlanRequest& request, const api::PlanResult& search) {
  const bool was_stopped = search.found.stopped == search::Stopped::time_limit ||
                           search.found.stopped == search::Stopped::interrupted;
  std::vector<std::string> notes = {
      fmt::format("no plan {}; in the plan with the smallest deficit, {}",
                  was_stopped ? "that fits the memory of the devices was found before the search ended"
                              : "fits the memory of the devices",
                  format_memory_deficit(search.best()))};
  if (was_stopped) return notes;
  const std::vector<std::string> changes = search::feasible_changes(request.problem, request.options);
  if (changes.empty()) notes.emplace_back("none of the changes that were tried makes a plan fit");
  for (const std::string& change : changes) notes.emplace_back("it would fit with " + change);
  return notes;
}

/// Says why the command took longer than the time limit, beyond what the last steps are allowed.
void note_overrun(const PlanOptions& options) {
  constexpr double tolerance_s = 0.5;
  if (!options.work.time_limit || options.quiet) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - options.begin;
  if (elapsed.count() > *options.work.time_limit + tolerance_s)
    print_error(fmt::format(
        "dtfm-plan: reading the input and finding a first plan took longer than --time-limit {:g}; "
        "the plan was ready after {:.1f} s\n",
        *options.work.time_limit, elapsed.count()));
}

std::vector<io::PlanRecord::Finalist> finalists_of(const api::PlanResult& result) {
  std::vector<io::PlanRecord::Finalist> finalists;
  for (const search::PlanCandidate& plan : result.plans) finalists.push_back({plan, {}, {}});
  for (std::size_t i = 0; i < result.finalist_results.size(); ++i) {
    finalists[i].simulated = result.finalist_results[i].simulated;
    finalists[i].sensitivity = result.finalist_results[i].sensitivity;
  }
  return finalists;
}

}  // namespace

int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationUncertainty>& spread,
                           const std::vector<TargetChange>& target_changes, const io::ReadLog& read,
                           InterruptWatch& watch) {
  const std::vector<api::NamedScenario> scenarios = read_scenarios(options, problem.topology);
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  api::PlanRequest request = plan_request(options, problem, scenarios, printer, watch);
  request.spread = spread;
  if (is_root(options.work.ranks)) check_not_read(read, output_files(options));
  check_same_input(options.work, options.common, read);
  if (options.work.ranks) request.options.common.begin = options.work.ranks->now();
  watch.keep_result();
  const api::PlanResult search = plan_or_name_source(options, request);
  if (!continues_alone(options.work.ranks, options.quiet) &&
      !replaces_root(options.work.ranks, options.output))
    return exit_code::done;
  const search::PlanCandidate& best = search.best();
  io::PlanRecord record = make_plan_record(options, best);
  add_notes(search_notes(search, problem.topology), record);
  if (options.prove && search.stopped() != search::Stopped::optimal)
    record.warnings.emplace_back(
        "the plan is not proven optimal; --prove supports only small problems with iteration_barrier true, "
        "without --scenario");
  if (!search.fits()) add_notes(out_of_memory_notes(request, search), record);
  record.search = io::PlanRecord::Search{options.strategy, options.seed, search.found.evaluations,
                                         search.stopped(), search.found.convergence};
  record.finalists = finalists_of(search);
  record.checkpoint_period = search.checkpoint_period();
  record.fastest_undisturbed = search.fastest_undisturbed;
  if (request.options.warm) record.warm_start = make_warm_start_record(options, search, request.options);
  add_notes(no_progress_notes(search.simulated()), record);
  if (search.fits() && !watch.interrupted()) add_bound(request, search, record);
  add_explanation(options, best, until_time_limit(request.options.common, api::explanation_grace_s), record);
  record.interval = search.interval;
  record.target_changes = target_changes;
  add_target_times(api::simulated_problem(best), best.plan, search.simulated(),
                   until_time_limit(request.options.common, api::explanation_grace_s), record);
  std::string front;
  if (search.front)
    front = write_pareto_front(options, problem.topology,
                               make_pareto_record(options, *search.front, search.pareto_results));
  if (!watch.interrupted()) note_overrun(options);
  write_iteration_plan(options, {api::simulated_problem(best), best.plan, record}, watch.stop(), front);
  if (watch.interrupted()) return exit_code::interrupted;
  return search.fits() && search.completes_iteration() ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
