#include "planner/core/job.hpp"

#include <algorithm>

#include "planner/core/plan.hpp"

namespace dtfm {
namespace {

double block_parameters(const Transformer& model) {
  const double h = model.hidden;
  return 12 * h * h + 13 * h;
}

/// Embedding and head are tied: a copy of the matrix at each end, one where both ends are one stage.
double stage_parameters(const Transformer& model, int stages, int stage) {
  const auto [begin, end] = even_split(model.layers, stages, stage);
  const double vocabulary_matrix = static_cast<double>(model.vocabulary) * model.hidden;
  const double positions = static_cast<double>(model.sequence) * model.hidden;
  return (end - begin) * block_parameters(model) + (stage == 0 ? vocabulary_matrix + positions : 0) +
         (stage == stages - 1 && stages > 1 ? vocabulary_matrix : 0);
}

}  // namespace

double bytes_per_number(const Training& training) {
  return training.precision == "fp32" ? 4 : 2;
}

CommVolumes comm_volumes(const Job& job, int stages, int replicas) {
  if (job.comm_cost) return *job.comm_cost;
  double parameters = 0;
  for (int stage = 0; stage < stages; ++stage)
    parameters = std::max(parameters, stage_parameters(job.model, stages, stage));
  const double bytes = bytes_per_number(job.training);
  const int micro_batches = job.training.global_batch / job.training.micro_batch;
  const int most =
      (micro_batches + replicas - 1) / replicas;  // of the pipelines: the hop waits for the fullest
  const double tokens = static_cast<double>(most) * job.training.micro_batch * job.model.sequence;
  return {Bytes(parameters * bytes * job.compression.gradients),
          Bytes(tokens * job.model.hidden * bytes * job.compression.activations)};
}

}  // namespace dtfm
