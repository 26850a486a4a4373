#include <algorithm>

#include "core/schedule/schedule.hpp"

namespace dtfm {

/// The forwards and input gradients of 1F1B. Device d of p delays weight gradients by d micro-batches, so
/// that every device holds as many micro-batches as the first device does under 1F1B; in the cool-down they
/// fill the time between two input gradients.
std::vector<Operation> zero_bubble_h1_order(const PipelinePosition& position) {
  using Kind = Operation::Kind;
  const int count = position.micro_batches, delay = position.device;
  const int ahead = std::min(position.devices - position.device - 1, count);
  std::vector<Operation> order;
  const auto add = [&](Kind kind, int micro_batch) { order.push_back({kind, 0, micro_batch}); };
  int weight_gradients = 0;
  for (int i = 0; i < ahead; ++i) add(Kind::forward, i);
  for (int i = 0; i < count; ++i) {
    const bool is_cool_down = i + ahead >= count;
    if (!is_cool_down) add(Kind::forward, i + ahead);
    add(Kind::backward, i);
    if (is_cool_down || i >= delay) add(Kind::weight_gradient, weight_gradients++);
  }
  while (weight_gradients < count) add(Kind::weight_gradient, weight_gradients++);
  return order;
}

int zero_bubble_h1_in_flight(const PipelinePosition& position) {
  return std::min(position.micro_batches, position.devices);
}

}  // namespace dtfm
