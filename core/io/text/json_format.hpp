// Formats JSON for people and for `diff`: equal values give equal bytes, and short containers stay on one
// line.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dtfm::io {

/// Keeps the order of the keys. Floating-point numbers have the fewest digits that read back as the same
/// value; one that is not finite is an internal error (assertion).
std::string format_json(const nlohmann::ordered_json& value);

}  // namespace dtfm::io
