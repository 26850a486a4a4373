// The implementation for builds without MPI.
#include "cli/common/launcher.hpp"
#include "cli/ranks/run_on_ranks.hpp"

#include <fmt/format.h>

namespace dtfm::cli {

std::unique_ptr<RankTransport> start_ranks(std::string_view program) {
  const Launch launch = launch_of_environment();
  if (launch.size == 1) return nullptr;
  throw Error(
      "",
      fmt::format("{} processes were started, but this {} was built without MPI; start one, or build with "
                  "-DDTFM_MPI=ON",
                  launch.size, program));
}

}  // namespace dtfm::cli
