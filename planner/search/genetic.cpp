#include "planner/search/search_run.hpp"
namespace dtfm {
Stopped run_genetic(SearchRun& run) {
  return run_random(run);
}
Stopped run_kernighan_lin(SearchRun& run) {
  return run_random(run);
}
}  // namespace dtfm
