// What is known of the device when something is timed on it.
#pragma once

#include <cstdint>
#include <string>

namespace dtfm::kernels {

/// Zero or empty: not known. Clocks, temperature and power are NVML's, which is opened if it is there and
/// never needed.
struct DeviceState {
  std::string name;
  std::string driver_version;    // as NVML says it
  int cuda_runtime_version = 0;  // 1000 · major + 10 · minor
  int compute_capability = 0;    // 10 · major + minor
  std::uint64_t memory_bytes = 0, free_bytes = 0;
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0, memory_clock_mhz = 0;
  int temperature_celsius = 0;
  double power_watts = 0;
  std::uint64_t throttle_reasons = 0;  // bits of nvmlClocksThrottleReasons: why clocks are low just now
};

/// Throws DeviceError where there is no device.
DeviceState device_state();

}  // namespace dtfm::kernels
