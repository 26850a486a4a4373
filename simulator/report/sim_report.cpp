#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

double completed_per_s(const SimReport& report, double amount, bool iterations_differ) {
  const double count = static_cast<double>(report.iterations.size());
  if (count == 0) return 0;
  const bool is_whole = iterations_differ || count == 1;
  const double time = report.length_s - (is_whole ? 0 : report.iterations.front().end_s);
  return time > 0 ? (is_whole ? count : count - 1) * amount / time : 0;
}

}  // namespace dtfm::sim
