#include "simulator/iteration/stage_all_reduces.hpp"

#include <array>

#include "core/base/error.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

constexpr int forward_count = 2;  // all-reduces per layer: after its attention and after its MLP

}  // namespace

StageAllReduces::StageAllReduces(GraphBuilder& builder, const Job& job, const ExecutionConfig& execution,
                                 const Pipeline& pipeline)
    : builder_(builder) {
  for (const Layer& layer : layer_chain(job)) bytes_.push_back(layer.output.value() * execution.micro_batch);
  const bool repeats = traits(execution.recomputation).repeats_all_reduces;
  backward_count_ = repeats ? 2 * forward_count : forward_count;
  for (const Stage& stage : pipeline.stages) {
    const std::size_t tensor = stage.devices.size();
    channels_.emplace_back();
    const HostChannels hosts(builder.topology(), stage.devices);
    for (std::size_t rank = 0; tensor > 1 && rank < tensor; ++rank) {
      std::vector<Channel>& parts = channels_.back().emplace_back();
      for (const auto& [from, to] : hosts.next_in_ring(rank))
        parts.push_back(builder.channel(from, to, Activity::all_reduce));
    }
  }
}

int StageAllReduces::add(int stage, std::pair<int, int> layers, bool backward, std::span<const int> computed,
                         TaskLabel label) {
  const std::vector<std::vector<Channel>>& ring = channels_[at(stage)];
  const int tensor = static_cast<int>(ring.size());
  DTFM_ASSERT(tensor > 1);
  const int count = backward ? backward_count_ : forward_count, steps = 2 * (tensor - 1);
  double bytes = 0;
  for (int layer = layers.first; layer < layers.second; ++layer)
    bytes += count * steps * bytes_[at(layer)] / tensor;
  const double messages = static_cast<double>(layers.second - layers.first) * count * steps;

  label.phase = backward ? 1 : 0;
  const std::array ready{builder_.join(computed, label)};
  label.activity = Activity::all_reduce;
  std::vector<int> arrived;
  for (label.rank = 0; label.rank < tensor; ++label.rank)
    for (const Channel& part : ring[at(label.rank)])
      arrived.push_back(builder_.send_sequentially(
          part, bytes / static_cast<double>(ring[at(label.rank)].size()), messages, ready, label));
  label.rank = no_index;
  label.activity = Activity::wait;
  label.phase += 2;
  return builder_.join(arrived, label);
}

}  // namespace dtfm::sim
