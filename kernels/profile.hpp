// Profiles of a transformer's layers on this device, as files with schema dtfm-profile/1
// (docs/files/profile.md).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/measure.hpp"

namespace dtfm::kernels {

struct ProfileRequest {
  std::string gpu, model;  // names to write to the profile
  TransformerShape shape;  // its batch and tensor_parallel are ignored
  std::vector<int> micro_batches, tensor_degrees;
  int runs = 30;                     // so that three of them are above the 90th percentile
  bool skips_out_of_memory = false;  // omit rows that exceed memory instead of failing
  std::function<void(double share, const std::string& what)> on_progress = {};
};

/// Times embedding, block and head at every tensor degree and micro-batch, and returns the file. Throws
/// DeviceError if a row cannot be measured, or if no row of a kind fits in memory.
std::string measured_profile(const ProfileRequest& request);

/// Returns the profile file of these rows; `omitted` names the rows that are missing.
std::string profile_json(const ProfileRequest& request, const DeviceIdentity& device,
                         std::span<const LayerTimes> rows, std::span<const std::string> omitted);

/// Returns the driver's name of a GPU without vendor and product lines: "H200" for "NVIDIA H200".
std::string short_name(std::string device_name);

}  // namespace dtfm::kernels
