// The members of paths, for ByteCodec.
#pragma once

#include "core/base/byte_codec.hpp"
#include "core/schedule/path_schedule.hpp"

namespace dtfm {

auto fields(MaybeConst<Visit> auto& it) {
  auto& [pipeline, stage] = it;
  return std::tie(pipeline, stage);
}

auto fields(MaybeConst<PathSchedule> auto& it) {
  auto& [paths, order] = it;
  return std::tie(paths, order);
}

}  // namespace dtfm
