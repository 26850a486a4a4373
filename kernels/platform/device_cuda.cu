#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {
namespace {

cudaEvent_t event_of(void* event) {
  return static_cast<cudaEvent_t>(event);
}

DeviceLimits read_limits() {
  cudaDeviceProp properties{};
  int device = 0;
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device properties");
#ifdef DTFM_SM90A
  const bool warpgroup_products = properties.major == 9 && properties.minor == 0;
#else
  const bool warpgroup_products = false;
#endif
  return {.multiprocessors = properties.multiProcessorCount,
          .shared_bytes = properties.sharedMemPerBlockOptin,
          .cache_bytes = static_cast<std::size_t>(properties.l2CacheSize),
          .settling_seconds = 1,
          .warpgroup_products = warpgroup_products};
}

}  // namespace

bool device_available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

const DeviceLimits& device_limits() {
  static const DeviceLimits limits = read_limits();
  return limits;
}

void* device_allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that no later call reports it
    throw OutOfMemory(std::string("memory: ") + cudaGetErrorString(status));
  }
  check_cuda(status, "memory");
  return memory;
}

void device_free(void* memory) noexcept {
  cudaFree(memory);
}

std::size_t device_free_bytes() {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "memory info");
  return free;
}

void device_zero(void* memory, std::size_t bytes) {
  check_cuda(cudaMemsetAsync(memory, 0, bytes), "memset");
}

void copy_on_device(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice), "copy on the device");
}

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void device_synchronize() {
  check_cuda(cudaDeviceSynchronize(), "kernel");
}

Event::Event() : event_(nullptr) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "event");
  event_ = event;
}

Event::~Event() {
  cudaEventDestroy(event_of(event_));
}

void Event::record() {
  check_cuda(cudaEventRecord(event_of(event_)), "event");
}

double Event::seconds_since(const Event& earlier) {
  float milliseconds = 0;
  check_cuda(cudaEventSynchronize(event_of(event_)), "kernel");
  check_cuda(cudaEventElapsedTime(&milliseconds, event_of(earlier.event_), event_of(event_)), "event");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace dtfm::kernels
