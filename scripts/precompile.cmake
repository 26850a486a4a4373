# Headers that most files include, compiled once: on two cores scripts/quickstart.sh takes 4 min 47 s with it and 6 min
# 8 s without. Not with ccache, which does better.
option(DTFM_PRECOMPILE "Compile the headers that most files include once, where there is no ccache" OFF)
if(NOT DTFM_PRECOMPILE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cpp CONTENT "")
add_library(dtfm_headers OBJECT ${PROJECT_BINARY_DIR}/headers.cpp)
target_link_libraries(dtfm_headers PRIVATE
  dtfm_options Eigen3::Eigen OpenMP::OpenMP_CXX fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(dtfm_headers PRIVATE
  <Eigen/Core> <algorithm> <cmath> <fmt/format.h> <functional> <map> <nlohmann/json.hpp> <optional> <string> <vector>)
foreach(folder planner simulator cli)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC_LIBRARY|EXECUTABLE)$")
      target_precompile_headers(${target} REUSE_FROM dtfm_headers)
    endif()
  endforeach()
endforeach()
