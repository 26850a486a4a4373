#include "cli/report/put_report.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/common/put_out.hpp"
#include "cli/report/report_document.hpp"
#include "cli/report/report_html.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::cli {
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
  sim::SimOptions options;
  options.iterations = 1;
  options.stop = stop;
  options.observers = {&recorder};
  try {
    sim::SimReport report = sim::simulate(problem, plan, {}, options);
    if (report.iterations.empty()) return "the plan was not simulated for this page: " + report.stopped;
    io::SimRecord record;
    record.job = problem.job.name;
    record.version = DTFM_VERSION;
    content.simulation = {std::move(report), std::move(record)};
    content.timeline = recorder.timeline();
  } catch (const Error& error) {
    return fmt::format("the plan could not be simulated: {}", error.what());
  }
  return "";
}

}  // namespace

void put_plan_report(const std::string& file, const Problem& problem, const Plan& plan,
                     const io::PlanRecord& record, const std::function<bool()>& stop) {
  ReportContent content{problem.topology, "dtfm-plan " DTFM_VERSION, {}, {}, {}};
  const std::string why_not = simulate_into(content, problem, plan, stop);
  io::PlanRecord noted = record;
  if (!why_not.empty()) noted.warnings.push_back(why_not);
  content.plan = io::plan_document(problem.topology, problem.job, plan, noted);
  put(file, problem.job.name, std::move(content));
}

void put_sim_report(const std::string& file, const Problem& problem, const Plan& plan,
                    const sim::SimReport& report, const io::SimRecord& record, std::optional<Timeline> timeline) {
  ReportContent content{problem.topology, "dtfm-sim " DTFM_VERSION, {}, {}, std::move(timeline)};
  content.plan = io::plan_document(problem.topology, problem.job, plan, {});
  for (const char* unknown : {"objective", "estimate", "finalists"}) content.plan.erase(unknown);
  content.simulation = {report, record};
  put(file, problem.job.name, std::move(content));
}

void put_comparison_report(const std::string& file, const Problem& problem, ordered_json comparison) {
  ReportContent content{problem.topology, "dtfm-compare " DTFM_VERSION, {}, {}, {}};
  content.comparison = std::move(comparison);
  put(file, problem.job.name, std::move(content));
}

}  // namespace dtfm::cli
