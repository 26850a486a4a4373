#include "planner/core/job.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "planner/core/plan.hpp"

namespace dtfm {
namespace {

Layer block(const Transformer& model, double number_bytes) {
  const double h = model.hidden, s = model.sequence, a = model.heads;
  const double precision = number_bytes / 2;  // the sizes are those of 16-bit numbers
  Layer layer;
  layer.name = "block";
  layer.parameters = 12 * h * h + 13 * h;
  layer.forward = Flops(24 * s * h * h + 4 * s * s * h);
  layer.backward = 2 * layer.forward;
  layer.attention = Flops(4 * s * s * h);
  layer.output = Bytes(s * h * number_bytes);
  layer.attention_memory = Bytes(5 * a * s * s * precision);
  layer.activation_memory = Bytes(34 * s * h * precision) + layer.attention_memory;
  return layer;
}

std::vector<Layer> transformer_chain(const Transformer& model, double number_bytes) {
  const double h = model.hidden, s = model.sequence, v = model.vocabulary;
  std::vector<Layer> chain(at(model.layers), block(model, number_bytes));
  Layer &first = chain.front(), &last = chain.back();
  first.parameters += v * h + s * h;
  if (chain.size() > 1) last.parameters += v * h;
  if (chain.size() > 1) last.tied_parameters = v * h;
  last.forward += Flops(2 * s * h * v);
  last.backward += Flops(4 * s * h * v);
  last.head = Flops(2 * s * h * v);
  last.activation_memory += Bytes((4 * s * h + 4 * s * v) * number_bytes / 2);
  return chain;
}

/// Sequences of the pipeline with the most micro-batches: a hop waits for the fullest.
double most_sequences(const Training& training, int replicas) {
  const int micro_batches = training.global_batch / training.micro_batch;
  const int most = (micro_batches + replicas - 1) / replicas;
  return static_cast<double>(most) * training.micro_batch;
}

}  // namespace

double bytes_per_number(const Training& training) {
  return training.precision == "fp32" ? 4 : 2;
}

int layer_count(const Model& model) {
  if (const auto* transformer = std::get_if<Transformer>(&model)) return transformer->layers;
  return static_cast<int>(std::get<LayerChain>(model).layers.size());
}

int sequence_length(const Model& model) {
  return std::visit([](const auto& kind) { return kind.sequence; }, model);
}

std::vector<Layer> layer_chain(const Job& job) {
  if (const auto* transformer = std::get_if<Transformer>(&job.model))
    return transformer_chain(*transformer, bytes_per_number(job.training));
  return std::get<LayerChain>(job.model).layers;
}

double parameters_of(const std::vector<Layer>& chain, std::pair<int, int> layers) {
  const auto [begin, end] = layers;
  double sum = 0;
  for (int layer = begin; layer < end; ++layer) {
    sum += chain[at(layer)].parameters;
    if (begin == 0) sum -= chain[at(layer)].tied_parameters;
  }
  return sum;
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
  return {Bytes(parameters * bytes_per_number(job.training) * job.compression.gradients),
          output * (most_sequences(job.training, replicas) * job.compression.activations)};
}

}  // namespace dtfm
