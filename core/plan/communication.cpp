#include "core/plan/communication.hpp"

#include "core/plan/model_state.hpp"

namespace dtfm {

LayerBytes::LayerBytes(const Job& job, const ExecutionConfig& execution) {
  const ParameterBytes bytes = parameter_bytes(job.training);
  gradient_ = bytes.synced;
  weight_ = bytes.weights;
  elements_ = {0};
  for (const Layer& layer : layer_chain(job)) {
    elements_.push_back(elements_.back() + layer.parameters);
    tied_.push_back(layer.tied_parameters);
    output_.push_back(layer.output.value() * execution.micro_batch);
  }
}

double LayerBytes::elements(std::pair<int, int> layers, bool with_first) const {
  double sum = elements_[at(layers.second)] - elements_[at(layers.first)];
  if (with_first)
    for (int layer = layers.first; layer < layers.second; ++layer) sum -= tied_[at(layer)];
  return sum;
}

int all_reduces_per_layer(const ExecutionConfig& execution, Pass pass) {
  return pass == Pass::backward && traits(execution.recomputation).repeats_all_reduces ? 4 : 2;
}

std::vector<Communication> pipeline_communications(const LayerBytes& bytes, const Plan& plan, int pipeline) {
  std::vector<Communication> result;
  const std::vector<Stage>& stages = plan.pipelines[at(pipeline)].stages;
  for (int stage = 0; at(stage) < stages.size(); ++stage) {
    const auto& [layers, devices] = stages[at(stage)];
    for (int layer = layers.first; devices.size() > 1 && layer < layers.second; ++layer)
      for (const Pass pass : {Pass::forward, Pass::backward})
        result.push_back({.payload = Payload::partial_sums,
                          .moment = Moment::after_pass,
                          .pass = pass,
                          .layers = {layer, layer + 1},
                          .devices = devices,
                          .pipelines = std::vector<int>(devices.size(), pipeline),
                          .stages = std::vector<int>(devices.size(), stage),
                          .algorithm = tensor_all_reduce,
                          .bytes = bytes.output(layer),
                          .count = all_reduces_per_layer(plan.execution, pass)});
  }
  return result;
}

}  // namespace dtfm
