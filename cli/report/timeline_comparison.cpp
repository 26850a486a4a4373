#include "cli/report/timeline_comparison.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"

namespace dtfm::cli {
namespace {

std::string format_milliseconds(double seconds) {
  return fmt::format("{:.2f} ms", 1e3 * seconds);
}

}  // namespace

nlohmann::ordered_json comparison_json(const Topology& topology, const sim::Timeline& measured,
                                       const sim::TimelineComparison& comparison) {
  nlohmann::ordered_json json = {{"title", measured.title},
                                 {"measured_s", comparison.measured_s},
                                 {"simulated_s", comparison.simulated_s},
                                 {"kinds", nlohmann::ordered_json::array()},
                                 {"unmatched", comparison.unmatched},
                                 {"tolerance", comparison.tolerance},
                                 {"diverges_at", nullptr}};
  for (const sim::TimelineComparison::Kind& it : comparison.kinds)
    json["kinds"].push_back({{"kind", name_of(it.kind)},
                             {"count", it.count},
                             {"measured_s", it.measured_s},
                             {"simulated_s", it.simulated_s}});
  if (comparison.diverges_at) {
    const auto& [device, simulated, found] = *comparison.diverges_at;
    json["diverges_at"] = {{"device", topology.devices[at(device)].id},
                           {"kind", name_of(found.kind)},
                           {"micro_batch", found.micro_batch},
                           {"measured_start_s", found.start},
                           {"simulated_start_s", simulated.start}};
  }
  return json;
}

std::string format_comparison(const Topology& topology, const sim::Timeline& measured,
                              const sim::TimelineComparison& comparison) {
  std::string text = fmt::format("{}: {} takes {:.6g} s, {:.1f} % {} than the simulated one\n",
                                 styled(Style::heading, "Measured"), measured.title, comparison.measured_s,
                                 100 * std::abs(comparison.measured_s / comparison.simulated_s - 1),
                                 comparison.measured_s < comparison.simulated_s ? "less" : "longer");
  std::vector<std::vector<std::string>> rows = {{"kind", "simulated", "measured", "number"}};
  for (const sim::TimelineComparison::Kind& it : comparison.kinds)
    rows.push_back({std::string(name_of(it.kind)), format_milliseconds(it.simulated_s),
                    format_milliseconds(it.measured_s), with_thousands(it.count)});
  text += table(rows);
  if (comparison.unmatched > 0)
    text += fmt::format("{} only in one of the two timelines\n", format_count(comparison.unmatched, "span"));
  if (!comparison.diverges_at)
    return text + fmt::format("no computation starts more than {:.0f} % of the iteration earlier or later\n",
                              100 * comparison.tolerance);
  const auto& [device, simulated, found] = *comparison.diverges_at;
  return text + fmt::format(
                    "They diverge at {} of micro-batch {} on {}: it starts after {:.6g} s, in the "
                    "simulation after {:.6g} s\n",
                    name_of(found.kind), found.micro_batch, topology.devices[at(device)].id, found.start,
                    simulated.start);
}

}  // namespace dtfm::cli
