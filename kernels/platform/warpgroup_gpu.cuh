// Warpgroup products by PTX instructions. Included by warpgroup.cuh.
#pragma once

namespace dtfm::kernels {

/// The operand as a matrix descriptor (PTX ISA, "Matrix-descriptor format") in the 128-byte swizzle.
__device__ inline std::uint64_t descriptor(MatrixOperand of) {
  const auto field = [](std::uint32_t bytes) { return static_cast<std::uint64_t>((bytes & 0x3ffffu) >> 4); };
  constexpr std::uint64_t swizzle_of_128_bytes = 1;
  return field(of.start) | field(static_cast<std::uint32_t>(of.leading_bytes)) << 16 |
         field(static_cast<std::uint32_t>(of.stride_bytes)) << 32 | swizzle_of_128_bytes << 62;
}

// The instructions exist only in code for sm_90a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool has_warpgroup_products = true;
#define DTFM_WARPGROUP_ASM(...) asm volatile(__VA_ARGS__)
#else
inline constexpr bool has_warpgroup_products = false;
#define DTFM_WARPGROUP_ASM(...) static_cast<void>(0)
#endif

__device__ inline void begin_products() {
  DTFM_WARPGROUP_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  DTFM_WARPGROUP_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int n>
__device__ void wait_products() {
  DTFM_WARPGROUP_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
__device__ inline void publish_shared() {
  DTFM_WARPGROUP_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

// clang-format off
#define DTFM_C1(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define DTFM_C4(j) DTFM_C1(j), DTFM_C1(j + 1), DTFM_C1(j + 2), DTFM_C1(j + 3)
#define DTFM_C8 DTFM_C4(0), DTFM_C4(4)
#define DTFM_C16 DTFM_C8, DTFM_C4(8), DTFM_C4(12)
#define DTFM_NAMES_32                                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define DTFM_NAMES_64                                                                               \
  DTFM_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "          \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
/// The operands after those of c are: a, b, whether to accumulate, whether a and whether b is transposed.
#define DTFM_FROM_SHARED(n, format, names, a_, b_, accumulate_, ta_, tb_, ...)                      \
  DTFM_WARPGROUP_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate_ ", 0;\n"                       \
             "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." format "." format                     \
             " {" names "}, " a_ ", " b_ ", p, 1, 1, " ta_ ", " tb_ ";\n}\n"                        \
             : __VA_ARGS__                                                                          \
             : "l"(descriptor(a)), "l"(descriptor(b)), "r"(static_cast<int>(accumulate)),           \
               "n"(transpose_a ? 1 : 0), "n"(transpose_b ? 1 : 0)                                   \
             : "memory")
/// The operands after those of c are: the four of a, b, whether b is transposed.
#define DTFM_FROM_REGISTERS(n, format, names, a_, b_, tb_, ...)                                     \
  DTFM_WARPGROUP_ASM("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." format "." format             \
             " {" names "}, {" a_ "}, " b_ ", 1, 1, 1, " tb_ ";\n"                                  \
             : __VA_ARGS__                                                                          \
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(b)), "n"(transpose_b ? 1 : 0) \
             : "memory")
// clang-format on

/// c = a · b, plus the previous c if `accumulate`. T is Half or Bfloat16, N 64 or 128. An operand is
/// transposed if its inner dimension runs across the rows of its panels (column_operand).
template <class T, int N, bool transpose_a, bool transpose_b>
__device__ void multiply_warpgroup(float (&c)[N / 8][4], MatrixOperand a, MatrixOperand b, bool accumulate) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, Half>)
    DTFM_FROM_SHARED("64", "f16", DTFM_NAMES_32, "%32", "%33", "%34", "%35", "%36", DTFM_C8);
  else if constexpr (N == 64)
    DTFM_FROM_SHARED("64", "bf16", DTFM_NAMES_32, "%32", "%33", "%34", "%35", "%36", DTFM_C8);
  else if constexpr (std::is_same_v<T, Half>)
    DTFM_FROM_SHARED("128", "f16", DTFM_NAMES_64, "%64", "%65", "%66", "%67", "%68", DTFM_C16);
  else
    DTFM_FROM_SHARED("128", "bf16", DTFM_NAMES_64, "%64", "%65", "%66", "%67", "%68", DTFM_C16);
}

/// c += a · b, with A from registers.
template <class T, int N, bool transpose_b>
__device__ void multiply_warpgroup(float (&c)[N / 8][4], const std::uint32_t (&a)[4], MatrixOperand b) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, Half>)
    DTFM_FROM_REGISTERS("64", "f16", DTFM_NAMES_32, "%32, %33, %34, %35", "%36", "%37", DTFM_C8);
  else if constexpr (N == 64)
    DTFM_FROM_REGISTERS("64", "bf16", DTFM_NAMES_32, "%32, %33, %34, %35", "%36", "%37", DTFM_C8);
  else if constexpr (std::is_same_v<T, Half>)
    DTFM_FROM_REGISTERS("128", "f16", DTFM_NAMES_64, "%64, %65, %66, %67", "%68", "%69", DTFM_C16);
  else
    DTFM_FROM_REGISTERS("128", "bf16", DTFM_NAMES_64, "%64, %65, %66, %67", "%68", "%69", DTFM_C16);
}

#undef DTFM_WARPGROUP_ASM
#undef DTFM_C1
#undef DTFM_C4
#undef DTFM_C8
#undef DTFM_C16
#undef DTFM_NAMES_32
#undef DTFM_NAMES_64
#undef DTFM_FROM_SHARED
#undef DTFM_FROM_REGISTERS

}  // namespace dtfm::kernels
