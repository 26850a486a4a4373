#include "simulator/report/samples.hpp"

namespace dtfm::sim {

SampleSummary sample_summary(const std::vector<SimReport>& runs) {
  SampleSummary summary;
  std::vector<double> tokens;
  for (const SimReport& run : runs) {
    if (run.iterations.empty()) continue;
    summary.mean_s.push_back(run.iteration_time_s.mean);
    tokens.push_back(run.tokens_per_s);
  }
  summary.runs = static_cast<int>(tokens.size());
  summary.iteration_time_s = distribution(summary.mean_s);
  summary.tokens_per_s = distribution(std::move(tokens));
  return summary;
}

}  // namespace dtfm::sim
