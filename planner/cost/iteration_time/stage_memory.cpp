#include "planner/cost/iteration_time/stage_memory.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/compression.hpp"
#include "core/plan/model_state.hpp"

namespace dtfm::cost {
namespace {

double between(const std::vector<double>& before, std::pair<int, int> layers) {
  return before[at(layers.second)] - before[at(layers.first)];
}

}  // namespace

StageMemory::StageMemory(const Job& job, double process_bytes, int devices)
    : mesh_(stage_mesh(job.execution, at(devices))),
      bytes_(job, job.execution),
      process_bytes_(process_bytes),
      recomputes_(job.execution.recomputation != Recomputation::none),
      offloads_(traits(job.execution.recomputation).offloads),
      partitions_weights_(traits(job.execution.optimizer_sharding).parameters),
      buffers_boundaries_(traits(job.execution.schedule).keeps_boundary_buffers),
      held_(parameter_bytes(job.training).resident +
            error_feedback_bytes(job.training, job.execution.compression)) {
  const std::vector<Layer> chain = layer_chain(job);
  const auto of_device = [&](const Layer& layer) {
    return with_activations_of_device(layer, mesh_.tensor, job.parallelism.sequence_parallel,
                                      mesh_.token_parts(), mesh_.routed_load());
  };
  const RecomputationTraits& recomputation = traits(job.execution.recomputation);
  const double micro_batch = job.execution.micro_batch;
  std::vector<double> working, gradients;
  kept_ = whole_ = least_ = {0};
  const bool may_keep = job.execution.min_recomputed_layers(1) == 0;
  for (std::size_t layer = 0; layer < chain.size(); ++layer) {
    const Layer held = of_device(chain[layer]);
    // The input of the first layer is assumed to be as large as its output.
    const Bytes input = of_device(chain[layer == 0 ? 0 : layer - 1]).output;
    held_output_.push_back(input.value() * micro_batch);
    kept_.push_back(kept_.back() + recomputation.kept(held, input).value() * micro_batch);
    whole_.push_back(whole_.back() + held.activation_memory.value() * micro_batch);
    const double kept = kept_.back() - kept_[layer], whole = whole_.back() - whole_[layer];
    least_.push_back(least_.back() + (may_keep ? std::min(kept, whole) : kept));
    recomputing_saves_ = recomputing_saves_ && kept <= (offloads_ ? whole / 2 : whole);
    working.push_back(recomputation.working(held).value() * micro_batch);
    gradients.push_back(held.mlp_memory.value() * micro_batch);
  }
  working_ = RangeMax(std::move(working));
  gradients_ = RangeMax(std::move(gradients));
  find_partitioned_state(job);
}

/// Rajbhandari et al. (arXiv 1910.02054), figure 1. Gradients of a layer exist as a whole until they are
/// reduce-scattered; parameters of a layer and of the one before while they are computed.
void StageMemory::find_partitioned_state(const Job& job) {
  std::vector<double> unpartitioned(at(layers()));
  const ParameterBytes bytes = parameter_bytes(job.training);
  const auto gradients = [&](int layer) { return bytes_.gradients({layer, layer + 1}, true); };
  double whole = 0;  // bytes per parameter that every replica holds
  switch (job.execution.optimizer_sharding) {
    case OptimizerSharding::none:
      whole = bytes.resident;
      break;
    case OptimizerSharding::zero1:
      whole = bytes.weights + bytes.gradients;
      break;
    case OptimizerSharding::zero2:
      whole = bytes.weights;
      for (int layer = 0; layer < layers(); ++layer)
        unpartitioned[at(layer)] = gradients(layer) / mesh_.devices();
      break;
    case OptimizerSharding::zero3:
      for (int layer = 0; layer < layers(); ++layer)
        unpartitioned[at(layer)] =
            (gradients(layer) + bytes_.parameters({std::max(0, layer - 1), layer + 1}, true)) /
            mesh_.devices();
      break;
  }
  partitioned_ = std::max(0.0, bytes.resident - whole);
  held_ -= partitioned_;
  unpartitioned_ = RangeMax(std::move(unpartitioned));
}

/// A GPipe trainer has four buffers per micro-batch: input, output, and the gradients of both. The kept
/// activations already include the input. Trainers with other schedules only buffer the output. During the
/// backward pass of an MLP, the largest part of a layer, gradients of its activations exist besides them.
StageNeeds StageMemory::needs(std::pair<int, int> range, int replicas, int recomputed) const {
  const auto [begin, end] = range;
  StageNeeds needs;
  const auto held_of = [&](double elements, bool experts) {
    return elements / mesh_.shards(experts) * (held_ + partitioned_ / replicas / mesh_.copies(experts));
  };
  needs.state = held_of(bytes_.elements(range, begin == 0), false) +
                held_of(bytes_.expert_elements(range), true) +
                bytes_.quantized_copies(range, mesh_) / (partitions_weights_ ? replicas : 1);
  needs.per_micro_batch = kept_bytes(range, recomputed);
  if (end < layers()) needs.per_micro_batch += (buffers_boundaries_ ? 2 : 1) * held_output_[at(end)];
  if (begin > 0 && buffers_boundaries_) needs.per_micro_batch += held_output_[at(begin)];
  if (offloads_)  // all of one micro-batch are on the device during a pass
    needs.working = activation_bytes({begin, begin + recomputed});
  else if (recomputes_)
    needs.working = working_.of(at(begin), at(begin + recomputed));
  needs.working += gradients_.of(at(begin), at(end)) + unpartitioned_.of(at(begin), at(end)) + process_bytes_;
  return needs;
}

double StageMemory::kept_bytes(std::pair<int, int> range, int recomputed) const {
  const int middle = range.first + recomputed;
  return between(kept_, {range.first, middle}) + between(whole_, {middle, range.second});
}

double StageMemory::activation_bytes(std::pair<int, int> layers) const {
  return between(whole_, layers);
}

double StageMemory::least_kept_bytes(std::pair<int, int> layers) const {
  return between(least_, layers);
}

}  // namespace dtfm::cost
