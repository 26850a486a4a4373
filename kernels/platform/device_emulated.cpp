#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/platform/device.hpp"
#include "kernels/platform/device_state.hpp"
#include "kernels/platform/emulation.hpp"

namespace dtfm::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t alignment = 256;  // as of cudaMalloc; the size is stored in front of the memory

std::size_t allocated_bytes = 0;
std::size_t limit = std::numeric_limits<std::size_t>::max();

}  // namespace

void emulation::set_memory_limit(std::size_t bytes) {
  limit = bytes;
}
std::size_t emulation::memory_held() {
  return allocated_bytes;
}

bool device_available() {
  return true;
}

const DeviceLimits& device_limits() {
  // few and small, to keep grids and buffers small
  static const DeviceLimits limits{
      .multiprocessors = 4, .shared_bytes = 163 * 1024, .cache_bytes = 16 * 1024, .warpgroup_products = true};
  return limits;
}

void* device_allocate(std::size_t bytes) {
  if (bytes > device_free_bytes()) throw OutOfMemory("out of memory");
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, alignment + bytes) != 0) throw OutOfMemory("out of memory");
  std::memcpy(memory, &bytes, sizeof bytes);
  allocated_bytes += bytes;
  auto* data = static_cast<std::byte*>(memory) + alignment;
  std::memset(data, 0xff, bytes);  // NaN in every format, which reveals reads before writes
  return data;
}

void device_free(void* data) noexcept {
  void* memory = static_cast<std::byte*>(data) - alignment;
  std::size_t bytes = 0;
  std::memcpy(&bytes, memory, sizeof bytes);
  allocated_bytes -= bytes;
  std::free(memory);
}

std::size_t device_free_bytes() {
  return limit > allocated_bytes ? limit - allocated_bytes : 0;
}

void device_zero(void* memory, std::size_t bytes) {
  std::memset(memory, 0, bytes);
}
void copy_on_device(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void copy_to_device(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void device_synchronize() {}

DeviceIdentity device_identity() {
  DeviceIdentity identity;
  identity.name = "emulation";
  return identity;
}

DeviceState device_state() {
  return {};
}

Event::Event() : event_(new Clock::time_point(Clock::now())) {}
Event::~Event() {
  delete static_cast<Clock::time_point*>(event_);
}
void Event::record() {
  *static_cast<Clock::time_point*>(event_) = Clock::now();
}
double Event::seconds_since(const Event& earlier) {
  return std::chrono::duration<double>(*static_cast<Clock::time_point*>(event_) -
                                       *static_cast<Clock::time_point*>(earlier.event_))
      .count();
}

}  // namespace dtfm::kernels
