// Models whose layers can be benchmarked by name.
#pragma once

#include <array>
#include <string_view>

#include "kernels/transformer.hpp"

namespace dtfm::kernels {

struct NamedShape {
  std::string_view name;
  TransformerShape shape;
};

/// Sources: Brown et al. 2020, table 2.1 (XL with the 16 heads of DT-FM's experiments); Llama Team 2024,
/// table 3. `tiny` is a quick check that everything runs.
inline constexpr std::array named_shapes = {
    NamedShape{"gpt3-xl", {8, 2048, 2048, 16, 16, 8192, 50257}},
    NamedShape{"gpt3-6.7b", {4, 2048, 4096, 32, 32, 16384, 50257}},
    NamedShape{"gpt2", {16, 1024, 768, 12, 12, 3072, 50257}},
    NamedShape{"llama-3-8b", {1, 8192, 4096, 32, 8, 14336, 128256, true, true, true, true, 1, DType::bf16}},
    NamedShape{"tiny", {1, 24, 128, 2, 1, 88, 101, true, true, true}},
};

}  // namespace dtfm::kernels
