// The members of a routing, for ByteCodec.
#pragma once

#include "core/plan/fields.hpp"
#include "core/schedule/path_fields.hpp"
#include "planner/search/path_routing/path_router.hpp"

namespace dtfm::search {

auto fields(MaybeConst<Routing> auto& it) {
  auto& [schedule, planned, greedy] = it;
  return std::tie(schedule, planned, greedy);
}

}  // namespace dtfm::search
