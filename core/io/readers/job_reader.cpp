#include "core/io/readers/job_reader.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plan/compression.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/target_settings.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

// the texts of configs/gpt3-xl.yaml and of configs/profiles
extern const std::string_view gpt3_xl_yaml, v100_json, h100_gpt3_xl_json, h100_gpt3_6_7b_json,
    h100_llama_3_8b_json, h200_gpt3_xl_json, h200_gpt3_6_7b_json, h200_llama_3_8b_json;

namespace {

constexpr int max_count = 1'000'000'000;
constexpr std::size_t max_profiles = 64;

int read_whole_number(const YamlValue& value, int min_value, int max_value) {
  return static_cast<int>(value.integer(min_value, max_value));
}

int required_count(const YamlMap& map, std::string_view key, int max_value) {
  return read_whole_number(map.required(key), 1, max_value);
}

/// Sets `kind` to the value that `key` names, which must be one that jobs may name. Leaves it unchanged if
/// the key is missing. If `automatic` is given, the key may also be `auto`, which sets only that.
template <class Row>
void read_kind(const YamlMap& map, std::string_view key, std::span<const Row> table,
               decltype(Row::kind)& kind, bool* automatic = nullptr) {
  const auto value = map.optional(key);
  if (automatic) *automatic = value && value->is_word("auto");
  if (!value || (automatic && *automatic)) return;
  const std::vector<std::string_view> names = names_in_jobs(table);
  kind = *kind_named(table, names[value->choice(names)]);
}

/// Returns nullopt for `auto` and if the key is missing.
std::optional<int> count_or_auto(const YamlMap& map, std::string_view key) {
  const auto value = map.optional(key);
  if (!value || value->is_word("auto")) return std::nullopt;
  return read_whole_number(*value, 1, max_count);
}

std::optional<int> optional_count(const YamlMap& map, std::string_view key, int min_value) {
  const auto value = map.optional(key);
  return value ? std::optional(read_whole_number(*value, min_value, max_count)) : std::nullopt;
}

/// Sets the micro-batch of `job`, whose global batch must have been read, to a number, or leaves it open:
/// `auto`, or a list of numbers to choose from.
void read_micro_batch(const YamlValue& value, Job& job) {
  job.automatic.micro_batch = value.is_word("auto");
  if (job.automatic.micro_batch) return;
  const auto read = [&](const YamlValue& it) {
    const int size = read_whole_number(it, 1, max_count);
    if (job.training.global_batch % size != 0)
      throw it.value_error(
          fmt::format("{} does not divide global_batch {}", size, job.training.global_batch));
    return size;
  };
  if (!value.is_list()) {
    job.execution.micro_batch = read(value);
    return;
  }
  std::set<int> sizes;
  for (const YamlValue& it : value.list()) sizes.insert(read(it));
  if (sizes.empty()) throw value.value_error("is empty");
  job.execution.micro_batch = *sizes.begin();
  job.automatic.micro_batch = sizes.size() > 1;
  if (job.automatic.micro_batch) job.micro_batch_choices.assign(sizes.begin(), sizes.end());
}

/// Sets micro-batch and recomputation of `job`, whose global batch must have been read.
void read_micro_batch_and_recomputation(const YamlMap& map, Job& job) {
  ExecutionConfig& execution = job.execution;
  if (const auto micro_batch = map.optional("micro_batch")) read_micro_batch(*micro_batch, job);
  read_kind(map, "recompute", recomputation_table(), execution.recomputation, &job.automatic.recomputation);
}

/// Checks only the settings that the job fixes; the planner chooses the others to match.
void check_sharding(const YamlMap& map, const Job& job) {
  const auto sharding = map.optional("optimizer_sharding");
  if (!sharding || job.automatic.optimizer_sharding) return;
  ExecutionConfig fixed = job.execution;
  if (job.automatic.gradient_sync) fixed.gradient_sync = GradientSync::ring;
  if (job.automatic.schedule) fixed.schedule = Schedule::one_f_one_b;
  try {
    check_optimizer_sharding(fixed);
  } catch (const Error& error) {
    throw sharding->value_error(error.what());
  }
}

/// Sets what a job has in `parallelism` besides the degrees.
void read_schedule_and_sync(const YamlMap& map, Job& job) {
  ExecutionConfig& execution = job.execution;
  read_kind(map, "schedule", schedule_table(), execution.schedule, &job.automatic.schedule);
  read_kind(map, "gradient_sync", gradient_sync_table(), execution.gradient_sync,
            &job.automatic.gradient_sync);
  execution.optimizer_sharding = OptimizerSharding::none;
  read_kind(map, "optimizer_sharding", optimizer_sharding_table(), execution.optimizer_sharding,
            &job.automatic.optimizer_sharding);
  execution.chunks = optional_count(map, "chunks", 2);
  execution.flush = optional_count(map, "flush", 1);
  const auto overlap = map.optional("overlap");
  execution.overlap = overlap && overlap->boolean();
  const auto tied = map.optional("tied_embedding_sync");
  execution.tied_embedding_sync = tied && tied->boolean();
  const auto barrier = map.optional("iteration_barrier");
  execution.iteration_barrier = !barrier || barrier->boolean();
  const ScheduleTraits& schedule = traits(execution.schedule);
  if (schedule.has_chunks && !execution.chunks)
    throw map.required("schedule")
        .value_error(fmt::format("`{}` requires `chunks`, the number of stages per device", schedule.name));
  if (!schedule.has_chunks && execution.chunks)
    throw map.required("chunks").value_error("requires schedule `interleaved`");
  check_sharding(map, job);
}

void read_training(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"global_batch", "micro_batch", "precision", "optimizer", "recompute"});
  job.training.global_batch = required_count(map, "global_batch", max_count);
  read_kind(map, "precision", precision_table(), job.training.precision);
  read_kind(map, "optimizer", optimizer_table(), job.training.optimizer);
  read_micro_batch_and_recomputation(map, job);
}

/// Degrees that are open become 1.
void read_single_devices(const YamlMap& map, Job& job) {
  for (const auto& [key, degree] : {std::pair("pipeline", job.parallelism.pipeline.value_or(1)),
                                    std::pair("tensor", job.parallelism.tensor)})
    if (degree != 1)
      throw map.required("optimizer_sharding")
          .value_error(fmt::format("{} requires {} 1; use zero1, or remove `{}`",
                                   name_of(job.execution.optimizer_sharding), key, key));
  job.parallelism.pipeline = 1;
  job.automatic.tensor = false;
}

void read_parallelism(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"pipeline", "data", "tensor", "schedule", "chunks", "flush", "gradient_sync",
                                 "optimizer_sharding", "overlap", "tied_embedding_sync", "iteration_barrier",
                                 "sequence_parallel", "scatter_gather", "uniform_pipelines"});
  job.parallelism.pipeline = count_or_auto(map, "pipeline");
  job.parallelism.data = count_or_auto(map, "data");
  job.parallelism.tensor = count_or_auto(map, "tensor").value_or(1);
  const auto tensor = map.optional("tensor");
  job.automatic.tensor = tensor && tensor->is_word("auto");
  read_schedule_and_sync(map, job);
  if (requires_single_devices(job)) read_single_devices(map, job);
  if (const auto sequence_parallel = map.optional("sequence_parallel"))
    job.parallelism.sequence_parallel = sequence_parallel->boolean();
  if (const auto scatter_gather = map.optional("scatter_gather")) {
    job.parallelism.scatter_gather = scatter_gather->boolean();
    if (job.parallelism.scatter_gather && job.parallelism.sequence_parallel)
      throw scatter_gather->value_error("requires `sequence_parallel: false`");
  }
  if (const auto uniform_pipelines = map.optional("uniform_pipelines"))
    job.parallelism.uniform_pipelines = uniform_pipelines->boolean();
}

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789+-.eE") == std::string::npos;
}

/// Reads the name of a preset of one of `methods`.
CompressionPreset read_compression_preset(const YamlValue& value,
                                          std::span<const CompressionTraits> methods) {
  const auto preset = parse_compression_preset(value.text());
  std::vector<std::string_view> known;
  for (const CompressionTraits& method : methods) {
    if (preset && preset->method == method.kind) return *preset;
    known.push_back(method.description);
  }
  throw value.value_error(
      fmt::format("expected {}, a ratio or `auto`; found {}", fmt::join(known, ", "), quote(value.text())));
}

/// Reads a ratio, a preset, which `compress` applies, or `auto`, which leaves `ratio` unchanged.
void read_ratio(const YamlMap& map, std::string_view key, std::span<const CompressionTraits> methods,
                double& ratio, bool& automatic,
                const std::function<void(const CompressionPreset&)>& compress) {
  const auto value = map.optional(key);
  automatic = value && value->is_word("auto");
  if (!value || automatic) return;
  if (!value->is_scalar() || is_number(value->text())) {
    ratio = value->ratio();
    return;
  }
  const CompressionPreset preset = read_compression_preset(*value, methods);
  try {
    compress(preset);
  } catch (const Error& error) {
    throw value->value_error(error.what());
  }
}

/// Sets the compression of `job`, whose model and training must have been read.
void read_compression(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"activations", "gradients", "throughput", "bandwidth_threshold"});
  Compression& compression = job.execution.compression;
  std::vector<CompressionTraits> for_activations;
  for (const CompressionTraits& method : compression_table())
    if (method.compresses_activations) for_activations.push_back(method);
  read_ratio(map, "activations", for_activations, compression.activations, job.automatic.activations,
             [&](const CompressionPreset& preset) { compress_activations(job, preset); });
  read_ratio(map, "gradients", compression_table(), compression.gradients, job.automatic.gradients,
             [&](const CompressionPreset& preset) { compress_gradients(job, preset); });
  if (const auto throughput = map.optional("throughput")) compression.throughput = throughput->rate();
  if (const auto threshold = map.optional("bandwidth_threshold"))
    compression.bandwidth_threshold = threshold->rate();
}

void read_analytic(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"analytic", "efficiency"});
  const YamlValue analytic = map.required("analytic");
  if (!analytic.boolean())
    throw analytic.value_error("expected true, or the name of a profile in place of the map");
  const auto efficiency = map.optional("efficiency");
  if (!efficiency) return;
  if (job.efficiency) throw efficiency->value_error("is given twice");
  job.efficiency = efficiency->ratio();
  if (*job.efficiency > 1) throw efficiency->value_error("is more than 1, the peak");
}

/// The shipped profile or the file that the value names.
NamedFile read_named_profile(const YamlValue& value, const FileReader& open_file) {
  const std::array shipped = {std::pair{"v100", &v100_json},
                              std::pair{"h100-gpt3-xl", &h100_gpt3_xl_json},
                              std::pair{"h100-gpt3-6.7b", &h100_gpt3_6_7b_json},
                              std::pair{"h100-llama-3-8b", &h100_llama_3_8b_json},
                              std::pair{"h200-gpt3-xl", &h200_gpt3_xl_json},
                              std::pair{"h200-gpt3-6.7b", &h200_gpt3_6_7b_json},
                              std::pair{"h200-llama-3-8b", &h200_llama_3_8b_json}};
  std::vector<std::string_view> names;
  for (const auto& [name, text] : shipped) {
    if (value.is_word(name)) return {fmt::format("configs/profiles/{}.json", name), std::string(*text)};
    names.emplace_back(name);
  }
  const std::string name = value.text(max_path_length);
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return open_file(value);
  try {
    return open_file(value);
  } catch (const Error& error) {
    throw Error("", fmt::format("{}; nor is it a shipped profile (these are {})", error.what(),
                                fmt::join(names, ", ")));
  }
}

/// Reads an entry of `profile`: the name of a shipped profile or of a file, an inline profile, or an analytic
/// estimate.
void read_profile_entry(const YamlValue& value, const FileReader& open_file, bool with_profiles, Job& job) {
  if (!with_profiles && !value.is_map()) return;
  LayerProfile profile;
  if (value.is_map()) {
    const auto entries = value.entries();
    const bool is_profile = std::any_of(entries.begin(), entries.end(),
                                        [](const auto& entry) { return entry.first.is_word("schema"); });
    if (!is_profile) return read_analytic(value, job);
    profile = read_profile(value);
  } else {
    NamedFile file = read_named_profile(value, open_file);
    profile = parse_profile(std::move(file.text), std::move(file.path));
  }
  for (const LayerProfile& other : job.profiles)
    if (other.gpu == profile.gpu)
      throw value.value_error(fmt::format("there are two profiles of GPU {}", quote(profile.gpu)));
  job.profiles.push_back(std::move(profile));
}

void read_profiles(const YamlValue& value, const FileReader& open_file, bool with_profiles, Job& job) {
  if (!value.is_list()) return read_profile_entry(value, open_file, with_profiles, job);
  const auto entries = value.list();
  if (entries.empty()) throw value.value_error("must not be empty");
  if (entries.size() > max_profiles)
    throw value.value_error(fmt::format("more than {} profiles", max_profiles));
  for (const YamlValue& entry : entries) read_profile_entry(entry, open_file, with_profiles, job);
}

/// Restricts `job`, whose other keys must have been read, to a target. Throws Error at the first setting of
/// the file, other than `auto`, that the target cannot run.
void read_target(const YamlValue& value, const YamlMap& map, Job& job) {
  for (const RemovedTarget& it : removed_targets())
    if (value.is_word(it.name)) throw value.value_error(std::string(it.message));
  const Target target = target_table()[value.choice(names_in(target_table()))].kind;
  for (const TargetChange& change : restrict_to_target(job, target)) {
    const std::size_t dot = change.key.find('.');
    const auto section = map.optional(change.key.substr(0, dot));
    if (!section) continue;
    for (const auto& [key, setting] : section->entries())
      if (key.is_word(change.key.substr(dot + 1)) && !setting.is_word("auto"))
        throw setting.value_error(fmt::format("target {} does not run {}; expected {}, or no such key",
                                              name_of(target), quote(change.from), quote(change.to)));
  }
}

void read_comm_cost(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"gradient", "activation", "stages"});
  job.comm_cost = {map.required("gradient").bytes(), map.required("activation").bytes()};
  job.comm_cost_stages = optional_count(map, "stages", 1);
}

}  // namespace

namespace {

Job parse_job(std::string text, std::string file, const FileReader& open_file, bool with_profiles = true) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map = versioned_map(document, "a job",
                                    {"version", "name", "target", "model", "training", "parallelism",
                                     "compression", "profile", "calibration", "comm_cost"});
  Job job;
  job.name = map.required("name").text();
  read_training(map.required("training"), job);
  job.model = read_model(map.required("model"), bytes_per_element(job.training), open_file);
  if (const auto parallelism = map.optional("parallelism")) read_parallelism(*parallelism, job);
  if (const auto compression = map.optional("compression")) read_compression(*compression, job);
  if (const auto profile = map.optional("profile")) read_profiles(*profile, open_file, with_profiles, job);
  if (const auto calibration = map.optional("calibration"))
    job.calibration = read_calibration(*calibration, open_file);
  if (const auto volumes = map.optional("comm_cost")) read_comm_cost(*volumes, job);
  if (const auto target = map.optional("target")) read_target(*target, map, job);
  return job;
}

/// Reads files that `file` refers to, relative to its folder.
FileReader reader_beside(const std::filesystem::path& file) {
  return [folder = file.parent_path()](const YamlValue& name) {
    return read_named_file(name, folder, yaml_size_limit);
  };
}

}  // namespace

Job parse_job(std::string text, std::string file) {
  return parse_job(std::move(text), file, reader_beside(file));
}

PlacedExecution parse_execution(std::string text, const std::string& file, const Job& job) {
  const YamlDocument document(std::move(text), file);
  const YamlValue root = document.root();
  const YamlMap map =
      root.map({"micro_batch", "schedule", "chunks", "flush", "gradient_sync", "optimizer_sharding",
                "overlap", "tied_embedding_sync", "iteration_barrier", "recompute", "compression"});
  Job decided;
  decided.model = job.model;
  decided.training = job.training;
  decided.execution = job.execution;
  read_micro_batch_and_recomputation(map, decided);
  read_schedule_and_sync(map, decided);
  PlacedExecution result;
  for (const auto& [key, value] : root.entries()) result.places[key.text()] = value.where();
  if (const auto compression = map.optional("compression")) {
    decided.execution.compression = {};
    read_compression(*compression, decided);
    for (const auto& [key, value] : compression->entries())
      result.places["compression." + key.text()] = value.where();
  }
  if (!(decided.automatic == Automatic{}))
    throw root.error("the execution of a plan has `auto`; expected the settings that were decided");
  result.execution = decided.execution;
  result.place = root.where();
  return result;
}

Job default_job() {
  return parse_job(std::string(gpt3_xl_yaml), "configs/gpt3-xl.yaml");
}

Job read_job(const std::filesystem::path& file, std::string_view referenced_by) {
  return parse_job(read_file(file, yaml_size_limit, referenced_by), file.string());
}

Job read_job_without_profiles(const std::filesystem::path& file) {
  return parse_job(read_file(file, yaml_size_limit), file.string(), reader_beside(file), false);
}

}  // namespace dtfm::io
