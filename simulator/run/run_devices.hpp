// The devices of a training run as time passes: which are available, which does the run need, and what do
// they hold?
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/problem.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/observation/device_timeline.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "simulator/run/run_record.hpp"

namespace dtfm::sim {

class RunDevices {
 public:
  /// The arguments must outlive this.
  RunDevices(const Problem& problem, const Scenario& scenario, RunRecord& record)
      : topology_(problem.topology),
        scenario_(scenario),
        record_(record),
        timeline_(scenario, topology_.size()),
        end_(infinity),
        is_needed_(at(topology_.size())),
        has_left_(is_needed_.size()) {}

  double now() const { return now_; }  // s
  double end() const { return end_; }  // s; infinite without a horizon
  void set_end(std::optional<double> seconds) { end_ = seconds ? round_to_tick(*seconds) : infinity; }
  /// Advances the time to `date`, at most to the end, and applies all events up to then.
  void advance(double date) {
    iteration_ends.clear();
    now_ = std::min(date, end_);
    while (const DeviceEvent* event = timeline_.take(now_)) take(*event);
  }
  /// The same at the end of an interval. If it is deadlocked and no failure will abort it, the run stops.
  void advance_past(const ReplayedInterval& replayed, const std::string& reason) {
    const bool is_deadlocked =
        replayed.replay.ended == ReplayEnd::deadlocked && next_failure() > replayed.end;
    advance(replayed.end);
    if (is_deadlocked) stop_for(reason);
  }
  /// Waits until all failures are detected. Further ones may happen meanwhile.
  void wait_for_detection() {
    while (is_failure_undetected() && now_ < end_) advance(detected_at_);
  }
  /// The run cannot go on: nothing happens until its end.
  void stop_for(const std::string& reason) {
    record_.report.deadlocked = true;
    record_.report.stopped = fmt::format("after {} iteration{}, at {:.6g} s: {}", record_.completed(),
                                         record_.completed() == 1 ? "" : "s", now_, reason);
    if (end_ < infinity) now_ = end_;
  }

  const DeviceTimeline& timeline() const { return timeline_; }
  const std::vector<bool>& available() const { return timeline_.available(); }

  /// The current activity needs these devices and no others: the failure of one aborts it.
  void need(std::vector<bool> devices) { is_needed_ = std::move(devices); }
  void need_also(int device) { is_needed_[at(device)] = true; }
  void need_only_available() {
    for (std::size_t i = 0; i < is_needed_.size(); ++i) is_needed_[i] = is_needed_[i] && available()[i];
  }
  /// The time (s) at which the first needed device leaves.
  double next_failure() const {
    double date = infinity;
    for (int device = 0; at(device) < is_needed_.size(); ++device)
      if (is_needed_[at(device)]) date = std::min(date, timeline_.next_failure(device));
    return date;
  }
  /// Whether the run needs `device`, which will leave, as is known at `date` but was not before `since` (s).
  bool has_announced(int device, double since, double date) const {
    const double known_from = timeline_.next_warning(device);
    return is_needed_[at(device)] && since <= known_from && known_from <= date;
  }
  /// The same for any device.
  bool is_leave_announced(double since, double date) const {
    for (int device = 0; at(device) < is_needed_.size(); ++device)
      if (has_announced(device, since, date)) return true;
    return false;
  }
  /// The current activity is aborted then: by a failure, or the end of the run.
  double needed_until() const { return std::min(next_failure(), end_); }
  bool is_aborted_by_failure(const ReplayedInterval& replayed) const {
    return replayed.ended == ReplayEnd::aborted && next_failure() <= replayed.end;
  }
  bool is_failure_undetected() const { return detected_at_ > now_; }
  double detected_at() const { return detected_at_; }  // s, of the last failure

  /// From now on `has_left` is about an iteration that starts now.
  void begin_iteration() { has_left_.assign(has_left_.size(), false); }
  bool has_left(int device) const { return has_left_[at(device)]; }

  /// Devices have fetched these shards. Devices without any keep what they hold.
  void hold(std::vector<StageShard> fetched) {
    std::vector<bool> has_fetched(is_needed_.size());
    for (const StageShard& shard : fetched) has_fetched[at(shard.device)] = true;
    for (StageShard& shard : held)
      if (!has_fetched[at(shard.device)]) fetched.push_back(std::move(shard));
    held = std::move(fetched);
  }

  bool needs_decision = true;         // the policy must decide before the next iteration
  bool has_changed = false;           // a device has left or joined since the last replanning
  bool is_iteration_aborted = false;  // a needed device has left since the last decision
  std::vector<StageShard> held;       // the weights of the last completed iteration
  /// When each device completed the last iteration; empty with a barrier, and if time has passed since.
  std::vector<DeviceEnd> iteration_ends;

 private:
  void take(const DeviceEvent& event) {
    const std::string& id = topology_.devices[at(event.device)].id;
    if (event.kind == DeviceEvent::Kind::speed) {
      record_.note(event.date, fmt::format("{} computes at {:.4g} of its speed", id, event.speed));
      if (scenario_.exclude_slower_than > 0) needs_decision = true;
      return;
    }
    needs_decision = has_changed = true;
    std::erase_if(held, [&](const StageShard& shard) { return shard.device == event.device; });
    if (event.kind == DeviceEvent::Kind::join) return record_.note(event.date, fmt::format("{} joins", id));
    record_.note(event.date, fmt::format("{} {}", id, event.date > 0 ? "leaves" : "is unavailable"));
    has_left_[at(event.device)] = true;
    if (!is_needed_[at(event.device)]) return;
    is_iteration_aborted = true;
    const double detection_s = event.warning_s > 0 ? 0 : scenario_.detection_s;
    detected_at_ = std::max(detected_at_, round_to_tick(event.date + detection_s));
  }

  const Topology& topology_;
  const Scenario& scenario_;
  RunRecord& record_;
  DeviceTimeline timeline_;
  double now_ = 0, end_, detected_at_ = 0;
  std::vector<bool> is_needed_, has_left_;  // [device]
};

}  // namespace dtfm::sim
