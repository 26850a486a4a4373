// The text of an order of passes in plan files, such as `F*3 (FIW)*12 (IW)*3`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/schedule/schedule.hpp"

namespace dtfm::io {

/// F, I and W are a forward, an input gradient and a weight gradient; `*n` repeats the letter or the group
/// before it.
std::string format_passes(const PassOrder& passes);

/// Throws Error if the text is malformed, or has more than `most` passes.
PassOrder parse_passes(std::string_view text, std::size_t most);

}  // namespace dtfm::io
