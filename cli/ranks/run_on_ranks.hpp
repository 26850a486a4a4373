// Runs a program on several processes that mpirun or srun has started.
#pragma once

#include <exception>
#include <memory>
#include <string_view>

#include "cli/common/main_guard.hpp"
#include "core/base/ranks.hpp"

namespace dtfm::cli {

/// Starts MPI if a launcher has started several processes; otherwise returns null. Only the root prints; all
/// other processes are silenced. After an interrupt or the loss of another rank, this process no longer
/// communicates and counts as interrupted, so that it writes its result before the launcher kills it. Throws
/// Error if several processes were started but the program was built without MPI.
std::unique_ptr<RankTransport> start_ranks(std::string_view program);

/// Like `run_guarded`, for a `body` that gets the ranks, or null if this process is the only one.
template <class Body>
int run_on_ranks(std::string_view program, const Body& body) {
  return run_guarded(program, [&] {
    const std::unique_ptr<RankTransport> transport = start_ranks(program);
    if (!transport) return body(static_cast<Ranks*>(nullptr));
    Ranks ranks(*transport);
    try {
      const int code = body(&ranks);
      const bool is_broken = ranks.is_broken();
      ranks.finish("");
      return is_broken ? exit_code::interrupted : code;
    } catch (const std::exception& error) {
      ranks.finish(error.what());
      throw;
    }
  });
}

}  // namespace dtfm::cli
