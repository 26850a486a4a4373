// Loads and stores of 16 bytes of numbers at a time, which are computed with as floats.
#pragma once

#include <type_traits>

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {

template <class T>
inline constexpr int pack_size = 16 / static_cast<int>(sizeof(T));

template <class T>
struct Floats {
  float v[pack_size<T>];
};

__device__ inline float float_of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

__device__ inline std::uint32_t bits_of_float(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

/// Two adjacent numbers of a fragment or a pack.
template <class T>
__device__ inline Pair<T> make_pair_of(float x, float y) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, Half>) {
    const __half2 pair = __floats2half2_rn(x, y);  // one instruction
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else
#endif
      if constexpr (sizeof(T) == 4)
    return {x, y};
  else
    return from_float<T>(x).bits | static_cast<std::uint32_t>(from_float<T>(y).bits) << 16;
}

template <class T>
__device__ inline Floats<T> unpack(const RawPack& raw) {
  Floats<T> out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      out.v[i] = float_of_bits(raw.word[i]);
    } else {
      const FloatPair pair = floats_of<T>(raw.word[i]);
      out.v[2 * i] = pair.x;
      out.v[2 * i + 1] = pair.y;
    }
  }
  return out;
}

template <class T>
__device__ inline RawPack packed(const Floats<T>& in) {
  RawPack raw;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      raw.word[i] = bits_of_float(in.v[i]);
    else
      raw.word[i] = make_pair_of<T>(in.v[2 * i], in.v[2 * i + 1]);
  }
  return raw;
}

/// `from` and `to` must be 16-byte aligned.
template <class T>
__device__ inline Floats<T> load_pack(const T* from) {
  return unpack<T>(load_raw(from));
}

template <class T>
__device__ inline void store_pack(T* to, const Floats<T>& values) {
  store_raw(to, packed<T>(values));
}

/// Loads as many floats as a pack of T has numbers, by as many 16-byte accesses as needed.
template <class T>
__device__ inline Floats<T> load_floats(const float* from) {
  Floats<T> out;
#pragma unroll
  for (int i = 0; i < pack_size<T>; i += 4) {
    const Floats<float> part = load_pack(from + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) out.v[i + j] = part.v[j];
  }
  return out;
}

template <class T>
__device__ inline void store_floats(float* to, const Floats<T>& values) {
#pragma unroll
  for (int i = 0; i < pack_size<T>; i += 4)
    store_pack(to + i, Floats<float>{{values.v[i], values.v[i + 1], values.v[i + 2], values.v[i + 3]}});
}

}  // namespace dtfm::kernels
