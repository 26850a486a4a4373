// Any bytes read as simulator constants give valid constants or an Error; valid constants written as JSON
// read back unchanged.
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "simulator/calibration/prediction.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::FittedCalibration read;
  try {
    read = dtfm::io::parse_calibration(std::string(reinterpret_cast<const char*>(data), size), "c.yaml");
  } catch (const dtfm::Error&) {
    return 0;
  }
  DTFM_ASSERT(read.constants.compute_scale > 0 && read.constants.message_overhead_s >= 0);
  DTFM_ASSERT(read.constants.network_efficiency > 0 && read.constants.network_efficiency <= 1);
  DTFM_ASSERT(read.constants.sync_efficiency > 0 && read.constants.sync_efficiency <= 1);
  const dtfm::FittedCalibration again =
      dtfm::io::parse_calibration(dtfm::io::format_json(dtfm::io::calibration_json(read)), "written.json");
  DTFM_ASSERT(again.constants == read.constants && again.spread == read.spread);
  if (!read.spread) return 0;
  const double factor =
      dtfm::sim::prediction_factor(read.constants, *read.spread, [](const dtfm::Calibration& constants) {
        return constants.compute_scale / constants.network_efficiency + constants.iteration_overhead_s;
      });
  DTFM_ASSERT(factor >= 1);
  return 0;
}
