// The result of a calibration as text.
#pragma once

#include <string>

#include "planner/api/calibrate.hpp"

namespace dtfm::cli {

/// Notes, tables of the constants and of the runs, and the errors of the simulated times.
std::string format_summary(const api::CalibrateRequest& request, const api::CalibrateResult& result);

}  // namespace dtfm::cli
