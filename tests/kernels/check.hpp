// Shared code of the kernel tests: random numbers, arrays to and from the device, and the relative error ‖got
// − expected‖ / ‖expected‖. It uses no test framework, because it must build on a bare GPU machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/platform/device.hpp"
#include "kernels/platform/device_state.hpp"
#include "kernels/platform/types.hpp"
#ifdef DTFM_EMULATED
#include "kernels/platform/emulation.hpp"
#endif

namespace dtfm::kernels {

using Numbers = std::vector<double>;

#ifdef DTFM_EMULATED
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif

inline std::size_t count(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

/// Generates random bits by splitmix64 (Steele, Lea, Flood 2014).
inline std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Returns uniform random numbers with the given mean and standard deviation.
inline Numbers random_numbers(std::size_t size, std::uint64_t seed, double deviation = 1, double mean = 0) {
  std::uint64_t state = seed * 0x100000001b3u;
  Numbers values(size);
  for (double& value : values)
    value =
        mean + deviation * std::sqrt(3.0) * (2 * static_cast<double>(next_random(state) >> 11) * 0x1p-53 - 1);
  return values;
}

inline std::vector<int> random_integers(std::size_t size, int below, std::uint64_t seed) {
  std::uint64_t state = seed * 0x100000001b3u;
  std::vector<int> values(size);
  for (int& value : values) value = static_cast<int>(next_random(state) % static_cast<std::uint64_t>(below));
  return values;
}

template <class T>
Numbers rounded(Numbers values) {
  for (double& value : values)
    value = static_cast<double>(to_float(from_float<T>(static_cast<float>(value))));
  return values;
}

template <class T>
DeviceArray<T> on_device(const Numbers& values) {
  std::vector<T> host;
  for (const double value : values) host.push_back(from_float<T>(static_cast<float>(value)));
  return DeviceArray<T>(host);
}

template <class T>
Numbers numbers_of(const DeviceArray<T>& array) {
  Numbers values;
  for (const T value : array.to_host()) values.push_back(static_cast<double>(to_float(value)));
  return values;
}

/// Returns NaN if any value is NaN or the sizes differ.
inline double relative_error(const Numbers& got, const Numbers& expected) {
  if (got.size() != expected.size()) return std::nan("");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

/// Tolerated relative error of a kernel's results.
template <class T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 1e-5 : 1e-2;
}

template <class T>
const char* name_of();
template <>
inline const char* name_of<float>() {
  return "fp32";
}
template <>
inline const char* name_of<Half>() {
  return "fp16";
}
template <>
inline const char* name_of<Bfloat16>() {
  return "bf16";
}

/// Counts and prints checks. Usage: Checks checks; …; return checks.exit_code();
class Checks {
 public:
  void near(const std::string& what, const Numbers& got, const Numbers& expected, double allowed) {
    const double error = relative_error(got, expected);
    record(what, error <= allowed, "relative error " + text(error) + ", allowed " + text(allowed));
  }

  template <class T>
  void near(const std::string& what, const DeviceArray<T>& got, const Numbers& expected) {
    near(what + " " + name_of<T>(), numbers_of(got), expected, tolerance<T>());
  }

  void that(const std::string& what, bool good, const std::string& detail = "") {
    record(what, good, detail);
  }

  int exit_code() const {
    std::printf("%d checks, %d failed\n", checks_, failed_);
    return failed_ == 0 && checks_ > 0 ? 0 : 1;
  }

 private:
  static std::string text(double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.3g", value);
    return buffer;
  }
  void record(const std::string& what, bool good, const std::string& detail) {
    ++checks_;
    if (!good) ++failed_;
    std::printf("%s %s%s%s\n", good ? "ok    " : "FAILED", what.c_str(), detail.empty() ? "" : ": ",
                detail.c_str());
  }
  int checks_ = 0, failed_ = 0;
};

/// Runs the checks, or prints why not: exit code 77 tells ctest that a test was skipped. In the emulation,
/// checks run under both of its schedules, unless one is enough.
template <class F>
int run_checks(F body, [[maybe_unused]] bool both_schedules = true) {
  if (!device_available()) {
    std::puts("skipped: no CUDA GPU, or no driver for it, on this machine");
    return 77;
  }
  Checks checks;
  try {
    body(checks);
#ifdef DTFM_EMULATED
    emulation::set_schedule(emulation::Schedule::early);
    if (both_schedules) body(checks);
#endif
  } catch (const std::exception& error) {
    checks.that("no exception", false, error.what());
  }
  return checks.exit_code();
}

template <class F>
void for_each_format(F body) {
  body(float{});
  body(Half{});
  // Tensor cores and cuBLAS support bfloat16 from sm_80 on.
  if (emulated || device_identity().compute_capability >= 80) body(Bfloat16{});
}

}  // namespace dtfm::kernels
