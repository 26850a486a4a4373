// JSON for people and for `diff`: the same value gives the same bytes, and what is short stays on one line.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dtfm::io {

/// Keys in their order; numbers shortest of those that read back the same. A number that is not finite is a
/// bug of ours.
std::string format_json(const nlohmann::ordered_json& value);

}  // namespace dtfm::io
