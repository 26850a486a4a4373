#include "cli/plan/put_plan.hpp"

#include <nlohmann/json.hpp>

#include "cli/common/write_output.hpp"
#include "cli/report/write_report.hpp"
#include "core/io/text/json_format.hpp"

namespace dtfm::cli {

void write_plan_output(const PlanOptions& options, const Problem& problem, const Plan& plan,
                       const io::PlanRecord& record, const std::string& text, const StopFunction& stop) {
  const std::string json = io::format_json(io::plan_document(problem.topology, problem.job, plan, record));
  write_output(options.output, options.format, json, text, options.color, [&] {
    if (options.report) write_plan_report(*options.report, problem, plan, record, stop);
  });
}

}  // namespace dtfm::cli
