// NVML is opened by name: programs start without it. Its few functions are declared here as nvml.h has them.
#include "kernels/device_state.hpp"

#include <dlfcn.h>

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {
namespace {

using NvmlDevice = void*;

struct Nvml {
  void* library = nullptr;
  NvmlDevice device = nullptr;

  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function =
        library == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    return function != nullptr && function(arguments...) == 0;
  }
};

Nvml open_nvml(const char* pci_bus_id) {
  Nvml nvml;
  nvml.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!nvml.call("nvmlInit_v2") || !nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id, &nvml.device))
    return {};
  return nvml;
}

void read_nvml(const Nvml& nvml, DeviceState& state) {
  enum {
    sm_clock = 1,
    memory_clock = 2,
    gpu_temperature = 0
  };  // of nvmlClockType_t, nvmlTemperatureSensors_t
  const auto number = [&](int& to, auto... call) {
    unsigned value = 0;
    if (nvml.call(call..., &value)) to = static_cast<int>(value);
  };
  number(state.sm_clock_mhz, "nvmlDeviceGetClockInfo", nvml.device, int{sm_clock});
  number(state.max_sm_clock_mhz, "nvmlDeviceGetMaxClockInfo", nvml.device, int{sm_clock});
  number(state.memory_clock_mhz, "nvmlDeviceGetClockInfo", nvml.device, int{memory_clock});
  number(state.temperature_celsius, "nvmlDeviceGetTemperature", nvml.device, int{gpu_temperature});
  int milliwatts = 0;
  number(milliwatts, "nvmlDeviceGetPowerUsage", nvml.device);
  state.power_watts = milliwatts / 1000.0;
  unsigned long long reasons = 0;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", nvml.device, &reasons))
    state.throttle_reasons = reasons;
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", &version[0], static_cast<unsigned>(sizeof version)))
    state.driver_version = version;
}

}  // namespace

DeviceState device_state() {
  DeviceState state;
  cudaDeviceProp properties{};
  int device = 0;
  char bus[32] = {};
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device properties");
  check_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "PCI bus id");
  check_cuda(cudaRuntimeGetVersion(&state.cuda_runtime_version), "runtime version");
  state.name = properties.name;
  state.compute_capability = 10 * properties.major + properties.minor;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "memory info");
  state.memory_bytes = total;
  state.free_bytes = free;
  static const Nvml nvml = open_nvml(bus);
  if (nvml.library != nullptr) read_nvml(nvml, state);
  return state;
}

}  // namespace dtfm::kernels
