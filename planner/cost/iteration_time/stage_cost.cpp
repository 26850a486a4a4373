#include "planner/cost/iteration_time/stage_cost.hpp"

#include <algorithm>
#include <map>

#include "core/plan/compression.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/model_state.hpp"

namespace dtfm::cost {
namespace {

bool recomputes(const Job& job) {
  return job.execution.recomputation != Recomputation::none;
}

}  // namespace

StageCosts::StageCosts(const Problem& problem, int tensor)
    : problem_(problem),
      tensor_(tensor),
      layers_(layer_count(problem.job.model)),
      bytes_(problem.job, problem.job.execution) {
  find_kinds();
  find_bytes();
}

void StageCosts::find_kinds() {
  const Topology& topology = problem_.topology;
  const LayerTimes times(problem_, problem_.job.execution, {tensor_});
  std::map<std::pair<int, double>, int> kinds;
  for (int device = 0; device < topology.size(); ++device) {
    const Device& it = topology.devices[at(device)];
    const auto [position, is_new] =
        kinds.emplace(std::pair(it.gpu, it.speed), static_cast<int>(times_.size()));
    kind_.push_back(position->second);
    if (!is_new) continue;
    KindTimes kind{"", times.includes_all_reduces(device, tensor_), {{}}, {0}};
    try {
      for (int layer = 0; layer < layers_; ++layer) {
        const LayerTime time = times.of(layer, device, tensor_);
        ComputeTime sum = kind.before.back();
        sum.forward_s += time.forward_s;
        sum.backward_s += time.backward_s;
        sum.weight_gradient_s += time.weight_gradient_s;
        sum.update_s += time.update_s;
        kind.before.push_back(sum);
        kind.tied_update_s.push_back(kind.tied_update_s.back() + time.tied_update_s);
      }
    } catch (const Error& error) {
      kind.unknown = error.what();
    }
    times_.push_back(std::move(kind));
  }
}

void StageCosts::find_bytes() {
  const Job& job = problem_.job;
  const std::vector<Layer> chain = layer_chain(job);
  const auto of_device = [&](const Layer& layer) {
    return with_activations_of_device(layer, tensor_, job.parallelism.sequence_parallel);
  };
  const RecomputationTraits& recomputation = traits(job.execution.recomputation);
  const ParameterBytes bytes = dtfm::parameter_bytes(job.training);
  held_ = bytes.resident + error_feedback_bytes(job.training, job.execution.compression);
  saved_ = bytes.checkpointed;
  const double micro_batch = job.execution.micro_batch,
               sent = micro_batch / (divides_messages(job.parallelism) ? tensor_ : 1);
  kept_ = all_reduced_ = {0};
  for (int layer = 0; layer < layers_; ++layer) {
    const Layer& it = chain[at(layer)];
    const Layer held = of_device(it);
    // The input of the first layer is assumed to be as large as its output.
    const Layer& before = chain[at(std::max(0, layer - 1))];
    const Bytes input = of_device(before).output;
    output_.push_back(before.output.value() * sent);
    held_output_.push_back(input.value() * micro_batch);
    kept_.push_back(kept_.back() + recomputation.kept(held, input).value() * micro_batch);
    all_reduced_.push_back(all_reduced_.back() + bytes_.output(layer));
    working_.push_back(recomputation.working(held).value() * micro_batch);
    model_flops_ += (it.forward + it.backward).value();
  }
  find_partitioned_state();
  output_.push_back(chain.back().output.value() * sent);
  const double compression_s_per_byte =
      activation_compression_s_per_byte(problem_.topology, job, job.execution.compression);
  gradient_compression_s_per_byte_ =
      gradient_compression_s_per_byte(problem_.topology, job, job.execution.compression);
  for (const double output : output_) {
    boundary_bytes_.push_back(output * job.execution.compression.activations);
    compression_s_.push_back(output * compression_s_per_byte);
  }
}

/// Rajbhandari et al. (arXiv 1910.02054), figure 1. Gradients of a layer exist as a whole until they are
/// reduce-scattered; parameters of a layer and of the one before while they are computed.
void StageCosts::find_partitioned_state() {
  const Job& job = problem_.job;
  unpartitioned_.assign(at(layers_), 0);
  const ParameterBytes bytes = dtfm::parameter_bytes(job.training);
  double whole = 0;  // bytes per parameter that every replica holds
  switch (job.execution.optimizer_sharding) {
    case OptimizerSharding::none:
      return;
    case OptimizerSharding::zero1:
      whole = bytes.weights + bytes.synced;
      break;
    case OptimizerSharding::zero2:
      whole = bytes.weights;
      for (int layer = 0; layer < layers_; ++layer)
        unpartitioned_[at(layer)] = bytes_.gradients({layer, layer + 1}, true) / tensor_;
      break;
    case OptimizerSharding::zero3:
      for (int layer = 0; layer < layers_; ++layer)
        unpartitioned_[at(layer)] = (bytes_.gradients({layer, layer + 1}, true) +
                                     bytes_.parameters({std::max(0, layer - 1), layer + 1}, true)) /
                                    tensor_;
      break;
  }
  partitioned_ = std::max(0.0, bytes.resident - whole);
  held_ -= partitioned_;
}

const std::string& StageCosts::unknown(int device) const {
  return times_[at(kind_of(device))].unknown;
}

ComputeTime StageCosts::compute(int kind, std::pair<int, int> layers) const {
  const KindTimes& times = times_[at(kind)];
  const ComputeTime &begin = times.before[at(layers.first)], &end = times.before[at(layers.second)];
  const double tied = layers.first == 0 ? times.tied_update_s[at(layers.second)] : 0;
  return {end.forward_s - begin.forward_s, end.backward_s - begin.backward_s,
          end.update_s - begin.update_s - tied, end.weight_gradient_s - begin.weight_gradient_s};
}

/// Of each device. Those tied to the first layer of the same stage are not counted again.
double StageCosts::held_parameters(std::pair<int, int> layers) const {
  return bytes_.elements(layers, layers.first == 0) / tensor_;
}

double StageCosts::gradient_bytes(std::pair<int, int> layers, bool with_first, bool compressed) const {
  const double ratio = compressed ? problem_.job.execution.compression.gradients : 1;
  return bytes_.gradients(layers, with_first) / tensor_ * ratio / problem_.constants.sync_efficiency;
}

double StageCosts::parameter_bytes(std::pair<int, int> layers, bool with_first) const {
  return bytes_.parameters(layers, with_first) / tensor_ / problem_.constants.sync_efficiency;
}

double StageCosts::gradient_compression_s(double bytes) const {
  if (gradient_compression_s_per_byte_ == 0) return 0;
  const double gradients =
      bytes * problem_.constants.sync_efficiency / problem_.job.execution.compression.gradients;
  return gradients * gradient_compression_s_per_byte_;
}

/// Each all-reduce of a layer's output takes 2 (t − 1) messages of 1 / t of it.
StageCosts::AllReduces StageCosts::all_reduces(std::pair<int, int> layers, bool backward) const {
  const double count =
      all_reduces_per_layer(problem_.job.execution, backward ? Pass::backward : Pass::forward);
  const double steps = 2.0 * (tensor_ - 1);
  return {(layers.second - layers.first) * count * steps,
          between(all_reduced_, layers) * count * steps / tensor_};
}

/// A GPipe trainer has four buffers per micro-batch: input, output, and the gradients of both. The kept
/// activations already include the input. Trainers with other schedules only buffer the output.
StageNeeds StageCosts::needs(std::pair<int, int> layers, int replicas) const {
  const auto [begin, end] = layers;
  const bool buffers = traits(problem_.job.execution.schedule).keeps_boundary_buffers;
  StageNeeds needs;
  const bool partitions_weights = traits(problem_.job.execution.optimizer_sharding).parameters;
  needs.state = held_parameters(layers) * (held_ + partitioned_ / replicas) +
                bytes_.quantized_copies(layers) / tensor_ / (partitions_weights ? replicas : 1);
  needs.per_micro_batch = between(kept_, layers);
  if (end < layers_) needs.per_micro_batch += (buffers ? 2 : 1) * held_output_[at(end)];
  if (begin > 0 && buffers) needs.per_micro_batch += held_output_[at(begin)];
  if (recomputes(problem_.job))
    for (int layer = begin; layer < end; ++layer)
      needs.working = std::max(needs.working, working_[at(layer)]);
  double unpartitioned = 0;
  for (int layer = begin; layer < end; ++layer)
    unpartitioned = std::max(unpartitioned, unpartitioned_[at(layer)]);
  needs.working += unpartitioned + problem_.constants.process_memory_bytes;
  return needs;
}

double StageCosts::saved_bytes(std::pair<int, int> layers) const {
  return held_parameters(layers) * saved_;
}

}  // namespace dtfm::cost
