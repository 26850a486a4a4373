// Generations of GPUs. Trainers are assumed to reach the same share of the data-sheet rates on all of one
// generation.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dtfm {

/// NVIDIA's generations with tensor cores; `other` is any other or unknown one.
enum class Architecture : unsigned char { other, volta, turing, ampere, ada, hopper, blackwell };

inline constexpr std::size_t architecture_count = static_cast<std::size_t>(Architecture::blackwell) + 1;

struct ArchitectureTraits {
  Architecture kind;
  std::string_view name;  // in the GPU catalogue
};

/// A row for each value, in the order of the enum.
std::span<const ArchitectureTraits> architecture_table();
std::string_view name_of(Architecture architecture);

}  // namespace dtfm
