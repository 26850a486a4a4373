#include "planner/request/export_options.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/plan/target_requirements.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/parse_number.hpp"
#include "core/io/text/read_log.hpp"
#include "core/io/text/split.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "planner/export/read_export_bundle.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/plan_notes.hpp"
#include "planner/request/problem_options.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::request {
namespace {

namespace fs = std::filesystem;

/// Whether `text` is `first`; false if it is `second`. Throws Error for `option` otherwise.
bool parse_choice(const char* option, const std::string& text, const char* first, const char* second) {
  if (text == first || text == second) return text == first;
  throw Error(option, fmt::format("unknown {}; {}", io::quote(text), io::suggestion(text, {first, second})));
}

void add_targets(const std::string& text, std::vector<std::string>& targets) {
  for (const std::string_view word : io::split(text, ',')) {
    const std::string name(exporter::find_exporter(word).name);
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) targets.push_back(name);
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const exporter::Exporter& exporter : exporter::exporters()) names.emplace_back(exporter.name);
  return names;
}

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
  if (options.hosts) {
    io::NamedFile hosts = read_text(*options.hosts, max_bytes);
    choices.hosts = io::NamedFile{hosts.path, io::validate_text(std::move(hosts.text), hosts.path)};
  }
  choices.master = options.master;
  if (options.topology) choices.topology = std::make_shared<const Topology>(*read(*options.topology));
  return choices;
}

exporter::ExportBundle read_bundle(const ExportOptions& options, RankOrder order) {
  if (options.plan.value) io::ReadLog::note(options.plan.name, "");
  const io::NamedFile plan{options.plan.name,
                           options.plan.value ? *options.plan.value : io::read_plan_text(options.plan.name)};
  std::optional<Job> job;
  if (options.job) job = read(*options.job);
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

std::vector<std::string> paths_of(const ExportOptions& options, const exporter::ExportFiles& files) {
  std::vector<std::string> paths;
  for (const exporter::ExportFile& file : files)
    paths.push_back((fs::path(options.folder) / file.name).string());
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

/// `planned` has the settings of the plan; `changes` are those that the trainer makes.
TrainerTimes trainer_times(const ExportOptions& options, const exporter::ExportBundle& planned,
                           const std::vector<TargetChange>& changes, Target target) {
  if (!planned.topology)
    return {{.target = target, .changes = changes}, {}, "pass --topology to predict the time"};
  const Problem problem{*planned.topology, planned.job,
                        read_calibration(options.calibration, planned.job, *planned.topology).constants,
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

nlohmann::ordered_json times_json(const TrainerTimes& times) {
  if (!times.planned_s)
    return {{"name", name_of(times.trainer.target)}, {"changes", io::changes_json(times.trainer.changes)}};
  nlohmann::ordered_json json = io::target_json(times.trainer);
  json["planned_s"] = *times.planned_s;
  return json;
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

void add_export_inputs(OptionList& list, ExportOptions& options) {
  begin_group(list, heading::inputs);
  add_input(list, "PLAN", "", "plan written by dtfm-plan -o (JSON)", options.plan);
  add_input(list, "--job", "FILE", "job (YAML) [that in the plan]", options.job);
  add_input(list, "--topology", "FILE",
            "topology for which the plan was made (YAML), to predict the time in the trainer; netem requires "
            "it",
            options.topology);
  add_calibration_option(list, options.calibration);
  add_input(list, "--hosts", "FILE", "addresses of the machines, one line `MACHINE ADDRESS` each",
            options.hosts);
}

void add_target_options(OptionList& list, ExportOptions& options) {
  begin_group(list, "Targets");
  Option& to = add_repeatable_option(
      list, "--to", "TARGET",
      "trainers and launchers, comma-separated or repeated; see dtfm-export --list-targets",
      [&](const std::string& words) { add_targets(words, options.targets); });
  set_completion_values(to, target_names());
  add_flag(
      list, "--strict",
      "refuses a plan that the trainer takes over 5 % longer for than planned, or that exceeds memory there",
      options.strict);
}

void add_launch_options(OptionList& list, ExportOptions& options) {
  begin_group(list, "Launch");
  add_option(list, "--order", "stage-major|pipeline-major", "order of ranks [that of the trainer]",
             [&](const std::string& text) {
               options.order = parse_choice("--order", text, "stage-major", "pipeline-major")
                                   ? RankOrder::stage_major
                                   : RankOrder::pipeline_major;
             });
  add_option(list, "--master", "MACHINE", "machine of rank 0; reorders pipelines so that one begins there",
             [&](const std::string& text) { options.master = text; });
  add_option(list, "--port", "N", "port on which rank 0 listens [29500]", [&](const std::string& text) {
    options.launch.port = io::parse_whole_number("--port", text, 1, 65535);
  });
  add_option(list, "--agents", "gpu|host", "torchrun: one agent per GPU or per machine [gpu]",
             [&](const std::string& text) {
               options.launch.agents = parse_choice("--agents", text, "gpu", "host")
                                           ? exporter::AgentPer::gpu
                                           : exporter::AgentPer::host;
             });
  add_option(list, "--cores", "N", "openmpi: CPU cores per machine; every rank may use all of them [16]",
             [&](const std::string& text) {
               options.launch.cores = io::parse_whole_number("--cores", text, 1, 65536);
             });
  add_flag(list, "--any-gpu", "kubernetes: a rank may use any GPU of its machine", options.launch.any_gpu);
  add_option(list, "--image", "NAME", "kubernetes: container image [dtfm-trainer:latest]",
             [&](const std::string& text) { options.launch.image = text; });
}

void add_force_option(OptionList& list, ExportOptions& options) {
  add_flag(list, "--force",
           "writes to a DIR that contains other files, and overwrites those of the same names",
           options.force);
}

void check_export_options(const ExportOptions& options) {
  if (!options.plan.is_given()) throw Error("", "PLAN is missing");
  if (options.targets.empty())
    throw Error("--to", "is missing: name a trainer or launcher (see dtfm-export --list-targets)");
  if (options.strict && !options.topology)
    throw Error("--strict", "requires --topology, to predict the time in the trainer");
  if (options.folder == "-") throw Error("--output", "must be a folder, not stdout");
  if (options.folder.empty()) throw Error("--output", "is missing: name the output folder");
}

bool TrainerTimes::is_worse() const {
  return planned_s && (trainer.exceeds_memory || trainer.seconds > *planned_s * (1 + max_slowdown));
}

/// "megatron takes 47.73 s per iteration, 177 % longer than the planned 17.22 s: schedule …"
std::string format_times(const TrainerTimes& times) {
  const auto& [target, obstacle, all_changes, seconds, exceeds_memory] = times.trainer;
  const std::string_view name = name_of(target);
  const std::string changes = io::format_changes(all_changes);
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

ExportAnswer make_export(const ExportOptions& options) {
  const io::ReadLog read;
  std::vector<const exporter::Exporter*> targets;
  for (const std::string& name : options.targets) targets.push_back(&exporter::find_exporter(name));
  check_agents(options, targets);
  const exporter::ExportBundle planned =
      read_bundle(options, exporter::choose_rank_order(targets, options.order));
  ExportAnswer answer{exporter::run_on_trainer(planned, targets)};
  if (const exporter::Exporter* trainer = trainer_of(targets))
    answer.times = trainer_times(options, planned, answer.bundle.changes, *trainer->target);
  if (options.strict && answer.times && answer.times->is_worse())
    throw NotRunnable("--strict: " + format_times(*answer.times));
  answer.files = exporter::export_files(answer.bundle, targets);
  answer.warnings = exporter::memory_notes(answer.bundle);
  answer.notes = exporter::export_notes(answer.bundle, targets);
  io::check_not_read(read, paths_of(options, answer.files));
  return answer;
}

void write_export(const ExportOptions& options, ExportAnswer& answer) {
  check_folder(options, answer.files);
  write_files(options.folder, answer.files);
  for (std::string& note : leftover_notes(options, answer.files)) answer.notes.push_back(std::move(note));
}

nlohmann::ordered_json export_document(const ExportOptions& options, const ExportAnswer& answer) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const exporter::ExportFile& file : answer.files) names.push_back(file.name);
  std::vector<std::string> notes = answer.warnings;
  notes.insert(notes.end(), answer.notes.begin(), answer.notes.end());
  nlohmann::ordered_json json = {{"targets", options.targets},
                                 {"folder", options.folder},
                                 {"ranks", answer.bundle.world_size()},
                                 {"order", rank_order_name(answer.bundle.order)},
                                 {"master", answer.bundle.master()},
                                 {"files", names},
                                 {"notes", notes}};
  if (answer.times) json["trainer"] = times_json(*answer.times);
  return json;
}

}  // namespace dtfm::request
