#include "simulator/swarm/swarm_traffic.hpp"

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"

namespace dtfm::sim {

std::vector<StageTraffic> swarm_traffic(const Job& job, int stages) {
  const double micro_batch = job.execution.micro_batch;
  const std::vector<Layer> chain = layer_chain(job);
  std::vector<StageTraffic> traffic;
  double activations = 0;  // sent by the stage before
  for (int stage = 0; stage < stages; ++stage) {
    const bool is_first = stage == 0, is_last = stage == stages - 1;
    const int end = even_split(static_cast<int>(chain.size()), stages, stage).second;
    const double output =
        chain[at(end - 1)].output.value() * micro_batch * job.execution.compression.activations;
    double samples = 0;
    if (is_first) samples += input_bytes(job.model) * micro_batch;
    if (is_last) samples += token_id_bytes * sequence_length(job.model) * micro_batch;
    traffic.push_back({{samples, activations, 0, is_last ? loss_bytes : output},
                       {samples, activations, is_last ? 0 : output, activations}});
    activations = output;
  }
  return traffic;
}

}  // namespace dtfm::sim
