// The dtfm-compare command: reads the inputs, compares the schemes and writes the result.
#include <array>

#include "cli/common/common_work.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/compare/compare_options.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/common/report_file.hpp"
#include "planner/report/report.hpp"
#include "core/io/text/json_format.hpp"
#include "planner/api/compare.hpp"
#include "planner/io/comparison_document.hpp"

namespace dtfm::cli {
namespace {

api::Comparison compare_with_progress(const CompareOptions& options, api::CompareRequest request,
                                      const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-compare");
  request.work.on_progress = [&](const Progress& progress) { printer.show(progress); };
  request.work.stop = watch.stop();
  return api::compare(request);
}

void write_output(const CompareOptions& options, const api::CompareRequest& request,
                  const api::Comparison& comparison) {
  const auto document = io::comparison_document(request, comparison);
  write_output(options.output, options.format, io::format_json(document), format_summary(request, comparison),
               options.color, [&] {
                 if (options.report)
                   write_output_file(*options.report, report::comparison_report("dtfm-compare " DTFM_VERSION,
                                                                                request.problem, document));
               });
}

std::string scheme_list() {
  std::vector<std::vector<std::string>> rows = {
      {std::string(api::planned_scheme), "the plan that dtfm-plan makes"}};
  for (const api::Scheme& it : api::schemes()) rows.push_back({std::string(it.name), std::string(it.what)});
  return align_columns(rows);
}

}  // namespace

int run_compare_command(const CompareOptions& options) {
  if (options.list_schemes) {
    print_result(scheme_list(), options.color);
    return exit_code::done;
  }
  check_report(options.report);
  InterruptWatch watch("a comparison");
  std::vector<std::string> inputs = {file_of(options.topology), file_of(options.job), file_of(options.model),
                                     file_of(options.calibration)};
  for (const request::TextInput& scenario : options.scenarios) inputs.push_back(file_of(scenario));
  const std::array outputs{options.output.value_or(""), options.report.value_or("")};
  if (is_root(options.work.ranks)) check_outputs(inputs, outputs);
  const io::ReadLog read;
  const api::CompareRequest request = read_compare_request(options);
  if (is_root(options.work.ranks)) check_not_read(read, outputs);
  check_same_input(options.work, options.common, read);
  watch.keep_result();
  const api::Comparison comparison = compare_with_progress(options, request, watch);
  if (!continues_alone(options.work.ranks, options.quiet)) return exit_code::done;
  write_output(options, request, comparison);
  if (watch.interrupted()) return exit_code::interrupted;
  return comparison.is_any_feasible() ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
