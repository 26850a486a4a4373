// Tests the timeline of a report for an iteration derived by hand, and its merging.
#include <map>

#include "simulator/report/timeline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Track = TimelineRow::Track;

const TimelineRow& row_of(const Timeline& timeline, int device, Track track) {
  for (const TimelineRow& row : timeline.rows)
    if (row.device == device && row.track == track) return row;
  throw std::runtime_error("no such row");
}

std::string kinds_of(const TimelineRow& row) {
  std::string kinds;
  for (const TimelineSpan& span : row.spans) kinds += static_cast<char>(span.kind);
  return kinds;
}

Timeline recorded() {
  const TwoStages run;
  TimelineRecorder recorder(2);
  recorder.on_interval(run.iteration());
  return recorder.timeline();
}

/// Returns one device with `count` computations that alternate between `kinds`, each of 1 s followed by a gap
/// of 1 s.
Timeline alternating(int count, const std::string& kinds) {
  Timeline timeline{"iteration 0", 0, 0, 0, 0, 0, false, {{0, Track::compute, {}}}};
  for (int i = 0; i < count; ++i) {
    for (const char kind : kinds) {
      timeline.rows[0].spans.push_back(
          {timeline.end_s, timeline.end_s + 1, static_cast<SpanKind>(kind), 1, i});
      timeline.end_s += 2;
      ++timeline.tasks;
    }
  }
  return timeline;
}

long long spans_of(const Timeline& timeline) {
  long long count = 0;
  for (const TimelineRow& row : timeline.rows) count += static_cast<long long>(row.spans.size());
  return count;
}

}  // namespace

TEST_CASE("a device has separate rows for computing and sending and receiving") {
  const Timeline timeline = recorded();
  CHECK(timeline.title == "iteration 0");
  CHECK(timeline.end_s == 12.5);
  // 8 computations on one row each, 4 messages on two each; the delay at the end belongs to no device.
  CHECK(timeline.tasks == 16);
  REQUIRE(timeline.rows.size() == 6);
  CHECK(kinds_of(row_of(timeline, 0, Track::compute)) == "FFBB");
  CHECK(kinds_of(row_of(timeline, 1, Track::compute)) == "FFBB");
  CHECK(kinds_of(row_of(timeline, 0, Track::send)) == "AA");
  CHECK(kinds_of(row_of(timeline, 1, Track::receive)) == "AA");
  CHECK(kinds_of(row_of(timeline, 1, Track::send)) == "GG");
  CHECK(kinds_of(row_of(timeline, 0, Track::receive)) == "GG");
}

TEST_CASE("a span has its time and micro-batch and the other end of a message") {
  const Timeline timeline = recorded();
  const TimelineSpan& sent = row_of(timeline, 0, Track::send).spans.at(1);  // A1 in the drawing: 2.5 to 4
  CHECK(sent.start == 2.5);
  CHECK(sent.end == 4);
  CHECK(sent.micro_batch == 1);
  CHECK(sent.peer == 1);
  CHECK(row_of(timeline, 1, Track::receive).spans.at(1).peer == 0);
  CHECK(row_of(timeline, 1, Track::compute).spans.at(0).peer == no_index);
}

TEST_CASE("the last complete iteration is kept whatever follows it") {
  const TwoStages whole;
  TwoStages lost;
  lost.abort_at(3);
  TimelineRecorder recorder(2);
  recorder.on_interval({RunInterval::Kind::lost_iteration, 0, 0, 3, lost.labelled, lost.result});
  CHECK(recorder.timeline().title == "iteration 0, which was lost");
  // F0 of a/0 and of b/0, F1 of a/0; A0 and A1, on two rows each.
  CHECK(recorder.timeline().tasks == 7);
  recorder.on_interval({RunInterval::Kind::iteration, 4, 0, 12.5, whole.labelled, whole.result});
  recorder.on_interval({RunInterval::Kind::lost_iteration, 5, 0, 3, lost.labelled, lost.result});
  CHECK(recorder.timeline().title == "iteration 4");
}

TEST_CASE("the timeline of an iteration contains nothing of the previous one") {
  const TwoStages whole;
  TwoStages started;
  started.abort_at(1);
  TimelineRecorder recorder(2);
  recorder.on_interval(whole.iteration());
  recorder.on_interval({RunInterval::Kind::iteration, 1, 0, 1, started.labelled, started.result});
  const Timeline timeline = recorder.timeline();
  CHECK(timeline.title == "iteration 1");
  CHECK(timeline.end_s == 1);
  // F0 of a/0, from 0 to 1; what starts at 1 has no length.
  CHECK(timeline.tasks == 1);
  REQUIRE(timeline.rows.size() == 1);
  CHECK(kinds_of(timeline.rows[0]) == "F");
}

TEST_CASE("few spans are not merged") {
  const Timeline timeline = merged(alternating(4, "FB"), 8);
  CHECK(timeline.merged_below_s == 0);
  CHECK(spans_of(timeline) == 8);
}

TEST_CASE("neighbours of equal kind are merged first and their tasks are counted") {
  Timeline timeline = alternating(5000, "F");
  const Timeline backwards = alternating(5000, "B");
  for (TimelineSpan span : backwards.rows[0].spans) {
    span.start += timeline.end_s;
    span.end += timeline.end_s;
    timeline.rows[0].spans.push_back(span);
  }
  timeline.tasks = 10'000;
  timeline.end_s *= 2;
  const Timeline few = merged(timeline, 5000);
  CHECK_FALSE(few.merges_kinds);
  CHECK(spans_of(few) <= 5000);
  CHECK(few.merged_below_s > 0);
  std::map<SpanKind, int> tasks;
  for (const TimelineSpan& span : few.rows[0].spans) tasks[span.kind] += span.tasks;
  CHECK(tasks == std::map<SpanKind, int>{{SpanKind::forward, 5000}, {SpanKind::backward, 5000}});
  CHECK(few.rows[0].spans.front().micro_batch == no_index);
}

TEST_CASE("neighbours of different kinds are merged if none are equal") {
  const Timeline few = merged(alternating(5000, "FB"), 100);
  CHECK(few.merges_kinds);
  CHECK(spans_of(few) <= 100);
  int tasks = 0;
  for (const TimelineSpan& span : few.rows[0].spans) tasks += span.tasks;
  CHECK(tasks == 10'000);
  CHECK(few.rows[0].spans.front().kind == SpanKind::mixed);
}

TEST_CASE("a row with content keeps at least one span") {
  Timeline timeline = recorded();
  const Timeline few = merged(timeline, 1);
  for (const TimelineRow& row : few.rows) CHECK(row.spans.size() == 1);
  CHECK(few.rows.size() == 6);
}
