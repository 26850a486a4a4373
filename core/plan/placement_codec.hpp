// The bytes of a placement.
#pragma once

#include "core/base/byte_codec.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

inline void transfer_bytes(ByteWriter& out, const Placement& placement) {
  out.put(placement.stages());
  out.put(placement.replicas());
  for (const int device : placement.devices()) out.put(device);
}

inline void transfer_bytes(ByteReader& in, Placement& placement) {
  const int stages = in.get<int>(), replicas = in.get<int>();
  placement = Placement(stages, replicas);
  for (int i = 0; i < stages * replicas; ++i) in(placement.at(i / replicas, i % replicas));
}

}  // namespace dtfm
