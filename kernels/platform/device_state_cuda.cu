// NVML is loaded at run time, so that programs start without it. The few functions used are declared here as
// in nvml.h.
#include "kernels/platform/device_state.hpp"

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

const Nvml& nvml_of_device() {
  static const Nvml nvml = [] {
    int device = 0;
    char bus[32] = {};
    check_cuda(cudaGetDevice(&device), "device");
    check_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "PCI bus id");
    return open_nvml(bus);
  }();
  return nvml;
}

}  // namespace

DeviceState device_state() {
  const Nvml& nvml = nvml_of_device();
  DeviceState state;
  if (nvml.library == nullptr) return state;
  enum {
    sm_clock = 1,
    memory_clock = 2,
    gpu_temperature = 0
  };  // values of nvmlClockType_t and nvmlTemperatureSensors_t
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
  if (nvml.call("nvmlDeviceGetCurrentClocksEventReasons", nvml.device, &reasons) ||
      nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", nvml.device, &reasons))  // its older name
    state.throttle_reasons = reasons;
  return state;
}

DeviceIdentity device_identity() {
  DeviceIdentity identity;
  cudaDeviceProp properties{};
  int device = 0;
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device properties");
  check_cuda(cudaRuntimeGetVersion(&identity.cuda_runtime_version), "runtime version");
  identity.name = properties.name;
  identity.compute_capability = 10 * properties.major + properties.minor;
  identity.memory_bytes = properties.totalGlobalMem;
  char version[96] = {};
  if (nvml_of_device().call("nvmlSystemGetDriverVersion", &version[0], static_cast<unsigned>(sizeof version)))
    identity.driver_version = version;
  return identity;
}

}  // namespace dtfm::kernels
