// Totals computed from a report.
#pragma once

#include <optional>

#include "core/plan/problem.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

/// Sum of the peak FLOP/s of all devices of the report in the job's precision; 0 if one of them is unknown.
double peak_flops_per_s(const Problem& problem, const SimReport& report);

/// Share of the total time of the report's devices in which they do not compute.
double bubble(const SimReport& report);

/// The price of the report's devices while they are available, in USD per million tokens, at a throughput of
/// `tokens_per_s`. Does not include egress. Empty if a price is unknown or nothing was completed.
std::optional<double> usd_per_million_tokens(const Problem& problem, const SimReport& report,
                                             double tokens_per_s);

}  // namespace dtfm::sim
