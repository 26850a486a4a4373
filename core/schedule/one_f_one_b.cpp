#include "core/schedule/alternate.hpp"

namespace dtfm {

std::vector<Operation> one_f_one_b_order(const PipelinePosition& position) {
  return alternate(
      position.micro_batches, position.devices - position.device - 1,
      [](int i) {
        return Operation{Operation::Kind::forward, 0, i};
      },
      [](int i) {
        return Operation{Operation::Kind::backward, 0, i};
      });
}

int one_f_one_b_in_flight(const PipelinePosition& position) {
  return std::min(position.micro_batches, position.devices - position.device);
}

}  // namespace dtfm
