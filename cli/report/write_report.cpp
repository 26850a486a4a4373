#include "cli/report/write_report.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/common/write_output.hpp"
#include "cli/report/report_document.hpp"
#include "cli/report/report_html.hpp"
#include "core/io/writers/plan_json.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/simulation_document.hpp"

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
  api::SimulateRequest request{problem, plan};
  if (plan.execution.iteration_barrier) request.iterations = 1;  // all take equally long
  request.work.stop = stop;
  request.records_timeline = true;
  try {
    api::SimulateResult result = api::simulate(request);
    if (result.report.iterations.empty())
      return "the plan was not simulated for this page: " + result.report.stopped;
    content.simulation = io::simulation_document(request, result);
    content.simulation["notes"] = ordered_json::array();  // the plan has them
    content.timeline = std::move(result.timeline);
  } catch (const Error& error) {
    return fmt::format("the plan could not be simulated: {}", error.what());
  }
  return "";
}

}  // namespace

void write_plan_report(const std::string& file, const api::PlanAnswer& answer, const StopFunction& stop) {
  const Problem& problem = answer.problem;
  ReportContent content{problem.topology, "dtfm-plan " DTFM_VERSION};
  const std::string failure_reason = add_simulation(content, problem, answer.plan, stop);
  content.plan = io::plan_document(answer);
  if (!failure_reason.empty()) content.plan["warnings"].push_back(failure_reason);
  write_page(file, problem.job.name, std::move(content));
}

void write_sim_report(const std::string& file, const api::SimulateRequest& request,
                      const api::SimulateResult& result, ordered_json document) {
  const Problem& problem = result.problem;
  ReportContent content{problem.topology, "dtfm-sim " DTFM_VERSION};
  content.timeline = result.timeline;
  content.measured = request.measured;
  content.plan = io::plan_json(problem.topology, problem.job, result.plan);
  content.plan.erase("objective");
  content.plan["version"] = DTFM_VERSION;
  document.erase("measured");
  content.simulation = std::move(document);
  write_page(file, problem.job.name, std::move(content));
}

void write_comparison_report(const std::string& file, const Problem& problem, ordered_json comparison) {
  ReportContent content{problem.topology, "dtfm-compare " DTFM_VERSION};
  content.comparison = std::move(comparison);
  write_page(file, problem.job.name, std::move(content));
}

}  // namespace dtfm::cli
