// The members of plans and intervals, for ByteCodec.
#pragma once

#include "core/base/byte_codec.hpp"
#include "core/base/intervals.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

auto fields(MaybeConst<Stage> auto& it) {
  auto& [layers, devices] = it;
  return std::tie(layers, devices);
}

auto fields(MaybeConst<Pipeline> auto& it) {
  auto& [micro_batches, stages] = it;
  return std::tie(micro_batches, stages);
}

auto fields(MaybeConst<Interval> auto& it) {
  auto& [begin, end] = it;
  return std::tie(begin, end);
}

template <>
struct ByteCodec<Placement> {
  static void write(ByteWriter& out, const Placement& placement) {
    out.put(placement.stages());
    out.put(placement.replicas());
    for (const int device : placement.devices()) out.put(device);
  }
  static Placement read(ByteReader& in) {
    const int stages = in.get<int>();
    Placement placement(stages, in.get<int>());
    for (int stage = 0; stage < stages; ++stage)
      for (int replica = 0; replica < placement.replicas(); ++replica)
        placement.at(stage, replica) = in.get<int>();
    return placement;
  }
};

}  // namespace dtfm
