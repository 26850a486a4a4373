#include "cli/plan/put_plan.hpp"

#include "cli/common/write_output.hpp"
#include "cli/report/write_report.hpp"

namespace dtfm::cli {

void write_plan_output(const PlanOptions& options, const Problem& problem, const Plan& plan,
                       const io::PlanRecord& record, const std::string& text,
                       const std::function<bool()>& stop) {
  const std::string json = io::plan_json(problem.topology, problem.job, plan, record);
  write_output(options.output, options.format, json, text, options.color, [&] {
    if (options.report) write_plan_report(*options.report, problem, plan, record, stop);
  });
}

}  // namespace dtfm::cli
