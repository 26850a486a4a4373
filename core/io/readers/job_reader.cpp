#include "core/io/readers/job_reader.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plan/stage_mesh.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/hf_config.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/yaml_reader.hpp"
#include "core/plan/compression.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_settings.hpp"

namespace dtfm::io {

// the texts of configs/gpt3-xl.yaml and of configs/profiles
extern const std::string_view gpt3_xl_yaml, pretraining_yaml, v100_json, h100_gpt3_xl_json,
    h100_gpt3_6_7b_json, h100_llama_3_8b_json, h200_gpt3_xl_json, h200_gpt3_6_7b_json, h200_llama_3_8b_json,
    v100_opt_350m_json, a100_opt_350m_json, gh200_opt_350m_json;

namespace {

constexpr int max_count = 1'000'000'000;
constexpr std::size_t max_profiles = 64;

int read_whole_number(const YamlValue& value, int min_value, int max_value) {
  return static_cast<int>(value.integer(min_value, max_value));
}

std::optional<int> optional_count(const YamlMap& map, std::string_view key, int min_value) {
  const auto value = map.optional(key);
  return value ? std::optional(read_whole_number(*value, min_value, max_count)) : std::nullopt;
}

/// Reads a micro-batch of `job`, whose global batch must have been read.
int read_micro_batch(const YamlValue& value, const Job& job) {
  const int size = read_whole_number(value, 1, max_count);
  if (job.training.global_batch % size != 0)
    throw value.value_error(
        fmt::format("{} does not divide global_batch {}", size, job.training.global_batch));
  return size;
}

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789+-.eE") == std::string::npos;
}

/// Reads the name of a preset.
CompressionPreset read_compression_preset(const YamlValue& value, bool for_activations) {
  const auto preset = parse_compression_preset(value.text());
  std::vector<std::string_view> known;
  for (const CompressionTraits& method : compression_table()) {
    if (for_activations && !method.compresses_activations) continue;
    if (preset && preset->method == method.kind) return *preset;
    known.push_back(method.description);
  }
  throw value.value_error(
      fmt::format("expected {}, a ratio or `auto`; found {}", fmt::join(known, ", "), quote(value.text())));
}

/// Reads a ratio, or a preset that jobs may name for it. Model and training of the job must have been read.
void read_ratio(const SettingTraits& setting, const YamlValue& value, Job& job) {
  if (!value.is_scalar() || is_number(value.text())) return setting.set(job, CompressionRatio{value.ratio()});
  const CompressionPreset preset = read_compression_preset(value, setting.is_for_activations);
  try {
    setting.compress(job, preset);
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
}

void read_value(const SettingTraits& setting, const YamlValue& value, Job& job) {
  switch (setting.type) {
    case SettingType::flag:
      return setting.set(job, value.boolean());
    case SettingType::count:
      return setting.set(job, setting.kind == Setting::micro_batch
                                  ? read_micro_batch(value, job)
                                  : read_whole_number(value, setting.min, setting.max));
    case SettingType::factor:
      return setting.set(job, value.number(1, setting.max));
    case SettingType::name: {
      const std::vector<std::string_view> names = setting.names();
      return setting.set(job, names[value.choice(names)]);
    }
    case SettingType::ratio:
      return read_ratio(setting, value, job);
    case SettingType::rate:
      return setting.set(job, value.rate());
  }
}

/// Reads a list of values from which the planner chooses. Until then, the job has the first of them; for
/// schedules, that of first_schedule.
void read_list(const SettingTraits& setting, const YamlValue& list, Job& job) {
  std::vector<SettingValue> values;
  Job read = job;
  for (const YamlValue& it : list.list()) {
    read_value(setting, it, read);
    if (const SettingValue value = setting.get(read); !is_among(values, value)) values.push_back(value);
  }
  if (values.empty()) throw list.value_error("is empty");
  if (setting.type == SettingType::count)
    std::sort(values.begin(), values.end(),
              [](const auto& a, const auto& b) { return std::get<int>(a) < std::get<int>(b); });
  job.automatic[setting.kind] = values.size() > 1;
  setting.set(job, values.front());
  if (values.size() == 1) return;
  job.listed[setting.kind] = std::move(values);
  if (setting.kind != Setting::schedule) return;
  job.execution.schedule = first_schedule(job);
  if (traits(job.execution.schedule).has_chunks)
    throw list.value_error(
        "has only schedules that require `chunks`; give one of them with `chunks`, or add a schedule that "
        "does not require `chunks`");
}

/// Sets what the job says about a setting. Values of other settings that are checked with it, or by which it
/// is read, must have been read.
void read_setting(const SettingTraits& setting, const YamlValue& value, Job& job) {
  if (setting.may_be_list && value.is_list()) return read_list(setting, value, job);
  if (!setting.may_be_auto || !value.is_word("auto")) return read_value(setting, value, job);
  job.automatic[setting.kind] = !setting.none_is_open;
}

/// Reads the settings of a section of a job. Those that are not in the map keep their values.
YamlMap read_section(const YamlValue& value, SettingSection section, Job& job) {
  std::vector<std::string_view> keys;
  for (const SettingTraits& it : setting_table())
    if (it.section == section) keys.push_back(it.name);
  const YamlMap map = value.map(keys);
  for (const SettingTraits& it : setting_table()) {
    if (it.section != section) continue;
    if (const auto given = it.is_required ? map.required(it.name) : map.optional(it.name))
      read_setting(it, *given, job);
  }
  return map;
}

/// Checks only the settings that the job fixes: the others have defaults, which every sharding can run with,
/// and the planner chooses them to match.
void check_sharding(const YamlMap& map, Job& job) {
  const auto sharding = map.optional("optimizer_sharding");
  if (!sharding || job.automatic[Setting::optimizer_sharding]) return;
  const auto fixed = [&] {
    ExecutionConfig result = job.execution;
    if (job.automatic[Setting::recompute]) result.recomputation = Recomputation::none;
    return result;
  };
  for (const SettingValue& sync : listed_values(job, Setting::gradient_sync))
    if (!can_shard(fixed())) traits(Setting::gradient_sync).set(job, sync);
  try {
    check_optimizer_sharding(fixed());
  } catch (const Error& error) {
    throw sharding->value_error(error.what());
  }
}

/// Checks the degrees inside a stage, unless the planner chooses some of them to match.
void check_mesh(const YamlMap& map, const Job& job) {
  const auto expert = map.optional("expert"), data = map.optional("stage_data"),
             context = map.optional("context");
  if ((!expert && !data && !context) || job.automatic[Setting::expert]) return;
  Job fitted = job;
  if (job.automatic[Setting::tensor]) fitted.parallelism.tensor = fitted.execution.expert;
  if (!data) fit_stage_data(fitted);
  if (job.automatic[Setting::micro_batch])
    fitted.execution.micro_batch = fitted.execution.stage_data.value_or(1);
  if (const std::string what = mesh_obstacle(fitted); !what.empty())
    throw(expert ? *expert : data ? *data : *context).value_error(what);
}

/// The map has both keys, and the model of the job must have been read. A number of layers requires that
/// `recompute` is full, `auto` that the planner may choose that.
void check_recompute_layers(const YamlMap& map, const Job& job) {
  const auto layers = map.optional("recompute_layers");
  if (!layers) return;
  const bool is_auto = job.automatic[Setting::recompute_layers], is_open = job.automatic[Setting::recompute];
  if (!allows(job, Setting::recompute, name_of(Recomputation::full)) || (is_open && !is_auto))
    throw layers->value_error("requires `recompute: full`");
  if (const int all = layer_count(job.model); job.execution.recompute_layers.value_or(1) > all)
    throw layers->value_error(
        fmt::format("{} exceeds the {} layers of the model", *job.execution.recompute_layers, all));
}

/// Checks the settings of an execution that require each other.
void check_execution(const YamlMap& map, Job& job) {
  const ScheduleTraits& schedule = traits(job.execution.schedule);
  if (schedule.has_chunks && !job.execution.chunks)
    throw map.required("schedule")
        .value_error(fmt::format("`{}` requires `chunks`, the number of stages per device", schedule.name));
  if (job.execution.chunks && job.automatic[Setting::schedule])
    throw map.required("chunks").value_error(
        "cannot be combined with several schedules, because the planner then chooses `chunks`; remove "
        "`chunks`, or give only `interleaved`");
  if (!schedule.has_chunks && job.execution.chunks)
    throw map.required("chunks").value_error("requires schedule `interleaved`");
  const Messaging messages = job.execution.messaging;
  if (const auto given = map.optional("messages");
      given && !job.automatic[Setting::schedule] && !can_run(messages, schedule.kind))
    throw given->value_error(
        fmt::format("{} cannot run schedule {}: devices would wait for each other; use 1f1b or gpipe",
                    name_of(messages), schedule.name));
  if (const auto given = map.optional("schedule"); given && !job.automatic[Setting::schedule] &&
                                                   !job.automatic[Setting::recompute] &&
                                                   !can_split(job.execution))
    throw given->value_error(fmt::format("{} cannot be combined with recompute {}; use 1f1b", schedule.name,
                                         name_of(job.execution.recomputation)));
  check_sharding(map, job);
}

/// Degrees that are open become 1.
void read_single_devices(const YamlMap& map, Job& job) {
  for (const auto& [key, degree] :
       {std::pair("pipeline", job.parallelism.pipeline.value_or(1)),
        std::pair("tensor", job.parallelism.tensor), std::pair("context", job.execution.context),
        std::pair("stage_data", job.execution.stage_data.value_or(1)),
        std::pair("expert", job.execution.expert)})
    if (degree != 1)
      throw map.required("optimizer_sharding")
          .value_error(fmt::format("{} requires {} 1; use zero1, or remove `{}`",
                                   name_of(job.execution.optimizer_sharding), key, key));
  job.parallelism.pipeline = 1;
  for (const Setting it : {Setting::tensor, Setting::context, Setting::expert}) job.automatic[it] = false;
}

void read_parallelism(const YamlValue& value, Job& job) {
  const YamlMap map = read_section(value, SettingSection::parallelism, job);
  check_execution(map, job);
  check_mesh(map, job);
  if (requires_single_devices(job)) read_single_devices(map, job);
  if (job.parallelism.scatter_gather && job.parallelism.sequence_parallel)
    throw map.required("scatter_gather").value_error("requires `sequence_parallel: false`");
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
                              std::pair{"h200-llama-3-8b", &h200_llama_3_8b_json},
                              std::pair{"v100-opt-350m", &v100_opt_350m_json},
                              std::pair{"a100-opt-350m", &a100_opt_350m_json},
                              std::pair{"gh200-opt-350m", &gh200_opt_350m_json}};
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

/// "does not run `gpipe`"; a schedule that splits the backward pass may only exclude recomputation.
std::string not_run(Target target, const TargetChange& change) {
  const std::span<const Schedule> run = traits(target).schedules;
  const bool splits =
      std::any_of(run.begin(), run.end(), [&](Schedule it) { return name_of(it) == change.from; });
  return splits ? fmt::format("runs {} only without recomputation", quote(change.from))
                : fmt::format("does not run {}", quote(change.from));
}

/// Restricts `job`, whose other keys must have been read, to a target. Throws Error at the first setting of
/// the file, other than `auto`, that the target cannot run.
void read_target(const YamlValue& value, const YamlMap& map, Job& job) {
  for (const RemovedTarget& it : removed_targets())
    if (value.is_word(it.name)) throw value.value_error(std::string(it.message));
  std::optional<Target> target;
  for (const RenamedTarget& it : renamed_targets())
    if (value.is_word(it.name)) target = it.kind;
  if (!target) target = target_table()[value.choice(names_in(target_table()))].kind;
  for (const TargetChange& change : restrict_to_target(job, *target)) {
    const std::size_t dot = change.key.find('.');
    const auto section = map.optional(change.key.substr(0, dot));
    if (!section) continue;
    for (const auto& [key, setting] : section->entries())
      if (key.is_word(change.key.substr(dot + 1)) && !setting.is_word("auto"))
        throw setting.value_error(fmt::format("target {} {}; expected {}, or no such key", name_of(*target),
                                              not_run(*target, change), quote(change.to)));
  }
}

void read_comm_cost(const YamlValue& value, Job& job) {
  const YamlMap map = value.map({"gradient", "activation", "stages"});
  job.comm_cost = {map.required("gradient").bytes(), map.required("activation").bytes()};
  job.comm_cost_stages = optional_count(map, "stages", 1);
}

/// Throws Error at `where` if the job quantizes products of a model whose matrices are not known.
void check_matmul(const Job& job, const std::string& where) {
  if (job.training.matmul != MatmulFormat::precision && !std::holds_alternative<Transformer>(job.model))
    throw Error(where, fmt::format("matmul {} requires a transformer, whose matrices are known",
                                   name_of(job.training.matmul)));
}

/// A name for a job that comes from the name of a file.
std::string job_name(const std::filesystem::path& file) {
  constexpr std::size_t max_length = 128;
  const std::string stem = file.stem().string();
  const std::string name = stem != "config" ? stem : file.parent_path().filename().string();
  const bool is_usable = !name.empty() && name.size() <= max_length && !has_control_character(name);
  return is_usable ? name : "model";
}

void set_model(Model model, std::string name, Job& job) {
  job.model = std::move(model);
  check_matmul(job, "--model");
  job.name = std::move(name);
  if (const auto preset = job.execution.compression.gradient_preset) compress_gradients(job, *preset);
}

/// Reads files that `file` refers to, relative to its folder.
FileReader reader_beside(const std::filesystem::path& file) {
  return [folder = file.parent_path()](const YamlValue& name) {
    return read_named_file(name, folder, yaml_size_limit);
  };
}

Job read_document(const YamlDocument& document, bool with_profiles) {
  const FileReader open_file = reader_beside(document.file());
  const YamlMap map = versioned_map(document, "a job",
                                    {"version", "name", "target", "model", "training", "parallelism",
                                     "compression", "profile", "calibration", "comm_cost"});
  Job job;
  job.name = map.required("name").text();
  const YamlMap training = read_section(map.required("training"), SettingSection::training, job);
  job.model = read_model(map.required("model"), bytes_per_element(job.training), open_file);
  check_matmul(job, map.required("training").where());
  check_recompute_layers(training, job);
  if (const auto parallelism = map.optional("parallelism")) read_parallelism(*parallelism, job);
  if (const auto compression = map.optional("compression"))
    read_section(*compression, SettingSection::compression, job);
  if (const auto profile = map.optional("profile")) read_profiles(*profile, open_file, with_profiles, job);
  if (const auto calibration = map.optional("calibration"))
    job.calibration = read_calibration(*calibration, open_file);
  if (const auto volumes = map.optional("comm_cost")) read_comm_cost(*volumes, job);
  if (const auto target = map.optional("target")) read_target(*target, map, job);
  return job;
}

}  // namespace

Job parse_job(const YamlDocument& document) {
  return read_document(document, true);
}

Job parse_job(std::string text, std::string file) {
  return parse_job(YamlDocument(std::move(text), std::move(file)));
}

namespace {

/// Throws Error if the value, of a plan, is left open.
void check_decided(const SettingTraits& setting, const YamlMap& map, const Job& decided) {
  if (!decided.automatic[setting.kind]) return;
  const YamlValue value = map.required(setting.name);
  throw value.value_error(
      fmt::format("is {}; a plan needs a single value", value.is_list() ? "a list" : "`auto`"));
}

}  // namespace

PlacedExecution parse_execution(const YamlDocument& document, const Job& job) {
  const YamlValue root = document.root();
  std::vector<std::string_view> keys;
  for (const SettingTraits& it : setting_table())
    if (it.get_in_plan != nullptr && it.section != SettingSection::compression) keys.push_back(it.name);
  keys.push_back(name_of(SettingSection::compression));
  const YamlMap map = root.map(keys);
  Job decided;
  decided.model = job.model;
  decided.training = job.training;
  decided.execution = job.execution;
  for (const SettingTraits& it : setting_table()) {
    if (it.get_in_plan == nullptr || it.section == SettingSection::compression) continue;
    if (const auto value = map.optional(it.name))
      read_setting(it, *value, decided);
    else if (!it.is_always_written)
      it.set(decided, default_value(it.kind));
    check_decided(it, map, decided);
  }
  check_execution(map, decided);
  check_recompute_layers(map, decided);
  PlacedExecution result;
  for (const auto& [key, value] : root.entries()) result.places[key.text()] = value.where();
  if (const auto compression = map.optional("compression")) {
    decided.execution.compression = {};
    const YamlMap section = read_section(*compression, SettingSection::compression, decided);
    for (const SettingTraits& it : setting_table())
      if (it.section == SettingSection::compression) check_decided(it, section, decided);
    for (const auto& [key, value] : compression->entries())
      result.places["compression." + key.text()] = value.where();
  }
  result.execution = decided.execution;
  result.place = root.where();
  return result;
}

void replace_model(const std::string& model, std::optional<int> sequence, Job& job) {
  std::error_code is_preset;
  set_model(read_named_model(model, sequence, bytes_per_element(job.training)),
            std::filesystem::exists(model, is_preset) ? job_name(model) : model, job);
}

void replace_model(const NamedFile& config, std::optional<int> sequence, Job& job) {
  set_model(parse_hf_config(config.text, config.path, sequence, bytes_per_element(job.training)), config.path,
            job);
}

void set_sequence(const std::string& where, int sequence, Job& job) {
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr) throw Error(where, "requires a transformer, or --model");
  const YamlDocument document(fmt::format("sequence: {}", sequence), where);
  try {
    job.model = read_transformer(document.root().map({"sequence"}), *model);
  } catch (const Error& error) {
    throw Error(where, error.what());
  }
}

Job pretraining_job() {
  return parse_job(std::string(pretraining_yaml), "configs/pretraining.yaml");
}

Job default_job() {
  static const Job job = parse_job(std::string(gpt3_xl_yaml), "configs/gpt3-xl.yaml");
  return job;
}

Job read_job(const std::filesystem::path& file, std::string_view referenced_by) {
  return parse_job(read_file(file, yaml_size_limit, referenced_by), file.string());
}

Job read_job_without_profiles(const std::filesystem::path& file) {
  return read_document(YamlDocument(read_file(file, yaml_size_limit), file.string()), false);
}

}  // namespace dtfm::io
