#include <algorithm>

#include "core/base/error.hpp"
#include "core/schedule/alternate.hpp"

namespace dtfm {
namespace {

/// Forwards of all chunks before the first backward.
long long warm_up(const PipelinePosition& position) {
  return 2LL * (position.devices - position.device - 1) + (position.chunks - 1LL) * position.devices;
}

}  // namespace

/// Devices take turns of p micro-batches: p of them through chunk 0, the same through chunk 1, …, then the
/// next p; backward from the last chunk to the first.
std::vector<Operation> interleaved_order(const PipelinePosition& position) {
  const int p = position.devices, v = position.chunks;
  DTFM_ASSERT(position.micro_batches % p == 0);
  const auto operation = [p, v](Operation::Kind kind, int i) {
    const int chunk = i % (p * v) / p;
    return Operation{kind, kind == Operation::Kind::forward ? chunk : v - 1 - chunk, i / (p * v) * p + i % p};
  };
  return alternate(
      position.micro_batches * v, static_cast<int>(warm_up(position)),
      [&](int i) { return operation(Operation::Kind::forward, i); },
      [&](int i) { return operation(Operation::Kind::backward, i); });
}

int interleaved_in_flight(const PipelinePosition& position) {
  return static_cast<int>(std::min(1LL * position.micro_batches * position.chunks, warm_up(position) + 1));
}

}  // namespace dtfm
