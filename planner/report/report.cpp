#include "planner/report/report.hpp"

#include <utility>

#include <fmt/format.h>

#include "planner/report/report_document.hpp"
#include "planner/report/report_html.hpp"
#include "core/io/writers/plan_json.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/simulation_document.hpp"

namespace dtfm::report {
namespace {

using nlohmann::ordered_json;

std::string page_of(const std::string& job, ReportContent content) {
  const std::string title = fmt::format("{} · {} · dtfm", content.topology.name, job);
  return report_html(title, report_document(std::move(content)));
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

std::string plan_report(const std::string& program, const api::PlanAnswer& answer, const StopFunction& stop) {
  const Problem& problem = answer.problem;
  ReportContent content{problem.topology, program};
  const std::string failure_reason = add_simulation(content, problem, answer.plan, stop);
  content.plan = io::plan_document(answer);
  if (!failure_reason.empty()) content.plan["warnings"].push_back(failure_reason);
  return page_of(problem.job.name, std::move(content));
}

std::string simulation_report(const std::string& program, const api::SimulateRequest& request,
                              const api::SimulateResult& result, ordered_json document) {
  const Problem& problem = result.problem;
  ReportContent content{problem.topology, program};
  content.timeline = result.timeline;
  content.measured = request.measured;
  content.plan = io::plan_json(problem.topology, problem.job, result.plan);
  content.plan.erase("objective");
  content.plan["version"] = DTFM_VERSION;
  document.erase("measured");
  content.simulation = std::move(document);
  return page_of(problem.job.name, std::move(content));
}

std::string comparison_report(const std::string& program, const Problem& problem,
                              ordered_json comparison) {
  ReportContent content{problem.topology, program};
  content.comparison = std::move(comparison);
  return page_of(problem.job.name, std::move(content));
}

}  // namespace dtfm::report
