#include "cli/report/write_report.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/common/write_output.hpp"
#include "cli/report/report_document.hpp"
#include "cli/report/report_html.hpp"
#include "planner/api/simulate.hpp"

namespace dtfm::cli {
namespace {

using nlohmann::ordered_json;

void write_page(const std::string& file, const std::string& job, ReportContent content) {
  const std::string title = fmt::format("{} · {} · dtfm", content.topology.name, job);
  write_output_file(file, report_html(title, report_document(std::move(content))));
}

/// Sets `simulation` and `timeline`. Returns the reason if that is not possible, else an empty text.
std::string add_simulation(ReportContent& content, const Problem& problem, const Plan& plan,
                           const StopFunction& stop) {
  sim::TimelineRecorder recorder(problem.topology->size());
  api::SimulateRequest request{problem, plan};
  if (plan.execution.iteration_barrier) request.iterations = 1;  // all take equally long
  request.work.stop = stop;
  request.observers = {&recorder};
  try {
    sim::SimReport report = api::simulate(request).report;
    if (report.iterations.empty()) return "the plan was not simulated for this page: " + report.stopped;
    io::SimRecord record;
    record.job = problem.job.name;
    record.version = DTFM_VERSION;
    record.input = model_input(problem.job.model);
    content.simulation = {std::move(report), std::move(record)};
    content.timeline = recorder.timeline();
  } catch (const Error& error) {
    return fmt::format("the plan could not be simulated: {}", error.what());
  }
  return "";
}

}  // namespace

void write_plan_report(const std::string& file, const Problem& problem, const Plan& plan,
                       const io::PlanRecord& record, const StopFunction& stop) {
  ReportContent content{problem.topology, "dtfm-plan " DTFM_VERSION, {}, {}, {}};
  const std::string failure_reason = add_simulation(content, problem, plan, stop);
  io::PlanRecord record_with_note = record;
  if (!failure_reason.empty()) record_with_note.warnings.push_back(failure_reason);
  content.plan = io::plan_document(problem.topology, problem.job, plan, record_with_note);
  write_page(file, problem.job.name, std::move(content));
}

void write_sim_report(const std::string& file, const Problem& problem, const Plan& plan,
                      const sim::SimReport& report, const io::SimRecord& record,
                      std::optional<sim::Timeline> timeline, std::optional<sim::Timeline> measured) {
  ReportContent content{problem.topology, "dtfm-sim " DTFM_VERSION, {}, {}, std::move(timeline)};
  content.measured = std::move(measured);
  content.plan = io::plan_document(problem.topology, problem.job, plan, {});
  for (const char* unknown : {"objective", "estimate", "finalists"}) content.plan.erase(unknown);
  content.simulation = {report, record};
  write_page(file, problem.job.name, std::move(content));
}

void write_comparison_report(const std::string& file, const Problem& problem, ordered_json comparison) {
  ReportContent content{problem.topology, "dtfm-compare " DTFM_VERSION, {}, {}, {}};
  content.comparison = std::move(comparison);
  write_page(file, problem.job.name, std::move(content));
}

}  // namespace dtfm::cli
