// Tables of a simulated run, of plans and of swarms.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "planner/core/topology.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::cli {

/// Of a table; what there is beyond them is in the result file.
constexpr std::size_t max_rows = 12;

/// "43.81 s", six significant digits.
std::string format_duration(double value);

/// All digits before the point, at least three in all.
std::string format_three_digits(double value);

/// "… 5 more links; the result file (-o) has all", and a line's end; empty where all are shown.
std::string format_omitted(std::size_t all, std::size_t shown, std::string_view noun);

/// "p50 17.2, p95 17.3, p99 17.4, 17.1 to 17.5"
std::string format_quantiles(const sim::Distribution& values);

/// Where the time of the devices goes, each for itself where they are few, else by site. `is_swarm`: of its
/// peers memory, sending and receiving are not known.
std::string device_table(const Topology& topology, const sim::SimReport& report, bool is_swarm = false);
/// The busiest; empty where there are none.
std::string link_table(const Topology& topology, const sim::SimReport& report);
/// The first; empty where there are none.
std::string event_table(const sim::SimReport& report);

}  // namespace dtfm::cli
