#include "cli/common/launcher.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <thread>

#include <sched.h>

namespace dtfm::cli {
namespace {

/// The value of the first variable that is set; `missing` if none is.
int number_in_environment(std::initializer_list<const char*> names, int missing) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return missing;
}

}  // namespace

Launch launch_of_environment() {
  Launch launch;
  // Open MPI sets OMPI_COMM_WORLD_SIZE; MPICH, and Slurm with PMI-2, set PMI_SIZE. Slurm with PMIx has the
  // size only in SLURM_STEP_NUM_TASKS, which is also set without MPI.
  const bool has_pmix = std::getenv("PMIX_RANK") != nullptr;
  const int pmix_size = has_pmix ? number_in_environment({"SLURM_STEP_NUM_TASKS"}, 1) : 0;
  const int size = number_in_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, pmix_size);
  launch.by_launcher = size > 0;
  launch.size = std::max(1, size);
  const int local_size =
      number_in_environment({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 1);
  launch.local_size = std::clamp(local_size, 1, launch.size);
  return launch;
}

int available_cores() {
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int local_size = launch_of_environment().local_size;
  if (local_size == 1) return all;
  cpu_set_t bound;
  if (::sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_COUNT(&bound) < all)
    return std::max(1, CPU_COUNT(&bound));  // the launcher has divided the cores
  return std::max(1, all / local_size);
}

}  // namespace dtfm::cli
