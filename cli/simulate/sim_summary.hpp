// Formats the summary of a simulation.
#pragma once

#include <string>

#include "planner/api/simulate.hpp"

namespace dtfm::cli {

/// Returns about 40 to 70 lines, independent of the number of devices. The result must have a layout.
std::string format_summary(const api::SimulateRequest& request, const api::SimulateResult& result);

/// A table of the kinds, and where the timelines first diverge.
std::string format_comparison(const Topology& topology, const sim::Timeline& measured,
                              const sim::TimelineComparison& comparison);

}  // namespace dtfm::cli
