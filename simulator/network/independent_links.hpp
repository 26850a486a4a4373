// Updates of a fluid network that affect a single bottleneck link and nothing else.
//
// A link is independent if its level can change without affecting any other link: no other link that its
// flows cross is a bottleneck, and each of them has room for all its flows at their demands, which are above
// their current levels. As long as the level stays below all demands, an update changes one number, however
// many flows the link has.
#pragma once

#include "core/base/stop.hpp"
#include "simulator/network/fluid_state.hpp"

namespace dtfm::sim {

/// Processes the changes that need no general update (partial_filling.hpp) and leaves the others queued.
/// Throws WorkStopped.
void update_independent_links(FluidState& state, double now, const StopFunction& stop);

/// After a general update: a link that has become a bottleneck becomes a dependent of the bottlenecks of its
/// loose flows. If a link has no room for all demands, those bottlenecks lose their independence.
void make_holders_dependent(FluidState& state, int link);

}  // namespace dtfm::sim
