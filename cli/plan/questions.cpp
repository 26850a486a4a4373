#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/plan/summary.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

constexpr std::size_t max_tried = 12;  // clusters, the most expensive ones that were too slow

std::string format_value(const api::SmallestCluster& it, double value) {
  return it.is_by_price ? fmt::format("{:.4g} USD/h", value) : format_count(std::llround(value), "device");
}

std::string format_bound(const api::SmallestCluster& it) {
  if (!it.is_met) return "";
  if (it.is_proven) return fmt::format("proven minimal: {}\n", it.bound_method);
  const std::string bound =
      fmt::format("at least {} are needed: {}\n", format_value(it, it.lower_bound), it.bound_method);
  return it.is_exhaustive ? "no plan was found on any combination of less\n" + bound : bound;
}

}  // namespace

std::string format_smallest_cluster(const api::PlanAnswer& answer) {
  if (!answer.smallest_cluster) return "";
  const api::SmallestCluster& it = *answer.smallest_cluster;
  const std::string goal = it.max_iteration_s
                               ? fmt::format("iterations of at most {} s", short_seconds(*it.max_iteration_s))
                               : std::string("a plan that fits in memory");
  std::string text = styled(Style::heading, it.is_met ? fmt::format("Smallest cluster for {}: {}", goal,
                                                                    format_value(it, it.value))
                                                      : fmt::format("No cluster found for {}", goal)) +
                     "\n" + format_bound(it);
  // Of clusters that are faster than all cheaper ones, up to the first that is enough.
  std::vector<const api::TriedCluster*> shown;
  for (const api::TriedCluster& cluster : it.tried) {
    if (cluster.used.empty() || (!shown.empty() && cluster.iteration_s >= shown.back()->iteration_s))
      continue;
    shown.push_back(&cluster);
    if (cluster.is_enough) break;
  }
  const std::size_t first = shown.size() - std::min(shown.size(), max_tried);
  Rows rows = {{"devices", "USD/h", "estimated s", "enough", "used"}};
  for (std::size_t i = first; i < shown.size(); ++i)
    rows.push_back({fmt::format("{}", shown[i]->devices),
                    shown[i]->usd_per_hour ? fmt::format("{:.4g}", *shown[i]->usd_per_hour) : "?",
                    short_seconds(shown[i]->iteration_s), shown[i]->is_enough ? "yes" : "no",
                    api::format_devices_used(answer.problem.topology, shown[i]->used)});
  return text + (rows.size() > 1 ? table(rows) : "");
}

std::string format_least_bandwidth(const api::PlanAnswer& answer) {
  if (!answer.least_bandwidth) return "";
  const api::LeastBandwidth& it = *answer.least_bandwidth;
  const auto& sites = answer.problem.topology->sites;
  const std::string &first = sites[at(it.sites.first)].name, &second = sites[at(it.sites.second)].name;
  const std::string link =
      first == second ? fmt::format("inside {}", first) : fmt::format("between {} and {}", first, second);
  const std::string goal = fmt::format("iterations of at most {} s", short_seconds(it.max_iteration_s));
  std::string text =
      styled(Style::heading, it.least
                                 ? fmt::format("Least bandwidth {} for {}: {}", link, goal,
                                               io::format_rate(BitsPerSecond(it.rows[*it.least].bits_per_s)))
                                 : fmt::format("No bandwidth {} is enough for {}", link, goal)) +
      "\n";
  text += fmt::format("with links that are never the bottleneck: {} s\n", short_seconds(it.unlimited_s));
  Rows rows = {{"bandwidth", "×", "estimated s", "simulated s", "throughput", "enough", "stages × replicas"}};
  for (const api::BandwidthRow& row : it.rows)
    rows.push_back({io::format_rate(BitsPerSecond(row.bits_per_s)), fmt::format("{:.3g}", row.factor),
                    short_seconds(row.iteration_s), row.simulated_s ? short_seconds(*row.simulated_s) : "?",
                    format_percent(row.throughput), row.is_enough ? "yes" : "no", format_shape(row.plan)});
  return text + table(rows);
}

}  // namespace dtfm::cli
