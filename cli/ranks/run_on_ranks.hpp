// Runs a program on several processes that mpirun or srun has started.
#pragma once

#include <exception>
#include <memory>
#include <string_view>

#include "cli/common/main_guard.hpp"
#include "planner/core/ranks.hpp"

namespace dtfm::cli {

/// Starts MPI if a launcher has started several processes; otherwise returns null. Silences all processes but
/// the root, which alone prints. An interrupt, or losing another rank, ends the exchange of data and
/// interrupts this process, too: what it has so far must be written before the launcher kills it. Throws
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
