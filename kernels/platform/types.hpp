// Number formats of the kernels. Half and Bfloat16 are storage formats only: arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define DTFM_HOST_DEVICE __host__ __device__
#else
#define DTFM_HOST_DEVICE
#endif

namespace dtfm::kernels {

enum class DType { f32, f16, bf16 };

struct Half {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

/// The name in profiles.
constexpr const char* name_of(DType type) {
  constexpr const char* names[] = {"fp32", "fp16", "bf16"};
  return names[static_cast<int>(type)];
}

constexpr int bytes_of(DType type) {
  return type == DType::f32 ? 4 : 2;
}

DTFM_HOST_DEVICE inline float to_float(float value) {
  return value;
}

DTFM_HOST_DEVICE inline float to_float(Bfloat16 value) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
#endif
}

DTFM_HOST_DEVICE inline float to_float(Half value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x0400u) {  // subnormal: multiples of 2⁻²⁴
    const float small = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));  // exponent bias 15 → 127
#endif
}

/// Rounds to the nearest value of format T, ties to even.
template <class T>
DTFM_HOST_DEVICE T from_float(float value);

template <>
DTFM_HOST_DEVICE inline float from_float<float>(float value) {
  return value;
}

template <>
DTFM_HOST_DEVICE inline Bfloat16 from_float<Bfloat16>(float value) {
#ifdef __CUDA_ARCH__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)  // NaN stays NaN, made quiet
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

template <>
DTFM_HOST_DEVICE inline Half from_float<Half>(float value) {
#ifdef __CUDA_ARCH__
  return {__half_as_ushort(__float2half_rn(value))};
#else
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000u;
  const std::uint32_t bits = all & 0x7fffffffu;
  std::uint32_t half = 0;
  if (bits > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (bits >= 0x477ff000u) {
    half = 0x7c00u;  // 65520 and above round to infinity
  } else if (bits < 0x38800000u) {
    // Below 2⁻¹⁴: the last bit of 1/2 is worth 2⁻²⁴, so adding 1/2 rounds as a subnormal half requires.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3f000000u;
  } else {
    half = (bits - 0x38000000u + 0x0fffu + ((bits >> 13) & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
#endif
}

}  // namespace dtfm::kernels
