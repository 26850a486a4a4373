#include "core/io/importers/megatron_plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/importers/megatron_settings.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/io/importers/megatron_stages.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/readers/rank_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view tensor_flag = "--tensor-model-parallel-size";
constexpr std::string_view context_flag = "--context-parallel-size";
constexpr std::string_view expert_flag = "--expert-model-parallel-size";
constexpr std::string_view pipeline_flag = "--pipeline-model-parallel-size";

/// Sizes of Megatron's parallel groups.
struct Sizes {
  int tensor = 1, pipeline = 1, data = 1;
};

class MegatronReader {
 public:
  MegatronReader(const NamedFile& file, const Job& job, InputErrors& errors)
      : file_(file), job_(job), errors_(errors), flags_(file.text, file.path, errors) {
    take_open_degrees();
  }

  const MegatronFlags& flags() const { return flags_; }

  /// `ranks` has the device of each rank; it is empty if the rank file could not be read.
  Plan read(const std::vector<std::optional<int>>& ranks, const std::string& ranks_file) {
    check_job();
    check_unsupported_parallelism();
    const Sizes sizes = derive_sizes(ranks.size(), ranks_file);
    const MegatronStages stages = megatron_stages(flags_, file_.path, sizes.pipeline, job_, errors_);
    check_chunks(stages.chunks);
    const int micro_batches = micro_batches_per_pipeline(sizes);
    Plan plan{sizes.tensor, job_.execution, {}};
    if (!errors_.empty()) return plan;
    for (int replica = 0; replica < sizes.data; ++replica)
      plan.pipelines.push_back(pipeline(sizes, replica, micro_batches, stages.layers, ranks));
    return plan;
  }

 private:
  std::string where(std::string_view flag) const {
    return flags_.has(flag) ? flags_.where(flag) : file_.path;
  }

  /// Adds an error if the flag is present and differs from the job.
  void check(std::string_view flag, int job_value, std::string_view what) {
    const auto number = flags_.number(flag);
    if (number && *number != job_value)
      errors_.add(flags_.where(flag),
                  fmt::format("{} {}, but job {} says {} {}", flag, *number, job_.name, what, job_value));
  }

  void check_job() {
    check("--num-layers", layer_count(job_.model), "layers");
    check("--seq-length", sequence_length(job_.model), "sequence");
    check_micro_batch();
    check("--global-batch-size", job_.training.global_batch, "global_batch");
    check(tensor_flag, job_.parallelism.tensor, "tensor");
    check_degree(context_flag, Setting::context, "context");
    check_degree(expert_flag, Setting::expert, "expert");
    const auto* transformer = std::get_if<Transformer>(&job_.model);
    for (const char* flag : {"--hidden-size", "--num-attention-heads"})
      if (transformer == nullptr && flags_.has(flag))
        errors_.add(flags_.where(flag),
                    fmt::format("{}, but the model of job {} is not a transformer", flag, job_.name));
    if (transformer == nullptr) return;
    check("--hidden-size", transformer->hidden, "hidden");
    check("--num-attention-heads", transformer->heads, "heads");
  }

  /// A degree is 1 without its flag.
  void check_degree(std::string_view flag, Setting setting, std::string_view what) {
    const int number = flags_.number(flag).value_or(1), expected = std::get<int>(traits(setting).get(job_));
    if (number != expected)
      errors_.add(where(flag),
                  fmt::format("{} {}{}, but job {} says {} {}", flag, number,
                              flags_.has(flag) ? "" : " (by default)", job_.name, what, expected));
  }

  /// The flags decide degrees that the job leaves open, if these are possible.
  void take_open_degrees() {
    for (const auto& [flag, setting] :
         {std::pair(context_flag, Setting::context), std::pair(expert_flag, Setting::expert)})
      if (const int number = flags_.number(flag).value_or(1);
          job_.automatic[setting] && number > 0 && number <= traits(setting).max)
        traits(setting).set(job_, number);
    if (!job_.execution.stage_data) fit_stage_data(job_);
  }

  /// The flag decides the micro-batch if the job leaves it open.
  void check_micro_batch() {
    constexpr std::string_view flag = "--micro-batch-size";
    const auto number = flags_.number(flag);
    const int groups = stage_data();
    if (!job_.automatic[Setting::micro_batch])
      return check(flag, job_.execution.micro_batch / groups,
                   groups > 1 ? fmt::format("micro_batch ÷ {} (stage_data)", groups) : "micro_batch");
    if (!number) return;
    const long long all = static_cast<long long>(*number) * groups;
    if (*number > 0 && job_.training.global_batch % all == 0)
      job_.execution.micro_batch = static_cast<int>(all);
    else
      errors_.add(flags_.where(flag), fmt::format("{} {} does not divide the global batch of job {}, {}",
                                                  flag, *number, job_.name, job_.training.global_batch));
  }

  /// Data-parallel groups inside a stage of the plan. Megatron-LM does not say which of its data-parallel
  /// ranks these are; nothing depends on it.
  int stage_data() const { return job_.execution.stage_data.value_or(1); }
  int token_parts() const { return job_.execution.token_parts(); }

  void check_unsupported_parallelism() {
    constexpr std::string_view expert_tensor_flag = "--expert-tensor-parallel-size";
    // With expert parallelism, plans do not divide an expert; otherwise they divide it as all layers.
    const int tensor = flags_.number(tensor_flag).value_or(1),
              expected = flags_.number(expert_flag).value_or(1) > 1 ? 1 : tensor;
    const int expert = flags_.number(expert_flag).value_or(1);
    if (const int found = flags_.number(expert_tensor_flag).value_or(tensor);
        found != expected && expert == job_.execution.expert)
      errors_.add(
          where(expert_tensor_flag),
          fmt::format("{} {}{}: plans divide experts {}; expected {}", expert_tensor_flag, found,
                      flags_.has(expert_tensor_flag) ? "" : " (by default)",
                      expected == tensor ? "as all layers" : "by expert parallelism alone", expected));
    if (flags_.number(expert_flag).value_or(1) == job_.execution.expert && job_.automatic.is_empty())
      if (const std::string what = mesh_obstacle(job_); !what.empty()) errors_.add(file_.path, what);
  }

  /// Derives the number of pipelines from the number of ranks. Adds an error if it is not an integer.
  Sizes derive_sizes(std::size_t ranks, const std::string& ranks_file) {
    const int tensor = flags_.number(tensor_flag).value_or(1),
              stages = flags_.number(pipeline_flag).value_or(1);
    const long long ranks_per_pipeline = static_cast<long long>(tensor) * stages * token_parts();
    const auto total = static_cast<long long>(ranks);
    if (total % ranks_per_pipeline != 0)
      errors_.add(where(pipeline_flag),
                  fmt::format("the number of ranks in {} is {}, which is not a multiple of tensor size {} × "
                              "pipeline size {}{}",
                              ranks_file, total, tensor, stages,
                              token_parts() > 1 ? fmt::format(" × context {} × stage_data {}",
                                                              job_.execution.context, stage_data())
                                                : ""));
    return {tensor, std::min(stages, max_devices), std::max(1, static_cast<int>(total / ranks_per_pipeline))};
  }

  void check_chunks(int chunks) {
    const int job_value = stage_chunks(job_);
    if (chunks != job_value)
      errors_.add(
          file_.path,
          fmt::format(
              "virtual stages per device: {}, but job {} has schedule {} with {}; give the job {}", chunks,
              job_.name, name_of(job_.execution.schedule), job_value,
              chunks > 1 ? fmt::format("schedule interleaved and chunks {}", chunks) : "schedule 1f1b"));
  }

  /// Megatron gives every pipeline the same number of micro-batches. Adds an error if that is not possible.
  int micro_batches_per_pipeline(const Sizes& sizes) {
    const int total = micro_batch_count(job_), replicas = sizes.data;
    if (total % replicas != 0)
      errors_.add(where("--global-batch-size"),
                  fmt::format("global batch {} is not a multiple of micro-batch {} × {} pipelines",
                              job_.training.global_batch, job_.execution.micro_batch, replicas));
    return total / replicas;
  }

  Pipeline pipeline(const Sizes& sizes, int replica, int micro_batches,
                    const std::vector<std::vector<int>>& layers,
                    const std::vector<std::optional<int>>& ranks) const {
    const bool is_pipeline_major = flags_.has("--use-tp-pp-dp-mapping");
    Pipeline pipeline{micro_batches, {}};
    int begin = 0;
    for (int stage = 0; stage < sizes.pipeline; ++stage) {
      const std::vector<int>& counts = layers[at(stage)];
      Stage it{{begin, std::accumulate(counts.begin(), counts.end(), begin)}, {}};
      set_virtual_layers(it, counts);
      for (int own = replica * stage_data(); own < (replica + 1) * stage_data(); ++own) {
        const int group =
            is_pipeline_major ? stage + sizes.pipeline * own : own + sizes.data * stage_data() * stage;
        const int ranks_of_group = sizes.tensor * job_.execution.context;
        for (int i = 0; i < ranks_of_group; ++i)
          it.devices.push_back(ranks[at(i + ranks_of_group * group)].value());
      }
      begin = it.layers.second;
      pipeline.stages.push_back(std::move(it));
    }
    return pipeline;
  }

  const NamedFile& file_;
  Job job_;
  InputErrors& errors_;
  MegatronFlags flags_;
};

/// Notes on differences between the plan and what Megatron does.
std::vector<std::string> megatron_notes(const Plan& plan, const MegatronFlags& flags, const Job& job,
                                        const Topology& topology) {
  std::vector<std::string> notes;
  Job decided = job;
  decided.execution = plan.execution;
  const int stages = static_cast<int>(plan.pipelines.front().stages.size()),
            instances = static_cast<int>(plan.pipelines.size()) / sharing_replicas(topology, plan);
  for (std::string& line : megatron_differences(flags, {decided, plan.tensor, stages, instances}))
    notes.push_back(std::move(line));
  if (traits(plan.execution.schedule).forwards_first)
    notes.emplace_back("Megatron runs schedule 1f1b, but the plan uses gpipe as the job says");
  const auto layers = virtual_stage_layers(plan.pipelines.front(), stage_chunks(decided));
  const auto is_empty = [](const std::pair<int, int>& it) { return it.first == it.second; };
  if (is_empty(layers.front()) || is_empty(layers.back()))
    notes.push_back(
        "a first or last stage holds no layer: the embedding is counted in the stage of layer 0, the loss "
        "and "
        "multi-token prediction in that of the last layer");
  return notes;
}

}  // namespace

Plan read_megatron_plan(const NamedFile& flags, const NamedFile& ranks, const Job& job,
                        DeviceResolver& resolver, InputErrors& errors, std::vector<std::string>& notes) {
  MegatronReader reader(flags, job, errors);
  const auto devices = read_ranks(ranks.text, ranks.path, resolver, errors);
  Plan plan = reader.read(devices, ranks.path);
  if (!errors.empty()) return plan;
  if (const std::string note = reader.flags().format_ignored_flags(); !note.empty()) notes.push_back(note);
  if (const std::string host = resolver.find_assigned_host(); !host.empty())
    notes.push_back(
        fmt::format("{} names hosts: their ranks take their GPUs in order, as LOCAL_RANK counts (slots are "
                    "CPU cores); use device ids such as {}:1 for another order",
                    ranks.path, host));
  for (std::string& note : megatron_notes(plan, reader.flags(), job, resolver.topology()))
    notes.push_back(std::move(note));
  return plan;
}

}  // namespace dtfm::io
