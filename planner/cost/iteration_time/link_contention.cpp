#include "planner/cost/iteration_time/link_contention.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index.hpp"

namespace dtfm::cost {

LinkContention::LinkContention(Schedule schedule, const NetworkCost& network)
    : schedule_(schedule),
      has_phases_(traits(schedule).forwards_first),
      network_(network),
      forward_bytes_(at(network.shared_count())),
      backward_bytes_(forward_bytes_) {}

std::size_t LinkContention::boundary(const LinkDemand& demand) const {
  return at(2 * demand.hop + (demand.is_forward ? 0 : 1)) * forward_bytes_.size() + at(demand.capacity);
}

void LinkContention::add_up(std::span<const PipelineCost* const> costs) {
  for (const int capacity : used_) forward_bytes_[at(capacity)] = backward_bytes_[at(capacity)] = 0;
  used_.clear();
  for (const std::size_t i : used_boundaries_) boundary_bytes_[i] = 0;
  used_boundaries_.clear();
  for (const PipelineCost* cost : costs) {
    const int micro_batches = cost->work.micro_batches;
    if (micro_batches == 0) continue;
    for (const LinkDemand& it : cost->link_demands) {
      if (all_bytes(it.capacity) == 0) used_.push_back(it.capacity);
      (it.is_forward ? forward_bytes_ : backward_bytes_)[at(it.capacity)] += micro_batches * it.bytes;
      if (!has_phases_) continue;
      const std::size_t i = boundary(it);
      if (boundary_bytes_.size() <= i) boundary_bytes_.resize(i + forward_bytes_.size());
      if (boundary_bytes_[i] == 0) used_boundaries_.push_back(i);
      boundary_bytes_[i] += it.bytes;
    }
  }
}

void LinkContention::count_equal(std::span<const PipelineCost* const> costs) {
  equal_.assign(costs.size(), 1);
  if (has_phases_) return;  // not needed
  std::vector<std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const std::vector<std::size_t>& it) {
      const PipelineCost& other = *costs[it.front()];
      return other.link_demands == costs[i]->link_demands && other.work == costs[i]->work;
    });
    if (same == classes.end())
      classes.push_back({i});
    else
      same->push_back(i);
  }
  for (const std::vector<std::size_t>& members : classes)
    for (const std::size_t i : members) equal_[i] = static_cast<int>(members.size());
}

double LinkContention::all_bytes(int capacity) const {
  return forward_bytes_[at(capacity)] + backward_bytes_[at(capacity)];
}

/// Seconds of a message on this link. `equal`: number of equal pipelines, including this one.
double LinkContention::message_s(const PipelineCost& cost, int equal, const LinkDemand& demand) const {
  const double s_per_byte = network_.shared_seconds_per_byte(demand.capacity);
  if (has_phases_) return demand.overhead_s + boundary_bytes_[boundary(demand)] * s_per_byte;
  const int micro_batches = cost.work.micro_batches;
  const double others_s =
      std::max(0.0, all_bytes(demand.capacity) - equal * micro_batches * demand.pipeline_bytes) * s_per_byte;
  const double synchronized_s = equal * demand.bytes * s_per_byte;
  const double free_share = std::max(1e-9, 1 - others_s / cost.time.end_s);
  return demand.overhead_s + std::min(synchronized_s / free_share, synchronized_s + others_s / micro_batches);
}

void LinkContention::set_contended_work(const PipelineCost& cost, int equal, PipelineWork& work) const {
  work = cost.work;
  std::vector<int> links;  // numbered in the order of the hops, so that equal pipelines have equal works
  for (const LinkDemand& it : cost.link_demands) {
    HopTime& hop = (it.is_forward ? work.forward_hops : work.backward_hops)[at(it.hop)];
    const double seconds = message_s(cost, equal, it);
    hop.occupancy_s = std::max(hop.occupancy_s, seconds);
    if (has_phases_ || !it.is_crossed_repeatedly) continue;
    const auto number = std::find(links.begin(), links.end(), it.capacity) - links.begin();
    if (static_cast<std::size_t>(number) == links.size()) links.push_back(it.capacity);
    hop.links.push_back({static_cast<int>(number), seconds});
  }
}

void LinkContention::delay_by_busy_links(const PipelineCost& cost, PipelineTime& time) const {
  const int flushes = flush_count(cost.work.flush, cost.work.micro_batches);
  double forward_s = time.forwards_s, rest_s = time.end_s - time.forwards_s, steady_s = 0;
  for (const LinkDemand& it : cost.link_demands) {
    const double bytes = !has_phases_    ? all_bytes(it.capacity)
                         : it.is_forward ? forward_bytes_[at(it.capacity)]
                                         : backward_bytes_[at(it.capacity)];
    const double busy_s = bytes * network_.shared_seconds_per_byte(it.capacity);
    double& phase_s = has_phases_ && it.is_forward ? forward_s : rest_s;
    phase_s = std::max(phase_s, flushes * (it.before_s + it.after_s) + busy_s);
    steady_s = std::max(steady_s, busy_s / cost.work.micro_batches);
  }
  const double forward_delay_s = forward_s - time.forwards_s;
  time.delay(forward_s + rest_s - time.end_s);
  time.forwards_s += forward_delay_s;
  time.steady_s = std::max(time.steady_s, steady_s);
}

const std::vector<const PipelineTime*>& LinkContention::times(std::span<const PipelineCost* const> costs) {
  times_.clear();
  if (forward_bytes_.empty()) {
    for (const PipelineCost* cost : costs) times_.push_back(&cost->time);
    return times_;
  }
  add_up(costs);
  count_equal(costs);
  contended_.resize(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const PipelineCost& cost = *costs[i];
    times_.push_back(&cost.time);
    if (cost.link_demands.empty() || cost.work.micro_batches == 0) continue;
    Contended& it = contended_[i];
    set_contended_work(cost, equal_[i], work_);
    if (work_ != it.work) {
      if (work_ == cost.work)
        it.time_of_work = cost.time;
      else if (i > 0 && work_ == contended_[i - 1].work)
        it.time_of_work = contended_[i - 1].time_of_work;
      else
        it.time_of_work = pipeline_time(schedule_, work_);
      std::swap(it.work, work_);
    }
    it.time = it.time_of_work;
    delay_by_busy_links(cost, it.time);
    times_.back() = &it.time;
  }
  return times_;
}

}  // namespace dtfm::cost
