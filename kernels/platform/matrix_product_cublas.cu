// cuBLAS is loaded on the first product, so that a program that links these kernels starts without it.
#include "kernels/platform/matrix_product.hpp"

#include <string>

#include <cublas_v2.h>
#include <dlfcn.h>

#include "kernels/platform/platform.cuh"

namespace dtfm::kernels {
namespace {

/// The signature in cublas_api.h. In C++ that header also has an older overload of the same name.
using GemmStridedBatchedEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                            int, const void* alpha, const void* a, cudaDataType, int,
                                            long long, const void* b, cudaDataType, int, long long,
                                            const void* beta, void* c, cudaDataType, int, long long, int,
                                            cublasComputeType_t, cublasGemmAlgo_t);
using Create = cublasStatus_t(cublasHandle_t*);
using SetMathMode = cublasStatus_t(cublasHandle_t, cublasMath_t);

struct Cublas {
  GemmStridedBatchedEx* product = nullptr;
  cublasHandle_t handle = nullptr;
};

/// Opens cuBLAS from the loader's search path, or else from the toolkit that this was built with.
void* open_library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    library = dlopen((std::string(DTFM_CUDA_LIBRARIES "/") + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw DeviceError(name + " was not found: add its folder to LD_LIBRARY_PATH");
  return library;
}

template <class Function>
Function* function(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) throw DeviceError(std::string("cuBLAS has no ") + name);
  return reinterpret_cast<Function*>(address);
}

Cublas open_cublas() {
  void* library = open_library();
  Cublas cublas;
  cublas.product = function<GemmStridedBatchedEx>(library, "cublasGemmStridedBatchedEx");
  cublasStatus_t status = function<Create>(library, "cublasCreate_v2")(&cublas.handle);
  if (status == CUBLAS_STATUS_SUCCESS)  // partial sums are accumulated in fp32, too
    status = function<SetMathMode>(library, "cublasSetMathMode")(
        cublas.handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory("not enough memory to initialize cuBLAS");
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError("cuBLAS initialization failed: status " + std::to_string(status));
  return cublas;
}

template <class T>
constexpr cudaDataType_t type_of() {
  if (std::is_same_v<T, float>) return CUDA_R_32F;
  return std::is_same_v<T, Half> ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

template <class T>
void matrix_product(const ProductShape& s, const T* a, const T* b, T* c, float beta) {
  static const Cublas cublas = open_cublas();
  // cuBLAS is column-major: a row-major matrix is its transpose, and cᵀ = op(b)ᵀ · op(a)ᵀ.
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float one = 1;
  const long long m = s.m, n = s.n, k = s.k;
  const cublasStatus_t status = cublas.product(
      cublas.handle, operation(s.transpose_b), operation(s.transpose_a), s.n, s.m, s.k, &one, b, type_of<T>(),
      s.transpose_b ? s.k : s.n, k * n, a, type_of<T>(), s.transpose_a ? s.m : s.k, m * k, &beta, c,
      type_of<T>(), s.n, m * n, s.batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError("cuBLAS: status " + std::to_string(status));
}

template void matrix_product<float>(const ProductShape&, const float*, const float*, float*, float);
template void matrix_product<Half>(const ProductShape&, const Half*, const Half*, Half*, float);
template void matrix_product<Bfloat16>(const ProductShape&, const Bfloat16*, const Bfloat16*, Bfloat16*,
                                       float);

}  // namespace dtfm::kernels
