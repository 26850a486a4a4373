// What of runs several programs say in words.
#pragma once

#include <string>

#include "simulator/report/sim_report.hpp"

namespace dtfm::cli {

/// "1204 calls verified, 3 not; 4.9 % of the computing, 12.4 GB sent again"; and who was caught. Of a report
/// that has a verification.
std::string format_verification(const sim::SimReport& report);

}  // namespace dtfm::cli
