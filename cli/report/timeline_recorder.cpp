#include "cli/report/timeline_recorder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "simulator/observation/stretch_times.hpp"

namespace dtfm::cli {
namespace {

constexpr int lanes = 3;

SpanKind kind_of(sim::Activity activity) {
  switch (activity) {
    case sim::Activity::forward:
      return SpanKind::forward;
    case sim::Activity::backward:
      return SpanKind::backward;
    case sim::Activity::update:
      return SpanKind::update;
    case sim::Activity::compress:
      return SpanKind::compress;
    case sim::Activity::send_activations:
      return SpanKind::activations;
    case sim::Activity::send_gradients:
      return SpanKind::gradients;
    case sim::Activity::all_reduce:
      return SpanKind::all_reduce;
    case sim::Activity::exchange:
    case sim::Activity::gather:
      return SpanKind::exchange;
    case sim::Activity::fetch:
    case sim::Activity::save:
      return SpanKind::fetch;
    case sim::Activity::wait:
    case sim::Activity::step:
      break;
  }
  return SpanKind::overhead;
}

std::string title_of(const sim::Stretch& stretch) {
  switch (stretch.kind) {
    case sim::Stretch::Kind::iteration:
      break;
    case sim::Stretch::Kind::lost_iteration:
      return fmt::format("iteration {}, which was lost", stretch.iteration);
    case sim::Stretch::Kind::recovery:
      return fmt::format("recovery before iteration {}", stretch.iteration);
    case sim::Stretch::Kind::checkpoint:
      return fmt::format("checkpoint before iteration {}", stretch.iteration);
    case sim::Stretch::Kind::part:
      return fmt::format("iteration {} up to a departure", stretch.iteration);
  }
  return fmt::format("iteration {}", stretch.iteration);
}

using Lane = TimelineRow::Lane;

/// Whether the reader loses nothing that he could see if `next` becomes a part of `last`.
bool may_join(const TimelineSpan& last, const TimelineSpan& next, double nearer_than, bool unlike) {
  if (!unlike && last.kind != next.kind) return false;
  if (next.start < last.end) return true;  // messages that overlap cannot be told apart
  return next.start - last.end < nearer_than && std::min(last.length(), next.length()) < nearer_than;
}

void join(TimelineSpan& last, const TimelineSpan& next) {
  last.end = std::max(last.end, next.end);
  last.tasks += next.tasks;
  if (last.kind != next.kind) last.kind = SpanKind::several;
  last.micro_batch = last.peer = no_index;
}

/// Calls `keep` for every span of the row after merging.
template <class Keep>
void for_each_merged(const TimelineRow& row, double nearer_than, bool unlike, const Keep& keep) {
  if (row.spans.empty()) return;
  TimelineSpan last = row.spans.front();
  for (std::size_t i = 1; i < row.spans.size(); ++i) {
    if (may_join(last, row.spans[i], nearer_than, unlike)) {
      join(last, row.spans[i]);
    } else {
      keep(last);
      last = row.spans[i];
    }
  }
  keep(last);
}

long long count(const Timeline& timeline, double nearer_than, bool unlike) {
  long long spans = 0;
  for (const TimelineRow& row : timeline.rows)
    for_each_merged(row, nearer_than, unlike, [&](const TimelineSpan&) { ++spans; });
  return spans;
}

}  // namespace

void TimelineRecorder::see(const sim::Stretch& stretch) {
  const bool is_iteration = stretch.kind == sim::Stretch::Kind::iteration;
  if (has_iteration_ && !is_iteration) return;
  has_iteration_ = is_iteration;
  title_ = title_of(stretch);
  start_s_ = stretch.start;
  end_s_ = stretch.end;
  noted_.clear();
  for (std::size_t i = 0; i < stretch.replay.tasks.size(); ++i) {
    const sim::Task& task = stretch.graph.graph.tasks[i];
    const sim::TaskRecord& record = stretch.replay.tasks[i];
    const bool is_sent = sim::is_message(task);
    if (!sim::has_started(record) || (task.kind != sim::TaskKind::compute && !is_sent)) continue;
    const Interval time = sim::busy(record, stretch);
    if (time.end <= time.begin) continue;
    const sim::TaskLabel& label = stretch.graph.labels[i];
    const int peer = is_sent ? task.destination : no_index;
    noted_.push_back(
        {task.host, is_sent, {time.begin, time.end, kind_of(label.activity), 1, label.micro_batch, peer}});
  }
}

Timeline TimelineRecorder::timeline() const {
  std::vector<TimelineRow> rows;  // for each lane of each device, empty or not
  for (int i = 0; i < devices_ * lanes; ++i) rows.push_back({i / lanes, static_cast<Lane>(i % lanes), {}});
  const auto add = [&](int device, Lane lane, const TimelineSpan& span) {
    rows[at(device * lanes + static_cast<int>(lane))].spans.push_back(span);
  };
  for (const Noted& it : noted_) {
    add(it.device, it.is_sent ? Lane::send : Lane::compute, it.span);
    if (!it.is_sent) continue;
    TimelineSpan received = it.span;
    received.peer = it.device;
    add(it.span.peer, Lane::receive, received);
  }
  std::erase_if(rows, [](const TimelineRow& row) { return row.spans.empty(); });
  Timeline timeline{title_, start_s_, end_s_, 0, 0, false, std::move(rows)};
  for (TimelineRow& row : timeline.rows) {
    const auto by_start = [](const TimelineSpan& span) { return std::tie(span.start, span.end); };
    std::stable_sort(row.spans.begin(), row.spans.end(),
                     [&](const TimelineSpan& a, const TimelineSpan& b) { return by_start(a) < by_start(b); });
    timeline.tasks += static_cast<long long>(row.spans.size());
  }
  return timeline;
}

Timeline merged(Timeline timeline, long long most) {
  if (timeline.tasks <= most) return timeline;
  constexpr double finest = 1.0 / 65536, pixel = 1.0 / 2048;  // of the width of the picture
  const double length = timeline.end_s - timeline.start_s;
  double share = finest;
  bool unlike = false;
  while (share < 2 && count(timeline, share * length, unlike) > most) {
    share *= 2;
    if (!unlike && share > pixel) {
      unlike = true;
      share = finest;
    }
  }
  timeline.merged_below_s = share * length;
  timeline.merges_unlike = unlike;
  for (TimelineRow& row : timeline.rows) {
    std::vector<TimelineSpan> spans;
    for_each_merged(row, timeline.merged_below_s, unlike,
                    [&](const TimelineSpan& it) { spans.push_back(it); });
    row.spans = std::move(spans);
  }
  return timeline;
}

}  // namespace dtfm::cli
