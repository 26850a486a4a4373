// What devices that leave and join cost a plan, by a closed estimate.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::search {

struct ChurnCheckpoint {
  double bandwidth_bytes_s = 0;    // of each device; 0: unlimited
  std::optional<double> period_s;  // empty: Young and Daly's; 0: after every iteration, at no cost
};

/// When devices are available during a run, and how the run continues without them.
struct Churn {
  struct Change {
    double date_s = 0;
    int device = 0;
    bool joins = false;         // otherwise it leaves
    bool is_announced = false;  // so that nobody has to detect that it leaves
  };
  double horizon_s = 1;         // of the run, positive
  std::vector<Change> changes;  // in order of time; all devices are available before
  double detection_s = 0;
  std::optional<ChurnCheckpoint> checkpoint;
  std::vector<bool> is_spare;      // [device]; those that may replace others; empty: none
  bool waits_for_all = false;      // otherwise pipelines without missing devices go on
  bool resumes_iteration = false;  // a departure loses only the work of the pipeline
  bool loads_checkpoint = false;   // after every departure
  bool computes_copies = false;    // the next stage computes that of a missing device, too
  bool replans = false;            // for the devices that are left
};

/// How long an iteration takes in the mean over a run, per scenario: t seconds without churn become
/// t / (work − lost · t).
struct ChurnSlowdown {
  struct Share {
    double work = 1;  // of the run, in iterations of the whole plan
    double lost = 0;  // 1/s: iterations that are aborted per second
  };
  std::vector<Share> scenarios;  // empty: no churn

  /// The mean over the scenarios. If a run completes next to nothing, the result is large but finite.
  double of(double iteration_s) const;
};

/// The estimate, for every time between two changes: the running pipelines take over the micro-batches of the
/// others, so that each part of the iteration but its warm-up and cool-down takes longer in proportion. A
/// departure loses half an iteration and, while others run, the detection time. A pipeline that is complete
/// again waits for the end of an iteration. Then, or when a spare replaces a device, all wait while the
/// device fetches weights and optimizer state of its stage from the nearest device that has its layers. When
/// state is lost, because all pipelines lack devices, because of the policy, or because nobody has the shards
/// of an optimizer, all devices load the last checkpoint, and half a period is lost; without a checkpoint the
/// run ends. Checkpoints take the time to write them.
class ChurnLoss {
 public:
  /// `problem` need only live during the call.
  ChurnLoss(const Problem& problem, std::vector<Churn> scenarios);

  ChurnSlowdown of(const Plan& plan) const;
  /// Whether the device leaves or joins in any scenario. Others are interchangeable.
  bool is_affected(int device) const { return is_affected_[static_cast<std::size_t>(device)]; }

 private:
  friend class ChurnRun;
  double state_bytes(std::pair<int, int> layers) const;

  Shared<Topology> topology_;
  std::vector<Churn> scenarios_;
  std::vector<bool> is_affected_;     // [device]
  std::vector<double> bytes_before_;  // [layer]: weights and optimizer state of the layers before
};

}  // namespace dtfm::search
