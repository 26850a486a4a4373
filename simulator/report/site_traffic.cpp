#include "simulator/report/site_traffic.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {

void SiteTraffic::on_interval(const RunInterval& run_interval) {
  std::map<std::pair<int, int>, std::vector<Interval>> under_way;
  const auto& tasks = run_interval.graph.graph.tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    throw_if_stopped(run_interval.stop, i);
    const TaskRecord& record = run_interval.replay.tasks[i];
    if (!is_message(tasks[i]) || !has_started(record)) continue;
    const std::pair sites(site_[at(tasks[i].host)], site_[at(tasks[i].destination)]);
    under_way[sites].push_back(busy(record, run_interval));
    if (record.state == TaskState::done) uses_[sites].bytes += run_interval.repetitions * tasks[i].amount;
  }
  for (const auto& [sites, intervals] : under_way)
    uses_[sites].busy.add(intervals, !run_interval.graph.ends.empty(), run_interval.repetitions);
}

std::vector<LinkReport> SiteTraffic::reports() const {
  std::vector<LinkReport> reports;
  for (const auto& [sites, use] : uses_)
    reports.push_back({sites.first, sites.second, use.bytes, use.busy.seconds()});
  std::stable_sort(reports.begin(), reports.end(),
                   [](const LinkReport& a, const LinkReport& b) { return a.bytes > b.bytes; });
  return reports;
}

}  // namespace dtfm::sim
