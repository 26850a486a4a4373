# Finds the libraries that dtfm links besides its own. Those that are not installed are downloaded as Debian 12's sources and
# compiled as static libraries. `DTFM_FETCHED` lists them.
set(DTFM_FETCH AUTO CACHE STRING "Download libraries: AUTO (those that are not installed), ON (all) or OFF")
set_property(CACHE DTFM_FETCH PROPERTY STRINGS AUTO ON OFF)

# Per library: oldest version, package of Debian and Ubuntu; the sources in Debian's pool, their SHA-256; the target, its
# include folder, and what it compiles.
set(dependency_Eigen3 3.4 libeigen3-dev
  e/eigen3/eigen3_3.4.0.orig.tar.bz2 b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626
  Eigen3::Eigen .)
set(dependency_CLI11 2.1 libcli11-dev
  c/cli11/cli11_2.1.2+ds.orig.tar.xz 8143d20b688e98ccce8e24562d3b68e5f47c12e896c42c7ca8553dbde5bed55d
  CLI11::CLI11 include)
set(dependency_nlohmann_json 3.11 nlohmann-json3-dev
  n/nlohmann-json3/nlohmann-json3_3.11.2.orig.tar.gz d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273
  nlohmann_json::nlohmann_json include)
set(dependency_yaml-cpp 0.7 libyaml-cpp-dev
  y/yaml-cpp/yaml-cpp_0.7.0+dfsg.orig.tar.xz dc63708605404e0b963e0ca3a9619d1c8270eda2839603e6fa0384e5e51e5312
  yaml-cpp::yaml-cpp include src/*.cpp src/contrib/*.cpp)
set(dependency_fmt 9 libfmt-dev
  f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz 84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583
  fmt::fmt include src/format.cc src/os.cc)
set(dependency_Catch2 2.13 catch2
  c/catch2/catch2_2.13.10.orig.tar.gz 2f4fe284449cf17394350e027ae21958973a61b9161197d416e2dfca16167686
  Catch2::Catch2WithMain single_include src/catch_with_main.cpp)
set(dependencies Eigen3 CLI11 nlohmann_json yaml-cpp fmt)
if(DTFM_BUILD_TESTS)
  if(NOT DTFM_FETCH STREQUAL "ON")
    find_package(Catch2 3 CONFIG QUIET) # Debian 12 has 2.13; tests/support/catch.hpp hides the difference.
  endif()
  if(NOT Catch2_FOUND)
    list(APPEND dependencies Catch2)
  endif()
endif()

set(DTFM_FETCHED "")
set(missing_packages "")
foreach(library ${dependencies})
  list(POP_FRONT dependency_${library} version package)
  if(NOT DTFM_FETCH STREQUAL "ON")
    find_package(${library} ${version} CONFIG QUIET)
  endif()
  if(${library}_FOUND)
    message(STATUS "${library}: ${${library}_VERSION}, ${${library}_DIR}")
  else()
    list(APPEND DTFM_FETCHED ${library})
    list(APPEND missing_packages ${package})
  endif()
endforeach()
set(DTFM_FETCHED "${DTFM_FETCHED}" CACHE INTERNAL "Libraries that were downloaded")
list(JOIN DTFM_FETCHED ", " fetched)
list(JOIN missing_packages " " missing_packages)
if(DTFM_FETCHED AND DTFM_FETCH STREQUAL "OFF")
  message(FATAL_ERROR "These libraries are not installed: ${fetched}. Install the packages ${missing_packages}, "
                      "or have the libraries downloaded: -DDTFM_FETCH=AUTO.")
endif()

foreach(library ${DTFM_FETCHED})
  list(POP_FRONT dependency_${library} path sha256 target include)
  cmake_path(GET path FILENAME archive)
  set(folder ${PROJECT_BINARY_DIR}/fetched/${archive})
  message(STATUS "${library}: compiled from ${archive} (DTFM_FETCH=${DTFM_FETCH})")
  if(NOT EXISTS ${folder}/${sha256})
    # FetchContent could not say what to install instead.
    set(failures "")
    set(digest "")
    foreach(server https://deb.debian.org/debian https://snapshot.debian.org/archive/debian/20250520T000000Z)
      file(DOWNLOAD ${server}/pool/main/${path} ${folder}/archive STATUS status INACTIVITY_TIMEOUT 30)
      list(POP_FRONT status failure why)
      if(NOT failure)
        file(SHA256 ${folder}/archive digest)
        if(digest STREQUAL sha256)
          break()
        endif()
        set(why "the SHA-256 of ${archive} is ${digest} instead of ${sha256}")
      endif()
      list(APPEND failures "${server}: ${why}")
    endforeach()
    if(NOT digest STREQUAL sha256)
      list(JOIN failures "\n  " failures)
      message(FATAL_ERROR "Cannot download ${library}:\n  ${failures}\nCheck the network, or use the libraries of the system: "
                          "install the packages ${missing_packages}, and configure with -DDTFM_FETCH=AUTO.")
    endif()
    file(ARCHIVE_EXTRACT INPUT ${folder}/archive DESTINATION ${folder}/extracted)
    file(TOUCH ${folder}/${sha256})
  endif()
  file(GLOB source ${folder}/extracted/*)

  # An imported target stays out of the exported targets of scripts/package.cmake, and its headers cause no warnings.
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${source}/${include})
  if(dependency_${library})
    list(TRANSFORM dependency_${library} PREPEND ${source}/)
    file(GLOB files ${dependency_${library}})
    add_library(fetched_${library} STATIC ${files})
    target_include_directories(fetched_${library} PRIVATE ${source}/${include})
    target_compile_options(fetched_${library} PRIVATE -w -include cstdint) # yaml-cpp 0.7 includes too little for g++ 13
    target_link_libraries(${target} INTERFACE fetched_${library})
  endif()
endforeach()

if(NOT TARGET yaml-cpp::yaml-cpp) # yaml-cpp 0.7 of the system has no namespaced target yet
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
