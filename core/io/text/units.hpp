// Converts between text with a unit and quantities. This is the only place that converts between bits and
// bytes or between powers of ten and of two.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "core/base/units.hpp"

namespace dtfm::io {

/// Limits of times and data rates in all input; the lowest time is 0.
inline constexpr double max_time_s = 1e9, min_rate_bps = 1e-3, max_rate_bps = 1e18;

/// The value of a plain decimal number (`12`, `-0.5`, `1.5e9`), rounded once. A plus sign, leading zeros,
/// hexadecimal digits, underscores, inf and nan are not accepted. Throws Error (without a position) that says
/// what was found.
double parse_decimal(std::string_view text);

/// A number and a unit, with or without a blank between them: `67 ms`, `0.79Gbps`. The value is rounded once,
/// so that `67 ms` is the double nearest to 0.067 (minutes and hours: at most twice). Zero and magnitudes
/// within the limits of the dimension (see units.cpp) are accepted; the caller decides whether zero and
/// negative numbers make sense. Throws Error (without a position) that says what is accepted.
Seconds parse_seconds(std::string_view text);  // ns, us, µs, ms, s, min, h
BitsPerSecond parse_rate(std::string_view text);  // bps … Tbps, bit/s … Tbit/s, B/s … TB/s, KiB/s … TiB/s
Bytes parse_bytes(std::string_view text);         // B, kB … TB (powers of 1000), KiB … TiB (of 1024)
Flops parse_flops(std::string_view text);         // FLOP, kFLOP … PFLOP
FlopsPerSecond parse_flop_rate(std::string_view text);   // FLOP/s, kFLOP/s … PFLOP/s
DollarsPerHour parse_price(std::string_view text);       // USD/h
DollarsPerByte parse_data_price(std::string_view text);  // USD/GB, USD/TB, USD/GiB, USD/TiB

/// Magnitudes that files may give besides zero. The limits are far beyond any machine, network and model, and
/// far enough from the range of doubles that products and quotients of several numbers stay finite.
struct Limits {
  double min_value = 0, max_value = std::numeric_limits<double>::max();  // in base units
  std::string_view what = "a number", base = "";
};

/// A unit by itself, for tables in which all numbers have the same unit.
struct Unit {
  std::string_view name;
  int exponent;  // one unit is 10^exponent · factor base units; separate, so that values are rounded once
  double factor = 1;
  Limits limits = {};
};
/// The unit called `name`, with the limits of its dimension. Throw Error (without a position) for unknown
/// names.
Unit time_unit(std::string_view name);
Unit rate_unit(std::string_view name);
Unit size_unit(std::string_view name);
Unit flop_unit(std::string_view name);
/// The value in base units of a plain decimal number that is given in `unit`. Throws Error as `parse_decimal`
/// does, and for a value beyond the limits of `unit`.
double parse_in_unit(std::string_view text, const Unit& unit);

/// Format a value for people with four significant digits: `67 ms`, `0.79 Gbps`, `16 GB`.
std::string format_seconds(Seconds value);
std::string format_rate(BitsPerSecond value);
std::string format_bytes(Bytes value);
std::string format_flop_rate(FlopsPerSecond value);

}  // namespace dtfm::io
