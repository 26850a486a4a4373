# Finds MPI, which is optional: sets DTFM_HAVE_MPI. Only the programs use it, through its C interface.
set(DTFM_MPI AUTO CACHE STRING "Build programs that run on several machines by MPI: AUTO, ON or OFF")
set_property(CACHE DTFM_MPI PROPERTY STRINGS AUTO ON OFF)
set(DTFM_HAVE_MPI OFF)

if(NOT DTFM_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  set(DTFM_HAVE_MPI ${MPI_CXX_FOUND})
endif()

if(DTFM_MPI STREQUAL "ON" AND NOT DTFM_HAVE_MPI)
  message(FATAL_ERROR "DTFM_MPI=ON, but no MPI was found: install libopenmpi-dev and openmpi-bin, "
                      "or build without MPI by -DDTFM_MPI=OFF.")
endif()
message(STATUS "MPI: ${DTFM_HAVE_MPI} (DTFM_MPI=${DTFM_MPI})")
