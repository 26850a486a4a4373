// Formats tables of a simulated run, of a plan or of a swarm.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/cluster/topology.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::cli {

/// Maximum rows of a table; the result file has all.
constexpr std::size_t max_run_rows = 12;

/// "43.81 s", with six significant digits.
std::string format_duration(double value);

/// Returns all digits before the decimal point, and at least three significant digits.
std::string format_three_digits(double value);

/// "… 5 more links; the result file (-o) has all" and a newline; empty if all are shown.
std::string format_omitted(std::size_t all, std::size_t shown, std::string_view noun);

/// "p50 17.2, p95 17.3, p99 17.4, 17.1 to 17.5"
std::string format_quantiles(const sim::Distribution& values);

/// Returns how the devices spend their time, one row per device or, if there are many, one per site. In a
/// swarm, memory, sending and receiving are not known.
std::string device_table(const Topology& topology, const sim::SimReport& report, bool is_swarm = false);
/// Returns the busiest links; empty if there are none.
std::string link_table(const Topology& topology, const sim::SimReport& report);
/// Returns the first events; empty if there are none.
std::string event_table(const sim::SimReport& report);

}  // namespace dtfm::cli
