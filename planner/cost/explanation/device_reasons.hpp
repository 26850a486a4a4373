// Why stages have few layers, and why devices are not used.
#pragma once

#include <string>
#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// How a stage would change the iteration with one layer more, taken from a neighbour, and without it, its
/// layers given to a neighbour. Both apply to all pipelines with the same layers, and are the better of both
/// neighbours; warm-ups are chosen again.
struct StageReason {
  enum class Limit : unsigned char {
    busiest,   // no stage of the pipeline computes for longer
    memory,    // one more layer does not fit
    compute,   // with one more layer it would be the busiest stage, and the iteration longer
    messages,  // one more layer would not make the iteration shorter, although others compute for longer
    none,      // one more layer would make the iteration shorter
    unknown    // not evaluated: a single stage, or stages of several chunks
  };
  int pipeline = -1, stage = -1;
  int layers = 0;
  double busy_share = 0;  // of the iteration, computing
  double host_wait_s =
      0;  // part of that in which passes wait for offloaded activations to cross the host link
  Limit limit = Limit::unknown;
  double deficit_bytes = 0;  // with one more layer, if that does not fit
  double more_s = 0;         // iteration with one more layer, if that fits; 0 if unknown
  double without_s = 0;      // iteration without the stage, if that fits; 0 if it does not or is unknown
  /// Without it, the iteration would be longer, although no stage would compute for longer than now: under
  /// 1F1B, a round trip for which other stages wait would contain the computations of a stage with more
  /// layers.
  bool shortens_round_trip = false;
};

/// Unused devices of one site with one GPU and speed.
struct IdleReason {
  std::vector<int> devices;
  std::string unknown;       // why their times are unknown; empty if they are known
  double deficit_bytes = 0;  // of one layer at the best position, if it fits nowhere
  double with_s =
      0;  // iteration with one more stage of one layer on them, at the best position; 0: no estimate
};

struct DeviceReasons {
  std::vector<StageReason> stages;  // of the slowest pipeline, in its order
  std::vector<IdleReason> idle;
};

/// Throws WorkStopped.
DeviceReasons device_reasons(const IterationModel& model, const Plan& plan, const StopFunction& stop);

}  // namespace dtfm::cost
