# Finds CUDA, which is optional: sets DTFM_HAVE_CUDA and, if it is on, enables the language. Included from the
# top level, because a language must be enabled where every target that links its objects can see it.
set(DTFM_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO, ON or OFF")
set_property(CACHE DTFM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DTFM_HAVE_CUDA OFF)

if(NOT DTFM_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS}) # CMake reads both
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90a-real 90-virtual CACHE STRING "CUDA architectures")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1) # 12.0 accepts C++20, but only 12.1 has red.v2
      set(DTFM_HAVE_CUDA ON)
      find_package(CUDAToolkit REQUIRED)
    endif()
  endif()
endif()
# CMake before 3.26 has no C++20 option for nvcc
if(DTFM_HAVE_CUDA AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

if(DTFM_CUDA STREQUAL "ON" AND NOT DTFM_HAVE_CUDA)
  message(FATAL_ERROR "DTFM_CUDA=ON, but no nvcc of CUDA 12.1 or later was found: put one on PATH, "
                      "give -DCMAKE_CUDA_COMPILER=/path/to/nvcc, or build without CUDA by -DDTFM_CUDA=OFF.")
endif()
message(STATUS "CUDA kernels: ${DTFM_HAVE_CUDA} (DTFM_CUDA=${DTFM_CUDA})")
