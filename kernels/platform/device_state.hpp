// What is known of the device when something is timed on it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dtfm::kernels {

/// Zero or empty: not known.
struct DeviceIdentity {
  std::string name;
  std::string driver_version;    // as NVML says it
  int cuda_runtime_version = 0;  // 1000 · major + 10 · minor
  int compute_capability = 0;    // 10 · major + minor
  std::uint64_t memory_bytes = 0;
};

/// Throws DeviceError where there is no device.
DeviceIdentity device_identity();

/// Of this moment, by NVML, which is opened if it is there and never needed. Zero: not known.
struct DeviceState {
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0, memory_clock_mhz = 0;
  int temperature_celsius = 0;
  double power_watts = 0;
  std::uint64_t throttle_reasons = 0;  // bits of nvmlClocksThrottleReasons: why clocks are not higher
};

/// Waits for nothing, so that it can be asked while the device works. Throws DeviceError where there is no
/// device.
DeviceState device_state();

/// In words, of states at different moments: "1695 to 1755 MHz of 1980, 58 to 61 °C, 690 W at most, held back
/// by the power limit". Empty where nothing is known.
std::string text_of(std::span<const DeviceState> states);

}  // namespace dtfm::kernels
