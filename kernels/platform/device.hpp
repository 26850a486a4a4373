// The device that kernels run on: a GPU, or the emulation of one. All operations execute in the order in
// which they were issued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dtfm::kernels {

/// Thrown when a device operation fails: no device, out of memory, a failed launch or library call.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct OutOfMemory : DeviceError {
  using DeviceError::DeviceError;
};

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

struct DeviceLimits {
  int multiprocessors = 0;
  std::size_t shared_bytes = 0;  // maximum per block
  std::size_t cache_bytes = 0;   // level 2 cache
  // How long layers must be measured. During matrix products the GPU reaches its power limit, and its clock
  // oscillates: on an H200, medians over a third of a second differed by up to 7 %.
  double settling_seconds = 0;
  // Whether the device supports them and this build contains their code (platform/warpgroup.cuh).
  bool warpgroup_products = false;
};

bool device_available();              // false without a GPU or a driver
const DeviceLimits& device_limits();  // throws DeviceError if there is no device

void* device_allocate(std::size_t bytes);  // 256-byte aligned; throws OutOfMemory
void device_free(void* memory) noexcept;
std::size_t device_free_bytes();  // bytes that can still be allocated
void device_zero(void* memory, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);  // waits for all previous operations
void device_synchronize();                                         // throws DeviceError if a kernel failed

/// Device memory for `size` numbers of type T, initially undefined, freed with the object.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size)
      : data_(size == 0 ? nullptr : static_cast<T*>(device_allocate(size * sizeof(T)))), size_(size) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (size_ != 0) copy_to_device(data_, values.data(), bytes());
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) device_free(data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
    if (size_ != 0) copy_to_host(values.data(), data_, bytes());
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A point in the stream of operations, used to measure the seconds between two of them.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record();
  double seconds_since(const Event& earlier);  // waits for this event

 private:
  void* event_;
};

}  // namespace dtfm::kernels
