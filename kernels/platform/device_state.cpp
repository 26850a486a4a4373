#include "kernels/platform/device_state.hpp"

#include <algorithm>
#include <utility>

namespace dtfm::kernels {
namespace {

/// Bits of nvmlClocksEventReasons (before driver 535: nvmlClocksThrottleReasons), from the NVML API
/// reference.
constexpr std::pair<std::uint64_t, const char*> reasons[] = {{0x1, "idling"},
                                                             {0x2, "application clocks"},
                                                             {0x4, "the power cap"},
                                                             {0x8, "the hardware"},
                                                             {0x10, "other GPUs of a sync boost group"},
                                                             {0x20, "temperature (software)"},
                                                             {0x40, "temperature (hardware)"},
                                                             {0x80, "the power brake"},
                                                             {0x100, "display clocks"}};

std::string reason_text(std::uint64_t bits) {
  std::string text;
  for (const auto& [bit, name] : reasons)
    if ((bits & bit) != 0) text += (text.empty() ? "limited by " : " and ") + std::string(name);
  return text;
}

/// Returns "5", or "5 to 7", or an empty text if no state has the number.
std::string range_text(std::span<const DeviceState> states, int DeviceState::*number) {
  int minimum = 0, maximum = 0;
  for (const DeviceState& state : states) {
    if (state.*number == 0) continue;
    minimum = minimum == 0 ? state.*number : std::min(minimum, state.*number);
    maximum = std::max(maximum, state.*number);
  }
  if (maximum == 0) return "";
  return minimum == maximum ? std::to_string(maximum)
                            : std::to_string(minimum) + " to " + std::to_string(maximum);
}

}  // namespace

std::string text_of(std::span<const DeviceState> states) {
  std::uint64_t bits = 0;
  int highest_clock = 0;
  double power = 0;
  for (const DeviceState& state : states) {
    bits |= state.throttle_reasons;
    highest_clock = std::max(highest_clock, state.max_sm_clock_mhz);
    power = std::max(power, state.power_watts);
  }
  std::string text;
  const auto add = [&](const std::string& part, const std::string& behind) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part + behind;
  };
  add(range_text(states, &DeviceState::sm_clock_mhz),
      highest_clock > 0 ? " MHz of " + std::to_string(highest_clock) : " MHz");
  add(range_text(states, &DeviceState::temperature_celsius), " °C");
  if (power > 0) add(std::to_string(static_cast<int>(power + 0.5)), " W at most");
  add(reason_text(bits), "");
  return text;
}

}  // namespace dtfm::kernels
