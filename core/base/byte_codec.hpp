// Exact conversion of results to bytes and back, for processes that compute together. Floating-point numbers
// keep their bit patterns. The format is that of one build: it is never written to a file.
#pragma once

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

/// The bytes of a type: `transfer` writes a const value to a ByteWriter, or reads into a value from a
/// ByteReader. All members of a struct without constructors are transferred. Any other type needs a function
/// `transfer_bytes(archive, value)` in its namespace.
template <class T>
struct ByteCodec;

class ByteWriter {
 public:
  static constexpr bool reads = false;

  /// `shared`, which must outlive this, is what reader and writer both hold, so that values can refer to it.
  explicit ByteWriter(const void* shared = nullptr) : shared_(shared) {}

  template <class T>
  void operator()(const T& value) {
    ByteCodec<T>::transfer(*this, value);
  }
  template <class T>
  void put(const T& value) {
    (*this)(value);
  }
  void raw(const void* begin, std::size_t count) { bytes_.append(static_cast<const char*>(begin), count); }
  template <class Container>
  void size_of(const Container& values) {
    put(values.size());
  }
  template <class Shared>
  const Shared& shared() const {
    return *static_cast<const Shared*>(shared_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  const void* shared_;
  std::string bytes_;
};

/// Reads what a ByteWriter of the same build has written, in the same order.
class ByteReader {
 public:
  static constexpr bool reads = true;

  /// Both must outlive this.
  explicit ByteReader(std::string_view bytes, const void* shared = nullptr) : shared_(shared), left_(bytes) {}

  template <class T>
  void operator()(T& value) {
    ByteCodec<T>::transfer(*this, value);
  }
  template <class T>
  T get() {
    T value{};
    (*this)(value);
    return value;
  }
  void raw(void* begin, std::size_t count) {
    DTFM_ASSERT(count <= left_.size());
    if (count > 0) std::memcpy(begin, left_.data(), count);
    left_.remove_prefix(count);
  }
  template <class Container>
  void size_of(Container& values) {
    values.resize(get<std::size_t>());
  }
  template <class Shared>
  const Shared& shared() const {
    return *static_cast<const Shared*>(shared_);
  }
  bool is_at_end() const { return left_.empty(); }

 private:
  const void* shared_;
  std::string_view left_;
};

/// Converts to a member of any type, to count the members of a struct.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT: implicit
};

template <class T, class... Known>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Known{}..., AnyMember{}}; })
    return member_count<T, Known..., AnyMember>();
  else
    return sizeof...(Known);
}

/// References to all members of a struct. C++20 has no structured binding with a variable number of names.
template <class T>
auto members_of(T& it) {
  constexpr std::size_t count = member_count<std::remove_const_t<T>>();
#define DTFM_IF_MEMBERS(number, ...) \
  if constexpr (count == (number)) { \
    auto& [__VA_ARGS__] = it;        \
    return std::tie(__VA_ARGS__);    \
  } else
  // clang-format off
  DTFM_IF_MEMBERS(1, a)
  DTFM_IF_MEMBERS(2, a, b)
  DTFM_IF_MEMBERS(3, a, b, c)
  DTFM_IF_MEMBERS(4, a, b, c, d)
  DTFM_IF_MEMBERS(5, a, b, c, d, e)
  DTFM_IF_MEMBERS(6, a, b, c, d, e, f)
  DTFM_IF_MEMBERS(7, a, b, c, d, e, f, g)
  DTFM_IF_MEMBERS(8, a, b, c, d, e, f, g, h)
  DTFM_IF_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  DTFM_IF_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  static_assert(count == 0, "add a line for this number of members");
  // clang-format on
#undef DTFM_IF_MEMBERS
}

template <class T>
struct ByteCodec {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& value) {
    if constexpr (requires { transfer_bytes(archive, value); }) {
      transfer_bytes(archive, value);
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      transfer_integer(archive, value);
    } else if constexpr (std::same_as<T, double>) {
      archive.raw(&value, sizeof value);
    } else {
      static_assert(std::is_aggregate_v<T>, "this type needs a function transfer_bytes");
      std::apply([&](auto&... members) { (archive(members), ...); }, members_of(value));
    }
  }

 private:
  /// Seven bits per byte, because most integers are small; the sign is the lowest bit.
  static void transfer_integer(ByteWriter& out, T value) {
    const auto number = static_cast<std::int64_t>(value);
    std::uint64_t left = (static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63);
    std::string text;
    for (; left >= 128; left >>= 7) text += static_cast<char>(left | 128);
    text += static_cast<char>(left);
    out.raw(text.data(), text.size());
  }
  static void transfer_integer(ByteReader& in, T& value) {
    std::uint64_t number = 0;
    unsigned char byte = 128;
    for (int shift = 0; byte >= 128; shift += 7) {
      in.raw(&byte, 1);
      number |= std::uint64_t{byte & 127U} << shift;
    }
    value = static_cast<T>(static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1));
  }
};

template <class Tag>
struct ByteCodec<Quantity<Tag>> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& value) {
    double number = value.value();
    archive(number);
    if constexpr (Archive::reads) value = Quantity<Tag>(number);
  }
};

template <>
struct ByteCodec<std::string> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& text) {
    archive.size_of(text);
    archive.raw(text.data(), text.size());
  }
};

template <class T>
struct ByteCodec<std::optional<T>> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& value) {
    bool is_there = value.has_value();
    archive(is_there);
    if constexpr (Archive::reads) value.reset();
    if (!is_there) return;
    if constexpr (Archive::reads) value.emplace();
    archive(*value);
  }
};

template <class T>
struct ByteCodec<std::vector<T>> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& values) {
    archive.size_of(values);
    for (auto& value : values) archive(value);
  }
};

template <class A, class B>
struct ByteCodec<std::pair<A, B>> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& value) {
    archive(value.first);
    archive(value.second);
  }
};

}  // namespace dtfm
