#include "cli/common/launcher.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "core/base/cores.hpp"

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
  const int local_size = launch_of_environment().local_size, allowed = allowed_cores();
  // If the process may use only some cores, the launcher has divided them among its ranks already.
  return allowed < online_cores() ? allowed : std::max(1, allowed / local_size);
}

}  // namespace dtfm::cli
