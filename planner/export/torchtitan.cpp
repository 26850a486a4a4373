// torchtitan: assigns the modules of a Llama-like model to stages, in TOML or, for newer versions, in Python.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace torchtitan {
namespace {

constexpr const char* toml_file = "torchtitan.toml";
constexpr const char* python_file = "dtfm_plan.py";
constexpr std::string_view modules_key = "module_fqns_per_model_part = ";

/// The name in torch.distributed.pipelining.
std::string schedule_name(const ExportBundle& bundle) {
  const ScheduleTraits& schedule = traits(bundle.job.execution.schedule);
  if (schedule.has_chunks) return "Interleaved1F1B";
  return schedule.forwards_first ? "GPipe" : "1F1B";
}

/// The modules of each virtual stage, in model order. Every module must be listed: torchtitan silently drops
/// those that are not.
std::vector<std::vector<std::string>> stage_modules(const ExportBundle& bundle, const char* head) {
  std::vector<std::vector<std::string>> parts;
  for (const auto& [begin, end] : virtual_stages(bundle)) {
    auto& part = parts.emplace_back();
    if (parts.size() == 1) part.emplace_back("tok_embeddings");
    for (int layer = begin; layer < end; ++layer) part.push_back(fmt::format("layers.{}", layer));
  }
  parts.back().insert(parts.back().end(), {"norm", head});
  return parts;
}

/// A JSON list of lists, with `separator` between the inner ones.
std::string format_list(const std::vector<std::vector<std::string>>& parts, const std::string& separator) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "[" : separator) + nlohmann::json(part).dump();
  return text + "]";
}

ExportFiles toml_files(const ExportBundle& bundle) {
  const Training& training = bundle.job.training;
  const std::string margin = ",\n" + std::string(modules_key.size() + 1, ' ');
  std::string text = fmt::format(
      "# torchtitan 0.2.0 to 0.2.2 (later versions do not read TOML). The model flavor must have n_layers = "
      "{}.\n"
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n"
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = 1\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = 1\n"
      "pipeline_parallel_degree = {}\n",
      layer_count(bundle.job.model), micro_batches_per_flush(bundle) * bundle.job.execution.micro_batch,
      training.global_batch, sequence_length(bundle.job.model), replica_count(bundle), tensor_degree(bundle),
      stage_count(bundle));
  text += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n{}{}\n",
                      schedule_name(bundle), bundle.job.execution.micro_batch, modules_key,
                      format_list(stage_modules(bundle, "output"), margin));
  return {{toml_file, text}};
}

ExportFiles python_files(const ExportBundle& bundle) {
  const std::string text = fmt::format(
      "# For torchtitan of 2026-08-20 or later, which is configured in Python: --module MODULE --config "
      "dtfm_plan.\n"
      "# The model flavor must have n_layers = {0}, and a step must have {1} sequences of {2} tokens: {3} "
      "per "
      "replica and\n"
      "# round of gradient accumulation.\n"
      "from my_config import base_config  # your function that returns a Trainer.Config\n\n\n"
      "def dtfm_plan():\n"
      "    c = base_config()\n"
      "    p = c.parallelism\n"
      "    p.pipeline_parallel_degree, p.data_parallel_replicate_degree, p.data_parallel_shard_degree = {4}, "
      "{5}, 1\n"
      "    p.tensor_parallel_degree, p.context_parallel_degree = {6}, 1\n"
      "    p.pipeline_parallel_schedule, p.num_pp_microbatches = \"{7}\", {8}\n"
      "    p.{9}{10}\n"
      "    return c\n",
      layer_count(bundle.job.model), bundle.job.training.global_batch, sequence_length(bundle.job.model),
      micro_batches_per_flush(bundle) * bundle.job.execution.micro_batch, stage_count(bundle),
      replica_count(bundle), tensor_degree(bundle), schedule_name(bundle), micro_batches_per_flush(bundle),
      modules_key, format_list(stage_modules(bundle, "lm_head"), ","));
  return {{python_file, text}};
}

/// Number of layers in each part. Asserts that the parts list the embedding, all layers in order, the norm
/// and the head, each once.
std::vector<int> read_layers(const std::string& text, const char* head) {
  const std::string list = text_after(text, modules_key, "");  // with all text after it
  const auto parts =
      nlohmann::json::parse(list.substr(0, list.find("]]") + 2)).get<std::vector<std::vector<std::string>>>();
  std::vector<std::string> all;
  std::vector<int> layers;
  for (const auto& part : parts) {
    layers.push_back(0);
    for (const std::string& module : part) {
      if (module.starts_with("layers.")) ++layers.back();
      all.push_back(module);
    }
  }
  DTFM_ASSERT(all.size() > 3 && all.front() == "tok_embeddings" && all.back() == head &&
              all[all.size() - 2] == "norm");
  for (std::size_t i = 1; i + 2 < all.size(); ++i) DTFM_ASSERT(all[i] == fmt::format("layers.{}", i - 1));
  return layers;
}

ReadBack read_toml(const ExportFiles& files, const ExportBundle&) {
  const std::string& text = file_text(files, toml_file);
  const auto number = [&](const char* key) { return number_after(text, fmt::format("\n{} = ", key)); };
  DTFM_ASSERT(number("data_parallel_shard_degree") == 1 && number("context_parallel_degree") == 1);
  const TrainerGrid shape{RankOrder::stage_major, number("tensor_parallel_degree"),
                          number("data_parallel_replicate_degree"), number("pipeline_parallel_degree"),
                          read_layers(text, "output")};
  DTFM_ASSERT(number("local_batch_size") % number("pipeline_parallel_microbatch_size") == 0);
  DTFM_ASSERT(number("global_batch_size") % (number("local_batch_size") * shape.data) == 0);
  const int micro_batches =
      number("global_batch_size") / shape.data / number("pipeline_parallel_microbatch_size");
  return {map_ranks(files, shape), std::vector<int>(at(shape.data), micro_batches)};
}

ReadBack read_python(const ExportFiles& files, const ExportBundle&) {
  const std::string& text = file_text(files, python_file);
  const auto degrees = [&](std::string_view key) {
    return nlohmann::json::parse(fmt::format("[{}]", text_after(text, key, "\n"))).get<std::vector<int>>();
  };
  const auto numbers = degrees(
      "p.pipeline_parallel_degree, p.data_parallel_replicate_degree, p.data_parallel_shard_degree = ");
  const auto others = degrees("p.tensor_parallel_degree, p.context_parallel_degree = ");
  DTFM_ASSERT(numbers.size() == 3 && numbers[2] == 1 && others.size() == 2 && others[1] == 1);
  return {map_ranks(files, {RankOrder::stage_major, others[0], numbers[1], numbers[0],
                            read_layers(text, "lm_head")}),
          {}};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes;
  if (!is_llama_like(std::get<Transformer>(bundle.job.model)))
    notes.emplace_back(
        "the module names are those of torchtitan's Llama, but the job's model is not Llama-like");
  if (replica_count(bundle) > 1)
    notes.emplace_back(
        "if torchtitan rejects DDP with other parallelism, swap the values of data_parallel_shard_degree and "
        "data_parallel_replicate_degree; the roles of the ranks stay the same");
  notes.push_back(fmt::format("torchtitan does not check that the flavor has the {} layers of the plan",
                              layer_count(bundle.job.model)));
  return notes;
}

}  // namespace
}  // namespace torchtitan

Exporter torchtitan_exporter() {
  using namespace torchtitan;
  return {.name = "torchtitan",
          .what = "torchtitan 0.2.0 to 0.2.2: TOML",
          .is_trainer = true,
          .target = Target::torchtitan,
          .orders = traits(Target::torchtitan).orders,
          .files = toml_files,
          .read_back = read_toml,
          .usage =
              "Copy the keys of torchtitan.toml into your job config; the program is\n"
              "`-m torchtitan.train --job.config_file FILE`.",
          .notes = notes};
}

Exporter torchtitan_python_exporter() {
  using namespace torchtitan;
  return {.name = "torchtitan-py",
          .what = "torchtitan with Python configuration (2026 or later)",
          .is_trainer = true,
          .target = Target::torchtitan_py,
          .orders = traits(Target::torchtitan_py).orders,
          .files = python_files,
          .read_back = read_python,
          .usage =
              "Put dtfm_plan.py next to your configuration and adapt its import; the program is\n"
              "`-m torchtitan.train --module MODULE --config dtfm_plan`.",
          .notes = notes};
}

}  // namespace dtfm::exporter
