#include "cli/simulate/run_stats.hpp"

#include <sys/resource.h>

#include <ctime>

#include <fmt/format.h>

namespace dtfm::cli {
namespace {

long long peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024LL * usage.ru_maxrss;
}

}  // namespace

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string stats_json(const RunStats& stats) {
  return fmt::format(
      "{{\"tasks\": {}, \"flows\": {}, \"events\": {}, \"read_cpu_s\": {:.6f}, \"run_cpu_s\": {:.6f}, "
      "\"peak_rss_bytes\": {}}}\n",
      stats.tasks, stats.flows, stats.events, stats.read_cpu_s, stats.run_cpu_s, peak_resident_bytes());
}

}  // namespace dtfm::cli
