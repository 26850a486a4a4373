// DeepSpeed pipelines: a JSON config if one of its partition methods produces the layer split of the plan,
// else also a PipelineModule subclass in Python.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace deepspeed {
namespace {

constexpr const char* json_file = "ds_config.json";
constexpr const char* pipeline_file = "deepspeed_pipeline.json";
constexpr const char* python_file = "dtfm_pipeline.py";

/// partition_method "uniform": if `layers` is not a multiple of `stages`, the first stages have one layer
/// more (DeepSpeed 0.19, runtime/utils.py).
std::vector<int> uniform_split(int layers, int stages) {
  std::vector<int> counts(at(stages), layers / stages);
  for (int i = 0; i < layers % stages; ++i) ++counts[at(i)];
  return counts;
}

/// DeepSpeed's pipelines run no other stages (runtime/pipe/engine.py).
int zero_stage(const ExportBundle& bundle) {
  return bundle.job.execution.optimizer_sharding == OptimizerSharding::zero1 ? 1 : 0;
}

std::string config(const ExportBundle& bundle) {
  const Training& training = bundle.job.training;
  return fmt::format(
      R"({{"train_batch_size": {}, "train_micro_batch_size_per_gpu": {}, "gradient_accumulation_steps": {}, "zero_optimization": {{"stage": {}}}}})"
      "\n",
      training.global_batch, bundle.job.execution.micro_batch, micro_batches_per_pipeline(bundle),
      zero_stage(bundle));
}

ExportFiles files(const ExportBundle& bundle) {
  const std::string pipeline =
      fmt::format(R"({{"num_stages": {}, "partition_method": "uniform", "layers": {}, "tensor": {}}})"
                  "\n",
                  stage_count(bundle), nlohmann::json(layer_counts(bundle)).dump(), tensor_degree(bundle));
  return {{json_file, config(bundle)}, {pipeline_file, pipeline}};
}

ExportFiles python_files(const ExportBundle& bundle) {
  const std::string text = fmt::format(
      "\"\"\"The plan's layer split for DeepSpeed 0.19: use PlannedPipeline instead of "
      "PipelineModule.\"\"\"\n"
      "from deepspeed.pipe import PipelineModule\n"
      "from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology\n\n"
      "LAYERS = {}  # per stage, without embedding and head\n"
      "REPLICAS = {}\n"
      "TENSOR = {}\n\n\n"
      "class PlannedPipeline(PipelineModule):\n"
      "    \"\"\"`before` and `after`: how many of the given layers precede the first layer that the plan "
      "counts (such\n"
      "    as the embedding), and how many follow the last one (such as norm and head).\"\"\"\n\n"
      "    def __init__(self, layers, before=1, after=2, **options):\n"
      "        self._ends = before, after\n"
      "        super().__init__(layers, topology=PipeModelDataParallelTopology(\n"
      "            num_pp=len(LAYERS), num_mp=TENSOR, num_dp=REPLICAS), **options)\n\n"
      "    def _partition_layers(self, method=\"planned\"):\n"
      "        before, after = self._ends\n"
      "        if len(self._layer_specs) != before + sum(LAYERS) + after:\n"
      "            raise ValueError(f\"expected {{before}} + {{sum(LAYERS)}} + {{after}} layers, as in the "
      "plan; \"\n"
      "                             f\"found {{len(self._layer_specs)}}\")\n"
      "        self.parts = [0]\n"
      "        for count in LAYERS:\n"
      "            self.parts.append(self.parts[-1] + count)\n"
      "        self.parts = [0] + [part + before for part in self.parts[1:]]\n"
      "        self.parts[-1] += after\n"
      "        stage = self._topo.get_coord(self.global_rank).pipe\n"
      "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])\n",
      nlohmann::json(layer_counts(bundle)).dump(), replica_count(bundle), tensor_degree(bundle));
  return {{json_file, config(bundle)}, {python_file, text}};
}

/// Derives the number of replicas from the batch sizes in ds_config.json. Rank = t + T (d + D p).
ReadBack with_layers(const ExportFiles& files, const ExportBundle& bundle, std::vector<int> layers,
                     int tensor) {
  const auto json = nlohmann::json::parse(file_text(files, json_file));
  DTFM_ASSERT(json.at("zero_optimization").at("stage") == zero_stage(bundle));
  const auto number = [&](const char* key) { return json.at(key).get<int>(); };
  const int stages = static_cast<int>(layers.size());
  const int replica_batch = number("train_micro_batch_size_per_gpu") * number("gradient_accumulation_steps");
  DTFM_ASSERT(number("train_batch_size") % replica_batch == 0);
  const int replicas = number("train_batch_size") / replica_batch;
  return {map_ranks(files, {RankOrder::stage_major, tensor, replicas, stages, std::move(layers)}),
          std::vector<int>(at(replicas), number("gradient_accumulation_steps"))};
}

ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const auto json = nlohmann::json::parse(file_text(files, pipeline_file));
  const auto layers = json.at("layers").get<std::vector<int>>();
  int all = 0;
  for (const int count : layers) all += count;
  DTFM_ASSERT(json.at("partition_method") == "uniform");
  return with_layers(files, bundle, uniform_split(all, json.at("num_stages").get<int>()),
                     json.at("tensor").get<int>());
}

ReadBack read_python(const ExportFiles& files, const ExportBundle& bundle) {
  const std::string& text = file_text(files, python_file);
  const auto value = [&](std::string_view key) {
    return nlohmann::json::parse(text_after(text, key, "\n#"));
  };
  ReadBack read = with_layers(files, bundle, value("\nLAYERS = ").get<std::vector<int>>(),
                              value("\nTENSOR = ").get<int>());
  DTFM_ASSERT(static_cast<int>(read.micro_batches.size()) == value("\nREPLICAS = ").get<int>());
  return read;
}

/// The section of ds_config.json that enables the precision; empty for 32-bit training.
std::string_view precision_section(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::tf32:
    case Precision::fp32:
      break;
  }
  return "";
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes;
  if (const std::string_view section = precision_section(bundle.job.training.precision); !section.empty())
    notes.push_back(fmt::format(
        "ds_config.json does not set the precision; the plan assumes \"{}\": {{\"enabled\": true}}",
        section));
  notes.emplace_back(
      "DeepSpeed's own launcher would assign other ranks: use one that sets RANK and WORLD_SIZE (torchrun, "
      "slurm, openmpi)");
  return notes;
}

}  // namespace
}  // namespace deepspeed

Exporter deepspeed_exporter() {
  using namespace deepspeed;
  return {.name = "deepspeed",
          .what = "DeepSpeed 0.19: JSON config, for plans with the layer split of partition_method uniform",
          .is_trainer = true,
          .target = Target::deepspeed,
          .orders = traits(Target::deepspeed).orders,
          .files = files,
          .read_back = read_back,
          .usage =
              "Pass `--deepspeed_config ds_config.json`. Pass to PipelineModule the settings in "
              "deepspeed_pipeline.json and the\n"
              "layers without embedding and head; or all layers, with partition_method `type:` and the "
              "name of the layers' class,\n"
              "which gives the same split.",
          .notes = notes};
}

Exporter deepspeed_python_exporter() {
  using namespace deepspeed;
  return {
      .name = "deepspeed-py",
      .what = "DeepSpeed 0.19: JSON config, and a PipelineModule subclass with the layer split of the plan",
      .is_trainer = true,
      .target = Target::deepspeed_py,
      .orders = traits(Target::deepspeed_py).orders,
      .files = python_files,
      .read_back = read_python,
      .usage =
          "Pass `--deepspeed_config ds_config.json`, and replace PipelineModule by "
          "`dtfm_pipeline.PlannedPipeline`.",
      .notes = notes};
}

}  // namespace dtfm::exporter
