#include "planner/search/search_options.hpp"

#include "core/base/error.hpp"

namespace dtfm::search {

double time_share(const SearchOptions& options) {
  if (!options.time_limit) return 0;
  return std::chrono::duration<double>(now_of(options.ranks) - *options.begin).count() / *options.time_limit;
}

std::string_view name_of(Stopped stopped) {
  switch (stopped) {
    case Stopped::evaluations:
      return "evaluations";
    case Stopped::converged:
      return "converged";
    case Stopped::optimal:
      return "optimal";
    case Stopped::complete:
      return "complete";
    case Stopped::time_limit:
      return "time-limit";
    case Stopped::interrupted:
      return "interrupted";
    case Stopped::no_fit:
      return "no-fit";
  }
  throw BrokenInvariant("unknown reason to stop");
}

}  // namespace dtfm::search
