// dtfm-export without its command line: a plan in, a folder of files out.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/export/export_app.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "planner/export/exporter.hpp"
#include "planner/export/read_export_bundle.hpp"
#include "planner/io/text/atomic_file.hpp"
#include "planner/io/readers/job_reader.hpp"
#include "planner/io/text/json_format.hpp"
#include "planner/io/readers/plan_reader.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"
#include "planner/io/readers/topology_reader.hpp"

namespace dtfm::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_bytes = std::size_t{64} << 20;  // of a list of hosts, or a file of ours

/// A name of an image has no blanks, quotes or control characters.
void check_image(const std::string& image) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  };
  if (image.empty() || !std::all_of(image.begin(), image.end(), is_allowed))
    throw Error("--image", fmt::format("{} is no name of a container image", io::quote(image)));
}

/// Ranks of an agent for a machine are torchrun's alone.
void check_agents(const ExportOptions& options, const std::vector<const exporter::Exporter*>& targets) {
  if (options.launch.agents == exporter::AgentPer::gpu) return;
  for (const exporter::Exporter* target : targets)
    if (!target->is_trainer && target->name != "torchrun")
      throw Error("--agents",
                  fmt::format("host is of torchrun, and {} starts one process for each GPU", target->name));
}

exporter::ExportChoices bundle_choices(const ExportOptions& options, exporter::RankOrder order) {
  check_image(options.launch.image);
  exporter::ExportChoices choices;
  choices.order = order;
  choices.launch = options.launch;
  if (options.hosts)
    choices.hosts =
        io::NamedFile{*options.hosts, io::validate_text(io::read_file(*options.hosts, max_bytes), *options.hosts)};
  choices.master = options.master;
  if (options.topology) choices.topology = std::make_shared<const Topology>(io::read_topology(*options.topology));
  return choices;
}

exporter::ExportBundle read_bundle(const ExportOptions& options, exporter::RankOrder order) {
  const io::NamedFile plan{options.plan, io::read_plan_text(options.plan)};
  std::optional<Job> job;
  if (options.job) job = io::read_job(*options.job);
  return exporter::read_export_bundle(plan, job, bundle_choices(options, order));
}

/// What is in the folder must be what would be written there: files of another hand-over would be mistaken
/// for this one's, and others' files are not overwritten.
void check_folder(const ExportOptions& options, const exporter::ExportFiles& files) {
  const fs::path folder = options.folder;
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (!fs::is_directory(folder, ignored)) throw Error(options.folder, "is no folder");
  if (options.force) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto expected_file =
        std::find_if(files.begin(), files.end(), [&](const exporter::ExportFile& file) { return file.name == name; });
    if (expected_file == files.end() || !entry.is_regular_file() || entry.file_size() != expected_file->text.size() ||
        io::read_file(entry.path(), expected_file->text.size()) != expected_file->text)
      throw Error(options.folder,
                  fmt::format("holds {}, which is not of this hand-over; name a new folder, or use --force "
                              "to write beside and over what is there",
                              io::quote(name)));
  }
}

std::vector<std::string> output_paths(const std::string& folder, const exporter::ExportFiles& files) {
  std::vector<std::string> paths;
  for (const exporter::ExportFile& file : files) paths.push_back((fs::path(folder) / file.name).string());
  return paths;
}

/// What is on the disk must be what was meant.
void write_files(const std::string& folder, const exporter::ExportFiles& files) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(folder, fmt::format("cannot be made: {}", error.message()));
  for (const exporter::ExportFile& file : files) io::check_writable(fs::path(folder) / file.name);
  for (const exporter::ExportFile& file : files) {
    const fs::path path = fs::path(folder) / file.name;
    io::write_file_atomically(path, file.text);
    if (file.is_executable)
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
    if (io::read_file(path, std::max(max_bytes, file.text.size())) != file.text)
      throw Error(path.string(), "reads back otherwise than it was written");
  }
}

std::string format_summary(const ExportOptions& options, const exporter::ExportFiles& files,
                         const std::vector<std::string>& notes) {
  std::string text = fmt::format("{}: ", options.folder);
  for (std::size_t i = 0; i < files.size(); ++i) text += (i > 0 ? ", " : "") + files[i].name;
  text += "\n";
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string summary_json(const ExportOptions& options, const exporter::ExportBundle& bundle, const exporter::ExportFiles& files,
                         const std::vector<std::string>& notes) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const exporter::ExportFile& file : files) names.push_back(file.name);
  return io::format_json({{"targets", options.targets},
                    {"folder", options.folder},
                    {"ranks", bundle.world_size()},
                    {"order", exporter::rank_order_name(bundle.order)},
                    {"master", bundle.master()},
                    {"files", names},
                    {"notes", notes}});
}

/// What --force left there.
std::vector<std::string> leftover_notes(const ExportOptions& options, const exporter::ExportFiles& files) {
  std::vector<std::string> leftover_files;
  for (const auto& entry : fs::directory_iterator(options.folder)) {
    const std::string name = entry.path().filename().string();
    if (std::none_of(files.begin(), files.end(), [&](const exporter::ExportFile& file) { return file.name == name; }))
      leftover_files.push_back(io::quote(name));
  }
  std::sort(leftover_files.begin(), leftover_files.end());
  if (leftover_files.empty()) return {};
  return {fmt::format("{} also holds {}, which {} not of this hand-over", options.folder,
                      fmt::join(leftover_files, ", "), leftover_files.size() == 1 ? "is" : "are")};
}

}  // namespace

int run_export_command(const ExportOptions& options) {
  if (options.list_targets) {
    print_result(format_targets());
    return exit_code::done;
  }
  std::vector<const exporter::Exporter*> targets;
  for (const std::string& name : options.targets) targets.push_back(&exporter::find_exporter(name));
  check_agents(options, targets);
  const io::ReadLog read;
  const exporter::ExportBundle bundle = read_bundle(options, exporter::choose_rank_order(targets, options.order));
  const exporter::ExportFiles files = exporter::export_files(bundle, targets);
  check_not_read(read, output_paths(options.folder, files));
  check_folder(options, files);  // which reads what is there
  write_files(options.folder, files);
  const std::vector<std::string> warnings = exporter::memory_notes(bundle);
  for (const std::string& warning : warnings) print_error(fmt::format("dtfm-export: note: {}\n", warning));
  std::vector<std::string> notes = exporter::export_notes(bundle, targets);
  for (std::string& note : leftover_notes(options, files)) notes.push_back(std::move(note));
  if (options.format == OutputFormat::json) {
    notes.insert(notes.begin(), warnings.begin(), warnings.end());
    print_result(summary_json(options, bundle, files, notes));
  } else if (!options.quiet) {
    print_result(format_summary(options, files, notes), options.color);
  }
  return exit_code::done;
}

}  // namespace dtfm::cli
