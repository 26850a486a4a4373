#include "simulator/model/stage_load.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "simulator/model/optimizer.hpp"

namespace dtfm {
namespace {

double efficiency_of(const Job& job, const SimConstants& constants) {
  if (!job.profile) return constants.compute_efficiency;
  if (!job.profile->file.empty())
    throw Error(job.profile->file,
                "profiles of measured layers are not supported yet by the simulator; "
                "`profile: {analytic: true, efficiency: …}` is");
  return job.profile->efficiency;
}

double peak_of(const Topology& topology, const Device& device) {
  const auto complaint = [&](const std::string& what) {
    return Error("", fmt::format("the speed of device {} is not known: {}", device.id, what));
  };
  if (device.gpu < 0) throw complaint("the topology gives it no `gpu`");
  const Gpu& gpu = topology.gpus[at(device.gpu)];
  if (!gpu.peak)
    throw complaint(fmt::format("GPU {} has no `peak`; give it one in `gpus` of the topology", gpu.name));
  return gpu.peak->value();
}

}  // namespace

LoadModel::LoadModel(const Job& job, const Topology& topology, const SimConstants& constants)
    : job_(job), topology_(topology), efficiency_(efficiency_of(job, constants)), chain_(layer_chain(job)) {}

/// Of a device of the stage; they wait for the slowest.
double LoadModel::flops_per_second(const Stage& stage) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const int index : stage.devices) {
    const Device& device = topology_.devices[at(index)];
    slowest = std::min(slowest, peak_of(topology_, device) * efficiency_ * device.speed);
  }
  return slowest;
}

double LoadModel::gradient_bytes(int layer, bool tied) const {
  const double parameters = chain_[at(layer)].parameters - (tied ? chain_[at(layer)].tied_parameters : 0);
  return parameters * parameter_bytes(job_.training).exchanged * job_.compression.gradients;
}

double LoadModel::backward_flops(int layer) const {
  const Layer& it = chain_[at(layer)];
  const std::string& recompute = job_.training.recompute;
  const Flops again = recompute == "full"        ? it.forward - it.head
                      : recompute == "selective" ? it.attention
                                                 : Flops();
  return (it.backward + again).value();
}

/// Of one sequence. What comes into the first layer is taken to be as large as what goes out.
double LoadModel::input_bytes(int layer) const {
  return chain_[at(std::max(0, layer - 1))].output.value();
}

/// Of one sequence, from its forward to its backward.
double LoadModel::kept_bytes(const Stage& stage) const {
  const auto [begin, end] = stage.layers;
  const std::string& recompute = job_.training.recompute;
  double sum = 0;
  for (int layer = begin; layer < end; ++layer) {
    const Layer& it = chain_[at(layer)];
    if (recompute == "full")
      sum += input_bytes(layer);
    else
      sum += (recompute == "selective" ? it.activation_memory - it.attention_memory : it.activation_memory)
                 .value();
  }
  const bool buffers = job_.parallelism.schedule == "gpipe";
  if (end < layers()) sum += (buffers ? 2 : 1) * input_bytes(end);
  if (begin > 0 && buffers) sum += input_bytes(begin);
  return sum;
}

StageLoad LoadModel::of(const Stage& stage) const {
  const auto [begin, end] = stage.layers;
  DTFM_ASSERT(!stage.devices.empty() && begin >= 0 && begin <= end && end <= layers());
  const double share =
      static_cast<double>(job_.training.micro_batch) / static_cast<double>(stage.devices.size());
  const double tensor = static_cast<double>(stage.devices.size());
  const double speed = flops_per_second(stage);
  StageLoad load;
  const std::string& recompute = job_.training.recompute;
  double working = 0;
  for (int layer = begin; layer < end; ++layer) {
    const Layer& it = chain_[at(layer)];
    load.forward_s += it.forward.value() * share / speed;
    load.backward_s += backward_flops(layer) * share / speed;
    load.model_flops += (it.forward + it.backward).value() * share;
    load.gradient_bytes += gradient_bytes(layer, begin == 0) / tensor;
    working =
        std::max(working, (recompute == "selective" ? it.attention_memory : it.activation_memory).value());
  }
  const ParameterBytes bytes = parameter_bytes(job_.training);
  const double parameters = parameters_of(chain_, stage.layers) / tensor;
  load.output_bytes = input_bytes(end) * share * job_.compression.activations;
  load.weight_bytes = parameters * bytes.saved;
  load.state_bytes = parameters * bytes.held;
  load.activation_bytes = kept_bytes(stage) * share;
  if (recompute == "full" || recompute == "selective") load.working_bytes = working * share;
  return load;
}

StageLoad stage_load(const Job& job, const Topology& topology, const SimConstants& constants,
                     const Stage& stage) {
  return LoadModel(job, topology, constants).of(stage);
}

}  // namespace dtfm
