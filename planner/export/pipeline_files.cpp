#include "planner/export/pipeline_files.hpp"

#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/settings.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/runtime_files.hpp"
#include "planner/export/torchrun_script.hpp"
#include "planner/export/trainer_rank_mapping.hpp"

namespace dtfm::exporter {
namespace {

constexpr std::string_view modules[] = {"dtfm_runtime/__init__.py", "dtfm_runtime/context.py",
                                        "dtfm_runtime/data.py", "dtfm_runtime/errors.py",
                                        "dtfm_runtime/model.py"};

}  // namespace

nlohmann::ordered_json pipeline_json(const ExportBundle& bundle) {
  std::vector<int> layers;
  for (const auto& [first, last] : virtual_stages(bundle)) layers.push_back(last - first);
  return {{"schema", "dtfm-pipeline/1"},
          {"model", io::job_json(bundle.job).at("model")},
          {"layers", layers},
          {"replicas", replica_count(bundle)},
          {"context", bundle.job.execution.context},
          {"precision", name_of(bundle.job.training.precision)},
          {"recompute", name_of(bundle.job.execution.recomputation)},
          {"planned_optimizer", name_of(bundle.job.training.optimizer)}};
}

std::string_view optimizer_class(Optimizer optimizer) {
  return is_adam(optimizer) ? "AdamW" : "SGD";
}

nlohmann::ordered_json optimizer_options(Optimizer optimizer) {
  if (!is_adam(optimizer)) return {{"lr", 1e-3}};
  return {{"lr", 1e-3}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}};
}

ExportFiles pipeline_files(const ExportBundle& bundle, std::string_view name,
                           const nlohmann::ordered_json& pipeline) {
  ExportFiles files = {
      {"plan.json", bundle.plan_text},
      start_script(bundle),
      {pipeline_file, pipeline.dump(1) + "\n"},
      {"train.py", std::string(python_file(fmt::format("trainers/{}", name)))},
      {"pipeline_plan.py", std::string(python_file("trainers/pipeline_plan.py"))},
  };
  for (const std::string_view it : modules) files.push_back({std::string(it), std::string(python_file(it))});
  return files;
}

/// Ranks are stage-major, and device d of P has the stages d, d + P, …
ReadBack read_pipeline_files(const ExportFiles& files, int chunks) {
  const auto json = nlohmann::json::parse(file_text(files, pipeline_file));
  const auto layers = json.at("layers").get<std::vector<int>>();
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  const int replicas = json.at("replicas").get<int>(), context = json.at("context").get<int>(),
            stages = static_cast<int>(layers.size()) / chunks;
  DTFM_ASSERT(static_cast<int>(layers.size()) == stages * chunks);
  ReadBack read{
      .rows = map_ranks(files, {.context = context, .data = replicas, .pipeline = stages, .layers = layers}),
      .settings = {{Setting::precision, text("precision")},
                   {Setting::recompute, text("recompute")},
                   {Setting::optimizer, text("planned_optimizer")}}};
  read_torchrun_script(file_text(files, start_file), read.rows);
  return read;
}

std::vector<std::string> program_notes(const ExportBundle& bundle, std::string_view options) {
  std::vector<std::string> notes = {
      "train.py trains on synthetic data: give start.sh the option --data FILE, or change `batches` in "
      "pipeline_plan.py",
      fmt::format("the learning rate is constant, 0.001: change it in {}", options),
      "train.py writes no checkpoints: add them to its function `train`",
      "NCCL and Gloo choose the network interface: where a machine has several, set NCCL_SOCKET_IFNAME and "
      "GLOO_SOCKET_IFNAME before you run start.sh"};
  if (is_adam(bundle.job.training.optimizer))
    notes.push_back(fmt::format(
        "Adam is AdamW with betas 0.9 and 0.999 and weight decay 0.01: change them in {}", options));
  return notes;
}

}  // namespace dtfm::exporter
