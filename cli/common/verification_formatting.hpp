// Formats the verification of a swarm for several programs.
#pragma once

#include <string>

#include "simulator/report/sim_report.hpp"

namespace dtfm::cli {

/// "1204 calls verified, 3 not; 4.9 % of compute, 12.4 GB resent", followed by the number of faulty peers
/// detected.
/// `report` must have a verification.
std::string format_verification(const sim::SimReport& report);

}  // namespace dtfm::cli
