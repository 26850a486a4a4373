# Usage: find_package(dtfm), target_link_libraries(… dtfm::dtfm), #include <core/plan/plan.hpp>.
include(CMakeFindDependencyMacro)
find_dependency(Eigen3 3.4 NO_MODULE)
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(nlohmann_json 3.11)
find_dependency(yaml-cpp 0.7)
find_dependency(fmt 9)
include(${CMAKE_CURRENT_LIST_DIR}/dtfmTargets.cmake)
