// Profiles of a transformer's layers on this device, as files: schema dtfm-profile/1
// (configs/profiles/README.md).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/measure.hpp"

namespace dtfm::kernels {

struct ProfileRequest {
  std::string gpu, model;  // as the profile shall call them
  TransformerShape shape;  // its batch and degree mean nothing
  std::vector<int> micro_batches, tensor_degrees;
  int runs = 30;                  // three of them above the 90th percentile
  bool skips_out_of_memory = false;  // rows that memory has no room for are left out, not an error
  std::function<void(double share, const std::string& what)> on_progress = {};
};

/// Embedding, block and head timed at every degree and micro-batch. Throws DeviceError where a row cannot be
/// measured, or no row of a kind.
std::string measured_profile(const ProfileRequest& request);

/// The file of these rows; `omitted` names those that are not there.
std::string profile_json(const ProfileRequest& request, const DeviceIdentity& device,
                         std::span<const LayerTimes> rows, std::span<const std::string> omitted);

/// A driver's name of a GPU without the maker and his product lines: "H200" of "NVIDIA H200".
std::string short_name(std::string device_name);

}  // namespace dtfm::kernels
