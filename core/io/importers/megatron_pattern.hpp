// Megatron-LM's notation for a property that some layers have: [0]*3+[1]*58.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

using LayerPattern = std::vector<bool>;  // by layer

/// Parses lists of 0 and 1 that are joined by + and repeated by *, in parentheses or not: a Python
/// expression, which Megatron-LM evaluates (megatron/training/arguments.py, moe_freq_type). Returns nullopt
/// for all else, for spaces, and for more than 100,000 layers.
std::optional<LayerPattern> parse_pattern(std::string_view text);

/// The shorter of a list that is repeated, perhaps once, and a sum of runs: [1,0]*12, [0]*3+[1]*58.
std::string format_pattern(const LayerPattern& pattern);

}  // namespace dtfm::io
