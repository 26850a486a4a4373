// The dtfm-export command: reads a plan and writes a folder of files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/main_guard.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/export/export_app.hpp"
#include "core/io/text/json_format.hpp"
#include "planner/request/export_options.hpp"

namespace dtfm::cli {
namespace {

std::string format_summary(const ExportOptions& options, const request::ExportAnswer& answer) {
  std::string text = answer.times ? format_times(*answer.times) + "\n" : "";
  std::vector<std::string> names;  // of files and folders
  for (const exporter::ExportFile& file : answer.files)
    if (const std::string name = file.name.substr(0, file.name.find('/') + 1);
        name.empty() || names.empty() || names.back() != name)
      names.push_back(name.empty() ? file.name : name);
  text += fmt::format("{}: {}\n", options.folder, fmt::join(names, ", "));
  for (const std::string& note : answer.notes) text += fmt::format("note: {}\n", note);
  return text;
}

}  // namespace

int run_export_command(const ExportOptions& options) {
  if (options.list_targets) {
    print_result(format_targets());
    return exit_code::done;
  }
  request::ExportAnswer answer = make_export(options);
  write_export(options, answer);
  for (const std::string& warning : answer.warnings)
    print_error(fmt::format("dtfm-export: note: {}\n", warning));
  if (options.format == OutputFormat::json)
    print_result(io::format_json(export_document(options, answer)));
  else if (!options.quiet)
    print_result(format_summary(options, answer), options.color);
  return exit_code::done;
}

}  // namespace dtfm::cli
