// Pieces of YAML text that writers of topologies share.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace dtfm::io {

/// A YAML string in double quotes. Escapes U+0080 to U+009F, U+2028 and U+2029, which some YAML readers
/// reject or interpret as line ends. `text` must not contain ASCII control characters.
std::string yaml_quoted(const std::string& text);

/// "0.0034 ms" and "400 Gbps", with six significant digits.
std::string yaml_latency(Seconds latency);
std::string yaml_rate(BitsPerSecond rate);

}  // namespace dtfm::io
