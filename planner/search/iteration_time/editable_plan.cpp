#include "planner/search/iteration_time/editable_plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "planner/search/iteration_time/initial_plans.hpp"

namespace dtfm::search {

std::vector<int> interchangeable_classes(const std::vector<std::vector<int>>& groups, const DecidedJob& job,
                                         const PlanScore& score) {
  const auto& devices = job.problem.topology->devices;
  std::map<int, int> host_sizes;
  for (const Device& it : devices) ++host_sizes[it.host];
  using Key = std::tuple<int, std::vector<cost::DeviceClass>, double,
                         std::vector<int>>;  // host or no_index, classes, weight, devices that leave
  std::map<Key, int> numbers;
  std::vector<int> classes;
  for (const std::vector<int>& group : groups) {
    const int host = devices[at(group.front())].host;
    bool is_whole_host = host_sizes[host] == static_cast<int>(group.size());
    std::vector<cost::DeviceClass> of_devices;
    std::vector<int> leaving;
    for (const int device : group) {
      is_whole_host = is_whole_host && devices[at(device)].host == host;
      of_devices.push_back(job.model.class_of(device));
      if (score.is_affected_by_churn(device)) leaving.push_back(device);
    }
    const Key key{is_whole_host ? no_index : host, std::move(of_devices), score.total_weight(group),
                  std::move(leaving)};
    classes.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return classes;
}

EditablePlan::EditablePlan(const PlanCandidate& start, const PlanScore& score)
    : job_(start.job),
      score_(score),
      plan_(start.plan),
      groups_(tensor_groups_for_plan(*start.job, start.plan)),
      slot_of_(groups_.size()),
      weight_(score.total_weight(start.plan)) {
  std::map<int, int> group_of;  // by its first device
  for (std::size_t group = 0; group < groups_.size(); ++group)
    group_of[groups_[group].front()] = static_cast<int>(group);
  for (int p = 0; p < pipelines(); ++p) {
    group_at_.emplace_back();
    for (int s = 0; at(s) < plan_.pipelines[at(p)].stages.size(); ++s) {
      const int group = group_of.at(stage_at({p, s}).devices.front());
      group_at_.back().push_back(group);
      slot_of_[at(group)] = {p, s};
    }
  }
  for (int group = 0; at(group) < groups_.size(); ++group)
    if (!slot_of_[at(group)]) unused_.push_back(group);
  if (!score.migration() && !job().has_mixed_degrees())
    class_of_ = interchangeable_classes(groups_, job(), score);
  const cost::StageCosts& costs = job().model.stages;
  has_heterogeneous_pipelines_ =
      plan_.pipelines.size() <= max_heterogeneous_pipelines && !requires_uniform_pipelines(job()) &&
      std::any_of(groups_.begin(), groups_.end(), [&](const std::vector<int>& group) {
        return job().has_mixed_degrees() ||
               costs.kind_of(group.front()) != costs.kind_of(groups_.front().front());
      });
}

void EditablePlan::undo() {
  for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
}

void EditablePlan::put(int group, Slot slot) {
  group_at_[at(slot.pipeline)][at(slot.stage)] = group;
  slot_of_[at(group)] = slot;
  stage_at(slot).devices = groups_[at(group)];
}

void EditablePlan::exchange(Slot a, Slot b) {
  const int first = group_at(a), second = group_at(b);
  put(second, a);
  put(first, b);
}

void EditablePlan::swap(Slot a, Slot b) {
  if (a == b || are_interchangeable(group_at(a), group_at(b))) return;
  exchange(a, b);
  undo_.push_back([this, a, b] { exchange(a, b); });
}

void EditablePlan::exchange_unused(Slot slot, int number) {
  const int out = group_at(slot), in = std::exchange(unused_[at(number)], out);
  slot_of_[at(out)].reset();
  put(in, slot);
  weight_ += weight_of(in) - weight_of(out);
}

void EditablePlan::replace(Slot slot, int number) {
  const int out = group_at(slot), in = unused_[at(number)];
  // Its price is needed but unknown, or nothing would change.
  if (!std::isfinite(weight_of(in)) || are_interchangeable(in, out)) return;
  exchange_unused(slot, number);
  undo_.push_back([this, slot, number] { exchange_unused(slot, number); });
}

void EditablePlan::place(int group, Slot slot) {
  if (const auto used_at = slot_of_[at(group)]) return swap(slot, *used_at);
  const auto position = std::find(unused_.begin(), unused_.end(), group);
  replace(slot, static_cast<int>(position - unused_.begin()));
}

void EditablePlan::redistribute_host(Slot slot, int other, const std::vector<int>& of_slot,
                                     const std::vector<int>& of_other) {
  const int group = group_at(slot);
  weight_ -= weight_of(group);
  groups_[at(group)] = of_slot;
  weight_ += weight_of(group);
  if (groups_[at(other)].empty()) unused_.push_back(other);
  groups_[at(other)] = of_other;
  if (of_other.empty()) std::erase(unused_, other);
  stage_at(slot).devices = of_slot;
}

void EditablePlan::resize_stage(Slot slot, int other, const std::vector<int>& of_slot,
                                const std::vector<int>& of_other) {
  if (!std::isfinite(score_.total_weight(of_slot))) return;  // a price is needed but unknown
  undo_.push_back([this, slot, other, of_slot = groups_[at(group_at(slot))], of_other = groups_[at(other)]] {
    redistribute_host(slot, other, of_slot, of_other);
  });
  redistribute_host(slot, other, of_slot, of_other);
}

void EditablePlan::halve_stage(Slot slot) {
  const std::vector<int> devices = groups_[at(group_at(slot))];
  const std::size_t half = devices.size() / 2;
  if (devices.size() % 2 != 0 || !job().model.has_degree(half)) return;
  const auto empty = std::find_if(groups_.begin(), groups_.end(), [](const auto& it) { return it.empty(); });
  const int other = static_cast<int>(empty - groups_.begin());
  if (empty == groups_.end()) {
    groups_.emplace_back();
    slot_of_.emplace_back();
  }
  const auto middle = devices.begin() + static_cast<long>(half);
  resize_stage(slot, other, {devices.begin(), middle}, {middle, devices.end()});
}

void EditablePlan::double_stage(Slot slot) {
  std::vector<int> devices = groups_[at(group_at(slot))];
  if (!job().model.has_degree(2 * devices.size())) return;
  const auto& all = job().problem.topology->devices;
  for (const int other : unused_) {
    const std::vector<int>& more = groups_[at(other)];
    if (more.size() != devices.size() || all[at(more.front())].host != all[at(devices.front())].host)
      continue;
    devices.insert(devices.end(), more.begin(), more.end());
    return resize_stage(slot, other, devices, {});
  }
}

void EditablePlan::move_boundary(int pipeline, int from, int to) {
  auto &giver = stage_at({pipeline, from}).layers, &taker = stage_at({pipeline, to}).layers;
  if (from < to) {
    --giver.second;
    --taker.first;
  } else {
    ++giver.first;
    ++taker.second;
  }
}

void EditablePlan::shift_layer(int pipeline, int from, int to) {
  const auto [first, end] = stage_at({pipeline, from}).layers;
  if (end - first <= job().model.chunks) return;
  move_boundary(pipeline, from, to);
  undo_.push_back([this, pipeline, from, to] { move_boundary(pipeline, to, from); });
}

void EditablePlan::shift_micro_batches(int from, int to, int count) {
  int &giver = plan_.pipelines[at(from)].micro_batches, &taker = plan_.pipelines[at(to)].micro_batches;
  if (requires_uniform_pipelines(job()) || from == to || giver < count + batch_step(job(), stages())) return;
  giver -= count;
  taker += count;
  undo_.push_back([&giver, &taker, count] {
    giver += count;
    taker -= count;
  });
}

void EditablePlan::set_flush(std::optional<int> flush) {
  const std::optional<int> before = std::exchange(plan_.execution.flush, flush);
  undo_.push_back([this, before] { plan_.execution.flush = before; });
}

}  // namespace dtfm::search
