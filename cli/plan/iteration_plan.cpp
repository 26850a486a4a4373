#include "cli/plan/iteration_plan.hpp"

#include <fmt/format.h>

#include "cli/plan/asked_search.hpp"
#include "cli/plan/iteration_record.hpp"
#include "cli/plan/iteration_summary.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/plan/pareto.hpp"
#include "cli/plan/plan_decisions.hpp"
#include "cli/common/put_out.hpp"
#include "cli/plan/search_end.hpp"
#include "cli/plan/warm_start.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::cli {
namespace {

/// To its file; the words for the summary.
std::string put_front(const PlanOptions& options, const Topology& topology, const io::ParetoRecord& front) {
  put_into(*options.pareto, io::pareto_json(topology, front));
  return pareto_text(front, *options.pareto);
}

/// That no plan fits, and what would make one fit.
std::vector<std::string> lack_notes(const Problem& problem, const search::IterationSearchOptions& options,
                                    const JudgedSearch& search) {
  const bool was_stopped =
      search.found.stopped == search::Stopped::time_limit || search.found.stopped == search::Stopped::interrupted;
  std::vector<std::string> notes = {
      fmt::format("no plan {}; in the one that lacks least, {}",
                  was_stopped ? "that fits the memory of the devices was found in the time"
                              : "fits the memory of the devices",
                  lacking_device(search.best()))};
  if (was_stopped) return notes;
  const std::vector<std::string> changes = search::feasible_changes(problem, options);
  if (changes.empty()) notes.emplace_back("none of the changes that were tried would make one fit");
  for (const std::string& change : changes) notes.emplace_back("it would fit with " + change);
  return notes;
}

void add_decisions(const JudgedSearch& search, std::vector<io::PlanRecord::Finalist>& finalists) {
  std::vector<std::vector<io::PlanRecord::Decision>> decisions;
  for (const search::PlanCandidate& plan : search.plans) decisions.push_back(decisions_of(plan));
  keep_differences(decisions);
  for (std::size_t i = 0; i < finalists.size(); ++i) finalists[i].decisions = decisions[i];
}

}  // namespace

int plan_by_iteration_time(const PlanOptions& options, const Problem& problem,
                           const std::optional<CalibrationSpread>& spread, const io::ReadLog& read,
                           InterruptWatch& watch) {
  const std::vector<JudgedScenario> scenarios = scenarios_of(options, problem.topology);
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const search::IterationSearchOptions asked = search_options(options, problem, printer, watch);
  check_not_read(read, outputs_of(options));
  watch.keep_result();
  const JudgedSearch search = asked_search(options, problem, asked, scenarios, watch);
  const search::PlanCandidate& best = search.best();
  io::PlanRecord record = record_of(options, best);
  add_notes(search.notes, record);
  if (!search.fits()) add_notes(lack_notes(problem, asked, search), record);
  record.search =
      search_record(options, search.found.evaluations, search.found.stopped, search.found.convergence);
  record.finalists = finalists_of(search);
  add_decisions(search, record.finalists);
  if (asked.warm) {
    for (std::size_t i = 0; i < search.plans.size(); ++i)
      record.finalists[i].moving_s = search.plans[i].moving.seconds;
    record.warm_start = warm_record(options, search, *asked.warm);
  }
  add_notes(idle_notes(record.finalists.front()), record);
  if (search.fits() && !watch.interrupted()) {
    add_bound(best, asked, !(problem.job.automatic == Automatic{}), record);
    if (spread)
      record.interval = sim::time_interval(problem_of(best), best.plan, *spread, nominal_seconds(record));
  }
  std::string front;
  if (search.front)
    front = put_front(options, problem.topology,
                      pareto_record(options, *search.front, search.judgements_of_front));
  put_iteration_plan(options, {problem_of(best), best.plan, record}, watch.stop(), front);
  if (watch.interrupted()) return exit_code::interrupted;
  return search.fits() && search.is_ever_done() ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
