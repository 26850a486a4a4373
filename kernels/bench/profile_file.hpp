// kernels_bench --profile: a file for each model.
#pragma once

#include <string>

#include "kernels/bench/shapes.hpp"

namespace dtfm::kernels {

struct ProfileTarget {
  std::string folder;  // empty: no profiles are wanted
  std::string gpu;     // as profiles shall call it; empty: as the driver does
};

/// Measures the layers of a model at 1, 2, 4 and 8 sequences, as far as memory has room, and writes
/// GPU-MODEL.json, whole or not at all. Throws DeviceError, and std::runtime_error for a file that cannot be
/// written.
void write_profile(const ProfileTarget& target, const NamedShape& model, int runs);

}  // namespace dtfm::kernels
