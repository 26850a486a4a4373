#include "core/plan/job.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {
namespace {

/// Sequences of the pipeline with the most micro-batches, which determines the largest message volume.
double max_sequences_per_pipeline(const Job& job, int replicas) {
  const int micro_batches = micro_batch_count(job);
  const int max_micro_batches = (micro_batches + replicas - 1) / replicas;
  return static_cast<double>(max_micro_batches) * job.execution.micro_batch;
}

}  // namespace

double bytes_per_element(const Training& training) {
  return traits(training.precision).bytes_per_element;
}

ActivationBytes activation_bytes(const Training& training) {
  return {bytes_per_element(training), traits(training.matmul).bytes};
}

std::vector<int> open_micro_batches(const Job& job) {
  constexpr int most = 64;
  std::vector<int> sizes;
  if (const auto list = job.listed.find(Setting::micro_batch); list != job.listed.end()) {
    for (const SettingValue& it : list->second) sizes.push_back(std::get<int>(it));
    return sizes;
  }
  for (int size = 1; size <= std::min(most, job.training.global_batch); ++size)
    if (job.training.global_batch % size == 0) sizes.push_back(size);
  return sizes;
}

std::vector<Layer> layer_chain(const Job& job) {
  return layer_chain(job.model, activation_bytes(job.training));
}

CommVolumes comm_volumes(const Job& job, int stages, int replicas) {
  if (job.comm_cost) return *job.comm_cost;
  const std::vector<Layer> chain = layer_chain(job);
  double parameters = 0;
  Bytes output;
  for (int stage = 0; stage < stages; ++stage) {
    const auto layers = even_split(static_cast<int>(chain.size()), stages, stage);
    parameters = std::max(parameters, parameters_of(chain, layers));
    const bool sends = stage + 1 < stages || stages == 1;
    if (sends && layers.second > 0) output = std::max(output, chain[at(layers.second - 1)].output);
  }
  return {Bytes(parameters * parameter_bytes(job.training).synced * job.execution.compression.gradients),
          output * (max_sequences_per_pipeline(job, replicas) * job.execution.compression.activations)};
}

}  // namespace dtfm
