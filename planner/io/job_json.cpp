#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/io/plan_json.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;

ordered_json number_or_auto(const std::optional<int>& number) {
  return number ? ordered_json(*number) : ordered_json("auto");
}

std::string size_text(Bytes size) {
  return fmt::format("{} B", size.value());
}

std::string flops_text(Flops flops) {
  return fmt::format("{} FLOP", flops.value());
}

ordered_json model_json(const Transformer& model) {
  return {{"kind", "transformer"}, {"layers", model.layers},     {"hidden", model.hidden},
          {"heads", model.heads},  {"sequence", model.sequence}, {"vocabulary", model.vocabulary}};
}

ordered_json layer_json(const Layer& layer, int repeat) {
  ordered_json json = {{"name", layer.name},
                       {"parameters", layer.parameters},
                       {"forward_flops", flops_text(layer.forward)},
                       {"backward_flops", flops_text(layer.backward)},
                       {"output", size_text(layer.output)},
                       {"activation_memory", size_text(layer.activation_memory)}};
  if (repeat > 1) json["repeat"] = repeat;
  return json;
}

/// Layers that are alike and follow each other are one entry.
ordered_json model_json(const LayerChain& model) {
  ordered_json layers = ordered_json::array();
  for (auto begin = model.layers.begin(); begin != model.layers.end();) {
    const auto end = std::find_if(begin, model.layers.end(), [&](const Layer& l) { return !(l == *begin); });
    layers.push_back(layer_json(*begin, static_cast<int>(end - begin)));
    begin = end;
  }
  return {{"kind", "layers"}, {"sequence", model.sequence}, {"layers", std::move(layers)}};
}

ordered_json training_json(const Training& training) {
  return {{"global_batch", training.global_batch},
          {"micro_batch", training.micro_batch},
          {"precision", training.precision},
          {"optimizer", training.optimizer},
          {"recompute", training.recompute}};
}

ordered_json parallelism_json(const Parallelism& parallelism) {
  ordered_json json = {{"pipeline", number_or_auto(parallelism.pipeline)},
                       {"data", number_or_auto(parallelism.data)},
                       {"tensor", parallelism.tensor},
                       {"schedule", parallelism.schedule}};
  if (parallelism.chunks) json["chunks"] = *parallelism.chunks;
  if (parallelism.flush) json["flush"] = *parallelism.flush;
  json["gradient_sync"] = parallelism.gradient_sync;
  if (parallelism.overlap) json["overlap"] = true;
  return json;
}

ordered_json profile_json(const ProfileSource& profile) {
  if (!profile.file.empty()) return profile.file;
  return {{"analytic", true}, {"efficiency", profile.efficiency}};
}

}  // namespace

ordered_json job_json(const Job& job) {
  ordered_json json = {{"version", 1},
                       {"name", job.name},
                       {"model", std::visit([](const auto& model) { return model_json(model); }, job.model)},
                       {"training", training_json(job.training)},
                       {"parallelism", parallelism_json(job.parallelism)}};
  json["compression"] = {{"activations", job.compression.activations},
                         {"gradients", job.compression.gradients}};
  if (job.compression.throughput)
    json["compression"]["throughput"] = fmt::format("{} bps", job.compression.throughput->value());
  if (job.profile) json["profile"] = profile_json(*job.profile);
  if (job.comm_cost)
    json["comm_cost"] = {{"gradient", size_text(job.comm_cost->gradient)},
                         {"activation", size_text(job.comm_cost->activation)}};
  return json;
}

}  // namespace dtfm
