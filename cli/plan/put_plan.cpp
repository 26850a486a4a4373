#include "cli/plan/put_plan.hpp"

#include "cli/common/put_out.hpp"
#include "cli/report/put_report.hpp"

namespace dtfm::cli {

void put_plan(const PlanOptions& options, const Problem& problem, const Plan& plan, const io::PlanRecord& record,
              const std::string& text, const std::function<bool()>& stop) {
  const std::string json = io::plan_json(problem.topology, problem.job, plan, record);
  put_out(options.output, options.format, json, text, options.color, [&] {
    if (options.report) put_plan_report(*options.report, problem, plan, record, stop);
  });
}

}  // namespace dtfm::cli
