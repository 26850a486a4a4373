// Identity and state of the device during a measurement.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dtfm::kernels {

/// A field that is zero or empty is unknown.
struct DeviceIdentity {
  std::string name;
  std::string driver_version;    // as reported by NVML
  int cuda_runtime_version = 0;  // 1000 · major + 10 · minor
  int compute_capability = 0;    // 10 · major + minor
  std::uint64_t memory_bytes = 0;
};

/// Throws DeviceError if there is no device.
DeviceIdentity device_identity();

/// Current state of the device as reported by NVML, which is optional. A field that is zero is unknown.
struct DeviceState {
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0, memory_clock_mhz = 0;
  int temperature_celsius = 0;
  double power_watts = 0;
  std::uint64_t throttle_reasons = 0;  // bits of nvmlClocksThrottleReasons: why clocks are not higher
};

/// Does not synchronize, so it can be called while the device works. Throws DeviceError if there is no
/// device.
DeviceState device_state();

/// Formats states at different times: "1695 to 1755 MHz of 1980, 58 to 61 °C, 690 W at most, limited by the
/// power cap". Returns an empty text if nothing is known.
std::string text_of(std::span<const DeviceState> states);

}  // namespace dtfm::kernels
