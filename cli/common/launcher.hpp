// What the environment variables of mpirun or srun say about the processes that it has started.
#pragma once

namespace dtfm::cli {

struct Launch {
  bool by_launcher = false;
  int size = 1;        // processes
  int local_size = 1;  // those on this machine
};

/// Reads the environment. Without an MPI launcher, there is one process.
Launch launch_of_environment();

/// The cores that this process may use without taking those of other processes of the launch.
int available_cores();

}  // namespace dtfm::cli
