#include <algorithm>

#include "core/schedule/alternate.hpp"

namespace dtfm {
namespace {

int warm_up_of(const PipelinePosition& position) {
  return position.planned.warm_up.value_or(2 * (position.devices - position.device - 1));
}

}  // namespace

std::vector<Operation> eager_one_f_one_b_order(const PipelinePosition& position) {
  return alternate(
      position.micro_batches, warm_up_of(position),
      [](int i) {
        return Operation{Operation::Kind::forward, 0, i};
      },
      [](int i) {
        return Operation{Operation::Kind::backward, 0, i};
      });
}

int eager_one_f_one_b_in_flight(const PipelinePosition& position) {
  return std::min(position.micro_batches, warm_up_of(position) + 1);
}

}  // namespace dtfm
