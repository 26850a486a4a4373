#include "simulator/model/stage_load.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/sharing_replicas.hpp"

namespace dtfm::sim {

LoadModel::LoadModel(const Problem& problem, const Plan& plan)
    : job_(problem.job),
      execution_(plan.execution),
      topology_(problem.topology),
      sharding_(traits(plan.execution.optimizer_sharding)),
      replicas_(sharing_replicas(problem.topology, plan)),
      overhead_(problem.constants.micro_batch_overhead_s),
      process_memory_bytes_(problem.constants.process_memory_bytes),
      activation_compression_s_per_byte_(
          activation_compression_s_per_byte(problem.topology, problem.job, plan.execution.compression)),
      gradient_compression_s_per_byte_(
          gradient_compression_s_per_byte(problem.topology, problem.job, plan.execution.compression)),
      times_(problem, plan.execution, stage_sizes(plan)),
      chain_(layer_chain(problem.job)),
      bytes_(problem.job, plan.execution) {}

/// Recomputed layers are the first ones of a (virtual) stage.
bool LoadModel::is_recomputed(const Stage& stage, int layer) const {
  const auto [begin, end] = stage.layers;
  return layer < begin + recomputed_layers(execution_, stage, end - begin);
}

/// The maximum over the devices of the stage.
LayerTime LoadModel::time_of(const Stage& stage, int layer) const {
  LayerTime slowest;
  for (const int device : stage.devices) {
    const LayerTime time =
        times_.of(layer, device, static_cast<int>(stage.devices.size()), is_recomputed(stage, layer));
    slowest.forward_s = std::max(slowest.forward_s, time.forward_s);
    slowest.backward_s = std::max(slowest.backward_s, time.backward_s);
    slowest.weight_gradient_s = std::max(slowest.weight_gradient_s, time.weight_gradient_s);
    slowest.update_s = std::max(slowest.update_s, time.update_s);
    slowest.tied_update_s = std::max(slowest.tied_update_s, time.tied_update_s);
    slowest.hidden_forward_s = std::max(slowest.hidden_forward_s, time.hidden_forward_s);
    slowest.hidden_backward_s = std::max(slowest.hidden_backward_s, time.hidden_backward_s);
  }
  return slowest;
}

bool LoadModel::has_all_reduces(std::span<const int> devices, std::size_t stage_size) const {
  return devices.size() > 1 && !std::all_of(devices.begin(), devices.end(), [&](int device) {
           return times_.includes_all_reduces(device, static_cast<int>(stage_size)) &&
                  topology_.devices[at(device)].host == topology_.devices[at(devices.front())].host;
         });
}

/// Seconds in which the layer's activations cross the slowest host link of the stage once; 0 if they stay.
double LoadModel::offload_s(const Stage& stage, int layer) const {
  if (!recomputation_of(stage, layer).offloads) return 0;
  const Bytes bytes = layer_on_device(stage, layer).activation_memory * execution_.micro_batch;
  double slowest = 0;
  for (const int device : stage.devices) {
    const Gpu& gpu = topology_.gpus[at(topology_.devices[at(device)].gpu)];
    slowest = std::max(slowest, (bytes / required_host_link(gpu, "the time to offload activations")).value());
  }
  return slowest;
}

/// Seconds in which the stage computes the backward pass of its layers from `begin` on, which come first, and
/// gets their activations from the host.
double LoadModel::last_layers_backward_s(const Stage& stage, int begin) const {
  double compute = 0, transfer = 0;
  for (int layer = stage.layers.second - 1; layer >= begin; --layer) {
    compute += time_of(stage, layer).backward_s;
    transfer += offload_s(stage, layer);
  }
  return std::max(compute, transfer);
}

double LoadModel::forward_s(const Stage& stage, int layer) const {
  return time_of(stage, layer).forward_s;
}

double LoadModel::backward_s(const Stage& stage, int layer) const {
  if (!traits(execution_.recomputation).offloads) return time_of(stage, layer).backward_s;
  return last_layers_backward_s(stage, layer) - last_layers_backward_s(stage, layer + 1);
}

double LoadModel::hidden_backward_s(const Stage& stage, int layer) const {
  return time_of(stage, layer).hidden_backward_s;
}

double LoadModel::weight_gradient_s(const Stage& stage, int layer) const {
  return time_of(stage, layer).weight_gradient_s;
}

double LoadModel::gradient_compression_s(double bytes) const {
  if (gradient_compression_s_per_byte_ == 0) return 0;  // the compression ratio may be 0
  return bytes / execution_.compression.gradients * gradient_compression_s_per_byte_;
}

/// Bytes held permanently per parameter on a device, if so many have the same.
double LoadModel::state_bytes_per_parameter(double replicas) const {
  const ParameterBytes bytes = parameter_bytes(job_.training);
  const double feedback = error_feedback_bytes(job_.training, execution_.compression);
  if (execution_.optimizer_offload) return bytes.weights + feedback;
  const double whole =
                   (sharding_.parameters ? 0 : bytes.weights) + (sharding_.gradients ? 0 : bytes.gradients),
               partitioned = sharding_.optimizer ? std::max(0.0, bytes.resident - whole) : 0;
  return bytes.resident - partitioned + partitioned / replicas + feedback;
}

/// Bytes of whole layers held while computing, although the device keeps only a part of them permanently.
double LoadModel::gathered_bytes(const Stage& stage) const {
  if (!sharding_.gradients) return 0;
  double max_bytes = 0;
  for (int layer = stage.layers.first; layer < stage.layers.second; ++layer) {
    double bytes = bytes_.gradients({layer, layer + 1}, true);
    if (sharding_.parameters) bytes += bytes_.parameters({std::max(0, layer - 1), layer + 1}, true);
    max_bytes = std::max(max_bytes, bytes);
  }
  return max_bytes;
}

Layer LoadModel::layer_on_device(const Stage& stage, int layer) const {
  const StageMesh mesh = stage_mesh(execution_, stage.devices.size());
  return with_activations_of_device(chain_[at(layer)], mesh.tensor, job_.parallelism.sequence_parallel,
                                    mesh.token_parts(), mesh.routed_load());
}

/// Bytes per sequence that one device holds. The input of the first layer is assumed to be as large as its
/// output.
double LoadModel::input_bytes(const Stage& stage, int layer) const {
  return layer_on_device(stage, std::max(0, layer - 1)).output.value();
}

const RecomputationTraits& LoadModel::recomputation_of(const Stage& stage, int layer) const {
  return traits(is_recomputed(stage, layer) ? execution_.recomputation : Recomputation::none);
}

/// Bytes per sequence that one device holds from forward to backward.
double LoadModel::saved_activation_bytes(const Stage& stage) const {
  const auto [begin, end] = stage.layers;
  double sum = 0;
  for (int layer = begin; layer < end; ++layer)
    sum += recomputation_of(stage, layer)
               .kept(layer_on_device(stage, layer), Bytes(input_bytes(stage, layer)))
               .value();
  const bool buffers = traits(execution_.schedule).keeps_boundary_buffers;
  if (end < layers()) sum += (buffers ? 2 : 1) * input_bytes(stage, end);
  if (begin > 0 && buffers) sum += input_bytes(stage, begin);
  return sum;
}

StageLoad LoadModel::of(const Stage& stage) const {
  const auto [begin, end] = stage.layers;
  DTFM_ASSERT(!stage.devices.empty() && begin >= 0 && begin <= end && end <= layers());
  const StageMesh mesh = stage_mesh(execution_, stage.devices.size());
  const double micro_batch = execution_.micro_batch;
  StageLoad load;
  load.forward_s = load.backward_s = load.overhead_s = overhead_;
  double working = 0, gradients = 0, offloaded = 0, offload = 0;
  for (int layer = begin; layer < end; ++layer) {
    const Layer& it = chain_[at(layer)];
    const LayerTime time = time_of(stage, layer);
    load.forward_s += time.forward_s;
    load.backward_s += time.backward_s;
    load.weight_gradient_s += time.weight_gradient_s;
    load.hidden_forward_s += time.hidden_forward_s;
    load.hidden_backward_s += time.hidden_backward_s;
    load.update_s += time.update_s - (begin == 0 ? time.tied_update_s : 0);
    load.model_flops += (it.forward + it.backward).value() * micro_batch / mesh.devices();
    const RecomputationTraits& recomputation = recomputation_of(stage, layer);
    const double while_computing = recomputation.working(layer_on_device(stage, layer)).value();
    working = std::max(working, while_computing);
    // During its backward pass, an MLP holds gradients as large as its activations.
    gradients = std::max(gradients, layer_on_device(stage, layer).mlp_memory.value());
    if (recomputation.offloads) offloaded += while_computing;
    offload += offload_s(stage, layer);
  }
  load.forward_s = std::max(load.forward_s, overhead_ + offload);
  load.backward_s = std::max(load.backward_s, overhead_ + offload);
  working = std::max(working, offloaded);
  const ParameterBytes bytes = parameter_bytes(job_.training);
  double experts = 0;  // parameters in experts that are divided apart
  for (int layer = begin; layer < end && mesh.divides_experts(); ++layer)
    experts += chain_[at(layer)].expert_parameters;
  const double dense = (parameters_of(chain_, stage.layers) - experts) / mesh.tensor;
  experts /= mesh.expert;
  const double parameters = dense + experts;
  load.output_bytes = bytes_.message(std::max(0, end - 1), static_cast<int>(stage.devices.size()));
  // Copying updated fp16 parameters to the device overlaps with the update, and takes less time over PCI
  // Express 3.0. Gradients were copied during the backward pass.
  if (execution_.optimizer_offload) load.update_s = parameters * host_update_s_per_parameter;
  load.gradient_bytes = parameters * bytes.synced * execution_.compression.gradients;
  load.weight_bytes = parameters * bytes.checkpointed;
  load.expert_weight_bytes = experts * bytes.checkpointed;
  const double copies = bytes_.quantized_copies(stage.layers, mesh);
  load.state_bytes = dense * state_bytes_per_parameter(replicas_ * mesh.copies(false)) +
                     experts * state_bytes_per_parameter(replicas_ * mesh.copies(true)) +
                     copies / (sharding_.parameters ? replicas_ : 1);
  load.activation_bytes = saved_activation_bytes(stage) * micro_batch;
  load.working_bytes = (working + gradients) * micro_batch + gathered_bytes(stage) + process_memory_bytes_;
  return load;
}

}  // namespace dtfm::sim
