#include "cli/report/put_report.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/put_out.hpp"
#include "cli/report/report_document.hpp"
#include "cli/report/report_html.hpp"
#include "simulator/simulate.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;

void put(const std::string& file, const std::string& job, ReportContent content) {
  const std::string title = fmt::format("{} · {} · dtfm", content.topology.name, job);
  put_into(file, report_html(title, report_document(std::move(content))));
}

/// Fills in `simulation` and `timeline`; or why not, for the reader.
std::string simulate_into(ReportContent& content, const Problem& problem, const Plan& plan,
                          const std::function<bool()>& stop) {
  TimelineRecorder recorder(problem.topology.size());
  SimOptions options;
  options.iterations = 1;
  options.stop = stop;
  options.observers = {&recorder};
  try {
    SimReport report = simulate(problem, plan, {}, options);
    if (report.iterations.empty()) return "the plan was not simulated for this page: " + report.stopped;
    SimRecord record;
    record.job = problem.job.name;
    record.version = DTFM_VERSION;
    content.simulation = {std::move(report), std::move(record)};
    content.timeline = recorder.timeline();
  } catch (const Error& error) {
    return fmt::format("the plan could not be simulated: {}", error.what());
  }
  return "";
}

void put_plan_report(const std::string& file, const Problem& problem, const Plan& plan,
                     const PlanRecord& record, const std::function<bool()>& stop) {
  ReportContent content{problem.topology, "dtfm-plan " DTFM_VERSION, {}, {}, {}};
  const std::string why_not = simulate_into(content, problem, plan, stop);
  PlanRecord noted = record;
  if (!why_not.empty()) noted.warnings.push_back(why_not);
  content.plan = plan_document(problem.topology, problem.job, plan, noted);
  put(file, problem.job.name, std::move(content));
}

}  // namespace

void put_plan(const PlanOptions& options, const Problem& problem, const Plan& plan, const PlanRecord& record,
              const std::string& text, const std::function<bool()>& stop) {
  const std::string json = plan_json(problem.topology, problem.job, plan, record);
  put_out(options.output, options.format, json, text, options.color, [&] {
    if (options.report) put_plan_report(*options.report, problem, plan, record, stop);
  });
}

void put_sim_report(const std::string& file, const Problem& problem, const Plan& plan,
                    const SimReport& report, const SimRecord& record, std::optional<Timeline> timeline) {
  ReportContent content{problem.topology, "dtfm-sim " DTFM_VERSION, {}, {}, std::move(timeline)};
  content.plan = plan_document(problem.topology, problem.job, plan, {});
  for (const char* unknown : {"objective", "estimate", "finalists"}) content.plan.erase(unknown);
  content.simulation = {report, record};
  put(file, problem.job.name, std::move(content));
}

void put_comparison_report(const std::string& file, const Problem& problem, ordered_json comparison) {
  ReportContent content{problem.topology, "dtfm-compare " DTFM_VERSION, {}, {}, {}};
  content.comparison = std::move(comparison);
  put(file, problem.job.name, std::move(content));
}

}  // namespace dtfm
