// What every device does in one iteration of a run, for the picture of it.
#pragma once

#include <string>
#include <vector>

#include "simulator/observation/observer.hpp"

namespace dtfm::cli {

/// What fills a span, as a letter.
enum class SpanKind : char {
  forward = 'F',
  backward = 'B',
  update = 'U',
  compress = 'C',
  activations = 'A',  // sent to the next stage
  gradients = 'G',    // of activations, sent to the stage before
  all_reduce = 'R',   // between the devices of a stage
  gradient_sync = 'X',     // of the gradients of parameters
  fetch = 'W',        // of weights, in a recovery or to a checkpoint
  overhead = 'O',
  mixed = 'S',  // put together from unlike ones
};

struct TimelineSpan {
  double start = 0, end = 0;  // s since the start of the run
  SpanKind kind = SpanKind::mixed;
  int tasks = 1;               // put together
  int micro_batch = no_index;  // of one task
  int peer = no_index;         // of one message: the device at its other end
  double length() const { return end - start; }
};

/// What a device computes, sends or receives, by start. Messages may overlap each other.
struct TimelineRow {
  enum class Track { compute, send, receive };
  int device = 0;
  Track track = Track::compute;
  std::vector<TimelineSpan> spans;
};

struct Timeline {
  std::string title;              // "iteration 2"
  double start_s = 0, end_s = 0;  // since the start of the run
  long long tasks = 0;            // spans before any were put together
  double merged_below_s = 0;      // neighbours shorter and nearer than this may be one span; 0: none are
  bool merges_kinds = false;     // and even those of two kinds
  std::vector<TimelineRow> rows;  // that hold something, by device and lane
};

/// Keeps the last whole iteration of a run; where there is none, the last stretch of it. Of each stretch,
/// only the dates of its tasks are noted, over those of the one before: rows are made of the last one alone.
class TimelineRecorder : public sim::RunObserver {
 public:
  explicit TimelineRecorder(int devices) : devices_(devices) {}
  void on_interval(const sim::RunInterval& run_interval) override;
  /// Without rows if there was no stretch.
  Timeline timeline() const;

 private:
  /// A computation of `device`, or a message from it to the span's peer.
  struct RecordedSpan {
    int device = 0;
    bool is_sent = false;
    TimelineSpan span;
  };

  int devices_;
  bool has_iteration_ = false;
  std::string title_;
  double start_s_ = 0, end_s_ = 0;
  std::vector<RecordedSpan> recorded_spans_;
};

/// The same with at most `most` spans, or one a row where there are more rows: neighbours in a row that are
/// short and near each other become one. As far as a screen cannot show them apart anyway, only those of one
/// kind; where that is not enough, any.
Timeline merged(Timeline timeline, long long max_span_count);

}  // namespace dtfm::cli
