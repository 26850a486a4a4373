# Precompiles the headers that most files include: for libraries and programs with clang++ only, because with g++ 12 they
# build faster with DTFM_UNITY alone; for tests (tests/CMakeLists.txt) with both.
option(DTFM_PRECOMPILE "Compile the headers that most files include once: faster from scratch" OFF)
if(NOT DTFM_PRECOMPILE)
  return()
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cpp CONTENT "")
function(dtfm_precompile_headers name)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/headers.cpp)
  target_link_libraries(${name} PRIVATE
    dtfm_options Eigen3::Eigen OpenMP::OpenMP_CXX fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE
    <Eigen/Core> <algorithm> <cmath> <fmt/format.h> <functional> <map> <nlohmann/json.hpp> <optional> <string> <vector>
    ${ARGN})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp") # a time stamp would prevent ccache hits
  endif()
endfunction()

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR DTFM_PYTHON) # position-independent libraries need headers of their own
  return()
endif()
dtfm_precompile_headers(dtfm_headers)
foreach(folder core planner simulator cli)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC_LIBRARY|EXECUTABLE)$")
      target_precompile_headers(${target} REUSE_FROM dtfm_headers)
    endif()
  endforeach()
endforeach()
