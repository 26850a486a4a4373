# Installs the libraries for other CMake projects, and defines the packages for Debian and Ubuntu: `dtfm` with the
# programs, `libdtfm-dev` with the libraries. scripts/package.sh builds both.

# find_package(dtfm) defines a target per layer (dtfm::core, dtfm::cost, …) and dtfm::dtfm for all of them.
include(CMakePackageConfigHelpers)
add_library(dtfm_dtfm INTERFACE)
target_link_libraries(dtfm_dtfm INTERFACE dtfm_report dtfm_request)
set(layers options core cost search io export simulator simulator_io api api_io report request dtfm)
foreach(layer ${layers})
  set_target_properties(dtfm_${layer} PROPERTIES EXPORT_NAME ${layer})
endforeach()
list(TRANSFORM layers PREPEND dtfm_)
set(components programs)
if(NOT DTFM_FETCHED) # An installed library would require these libraries of the system in the same version.
  list(APPEND components development)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/dtfm)
  install(TARGETS ${layers} EXPORT dtfm ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT dtfm NAMESPACE dtfm:: FILE dtfmTargets.cmake DESTINATION ${folder} COMPONENT development)
  install(DIRECTORY core planner simulator DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dtfm COMPONENT development
    FILES_MATCHING PATTERN *.hpp PATTERN *.def PATTERN templates EXCLUDE)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/dtfmConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES scripts/lib/dtfmConfig.cmake ${PROJECT_BINARY_DIR}/dtfmConfigVersion.cmake DESTINATION ${folder}
    COMPONENT development)
endif()

add_custom_target(packed DEPENDS programs dtfm_report dtfm_request)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # packages contain no tests

set(DTFM_PACKAGE_CONTACT "dtfm developers <dtfm@localhost>" CACHE STRING "Maintainer of the packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dtfm)
set(CPACK_PACKAGE_CONTACT ${DTFM_PACKAGE_CONTACT})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME dtfm)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
  "Plans and simulates the training of large models on geo-distributed, heterogeneous GPUs.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libdtfm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libeigen3-dev, libfmt-dev, libyaml-cpp-dev, nlohmann-json3-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, static libraries and a CMake package of dtfm.")
include(CPack)
