// What the messages of pipelines that are alike cost each other: they are sent at the same moments.
#include <algorithm>
#include <cmath>

#include "planner/core/index.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Under gpipe the first backward comes after all forwards.
void IterationTimer::refresh_departures(Lane& lane) const {
  const PipelineWork& work = lane.work;
  const std::size_t stages = lane.layers.size();
  lane.first_sent_s.assign(2 * (stages - 1), 0);
  double now = 0, most = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    now += work.forward_s[i];
    most = std::max(most, work.forward_s[i]);
    if (i + 1 == stages) break;
    const HopTime& hop = work.forward_hops[i];
    lane.first_sent_s[2 * i] = now;
    now += hop.occupancy_s + hop.latency_s;
    most = std::max(most, hop.occupancy_s);
  }
  const int drained = drained_at_once(work.flush, work.micro_batches);
  if (model_.schedule == PipelineSchedule::gpipe) now += (drained - 1) * most;
  for (std::size_t i = stages - 1; i > 0; --i) {
    const HopTime& hop = work.backward_hops[i - 1];
    now += work.backward_s[i];
    lane.first_sent_s[2 * i - 1] = now;
    now += hop.occupancy_s + hop.latency_s;
  }
  lane.pace_s = busiest_s(work) * drained;  // links are not shared yet
}

void IterationTimer::meet_in_step() {
  std::size_t boundaries = 0;
  for (const Lane& lane : lanes_) boundaries = std::max(boundaries, lane.layers.size() - 1);
  for (std::size_t i = 0; i < boundaries; ++i)
    for (const bool forward : {true, false}) meet_in_step(i, forward);
}

/// Of two messages over a link that begin d apart and take x there alone, a part 1 − d ÷ x is there at the
/// same time. Under gpipe it is the first message that counts. Under other schedules messages keep coming,
/// and pipelines of which one is a little faster do not stay in step: only those that are alike do.
void IterationTimer::meet_in_step(std::size_t boundary, bool forward) {
  const std::size_t way = 2 * boundary + (forward ? 0 : 1);
  departures_.clear();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (way >= lane.meetings.size() || lane.work.micro_batches == 0) continue;
    for (std::size_t k = 0; k < lane.meetings[way].size(); ++k) {
      Meeting& it = lane.meetings[way][k];
      it.in_step = it.in_step_company = 0;
      const double takes = it.own * model_.network.shared_seconds_per_byte(it.id) / lane.work.micro_batches;
      departures_.push_back(
          {it.id, lane.first_sent_s[way], takes, lane.pace_s, lane.work.micro_batches, i, k});
    }
  }
  std::sort(departures_.begin(), departures_.end());
  constexpr double rounding = 1e-9;
  const bool phases = model_.schedule == PipelineSchedule::gpipe;
  const auto meet = [&](const Departure& own, const Departure& other) {  // false: from here on no more
    const double apart = std::abs(own.sent_s - other.sent_s), window = own.takes_s * (phases ? 1 : rounding);
    if (own.id != other.id || apart >= window) return false;
    const bool are_alike = std::abs(own.pace_s - other.pace_s) < window && own.messages == other.messages;
    if (!phases && !are_alike) return true;
    const double share = phases ? 1 - apart / own.takes_s : 1;
    Meeting& it = lanes_[own.lane].meetings[way][own.meeting];
    it.in_step += it.own * share * other.takes_s / own.takes_s;
    it.in_step_company += lanes_[other.lane].meetings[way][other.meeting].company * share;
    return true;
  };
  for (auto own = departures_.begin(); own != departures_.end(); ++own) {
    for (auto it = own + 1; it != departures_.end() && meet(*own, *it);) ++it;
    for (auto it = own; it != departures_.begin() && meet(*own, *(it - 1));) --it;
  }
  for (Lane& lane : lanes_) {
    if (way >= lane.meetings.size() || lane.work.micro_batches == 0) continue;
    HopTime& hop = (forward ? lane.work.forward_hops : lane.work.backward_hops)[boundary];
    double slowest = 0;
    for (const Meeting& it : lane.meetings[way])
      if (it.in_step > 0)
        slowest = std::max(slowest, hop.overhead_s + model_.network.shared_seconds_per_byte(it.id) *
                                                         (it.own + it.in_step) / lane.work.micro_batches);
    if (slowest <= hop.occupancy_s) slowest = 0;
    if (hop.in_step_s != slowest) lane.is_timed = false;
    hop.in_step_s = slowest;
  }
}

}  // namespace dtfm::cost
