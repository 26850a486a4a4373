#include "core/io/text/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

/// The units of one physical dimension. Messages list the first `shown` of them; the others are alternative
/// spellings.
struct Dimension {
  std::string_view what, example;
  std::span<const Unit> units;
  std::size_t shown;
  double min_value, max_value;  // accepted magnitude besides zero, in base units
  std::string_view base;        // name of the base unit
};

constexpr double kibi = 1024, mebi = kibi * kibi, gibi = mebi * kibi, tebi = gibi * kibi;
constexpr double byte = bits_per_byte;

constexpr Unit time_units[] = {
    {"ns", -9},     {"us", -6},     {"ms", -3}, {"s", 0},
    {"min", 0, 60}, {"h", 0, 3600}, {"µs", -6}, {"μs", -6}};  // the micro sign and the Greek letter
constexpr Unit rate_units[] = {{"bps", 0},
                               {"kbps", 3},
                               {"Mbps", 6},
                               {"Gbps", 9},
                               {"Tbps", 12},
                               {"B/s", 0, byte},
                               {"kB/s", 3, byte},
                               {"MB/s", 6, byte},
                               {"GB/s", 9, byte},
                               {"TB/s", 12, byte},
                               {"bit/s", 0},
                               {"kbit/s", 3},
                               {"Mbit/s", 6},
                               {"Gbit/s", 9},
                               {"Tbit/s", 12},
                               {"b/s", 0},
                               {"kb/s", 3},
                               {"Mb/s", 6},
                               {"Gb/s", 9},
                               {"Tb/s", 12},
                               {"KiB/s", 0, byte* kibi},
                               {"MiB/s", 0, byte* mebi},
                               {"GiB/s", 0, byte* gibi},
                               {"TiB/s", 0, byte* tebi}};
constexpr Unit byte_units[] = {{"B", 0},         {"kB", 3},        {"MB", 6},
                               {"GB", 9},        {"TB", 12},       {"KiB", 0, kibi},
                               {"MiB", 0, mebi}, {"GiB", 0, gibi}, {"TiB", 0, tebi}};
constexpr Unit flop_units[] = {{"FLOP", 0},  {"kFLOP", 3},  {"MFLOP", 6},
                               {"GFLOP", 9}, {"TFLOP", 12}, {"PFLOP", 15}};
constexpr Unit flop_rate_units[] = {{"FLOP/s", 0},  {"kFLOP/s", 3},  {"MFLOP/s", 6},
                                    {"GFLOP/s", 9}, {"TFLOP/s", 12}, {"PFLOP/s", 15}};
constexpr Unit price_units[] = {{"USD/h", 0}};
constexpr Unit data_price_units[] = {
    {"USD/GB", -9}, {"USD/TB", -12}, {"USD/GiB", 0, 1 / gibi}, {"USD/TiB", 0, 1 / tebi}};

constexpr Dimension time_dimension{"a time", "67 ms", time_units, 6, 1e-12, max_time_s, "s"};  // 31 years
constexpr Dimension rate_dimension{"a data rate", "0.79 Gbps",  rate_units, 10,
                                   min_rate_bps,  max_rate_bps, "bps"};
constexpr Dimension size_dimension{"a size", "16 GB", byte_units, std::size(byte_units), 1e-3, 1e18, "B"};
constexpr Dimension flop_dimension{"a FLOP count", "0.24 TFLOP", flop_units, std::size(flop_units),
                                   1e-3,           1e24,         "FLOP"};
constexpr Dimension flop_rate_dimension{
    "a compute rate", "125 TFLOP/s", flop_rate_units, std::size(flop_rate_units), 1, 1e24, "FLOP/s"};
constexpr Dimension price_dimension{"a price", "2.1 USD/h", price_units, 1, 1e-9, 1e9, "USD/h"};
constexpr Dimension data_price_dimension{
    "a data price", "0.09 USD/GB", data_price_units, std::size(data_price_units), 1e-18, 1, "USD/B"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t count_digits(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - begin;
}

/// A decimal number at the beginning of a text; -12.5e3 has the mantissa -12.5 and the exponent 3.
struct Decimal {
  std::string_view mantissa;
  long exponent = 0;
  std::size_t length = 0;  // in bytes; 0 if the text does not begin with a number
};

Decimal parse_leading_decimal(std::string_view text) {
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = count_digits(text, begin);
  if (whole == 0 || (whole > 1 && text[begin] == '0')) return {};
  std::size_t end = begin + whole;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = count_digits(text, end + 1);
    if (fraction == 0) return {};
    end += 1 + fraction;
  }
  Decimal result{text.substr(0, end), 0, end};
  if (end == text.size() || (text[end] != 'e' && text[end] != 'E')) return result;
  const bool negative = text.substr(end + 1).starts_with('-');
  const std::size_t digits = end + 1 + (negative || text.substr(end + 1).starts_with('+') ? 1 : 0);
  const std::size_t count = count_digits(text, digits);
  if (count == 0) return result;  // not an exponent but a unit that begins with e
  constexpr long max_exponent =
      100'000;  // beyond any double; kept small so that adding a unit's exponent cannot overflow
  long exponent = 0;
  for (const char digit : text.substr(digits, count))
    exponent = std::min(max_exponent, exponent * 10 + (digit - '0'));
  return {result.mantissa, negative ? -exponent : exponent, digits + count};
}

/// mantissa · 10^(exponent + shift), rounded once. `text` is for the message.
double to_double(const Decimal& decimal, int shift, std::string_view text) {
  constexpr std::size_t buffer_size = 128, exponent_size = 16;
  std::array<char, buffer_size> buffer;
  std::string long_text;
  char* begin = buffer.data();
  const std::size_t length = decimal.mantissa.size();
  if (length + exponent_size > buffer_size) {
    long_text.resize(length + exponent_size);
    begin = long_text.data();
  }
  char* end = std::copy(decimal.mantissa.begin(), decimal.mantissa.end(), begin);
  *end++ = 'e';
  end = std::to_chars(end, begin + length + exponent_size, decimal.exponent + shift).ptr;
  double value = 0;
  const auto [read, status] = std::from_chars(begin, end, value);
  if (status != std::errc() || read != end || !std::isfinite(value))
    throw Error("", fmt::format("{} is out of the range of a number", quote(text)));
  return value;
}

std::string_view trim(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> names_of(const Dimension& dimension) {
  std::vector<std::string_view> names;
  for (const Unit& unit : dimension.units.first(dimension.shown)) names.push_back(unit.name);
  return names;
}

Error quantity_error(const Dimension& dimension, std::string_view text, bool has_number) {
  std::string names;
  for (const std::string_view name : names_of(dimension))
    names += (names.empty() ? "" : ", ") + std::string(name);
  return Error("", fmt::format("expected {}{} with its unit ({}) such as `{}`; found {}", dimension.what,
                               has_number ? "" : ", a finite decimal number", names, dimension.example,
                               text.empty() ? "nothing" : quote(text)));
}

const Unit* find_unit(const Dimension& dimension, std::string_view name) {
  const auto unit = std::find_if(dimension.units.begin(), dimension.units.end(),
                                 [&](const Unit& candidate) { return candidate.name == name; });
  return unit == dimension.units.end() ? nullptr : &*unit;
}

Unit find_unit_or_throw(const Dimension& dimension, std::string_view name) {
  const Unit* unit = find_unit(dimension, name);
  if (unit == nullptr)
    throw Error("", fmt::format("{} is not a unit of {}; {}", quote(name), dimension.what.substr(2),
                                suggestion(name, names_of(dimension))));
  Unit result = *unit;
  result.limits = {dimension.min_value, dimension.max_value, dimension.what, dimension.base};
  return result;
}

double to_base_unit(const Unit& unit, const Decimal& decimal, std::string_view text) {
  const double value = to_double(decimal, unit.exponent, text) * unit.factor;
  if (!std::isfinite(value)) throw Error("", fmt::format("{} is out of the range of a number", quote(text)));
  const Limits& limits = unit.limits;
  if (value != 0 && (std::abs(value) < limits.min_value || std::abs(value) > limits.max_value))
    throw Error("", fmt::format("{} is out of range: {} must be from {:g} to {:g} {}", quote(text),
                                limits.what, limits.min_value, limits.max_value, limits.base));
  return value;
}

double parse_quantity(const Dimension& dimension, std::string_view untrimmed) {
  const std::string_view text = trim(untrimmed);
  const Decimal decimal = parse_leading_decimal(text);
  const std::string_view name = trim(text.substr(decimal.length));
  if (decimal.length == 0 || name.empty()) throw quantity_error(dimension, text, decimal.length > 0);
  return to_base_unit(find_unit_or_throw(dimension, name), decimal, text);
}

/// Formats `value` in the largest of the units, which are in ascending order, that gives a number of at least
/// one.
std::string format_quantity(double value, std::span<const Unit> ascending) {
  if (!std::isfinite(value)) return "unlimited";
  const Unit* chosen = value == 0 ? nullptr : &ascending.front();
  for (const Unit& unit : ascending) {
    const double size = std::pow(10, unit.exponent) * unit.factor;
    if (chosen == nullptr ? size == 1 : std::abs(value) >= size * 0.99995) chosen = &unit;
  }
  const double size = std::pow(10, chosen->exponent) * chosen->factor;
  return fmt::format("{:.4g} {}", value / size, chosen->name);
}

}  // namespace

double parse_decimal(std::string_view text) {
  return parse_in_unit(text, Unit{"", 0});
}

double parse_in_unit(std::string_view text, const Unit& unit) {
  const Decimal decimal = parse_leading_decimal(text);
  if (decimal.length == 0 || decimal.length != text.size())
    throw Error("",
                fmt::format("expected a decimal number; found {}", text.empty() ? "nothing" : quote(text)));
  return to_base_unit(unit, decimal, text);
}

Unit time_unit(std::string_view name) {
  return find_unit_or_throw(time_dimension, name);
}
Unit rate_unit(std::string_view name) {
  return find_unit_or_throw(rate_dimension, name);
}
Unit size_unit(std::string_view name) {
  return find_unit_or_throw(size_dimension, name);
}
Unit flop_unit(std::string_view name) {
  return find_unit_or_throw(flop_dimension, name);
}

Seconds parse_seconds(std::string_view text) {
  return Seconds(parse_quantity(time_dimension, text));
}
BitsPerSecond parse_rate(std::string_view text) {
  return BitsPerSecond(parse_quantity(rate_dimension, text));
}
Bytes parse_bytes(std::string_view text) {
  return Bytes(parse_quantity(size_dimension, text));
}
Flops parse_flops(std::string_view text) {
  return Flops(parse_quantity(flop_dimension, text));
}
FlopsPerSecond parse_flop_rate(std::string_view text) {
  return FlopsPerSecond(parse_quantity(flop_rate_dimension, text));
}
DollarsPerHour parse_price(std::string_view text) {
  return DollarsPerHour(parse_quantity(price_dimension, text));
}
DollarsPerByte parse_data_price(std::string_view text) {
  return DollarsPerByte(parse_quantity(data_price_dimension, text));
}

std::string format_seconds(Seconds value) {
  return format_quantity(value.value(), std::span(time_units).first(value.value() < 60 ? 4 : 6));
}
std::string format_rate(BitsPerSecond value) {
  return format_quantity(value.value(), std::span(rate_units).first(5));
}
std::string format_bytes(Bytes value) {
  return format_quantity(value.value(), std::span(byte_units).first(5));
}
std::string format_flop_rate(FlopsPerSecond value) {
  return format_quantity(value.value(), flop_rate_units);
}

}  // namespace dtfm::io
