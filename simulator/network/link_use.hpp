// Links, and how flows use them.
#pragma once

namespace dtfm::sim {

enum class Sharing {
  shared,   // the capacity limits the sum of all flows
  fatpipe,  // the capacity limits each flow separately
};

struct LinkCapacity {
  double capacity = 0;  // bytes per second; 0 stops all flows
  Sharing sharing = Sharing::shared;
};

/// A flow uses `share` × its rate of the link's capacity. Shares add up where a flow lists a link repeatedly.
struct LinkUse {
  int link = 0;
  double share = 1;
};

}  // namespace dtfm::sim
