// Exact conversion of results to bytes and back, for processes that compute together. Floating-point numbers
// keep their bit patterns. The format is that of one build: it is never written to a file.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace dtfm {

/// How a type is written to bytes and read back; specialized below.
template <class T>
struct ByteCodec;

class ByteWriter {
 public:
  template <class T>
  void put(const T& value) {
    ByteCodec<T>::write(*this, value);
  }
  void append(std::string_view raw) { bytes_.append(raw); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads what a ByteWriter of the same build has written, in the same order.
class ByteReader {
 public:
  /// `bytes` must outlive this.
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  T get() {
    return ByteCodec<T>::read(*this);
  }
  std::string_view take(std::size_t count) {
    DTFM_ASSERT(count <= left_.size());
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  bool is_at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

/// Integers and enums, seven bits per byte, because most are small.
template <class T>
requires(std::integral<T> || std::is_enum_v<T>) struct ByteCodec<T> {
  static void write(ByteWriter& out, T value) {
    const auto number = static_cast<std::int64_t>(value);
    std::uint64_t left = (static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63);
    std::string text;
    for (; left >= 128; left >>= 7) text += static_cast<char>(left | 128);
    out.append(text += static_cast<char>(left));
  }
  static T read(ByteReader& in) {
    std::uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(in.take(1).front());
      number |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    return static_cast<T>(static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1));
  }
};

template <>
struct ByteCodec<double> {
  static void write(ByteWriter& out, double value) {
    const auto raw = std::bit_cast<std::array<char, sizeof value>>(value);
    out.append({raw.data(), raw.size()});
  }
  static double read(ByteReader& in) {
    double value = 0;
    std::memcpy(&value, in.take(sizeof value).data(), sizeof value);
    return value;
  }
};

template <class Tag>
struct ByteCodec<Quantity<Tag>> {
  static void write(ByteWriter& out, Quantity<Tag> value) { out.put(value.value()); }
  static Quantity<Tag> read(ByteReader& in) { return Quantity<Tag>(in.get<double>()); }
};

template <>
struct ByteCodec<std::string> {
  static void write(ByteWriter& out, const std::string& text) {
    out.put(text.size());
    out.append(text);
  }
  static std::string read(ByteReader& in) { return std::string(in.take(in.get<std::size_t>())); }
};

template <class T>
struct ByteCodec<std::optional<T>> {
  static void write(ByteWriter& out, const std::optional<T>& value) {
    out.put(value.has_value());
    if (value) out.put(*value);
  }
  static std::optional<T> read(ByteReader& in) {
    return in.get<bool>() ? std::optional<T>(in.get<T>()) : std::nullopt;
  }
};

template <class T>
struct ByteCodec<std::vector<T>> {
  static void write(ByteWriter& out, const std::vector<T>& values) {
    out.put(values.size());
    for (const T& value : values) out.put(value);
  }
  static std::vector<T> read(ByteReader& in) {
    std::vector<T> values(in.get<std::size_t>());
    for (T& value : values) value = in.get<T>();
    return values;
  }
};

template <class A, class B>
struct ByteCodec<std::pair<A, B>> {
  static void write(ByteWriter& out, const std::pair<A, B>& value) {
    out.put(value.first);
    out.put(value.second);
  }
  static std::pair<A, B> read(ByteReader& in) {
    A first = in.get<A>();
    return {std::move(first), in.get<B>()};
  }
};

/// For functions `fields` that accept X and const X.
template <class T, class X>
concept MaybeConst = std::same_as<std::remove_const_t<T>, X>;

/// A struct with a function `fields`, found by argument-dependent lookup, that returns references to all
/// members as a tuple: `auto fields(MaybeConst<X> auto& it) { auto& [a, b] = it; return std::tie(a, b); }`.
/// The structured binding must name every member, so a member that is added later cannot be forgotten.
template <class T>
concept HasFields = requires(T& it) {
  fields(it);
};

template <HasFields T>
struct ByteCodec<T> {
  static void write(ByteWriter& out, const T& value) {
    std::apply([&](const auto&... field) { (out.put(field), ...); }, fields(value));
  }
  static T read(ByteReader& in) {
    T value;
    std::apply([&](auto&... field) { ((field = in.get<std::remove_reference_t<decltype(field)>>()), ...); },
               fields(value));
    return value;
  }
};

/// The codec of `distributed_map` for results that need nothing else to be read back.
struct PlainCodec {
  template <class T>
  void write(ByteWriter& out, const T& value) const {
    out.put(value);
  }
  template <class T>
  T read(ByteReader& in) const {
    return in.get<T>();
  }
};

}  // namespace dtfm
