#include "cli/report/timeline_comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"

namespace dtfm::cli {
namespace {

using Track = TimelineRow::Track;

/// Spans with the same key are matched in the order of their start.
using SpanKey = std::tuple<int, Track, SpanKind, int>;  // device, track, kind, micro-batch

/// All spans by key, in the order of their start. Received messages are left out: they are those sent.
std::map<SpanKey, std::vector<TimelineSpan>> spans_by_key(const Timeline& timeline) {
  std::map<SpanKey, std::vector<TimelineSpan>> spans;
  for (const TimelineRow& row : timeline.rows)
    for (const TimelineSpan& it : row.spans)
      if (row.track != Track::receive) spans[{row.device, row.track, it.kind, it.micro_batch}].push_back(it);
  return spans;
}

bool is_pass(SpanKind kind) {
  return kind == SpanKind::forward || kind == SpanKind::backward || kind == SpanKind::weight_gradient;
}

std::string format_milliseconds(double seconds) {
  return fmt::format("{:.2f} ms", 1e3 * seconds);
}

}  // namespace

Timeline timeline_of(const io::MeasuredIteration& measured) {
  constexpr std::array tracks = {Track::compute, Track::send, Track::receive};
  std::map<std::pair<int, Track>, TimelineRow> rows;
  for (const io::MeasuredActivity& it : measured.activities) {
    const Track track = tracks[static_cast<std::size_t>(it.row)];
    TimelineRow& row = rows[{it.device, track}];
    row.device = it.device;
    row.track = track;
    row.spans.push_back({it.start_s, it.end_s, kind_of(it.label.activity), 1, it.label.micro_batch});
  }
  double end_s = measured.length_s;  // without a barrier, activities end later
  for (const io::MeasuredActivity& it : measured.activities) end_s = std::max(end_s, it.end_s);
  std::vector<TimelineRow> list;
  for (auto& [place, row] : rows) list.push_back(std::move(row));
  return make_timeline(fmt::format("iteration {}", measured.number), {0, end_s}, measured.length_s,
                       std::move(list));
}

TimelineComparison compare_timelines(const Timeline& simulated, const Timeline& measured, double tolerance) {
  TimelineComparison result;
  result.tolerance = tolerance;
  result.simulated_s = simulated.length_s;
  result.measured_s = measured.length_s;
  auto others = spans_by_key(measured);
  std::map<SpanKind, TimelineComparison::Kind> kinds;
  for (const auto& [key, spans] : spans_by_key(simulated)) {
    const auto& [device, track, kind, micro_batch] = key;
    const std::vector<TimelineSpan> found = std::exchange(others[key], {});
    const std::size_t both = std::min(spans.size(), found.size());
    result.unmatched += static_cast<int>(spans.size() + found.size() - 2 * both);
    for (std::size_t i = 0; i < both; ++i) {
      TimelineComparison::Kind& sum = kinds[kind];
      ++sum.count;
      sum.simulated_s += spans[i].length();
      sum.measured_s += found[i].length();
      const double start = spans[i].start - simulated.start_s,
                   late = found[i].start - measured.start_s - start;
      if (!is_pass(kind) || std::abs(late) <= tolerance * result.simulated_s) continue;
      if (!result.diverges_at || spans[i].start < result.diverges_at->simulated.start)
        result.diverges_at = {device, spans[i], found[i]};
    }
  }
  for (const auto& [key, spans] : others) result.unmatched += static_cast<int>(spans.size());
  for (const SpanKind kind : span_kinds())
    if (const auto known = kinds.find(kind); known != kinds.end()) {
      TimelineComparison::Kind mean = known->second;
      mean.kind = kind;
      mean.simulated_s /= mean.count;
      mean.measured_s /= mean.count;
      result.kinds.push_back(mean);
    }
  if (result.diverges_at) {
    result.diverges_at->simulated.start -= simulated.start_s;
    result.diverges_at->simulated.end -= simulated.start_s;
  }
  return result;
}

nlohmann::ordered_json comparison_json(const Topology& topology, const Timeline& measured,
                                       const TimelineComparison& comparison) {
  nlohmann::ordered_json json = {{"title", measured.title},
                                 {"measured_s", comparison.measured_s},
                                 {"simulated_s", comparison.simulated_s},
                                 {"kinds", nlohmann::ordered_json::array()},
                                 {"unmatched", comparison.unmatched},
                                 {"tolerance", comparison.tolerance},
                                 {"diverges_at", nullptr}};
  for (const TimelineComparison::Kind& it : comparison.kinds)
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

std::string format_comparison(const Topology& topology, const Timeline& measured,
                              const TimelineComparison& comparison) {
  std::string text = fmt::format("{}: {} takes {:.6g} s, {:.1f} % {} than the simulated one\n",
                                 styled(Style::heading, "Measured"), measured.title, comparison.measured_s,
                                 100 * std::abs(comparison.measured_s / comparison.simulated_s - 1),
                                 comparison.measured_s < comparison.simulated_s ? "less" : "longer");
  std::vector<std::vector<std::string>> rows = {{"kind", "simulated", "measured", "number"}};
  for (const TimelineComparison::Kind& it : comparison.kinds)
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
