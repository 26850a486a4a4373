// Writes a calibration as JSON, by the schema dtfm-calibration/1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/calibrate.hpp"

namespace dtfm::io {

/// The file of --calibration, and how it was fitted. Equal arguments give equal documents.
nlohmann::ordered_json calibration_document(const api::CalibrateRequest& request,
                                            const api::CalibrateResult& result);

/// What the reader of the constants should know, as sentences.
std::vector<std::string> calibration_notes(const api::CalibrateRequest& request,
                                           const api::CalibrateResult& result);

/// The lines of the table that have `chosen`, indices of `runs` in ascending order, as ranges: "2-5, 9".
std::string format_lines(std::span<const sim::MeasuredRun> runs, const std::vector<std::size_t>& chosen);

}  // namespace dtfm::io
