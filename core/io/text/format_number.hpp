// Formats numbers for readers.
#pragma once

#include <string>
#include <string_view>

namespace dtfm::io {

/// "12,345"
std::string with_thousands(long long number);

/// "1 device", "64 devices"
std::string format_count(long long number, std::string_view noun);

/// "13.8 %"
std::string format_percent(double share);

/// Returns six significant digits, without the unit.
std::string short_seconds(double seconds);

}  // namespace dtfm::io
