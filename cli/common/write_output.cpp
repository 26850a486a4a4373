#include "cli/common/write_output.hpp"

#include <array>

#include "cli/common/interrupt.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "core/io/text/atomic_file.hpp"

namespace dtfm::cli {

void write_output_file(const std::string& file, const std::string& text) {
  const InterruptHold hold(must_be_atomic(std::array{file}));
  io::write_file_atomically(file, text);
}

void write_output(const std::optional<std::string>& output, OutputFormat format, const std::string& json,
                  const std::string& text, ColorChoice color, const std::function<void()>& write_more) {
  if (output) write_output_file(*output, json);
  if (write_more) write_more();
  if (output && io::is_stdout(*output)) return;
  print_result(format == OutputFormat::json ? json : text, color);
}

}  // namespace dtfm::cli
