#include "cli/common/put_out.hpp"

#include <array>

#include "cli/common/interrupt.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "planner/io/text/atomic_file.hpp"

namespace dtfm::cli {

void put_into(const std::string& file, const std::string& text) {
  const InterruptHold hold(must_be_whole(std::array{file}));
  io::write_whole_file(file, text);
}

void put_out(const std::optional<std::string>& output, OutputFormat format, const std::string& json,
             const std::string& text, ColorChoice color, const std::function<void()>& put_more) {
  if (output) put_into(*output, json);
  if (put_more) put_more();
  if (output && io::is_stdout(*output)) return;
  print_result(format == OutputFormat::json ? json : text, color);
}

}  // namespace dtfm::cli
