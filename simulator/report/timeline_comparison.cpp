#include "simulator/report/timeline_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace dtfm::sim {
namespace {

/// Spans with the same key are matched in the order of their start.
using SpanKey = std::tuple<int, TimelineRow::Track, SpanKind, int>;  // device, track, kind, micro-batch

/// All spans by key, in the order of their start. Received messages are left out: they are those sent.
std::map<SpanKey, std::vector<TimelineSpan>> spans_by_key(const Timeline& timeline) {
  std::map<SpanKey, std::vector<TimelineSpan>> spans;
  for (const TimelineRow& row : timeline.rows)
    for (const TimelineSpan& it : row.spans)
      if (row.track != TimelineRow::Track::receive)
        spans[{row.device, row.track, it.kind, it.micro_batch}].push_back(it);
  return spans;
}

bool is_pass(SpanKind kind) {
  return kind == SpanKind::forward || kind == SpanKind::backward || kind == SpanKind::weight_gradient;
}

}  // namespace

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

}  // namespace dtfm::sim
