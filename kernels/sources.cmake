# Compiled by nvcc for GPUs, and by the C++ compiler for the emulation (platform/platform.cuh).
set(DTFM_KERNEL_SOURCES
  adam.cu
  attention_backward.cu
  attention_forward.cu
  column_sum.cu
  cross_entropy.cu
  embedding.cu
  norm.cu
  pointwise.cu)
list(TRANSFORM DTFM_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(DTFM_EMULATION_SOURCES ${CMAKE_CURRENT_LIST_DIR}/platform/emulation.cpp ${CMAKE_CURRENT_LIST_DIR}/platform/device_emulated.cpp)
