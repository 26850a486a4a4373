// What every device does in one iteration of a run, for the picture of it.
#pragma once

#include <string>
#include <vector>

#include "simulator/run/observer.hpp"

namespace dtfm {

/// What fills a span, as a letter.
enum class SpanKind : char {
  forward = 'F',
  backward = 'B',
  update = 'U',
  compress = 'C',
  activations = 'A',  // sent to the next stage
  gradients = 'G',    // of activations, sent to the stage before
  all_reduce = 'R',   // between the devices of a stage
  exchange = 'X',     // of the gradients of parameters
  fetch = 'W',        // of weights, in a recovery
  overhead = 'O',
  several = 'S',  // put together from unlike ones
};

struct TimelineSpan {
  double start = 0, end = 0;  // s since the start of the run
  SpanKind kind = SpanKind::several;
  int tasks = 1;               // put together
  int micro_batch = no_index;  // of one task
  int peer = no_index;         // of one message: the device at its other end
  double length() const { return end - start; }
};

/// What a device computes, sends or receives, by start. Messages may overlap each other.
struct TimelineRow {
  enum class Lane { compute, send, receive };
  int device = 0;
  Lane lane = Lane::compute;
  std::vector<TimelineSpan> spans;
};

struct Timeline {
  std::string title;              // "iteration 2"
  double start_s = 0, end_s = 0;  // since the start of the run
  long long tasks = 0;            // spans before any were put together
  double merged_below_s = 0;      // neighbours shorter and nearer than this may be one span; 0: none are
  bool merges_unlike = false;     // and even those of two kinds
  std::vector<TimelineRow> rows;  // that hold something, by device and lane
};

/// Keeps the last whole iteration of a run; where there is none, the last stretch of it.
class TimelineRecorder : public RunObserver {
 public:
  explicit TimelineRecorder(int devices) : devices_(devices) {}
  void see(const Stretch& stretch) override;
  /// Without rows if there was no stretch.
  const Timeline& timeline() const { return timeline_; }

 private:
  int devices_;
  bool has_iteration_ = false;
  Timeline timeline_;
};

/// The same with at most `most` spans, or one a row where there are more rows: neighbours in a row that are
/// short and near each other become one. As far as a screen cannot show them apart anyway, only those of one
/// kind; where that is not enough, any.
Timeline merged(Timeline timeline, long long most);

}  // namespace dtfm
