#include "core/schedule/schedule.hpp"

namespace dtfm {

std::vector<Operation> gpipe_order(const PipelinePosition& position) {
  std::vector<Operation> order;
  for (const auto kind : {Operation::Kind::forward, Operation::Kind::backward})
    for (int i = 0; i < position.micro_batches; ++i) order.push_back({kind, 0, i});
  return order;
}

int gpipe_in_flight(const PipelinePosition& position) {
  return position.micro_batches;
}

}  // namespace dtfm
