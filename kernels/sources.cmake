# Compiled by nvcc for GPUs, and by the C++ compiler for the emulation (platform/platform.cuh).
set(DTFM_KERNEL_SOURCES
  adam.cu
  attention_backward.cu
  attention_backward_warpgroup.cu
  attention_forward.cu
  attention_forward_warpgroup.cu
  column_sum.cu
  cross_entropy.cu
  embedding.cu
  fill.cu
  norm.cu
  pointwise.cu)
# Host code, the same for GPU and emulation.
set(DTFM_LAYER_SOURCES
  block_layer.cpp
  platform/device_state.cpp
  end_layers.cpp
  measure.cpp
  profile.cpp
  timing.cpp
  transformer.cpp)
set(DTFM_GPU_SOURCES
  device_info.cu
  platform/device_cuda.cu
  platform/device_state_cuda.cu
  platform/matrix_product_cublas.cu)
set(DTFM_EMULATION_SOURCES
  platform/device_emulated.cpp
  platform/emulation.cpp
  platform/matrix_product_emulated.cpp)
set(DTFM_BENCH_SOURCES
  bench/main.cpp
  bench/pointwise_cases.cpp
  bench/product_cases.cpp
  bench/profile_file.cpp)
foreach(sources DTFM_BENCH_SOURCES DTFM_KERNEL_SOURCES DTFM_LAYER_SOURCES DTFM_GPU_SOURCES DTFM_EMULATION_SOURCES)
  list(TRANSFORM ${sources} PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
endforeach()
