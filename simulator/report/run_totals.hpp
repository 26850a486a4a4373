// What the parts of a report add up to.
#pragma once

#include <optional>

#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

/// FLOP/s of all devices of the report in the job's precision; 0 where one is not known.
double peak_flops_per_s(const Problem& problem, const SimReport& report);

/// Share of the time of all devices of the report in which they do not compute.
double bubble(const SimReport& report);

/// Of the devices of the report, while they were there, at so many tokens a second; what is sent over links
/// with a price comes on top. Nothing where a price is not known, or nothing was completed.
std::optional<double> usd_per_million_tokens(const Problem& problem, const SimReport& report,
                                             double tokens_per_s);

}  // namespace dtfm::sim
