#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/target.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

ordered_json number_or_auto(const std::optional<int>& number) {
  return number ? ordered_json(*number) : ordered_json("auto");
}

std::string format_size(Bytes size) {
  return fmt::format("{} B", size.value());
}

template <class T>
ordered_json unless_auto(bool automatic, const T& value) {
  return automatic ? ordered_json("auto") : ordered_json(value);
}

/// The name of the preset if there is one, else the ratio; `auto` if the planner decides.
ordered_json ratio_json(bool automatic, double ratio, const std::optional<CompressionPreset>& preset) {
  return preset ? unless_auto(automatic, name_of(*preset)) : unless_auto(automatic, ratio);
}

ordered_json micro_batch_json(const Job& job) {
  if (job.automatic.micro_batch && !job.micro_batch_choices.empty()) return job.micro_batch_choices;
  return unless_auto(job.automatic.micro_batch, job.execution.micro_batch);
}

ordered_json training_json(const Job& job) {
  const Training& training = job.training;
  const ExecutionConfig& execution = job.execution;
  const Automatic& automatic = job.automatic;
  return {{"global_batch", training.global_batch},
          {"micro_batch", micro_batch_json(job)},
          {"precision", name_of(training.precision)},
          {"optimizer", name_of(training.optimizer)},
          {"recompute", unless_auto(automatic.recomputation, name_of(execution.recomputation))}};
}

ordered_json parallelism_json(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const ExecutionConfig& execution = job.execution;
  const Automatic& automatic = job.automatic;
  ordered_json json = {{"pipeline", number_or_auto(parallelism.pipeline)},
                       {"data", number_or_auto(parallelism.data)},
                       {"tensor", unless_auto(automatic.tensor, parallelism.tensor)},
                       {"schedule", unless_auto(automatic.schedule, name_of(execution.schedule))}};
  if (execution.chunks) json["chunks"] = *execution.chunks;
  if (execution.flush) json["flush"] = *execution.flush;
  json["gradient_sync"] = unless_auto(automatic.gradient_sync, name_of(execution.gradient_sync));
  if (automatic.optimizer_sharding || execution.optimizer_sharding != OptimizerSharding::none)
    json["optimizer_sharding"] =
        unless_auto(automatic.optimizer_sharding, name_of(execution.optimizer_sharding));
  if (execution.overlap) json["overlap"] = true;
  if (execution.tied_embedding_sync) json["tied_embedding_sync"] = true;
  if (!execution.iteration_barrier) json["iteration_barrier"] = false;
  if (!parallelism.sequence_parallel) json["sequence_parallel"] = false;
  if (parallelism.scatter_gather) json["scatter_gather"] = true;
  if (parallelism.uniform_pipelines) json["uniform_pipelines"] = true;
  return json;
}

ordered_json compression_json(const Compression& compression, const Automatic& automatic) {
  ordered_json json = {
      {"activations",
       ratio_json(automatic.activations, compression.activations, compression.activation_preset)},
      {"gradients", ratio_json(automatic.gradients, compression.gradients, compression.gradient_preset)}};
  if (compression.throughput) json["throughput"] = fmt::format("{} bps", compression.throughput->value());
  if (compression.bandwidth_threshold)
    json["bandwidth_threshold"] = fmt::format("{} bps", compression.bandwidth_threshold->value());
  return json;
}

/// A list of the profiles, or the entry itself if there is only one.
ordered_json profiles_json(const Job& job) {
  ordered_json list = ordered_json::array();
  for (const LayerProfile& profile : job.profiles) list.push_back(profile_json(profile));
  if (job.efficiency) list.push_back({{"analytic", true}, {"efficiency", *job.efficiency}});
  return list.size() == 1 ? list.front() : list;
}

}  // namespace

ordered_json execution_json(const ExecutionConfig& execution) {
  ordered_json json = {{"micro_batch", execution.micro_batch}, {"schedule", name_of(execution.schedule)}};
  if (execution.chunks) json["chunks"] = *execution.chunks;
  if (execution.flush) json["flush"] = *execution.flush;
  json["gradient_sync"] = name_of(execution.gradient_sync);
  if (execution.optimizer_sharding != OptimizerSharding::none)
    json["optimizer_sharding"] = name_of(execution.optimizer_sharding);
  json["overlap"] = execution.overlap;
  if (execution.tied_embedding_sync) json["tied_embedding_sync"] = true;
  if (!execution.iteration_barrier) json["iteration_barrier"] = false;
  json["recompute"] = name_of(execution.recomputation);
  json["compression"] = compression_json(execution.compression, Automatic());
  return json;
}

ordered_json job_json(const Job& job) {
  ordered_json json = {{"version", 1}, {"name", job.name}};
  if (job.target) json["target"] = name_of(*job.target);
  json["model"] = model_json(job.model);
  json["training"] = training_json(job);
  json["parallelism"] = parallelism_json(job);
  json["compression"] = compression_json(job.execution.compression, job.automatic);
  if (!job.profiles.empty() || job.efficiency) json["profile"] = profiles_json(job);
  if (job.calibration) json["calibration"] = calibration_reference_json(*job.calibration);
  if (job.comm_cost)
    json["comm_cost"] = {{"gradient", format_size(job.comm_cost->gradient)},
                         {"activation", format_size(job.comm_cost->activation)}};
  if (job.comm_cost && job.comm_cost_stages) json["comm_cost"]["stages"] = *job.comm_cost_stages;
  return json;
}

}  // namespace dtfm::io
