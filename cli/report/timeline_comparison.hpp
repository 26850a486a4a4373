// Formats how the timeline of a training differs from the simulated one.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/topology.hpp"
#include "simulator/report/timeline_comparison.hpp"

namespace dtfm::cli {

/// The key `measured` of the result of dtfm-sim.
nlohmann::ordered_json comparison_json(const Topology& topology, const sim::Timeline& measured,
                                       const sim::TimelineComparison& comparison);

/// A table of the kinds, and where the timelines first diverge.
std::string format_comparison(const Topology& topology, const sim::Timeline& measured,
                              const sim::TimelineComparison& comparison);

}  // namespace dtfm::cli
