// The dtfm-calibrate command: reads measured iterations and fits the constants of the simulator.
#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/calibrate/calibrate_options.hpp"
#include "cli/calibrate/calibrate_summary.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/write_output.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/named_file.hpp"
#include "planner/io/calibration_document.hpp"

namespace dtfm::cli {
int run_calibrate_command(const CalibrateOptions& options) {
  const InterruptWatch watch("a calibration");
  const std::array outputs{options.output.value_or("")};
  check_outputs(std::array{file_of(options.topology), file_of(options.runs), file_of(options.job)}, outputs);
  const io::ReadLog read;
  api::CalibrateRequest request = read_calibrate_request(options);
  check_not_read(read, outputs);
  ProgressPrinter printer(options.quiet, "dtfm-calibrate");
  request.work.on_progress = [&](const Progress& progress) { printer.show(progress); };
  const api::CalibrateResult result = api::calibrate(request);
  write_output(options.output, options.format, io::format_json(io::calibration_document(request, result)),
               format_summary(request, result), options.color);
  return exit_code::done;
}

}  // namespace dtfm::cli
