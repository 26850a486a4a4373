// Records what every device does in one iteration of a run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/intervals.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// Kind of a span, by its letter in documents.
enum class SpanKind : char {
  forward = 'F',
  backward = 'B',
  weight_gradient = 'D',
  update = 'U',
  compress = 'C',
  activations = 'A',  // sent to the next stage
  gradients = 'G',    // of activations, sent to the previous stage
  exchange = 'R',     // between the devices of a stage
  gradient_sync = 'X',
  fetch = 'W',  // transfer of weights, in a recovery or to a checkpoint
  overhead = 'O',
  mixed = 'S',  // merged from spans of several kinds
};

/// "forward"
std::string_view name_of(SpanKind kind);
/// All kinds, in the order in which pages list them.
std::span<const SpanKind> span_kinds();
SpanKind kind_of(Activity activity);

struct TimelineSpan {
  double start = 0, end = 0;  // s since the start of the run
  SpanKind kind = SpanKind::mixed;
  int tasks = 1;               // number of merged tasks
  int micro_batch = no_index;  // of a single task
  int peer = no_index;         // of a single message: the device at its other end
  double length() const { return end - start; }
};

/// What a device computes, sends or receives, ordered by start. Messages may overlap.
struct TimelineRow {
  enum class Track { compute, send, receive };
  int device = 0;
  Track track = Track::compute;
  std::vector<TimelineSpan> spans;
};

struct Timeline {
  std::string title;              // "iteration 2"
  double start_s = 0, end_s = 0;  // since the start of the run
  /// Length of the iteration, without its overlap with the previous one (without a barrier, they overlap).
  double length_s = 0;
  long long tasks = 0;            // number of spans before merging
  double merged_below_s = 0;      // adjacent spans shorter and nearer than this may be merged; 0: none
  bool merges_kinds = false;      // whether spans of different kinds may be merged
  std::vector<TimelineRow> rows;  // non-empty ones, ordered by device and track
};

/// Builds a timeline from rows that may be empty, with spans in any order.
Timeline make_timeline(std::string title, Interval time, double length_s, std::vector<TimelineRow> rows);

/// Keeps the last complete iteration of a run or, if there is none, its last interval. Only the times of
/// tasks are recorded, overwriting those of the previous interval; rows are built once, by timeline().
class TimelineRecorder : public RunObserver {
 public:
  explicit TimelineRecorder(int devices) : devices_(devices) {}
  void on_interval(const RunInterval& run_interval) override;
  /// The recorded timeline; without rows if there was no interval.
  Timeline timeline() const;

 private:
  /// A computation of `device`, or a message from it to span.peer.
  struct RecordedSpan {
    int device = 0;
    bool is_sent = false;
    TimelineSpan span;
  };

  int devices_;
  bool has_iteration_ = false;
  std::string title_;
  double start_s_ = 0, end_s_ = 0, length_s_ = 0;
  std::vector<RecordedSpan> recorded_spans_;
};

/// The timeline reduced to at most `max_span_count` spans, or one per row if there are more rows, by merging
/// short adjacent spans of a row. Below the resolution of a screen only spans of the same kind are merged; if
/// that is not enough, spans of any kind.
Timeline merged(Timeline timeline, long long max_span_count);

}  // namespace dtfm::sim
