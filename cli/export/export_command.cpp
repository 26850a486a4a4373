// The dtfm-export command: reads a plan and writes a folder of files.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/target_formatting.hpp"
#include "cli/export/export_app.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/api/target_times.hpp"
#include "core/base/index.hpp"
#include "planner/export/exporter.hpp"
#include "planner/export/read_export_bundle.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/plan/target.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_bytes = std::size_t{64} << 20;  // of a hosts file or a file read back

/// Throws Error for an image name with blanks, quotes, control or other unusual characters.
void check_image(const std::string& image) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  };
  if (image.empty() || !std::all_of(image.begin(), image.end(), is_allowed))
    throw Error("--image", fmt::format("{} is not a valid name of a container image", io::quote(image)));
}

/// Throws Error for --agents host with a launcher other than torchrun.
void check_agents(const ExportOptions& options, const std::vector<const exporter::Exporter*>& targets) {
  if (options.launch.agents == exporter::AgentPer::gpu) return;
  for (const exporter::Exporter* target : targets)
    if (!target->is_trainer && target->name != "torchrun")
      throw Error("--agents",
                  fmt::format("host requires torchrun; {} starts one process per GPU", target->name));
}

exporter::ExportChoices bundle_choices(const ExportOptions& options, RankOrder order) {
  check_image(options.launch.image);
  exporter::ExportChoices choices;
  choices.order = order;
  choices.launch = options.launch;
  if (options.hosts)
    choices.hosts = io::NamedFile{
        *options.hosts, io::validate_text(io::read_file(*options.hosts, max_bytes), *options.hosts)};
  choices.master = options.master;
  if (options.topology)
    choices.topology = std::make_shared<const Topology>(io::read_topology(*options.topology));
  return choices;
}

exporter::ExportBundle read_bundle(const ExportOptions& options, RankOrder order) {
  const io::NamedFile plan{options.plan, io::read_plan_text(options.plan)};
  std::optional<Job> job;
  if (options.job) job = io::read_job(*options.job);
  return exporter::read_export_bundle(plan, job, bundle_choices(options, order));
}

/// Names of all entries of `folder`, sorted and relative to it; includes the contents of subfolders that
/// `files` use.
std::vector<std::string> names_in(const fs::path& folder, const exporter::ExportFiles& files) {
  std::vector<std::string> names;
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().lexically_relative(folder).generic_string();
    const bool is_used = entry->is_directory() && !entry->is_symlink() &&
                         std::any_of(files.begin(), files.end(), [&](const exporter::ExportFile& it) {
                           return it.name.starts_with(name + "/");
                         });
    if (is_used) continue;
    entry.disable_recursion_pending();
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Throws Error if the folder contains anything but the files to be written, with the same contents: files of
/// another export could be mistaken for this one's, and other files must not be overwritten. --force allows
/// both.
void check_folder(const ExportOptions& options, const exporter::ExportFiles& files) {
  const fs::path folder = options.folder;
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (!fs::is_directory(folder, ignored)) throw Error(options.folder, "is not a folder");
  if (options.force) return;
  for (const std::string& name : names_in(folder, files)) {
    const fs::path path = folder / name;
    const auto expected_file = std::find_if(
        files.begin(), files.end(), [&](const exporter::ExportFile& file) { return file.name == name; });
    if (expected_file == files.end() || !fs::is_regular_file(path) ||
        fs::file_size(path) != expected_file->text.size() ||
        io::read_file(path, expected_file->text.size()) != expected_file->text)
      throw Error(
          options.folder,
          fmt::format(
              "contains {}, which {}; name a new folder, or use --force to overwrite the files of this "
              "export and keep all others",
              io::quote(name),
              expected_file == files.end() ? "is not part of this export"
                                           : "has other contents than in this export"));
  }
}

std::vector<std::string> output_paths(const std::string& folder, const exporter::ExportFiles& files) {
  std::vector<std::string> paths;
  for (const exporter::ExportFile& file : files) paths.push_back((fs::path(folder) / file.name).string());
  return paths;
}

/// Writes the files and reads them back. Throws Error if a file cannot be written or differs when read back.
void write_files(const std::string& folder, const exporter::ExportFiles& files) {
  std::error_code error;
  for (const exporter::ExportFile& file : files) {
    const fs::path parent = (fs::path(folder) / file.name).parent_path();
    fs::create_directories(parent, error);
    if (error) throw Error(parent.string(), fmt::format("cannot be created: {}", error.message()));
  }
  for (const exporter::ExportFile& file : files) io::check_writable(fs::path(folder) / file.name);
  for (const exporter::ExportFile& file : files) {
    const fs::path path = fs::path(folder) / file.name;
    io::write_file_atomically(path, file.text);
    if (file.is_executable)
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
    if (io::read_file(path, std::max(max_bytes, file.text.size())) != file.text)
      throw Error(path.string(), "differs from what was written to it when read back");
  }
}

/// The trainer among the targets that plans are made for; null if there is none.
const exporter::Exporter* trainer_of(const std::vector<const exporter::Exporter*>& targets) {
  for (const exporter::Exporter* target : targets)
    if (target->target) return target;
  return nullptr;
}

constexpr double max_slowdown = 0.05;  // of plans that --strict accepts

/// What the trainer makes of the plan.
struct TrainerTimes {
  api::TargetTime trainer;
  std::optional<double> planned_s = {};  // simulated; empty if the times are not known
  std::string unknown = {};              // why they are not

  bool is_worse() const {
    return planned_s && (trainer.exceeds_memory || trainer.seconds > *planned_s * (1 + max_slowdown));
  }
};

/// `planned` has the settings of the plan; `changes` are those that the trainer makes.
TrainerTimes trainer_times(const ExportOptions& options, const exporter::ExportBundle& planned,
                           const std::vector<TargetChange>& changes, Target target) {
  if (!planned.topology) return {{.target = target, .changes = changes}, {}, "--topology predicts the time"};
  const Problem problem{*planned.topology, planned.job,
                        io::calibration_for(options.calibration, planned.job, *planned.topology).constants,
                        io::built_in_roofline()};
  TrainerTimes times{api::time_on_target(problem, exporter::plan_on_topology(planned), target)};
  try {
    if (!times.trainer.obstacle.empty()) throw NotRunnable(times.trainer.obstacle);
    times.planned_s = sim::simulate_undisturbed(problem, exporter::plan_on_topology(planned)).seconds;
  } catch (const Error& error) {
    if (options.strict) throw;
    times.unknown = fmt::format("the time is not known: {}", error.what());
  }
  return times;
}

/// "megatron takes 47.73 s per iteration, 177 % longer than the planned 17.22 s: schedule …"
std::string format_times(const TrainerTimes& times) {
  const auto& [target, obstacle, all_changes, seconds, exceeds_memory] = times.trainer;
  const std::string_view name = name_of(target);
  const std::string changes = format_changes(all_changes);
  if (!times.planned_s)
    return fmt::format("{} runs {}; {}", name, changes.empty() ? "the plan as planned" : changes,
                       times.unknown);
  const double change = seconds / *times.planned_s - 1;
  std::string text = fmt::format("{} takes {:.4g} s per iteration, ", name, seconds);
  if (changes.empty())
    text += "as planned";
  else if (std::abs(change) < 0.0005)
    text += fmt::format("as long as planned: {}", changes);
  else
    text += fmt::format("{:.1f} % {} than the planned {:.4g} s: {}", 100 * std::abs(change),
                        change < 0 ? "less" : "longer", *times.planned_s, changes);
  if (exceeds_memory) text += "; it exceeds the memory of devices";
  return text + (times.is_worse() ? fmt::format(" (use dtfm-plan --target {0} to plan for {0})", name) : "");
}

std::string format_summary(const ExportOptions& options, const std::optional<TrainerTimes>& times,
                           const exporter::ExportFiles& files, const std::vector<std::string>& notes) {
  std::string text = times ? format_times(*times) + "\n" : "";
  std::vector<std::string> names;  // of files and folders
  for (const exporter::ExportFile& file : files)
    if (const std::string name = file.name.substr(0, file.name.find('/') + 1);
        name.empty() || names.empty() || names.back() != name)
      names.push_back(name.empty() ? file.name : name);
  text += fmt::format("{}: {}\n", options.folder, fmt::join(names, ", "));
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

nlohmann::ordered_json times_json(const TrainerTimes& times) {
  if (!times.planned_s)
    return {{"name", name_of(times.trainer.target)}, {"changes", io::changes_json(times.trainer.changes)}};
  nlohmann::ordered_json json = io::target_json(times.trainer);
  json["planned_s"] = *times.planned_s;
  return json;
}

std::string summary_json(const ExportOptions& options, const std::optional<TrainerTimes>& times,
                         const exporter::ExportBundle& bundle, const exporter::ExportFiles& files,
                         const std::vector<std::string>& notes) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const exporter::ExportFile& file : files) names.push_back(file.name);
  nlohmann::ordered_json json = {{"targets", options.targets},
                                 {"folder", options.folder},
                                 {"ranks", bundle.world_size()},
                                 {"order", rank_order_name(bundle.order)},
                                 {"master", bundle.master()},
                                 {"files", names},
                                 {"notes", notes}};
  if (times) json["trainer"] = times_json(*times);
  return io::format_json(json);
}

/// A note on other files in the folder, which --force permits.
std::vector<std::string> leftover_notes(const ExportOptions& options, const exporter::ExportFiles& files) {
  std::vector<std::string> leftover_files;
  for (const std::string& name : names_in(options.folder, files))
    if (std::none_of(files.begin(), files.end(),
                     [&](const exporter::ExportFile& file) { return file.name == name; }))
      leftover_files.push_back(io::quote(name));
  if (leftover_files.empty()) return {};
  return {fmt::format("{} also contains {}, which {} not part of this export", options.folder,
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
  const exporter::ExportBundle planned =
      read_bundle(options, exporter::choose_rank_order(targets, options.order));
  const exporter::ExportBundle bundle = exporter::run_on_trainer(planned, targets);
  std::optional<TrainerTimes> times;
  if (const exporter::Exporter* trainer = trainer_of(targets))
    times = trainer_times(options, planned, bundle.changes, *trainer->target);
  if (options.strict && times && times->is_worse()) throw NotRunnable("--strict: " + format_times(*times));
  const exporter::ExportFiles files = exporter::export_files(bundle, targets);
  check_not_read(read, output_paths(options.folder, files));
  check_folder(options, files);  // reads the existing files, so it must follow check_not_read
  write_files(options.folder, files);
  const std::vector<std::string> warnings = exporter::memory_notes(bundle);
  for (const std::string& warning : warnings) print_error(fmt::format("dtfm-export: note: {}\n", warning));
  std::vector<std::string> notes = exporter::export_notes(bundle, targets);
  for (std::string& note : leftover_notes(options, files)) notes.push_back(std::move(note));
  if (options.format == OutputFormat::json) {
    notes.insert(notes.begin(), warnings.begin(), warnings.end());
    print_result(summary_json(options, times, bundle, files, notes));
  } else if (!options.quiet) {
    print_result(format_summary(options, times, files, notes), options.color);
  }
  return exit_code::done;
}

}  // namespace dtfm::cli
