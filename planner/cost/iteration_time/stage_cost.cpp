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

void add(ComputeTime& sum, const LayerTime& time) {
  sum.forward_s += time.forward_s;
  sum.backward_s += time.backward_s;
  sum.weight_gradient_s += time.weight_gradient_s;
  sum.update_s += time.update_s;
  sum.hidden_forward_s += time.hidden_forward_s;
  sum.hidden_backward_s += time.hidden_backward_s;
}

}  // namespace

StageCosts::StageCosts(const Problem& problem, int devices)
    : problem_(problem),
      memory_(problem.job, problem.constants.process_memory_bytes, devices),
      layers_(layer_count(problem.job.model)) {
  find_kinds();
  find_bytes();
}

void StageCosts::find_kinds() {
  const Topology& topology = problem_.topology;
  const LayerTimes times(problem_, problem_.job.execution, {devices()});
  std::map<std::pair<int, double>, int> kinds;
  for (int device = 0; device < topology.size(); ++device) {
    const Device& it = topology.devices[at(device)];
    const auto [position, is_new] =
        kinds.emplace(std::pair(it.gpu, it.speed), static_cast<int>(times_.size()));
    kind_.push_back(position->second);
    if (!is_new) continue;
    KindTimes kind{"", times.includes_all_reduces(device, devices()), {{}}, {{}}, {0}, {}};
    try {
      for (int layer = 0; layer < layers_; ++layer) {
        const LayerTime time = times.of(layer, device, devices());
        add(kind.before.emplace_back(kind.before.back()), time);
        add(kind.kept.emplace_back(kind.kept.back()), times.of(layer, device, devices(), false));
        kind.tied_update_s.push_back(kind.tied_update_s.back() + time.tied_update_s);
      }
      if (traits(problem_.job.execution.recomputation).offloads)
        kind.offload_s = offload_s_before(topology.gpus[at(it.gpu)]);
    } catch (const Error& error) {
      kind.unknown = error.what();
    }
    times_.push_back(std::move(kind));
  }
}

/// [layer]: seconds for the activations of all earlier layers to cross the host link once.
std::vector<double> StageCosts::offload_s_before(const Gpu& gpu) const {
  const BitsPerSecond link = required_host_link(gpu, "the time to offload activations");
  std::vector<double> sums;
  for (int layer = 0; layer <= layers_; ++layer)
    sums.push_back((Bytes(memory_.activation_bytes({0, layer})) / link).value());
  return sums;
}

void StageCosts::find_bytes() {
  const Job& job = problem_.job;
  const std::vector<Layer> chain = layer_chain(job);
  saved_ = dtfm::parameter_bytes(job.training).checkpointed;
  const double micro_batch = job.execution.micro_batch,
               sent = micro_batch / (divides_messages(job.parallelism) ? devices() : mesh().token_parts());
  for (const Layer& it : chain) model_flops_ += (it.forward + it.backward).value();
  for (int layer = 0; layer < layers_; ++layer)
    output_.push_back(chain[at(std::max(0, layer - 1))].output.value() * sent);
  for (const Exchange kind : exchange_kinds) {
    const auto number = static_cast<std::size_t>(kind);
    exchanged_[number] = {exchanges_before(kind, Pass::forward, true),
                          exchanges_before(kind, Pass::backward, true)};
    exchanged_kept_[number] = exchanges_before(kind, Pass::backward, false);
  }
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

const std::string& StageCosts::unknown(int device) const {
  return times_[at(kind_of(device))].unknown;
}

ComputeTime StageCosts::compute(int kind, std::pair<int, int> layers, int recomputed) const {
  const KindTimes& times = times_[at(kind)];
  const std::size_t middle = at(layers.first + recomputed);
  const ComputeTime &begin = times.before[at(layers.first)], &end = times.before[at(layers.second)];
  const ComputeTime &repeated = times.before[middle], &kept = times.kept[middle],
                    &kept_end = times.kept[at(layers.second)];
  const double tied = layers.first == 0 ? times.tied_update_s[at(layers.second)] : 0,
               offload_s =
                   times.offload_s.empty() ? 0 : times.offload_s[middle] - times.offload_s[at(layers.first)];
  return {
      std::max(offload_s, end.forward_s - begin.forward_s),
      std::max(offload_s, repeated.backward_s - begin.backward_s + (kept_end.backward_s - kept.backward_s)),
      end.update_s - begin.update_s - tied,
      end.weight_gradient_s - begin.weight_gradient_s,
      end.hidden_forward_s - begin.hidden_forward_s,
      repeated.hidden_backward_s - begin.hidden_backward_s +
          (kept_end.hidden_backward_s - kept.hidden_backward_s)};
}

/// Of each device. Those tied to the first layer of the same stage are not counted again.
double StageCosts::held_elements(std::pair<int, int> layers) const {
  return bytes().held_elements(layers, layers.first == 0, mesh());
}

double StageCosts::gradient_bytes(std::pair<int, int> layers, bool with_first, bool compressed) const {
  const double ratio = compressed ? problem_.job.execution.compression.gradients : 1;
  const double sum = bytes().gradients(layers, with_first) / mesh().shards(false) +
                     bytes().gradients(layers, with_first, true) / mesh().shards(true);
  return sum * ratio / problem_.constants.sync_efficiency;
}

double StageCosts::parameter_bytes(std::pair<int, int> layers, bool with_first) const {
  const double sum = bytes().parameters(layers, with_first) / mesh().shards(false) +
                     bytes().parameters(layers, with_first, true) / mesh().shards(true);
  return sum / problem_.constants.sync_efficiency;
}

double StageCosts::gradient_compression_s(double bytes) const {
  if (gradient_compression_s_per_byte_ == 0) return 0;
  const double gradients =
      bytes * problem_.constants.sync_efficiency / problem_.job.execution.compression.gradients;
  return gradients * gradient_compression_s_per_byte_;
}

/// Of all layers before, [layer].
std::vector<ExchangedData> StageCosts::exchanges_before(Exchange kind, Pass pass, bool recomputed) const {
  std::vector<ExchangedData> sums = {{}};
  for (int layer = 0; layer < layers_; ++layer) {
    const double count = kind == Exchange::keys_values  ? bytes().key_rounds(layer, pass, recomputed)
                         : kind == Exchange::all_reduce ? bytes().all_reduces(layer, pass, recomputed)
                                                        : bytes().all_to_alls(layer, pass, recomputed);
    const double data = kind == Exchange::keys_values  ? bytes().keys_values(layer)
                        : kind == Exchange::all_reduce ? bytes().output(layer)
                                                       : bytes().expert_tokens(layer);
    sums.push_back({sums.back().messages + count, sums.back().bytes + count * data});
  }
  return sums;
}

/// Of D devices, each has 1 / D of the keys and values, and passes c − 1 such parts on to the next in the
/// ring. With all-to-all, it sends 1 / c of its part to each peer. Each all-reduce of what a group of t
/// devices computes for a layer takes 2 (t − 1) messages of 1 / t of it. In an all-to-all among e devices,
/// each sends 1 / e of its tokens to each of the others.
ExchangedData StageCosts::exchanged(Exchange kind, std::pair<int, int> layers, bool backward,
                                    int recomputed) const {
  const std::vector<ExchangedData>&before = exchanged_[static_cast<std::size_t>(kind)][backward ? 1 : 0],
        &kept = backward ? exchanged_kept_[static_cast<std::size_t>(kind)] : before;
  const std::size_t middle = at(layers.first + recomputed);
  const ExchangedData &begin = before[at(layers.first)], &repeated = before[middle],
                      &kept_begin = kept[middle], &end = kept[at(layers.second)];
  const double messages = repeated.messages - begin.messages + (end.messages - kept_begin.messages),
               bytes = repeated.bytes - begin.bytes + (end.bytes - kept_begin.bytes);
  switch (kind) {
    case Exchange::keys_values:
      if (this->bytes().divides_heads()) return {messages, bytes / mesh().devices() / mesh().context};
      return {messages * (mesh().context - 1), bytes * (mesh().context - 1) / mesh().devices()};
    case Exchange::all_reduce: {
      const double steps = 2.0 * (mesh().tensor - 1);
      return {messages * steps, bytes * steps / mesh().tensor / mesh().token_parts()};
    }
    case Exchange::all_to_all:
    case Exchange::host_all_to_all:
      break;
  }
  return {messages, bytes / mesh().devices() / mesh().expert};
}

double StageCosts::saved_bytes(std::pair<int, int> layers) const {
  return held_elements(layers) * saved_;
}

}  // namespace dtfm::cost
