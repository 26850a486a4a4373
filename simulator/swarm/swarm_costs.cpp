#include "simulator/swarm/swarm_costs.hpp"

#include <map>

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {

SwarmCosts::SwarmCosts(const Problem& problem, int stages)
    : samples_(problem.job.execution.micro_batch), traffic_(swarm_traffic(problem.job, stages)) {
  ExecutionConfig execution = problem.job.execution;
  execution.recomputation = Recomputation::full;
  execution.recompute_layers.reset();
  const Plan of_single_devices{1, execution, {{0, {{{0, layer_count(problem.job.model)}, {0}}}}}};
  const LoadModel model(problem, of_single_devices);
  std::map<std::pair<int, double>, int> kinds;  // keyed by GPU and speed
  for (int device = 0; device < problem.topology->size(); ++device) {
    const Device& it = problem.topology->devices[at(device)];
    const auto [kind, is_new] = kinds.emplace(std::pair(it.gpu, it.speed), static_cast<int>(kinds.size()));
    kind_.push_back(kind->second);
    if (!is_new) continue;
    std::vector<Times>& times = kind_times_.emplace_back();
    for (int stage = 0; stage < stages; ++stage) {
      const auto layers = even_split(model.layers(), stages, stage);
      const StageLoad load = model.of({layers, {device}});
      const auto compression_s = [&](int last) {  // of the activations after the first `last` layers
        return model.activation_compression_s(model.of({{0, last}, {device}}).output_bytes);
      };
      // Inputs and losses are not compressed.
      const double in = stage == 0 ? 0 : compression_s(layers.first),
                   out = stage == stages - 1 ? 0 : compression_s(layers.second);
      // A backward pass receives its input again and the gradient of its output, and sends that of its input.
      times.push_back({load.forward_s + in + out, load.backward_s + 2 * in + out, load.update_s});
      if (kind_.size() > 1) continue;
      stage_costs_.push_back({layers, load.gradient_bytes / problem.constants.sync_efficiency,
                              load.weight_bytes, model.gradient_compression_s(load.gradient_bytes)});
    }
  }
}

}  // namespace dtfm::sim
