#include "simulator/report/timeline.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {
namespace {

constexpr int tracks_per_device = 3;

struct SpanKindName {
  SpanKind kind;
  std::string_view name;
};

constexpr auto span_kind_names =
    std::to_array<SpanKindName>({{SpanKind::forward, "forward"},
                                 {SpanKind::backward, "backward"},
                                 {SpanKind::weight_gradient, "weight gradients"},
                                 {SpanKind::update, "weight update"},
                                 {SpanKind::compress, "compression"},
                                 {SpanKind::activations, "activations"},
                                 {SpanKind::gradients, "gradients of activations"},
                                 {SpanKind::exchange, "exchange in a stage"},
                                 {SpanKind::gradient_sync, "gradient synchronization"},
                                 {SpanKind::fetch, "weight transfer"},
                                 {SpanKind::overhead, "overhead"},
                                 {SpanKind::mixed, "several kinds"}});

std::string title_of(const RunInterval& run_interval) {
  switch (run_interval.kind) {
    case RunInterval::Kind::iteration:
      break;
    case RunInterval::Kind::lost_iteration:
      return fmt::format("iteration {}, which was lost", run_interval.iteration);
    case RunInterval::Kind::recovery:
      return fmt::format("recovery before iteration {}", run_interval.iteration);
    case RunInterval::Kind::checkpoint:
      return fmt::format("checkpoint before iteration {}", run_interval.iteration);
    case RunInterval::Kind::part:
      return fmt::format("iteration {} up to a failure", run_interval.iteration);
  }
  return fmt::format("iteration {}", run_interval.iteration);
}

using Track = TimelineRow::Track;

/// Returns whether merging `next` into `last` changes nothing visible; gaps and spans below `max_gap` are
/// invisible.
bool can_merge(const TimelineSpan& last, const TimelineSpan& next, double max_gap, bool merge_kinds) {
  if (!merge_kinds && last.kind != next.kind) return false;
  if (next.start < last.end) return true;  // messages that overlap cannot be told apart
  return next.start - last.end < max_gap && std::min(last.length(), next.length()) < max_gap;
}

void merge_into(TimelineSpan& last, const TimelineSpan& next) {
  last.end = std::max(last.end, next.end);
  last.tasks += next.tasks;
  if (last.kind != next.kind) last.kind = SpanKind::mixed;
  last.micro_batch = last.peer = no_index;
}

/// Calls visit(span) for every span of the row after merging.
template <class Keep>
void for_each_merged(const TimelineRow& row, double max_gap, bool merge_kinds, const Keep& visit) {
  if (row.spans.empty()) return;
  TimelineSpan last = row.spans.front();
  for (std::size_t i = 1; i < row.spans.size(); ++i) {
    if (can_merge(last, row.spans[i], max_gap, merge_kinds)) {
      merge_into(last, row.spans[i]);
    } else {
      visit(last);
      last = row.spans[i];
    }
  }
  visit(last);
}

long long count(const Timeline& timeline, double max_gap, bool merge_kinds) {
  long long spans = 0;
  for (const TimelineRow& row : timeline.rows)
    for_each_merged(row, max_gap, merge_kinds, [&](const TimelineSpan&) { ++spans; });
  return spans;
}

}  // namespace

std::string_view name_of(SpanKind kind) {
  return std::find_if(span_kind_names.begin(), span_kind_names.end(),
                      [&](const SpanKindName& it) { return it.kind == kind; })
      ->name;
}

std::span<const SpanKind> span_kinds() {
  static const auto kinds = [] {
    std::array<SpanKind, span_kind_names.size()> all{};
    std::transform(span_kind_names.begin(), span_kind_names.end(), all.begin(),
                   [](const SpanKindName& it) { return it.kind; });
    return all;
  }();
  return kinds;
}

SpanKind kind_of(Activity activity) {
  switch (activity) {
    case Activity::forward:
      return SpanKind::forward;
    case Activity::backward:
      return SpanKind::backward;
    case Activity::weight_gradient:
      return SpanKind::weight_gradient;
    case Activity::update:
      return SpanKind::update;
    case Activity::compress:
      return SpanKind::compress;
    case Activity::send_activations:
      return SpanKind::activations;
    case Activity::send_gradients:
      return SpanKind::gradients;
    case Activity::all_reduce:
    case Activity::pass_keys:
    case Activity::all_to_all:
      return SpanKind::exchange;
    case Activity::gradient_sync:
    case Activity::all_gather:
      return SpanKind::gradient_sync;
    case Activity::fetch:
    case Activity::save_checkpoint:
      return SpanKind::fetch;
    case Activity::wait:
    case Activity::step:
      break;
  }
  return SpanKind::overhead;
}

Timeline make_timeline(std::string title, Interval time, double length_s, std::vector<TimelineRow> rows) {
  std::erase_if(rows, [](const TimelineRow& row) { return row.spans.empty(); });
  Timeline timeline{std::move(title), time.begin, time.end, length_s, 0, 0, false, std::move(rows)};
  for (TimelineRow& row : timeline.rows) {
    const auto by_start = [](const TimelineSpan& span) { return std::tie(span.start, span.end); };
    std::stable_sort(row.spans.begin(), row.spans.end(),
                     [&](const TimelineSpan& a, const TimelineSpan& b) { return by_start(a) < by_start(b); });
    timeline.tasks += static_cast<long long>(row.spans.size());
  }
  return timeline;
}

void TimelineRecorder::on_interval(const RunInterval& run_interval) {
  const bool is_iteration = run_interval.kind == RunInterval::Kind::iteration;
  if (has_iteration_ && !is_iteration) return;
  has_iteration_ = is_iteration;
  title_ = title_of(run_interval);
  length_s_ = run_interval.end - std::max(run_interval.start, end_s_);
  start_s_ = run_interval.start;
  end_s_ = run_interval.end;
  recorded_spans_.clear();
  for (std::size_t i = 0; i < run_interval.replay.tasks.size(); ++i) {
    throw_if_stopped(run_interval.stop, i);
    const Task& task = run_interval.graph.graph.tasks[i];
    const TaskRecord& record = run_interval.replay.tasks[i];
    const bool is_sent = is_message(task);
    if (!has_started(record) || (task.kind != TaskKind::compute && !is_sent)) continue;
    const Interval time = busy(record, run_interval);
    if (time.end <= time.begin) continue;
    const TaskLabel& label = run_interval.graph.labels[i];
    const int peer = is_sent ? task.destination : no_index;
    recorded_spans_.push_back(
        {task.host, is_sent, {time.begin, time.end, kind_of(label.activity), 1, label.micro_batch, peer}});
  }
}

Timeline TimelineRecorder::timeline() const {
  std::vector<TimelineRow> rows;  // one per track of every device, possibly empty
  for (int i = 0; i < devices_ * tracks_per_device; ++i)
    rows.push_back({i / tracks_per_device, static_cast<Track>(i % tracks_per_device), {}});
  const auto add = [&](int device, Track track, const TimelineSpan& span) {
    rows[at(device * tracks_per_device + static_cast<int>(track))].spans.push_back(span);
  };
  for (const RecordedSpan& it : recorded_spans_) {
    add(it.device, it.is_sent ? Track::send : Track::compute, it.span);
    if (!it.is_sent) continue;
    TimelineSpan received = it.span;
    received.peer = it.device;
    add(it.span.peer, Track::receive, received);
  }
  return make_timeline(title_, {start_s_, end_s_}, length_s_, std::move(rows));
}

Timeline merged(Timeline timeline, long long max_span_count) {
  if (timeline.tasks <= max_span_count) return timeline;
  constexpr double min_share = 1.0 / 65536, pixel = 1.0 / 2048;  // of the width of the timeline
  const double length = timeline.end_s - timeline.start_s;
  double share = min_share;
  bool merge_kinds = false;
  while (share < 2 && count(timeline, share * length, merge_kinds) > max_span_count) {
    share *= 2;
    if (!merge_kinds && share > pixel) {
      merge_kinds = true;
      share = min_share;
    }
  }
  timeline.merged_below_s = share * length;
  timeline.merges_kinds = merge_kinds;
  for (TimelineRow& row : timeline.rows) {
    std::vector<TimelineSpan> spans;
    for_each_merged(row, timeline.merged_below_s, merge_kinds,
                    [&](const TimelineSpan& it) { spans.push_back(it); });
    row.spans = std::move(spans);
  }
  return timeline;
}

}  // namespace dtfm::sim
