// Text with a unit ⇄ quantities. Bits and bytes, powers of ten and of two meet here and nowhere else.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "planner/core/units.hpp"

namespace dtfm::io {

/// The value of a plain decimal number (`12`, `-0.5`, `1.5e9`): no sign +, leading zero, hexadecimal,
/// underscore, inf or nan. Throws Error (without a position) that says what was found. Rounded once.
double parse_decimal(std::string_view text);

/// A number and a unit, with or without a blank between them: `67 ms`, `0.79Gbps`. Rounded once, so that `67
/// ms` is the double nearest to 0.067 (minutes and hours: at most twice). Zero is accepted, and what lies
/// within the limits of its dimension (in units.cpp); whether zero or a negative one makes sense is for the
/// caller to say. Throws Error (without a position) that names what is accepted.
Seconds parse_seconds(std::string_view text);  // ns, us, µs, ms, s, min, h
BitsPerSecond parse_rate(std::string_view text);  // bps … Tbps, bit/s … Tbit/s, B/s … TB/s, KiB/s … TiB/s
Bytes parse_bytes(std::string_view text);         // B, kB … TB (powers of 1000), KiB … TiB (of 1024)
Flops parse_flops(std::string_view text);         // FLOP, kFLOP … PFLOP
FlopsPerSecond parse_flop_rate(std::string_view text);   // FLOP/s, kFLOP/s … PFLOP/s
DollarsPerHour parse_price(std::string_view text);       // USD/h
DollarsPerByte parse_data_price(std::string_view text);  // USD/GB, USD/TB, USD/GiB, USD/TiB

/// What the numbers of a file may be besides zero: far beyond any machine, network and model, and so far from
/// where doubles end that products and quotients of several are finite.
struct Limits {
  double min_value = 0, max_value = std::numeric_limits<double>::max();  // in base units
  std::string_view what = "a number", base = "";
};

/// A unit by itself, for tables whose numbers all have the same one.
struct Unit {
  std::string_view name;
  int exponent;  // one unit is 10^exponent · factor base units; apart, because a shifted exponent rounds only
                 // once
  double factor = 1;
  Limits limits = {};
};
/// Throw Error (without a position) for a unit that does not exist.
Unit time_unit(std::string_view name);
Unit rate_unit(std::string_view name);
Unit size_unit(std::string_view name);
Unit flop_unit(std::string_view name);
/// The value in base units of a plain decimal number of `unit`; errors as those of `parse_decimal`, and for
/// one beyond the limits of `unit`.
double parse_in_unit(std::string_view text, const Unit& unit);

/// For people: `67 ms`, `0.79 Gbps`, `16 GB`, four significant digits.
std::string format_seconds(Seconds value);
std::string format_rate(BitsPerSecond value);
std::string format_bytes(Bytes value);
std::string format_flop_rate(FlopsPerSecond value);

}  // namespace dtfm::io
