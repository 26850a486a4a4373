// Implements kernels_bench --profile: writes one profile file per model.
#pragma once

#include <string>

#include "kernels/bench/shapes.hpp"

namespace dtfm::kernels {

struct ProfileTarget {
  std::string folder;  // empty: write no profiles
  std::string gpu;     // GPU name to write to the profiles; empty: the driver's name
};

/// Measures the layers of a model at 1, 2, 4 and 8 sequences, as far as memory permits, and writes
/// GPU-MODEL.json atomically. Throws DeviceError, or std::runtime_error if the file cannot be written.
void write_profile(const ProfileTarget& target, const NamedShape& model, int runs);

}  // namespace dtfm::kernels
