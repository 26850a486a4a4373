// Contention between uniform pipelines, which send their messages at the same times.
#include <algorithm>
#include <cmath>

#include "planner/core/index.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Under gpipe, the first backward follows all forwards.
void IterationTimer::refresh_first_messages(PipelineState& pipeline_state) const {
  const PipelineWork& work = pipeline_state.work;
  const std::size_t stages = pipeline_state.layers.size();
  pipeline_state.first_sent_s.assign(2 * (stages - 1), 0);
  double now = 0, most = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    now += work.forward_s[i];
    most = std::max(most, work.forward_s[i]);
    if (i + 1 == stages) break;
    const HopTime& hop = work.forward_hops[i];
    pipeline_state.first_sent_s[2 * i] = now;
    now += hop.occupancy_s + hop.latency_s;
    most = std::max(most, hop.occupancy_s);
  }
  const int per_flush = micro_batches_per_flush(work.flush, work.micro_batches);
  if (traits(model_.schedule).forwards_first) now += (per_flush - 1) * most;
  for (std::size_t i = stages - 1; i > 0; --i) {
    const HopTime& hop = work.backward_hops[i - 1];
    now += work.backward_s[i];
    pipeline_state.first_sent_s[2 * i - 1] = now;
    now += hop.occupancy_s + hop.latency_s;
  }
  pipeline_state.pace_s = busiest_s(work) * per_flush;  // without contention, which is determined later
}

void IterationTimer::apply_synchronized_contention() {
  std::size_t boundaries = 0;
  for (const PipelineState& pipeline_state : pipeline_states_)
    boundaries = std::max(boundaries, pipeline_state.layers.size() - 1);
  for (std::size_t i = 0; i < boundaries; ++i)
    for (const bool forward : {true, false}) apply_synchronized_contention(i, forward);
}

/// If two messages start d apart on a link and each takes x alone, they overlap for a share 1 − d / x. Under
/// gpipe the first message counts. Under other schedules messages follow continuously, and pipelines of even
/// slightly different speed do not stay synchronized, so only equal pipelines count.
void IterationTimer::apply_synchronized_contention(std::size_t boundary, bool forward) {
  const std::size_t direction = 2 * boundary + (forward ? 0 : 1);
  first_messages_.clear();
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i) {
    PipelineState& pipeline_state = pipeline_states_[i];
    if (direction >= pipeline_state.contentions.size() || pipeline_state.work.micro_batches == 0) continue;
    for (std::size_t k = 0; k < pipeline_state.contentions[direction].size(); ++k) {
      LinkContention& it = pipeline_state.contentions[direction][k];
      it.synchronized_bytes = it.synchronized_pipeline_bytes = 0;
      const double takes =
          it.own * model_.network.shared_seconds_per_byte(it.id) / pipeline_state.work.micro_batches;
      first_messages_.push_back({it.id, pipeline_state.first_sent_s[direction], takes, pipeline_state.pace_s,
                                 pipeline_state.work.micro_batches, i, k});
    }
  }
  std::sort(first_messages_.begin(), first_messages_.end());
  constexpr double rounding = 1e-9;
  const bool phases = traits(model_.schedule).forwards_first;
  const auto add_overlap = [&](const FirstMessage& own,
                               const FirstMessage& other) {  // false: no later message overlaps either
    const double offset_s = std::abs(own.sent_s - other.sent_s),
                 window = own.duration_s * (phases ? 1 : rounding);
    if (own.id != other.id || offset_s >= window) return false;
    const bool are_equal = std::abs(own.pace_s - other.pace_s) < window && own.messages == other.messages;
    if (!phases && !are_equal) return true;
    const double share = phases ? 1 - offset_s / own.duration_s : 1;
    LinkContention& it = pipeline_states_[own.pipeline_state].contentions[direction][own.contention];
    it.synchronized_bytes += it.own * share * other.duration_s / own.duration_s;
    it.synchronized_pipeline_bytes +=
        pipeline_states_[other.pipeline_state].contentions[direction][other.contention].own_pipeline_bytes *
        share;
    return true;
  };
  for (auto own = first_messages_.begin(); own != first_messages_.end(); ++own) {
    for (auto it = own + 1; it != first_messages_.end() && add_overlap(*own, *it);) ++it;
    for (auto it = own; it != first_messages_.begin() && add_overlap(*own, *(it - 1));) --it;
  }
  for (PipelineState& pipeline_state : pipeline_states_) {
    if (direction >= pipeline_state.contentions.size() || pipeline_state.work.micro_batches == 0) continue;
    HopTime& hop = (forward ? pipeline_state.work.forward_hops : pipeline_state.work.backward_hops)[boundary];
    double slowest = 0;
    for (const LinkContention& it : pipeline_state.contentions[direction])
      if (it.synchronized_bytes > 0)
        slowest = std::max(slowest, hop.overhead_s + model_.network.shared_seconds_per_byte(it.id) *
                                                         (it.own + it.synchronized_bytes) /
                                                         pipeline_state.work.micro_batches);
    if (slowest <= hop.occupancy_s) slowest = 0;
    if (hop.synchronized_occupancy_s != slowest) pipeline_state.is_timed = false;
    hop.synchronized_occupancy_s = slowest;
  }
}

}  // namespace dtfm::cost
