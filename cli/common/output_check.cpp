#include "cli/common/output_check.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "cli/common/interrupt.hpp"
#include "core/base/error.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/read_log.hpp"

namespace dtfm::cli {
namespace {

/// Returns true also for a file that does not exist yet.
bool is_regular_file(const std::string& output) {
  std::error_code code;
  const auto kind = std::filesystem::status(output, code).type();
  return !io::is_stdout(output) &&
         (kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found);
}

void check_output(std::span<const std::string> inputs, const std::string& output) {
  for (const std::string& input : inputs)
    if (!input.empty() && io::is_same_file(input, output))
      throw Error(output, "cannot write: it is an input");
  const InterruptHold hold(is_regular_file(output));
  io::check_writable(output);
}

}  // namespace

bool must_be_atomic(std::span<const std::string> outputs) {
  bool has_output = false;
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    if (!is_regular_file(output)) return false;
    has_output = true;
  }
  return has_output;
}

void check_kind(const std::string& output, bool (*begins_as_expected)(const std::string& begin),
                std::string_view kind) {
  constexpr std::size_t max_size = 100;
  std::error_code code;
  if (io::is_stdout(output) || !std::filesystem::is_regular_file(output, code)) return;
  std::string begin(max_size, ' ');
  std::ifstream file(output);
  file.read(begin.data(), static_cast<std::streamsize>(max_size));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  if (!begin.empty() && !begins_as_expected(begin))
    throw Error(output, fmt::format("cannot write: it exists and is not a {}", kind));
}

bool begins_as_json(const std::string& begin) {
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  return first == std::string::npos || begin[first] == '{';
}

void check_outputs(std::span<const std::string> inputs, std::span<const std::string> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    check_output(inputs, outputs[i]);
    for (std::size_t k = 0; k < i; ++k)
      if (!outputs[k].empty() && io::is_same_file(outputs[i], outputs[k]))
        throw Error(outputs[i], "cannot write: it is given for two outputs");
  }
}

}  // namespace dtfm::cli
