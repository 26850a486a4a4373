// Physical quantities as types, so that bits and bytes, or milliseconds and seconds, cannot be confused.
// Values are held in SI base units (s, B, bit/s, FLOP, FLOP/s, USD/h, USD/B); only planner/io converts text
// to them.
#pragma once

#include <compare>

namespace dtfm {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(k * a.value_); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BitsPerSecond = Quantity<struct BitsPerSecondTag>;
using Flops = Quantity<struct FlopsTag>;  // operations, not a rate
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using DollarsPerHour = Quantity<struct DollarsPerHourTag>;
using DollarsPerByte = Quantity<struct DollarsPerByteTag>;

inline constexpr double bits_per_byte = 8;
inline constexpr double seconds_per_hour = 3600;

constexpr Seconds operator/(Bytes size, BitsPerSecond rate) {
  return Seconds(size.value() * bits_per_byte / rate.value());
}

constexpr Seconds operator/(Flops work, FlopsPerSecond speed) {
  return Seconds(work.value() / speed.value());
}

}  // namespace dtfm
