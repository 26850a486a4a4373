#include "simulator/report/memory_use.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>

#include "core/base/index.hpp"
#include "core/base/stoppable_sort.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {
namespace {

/// A forward or backward pass, or a part of one, or one of its exchanges.
struct Computation {
  int device, stage, pipeline, micro_batch;
  bool is_forward, has_started;
  Interval time;  // if it has started

  auto stage_key() const { return std::tie(device, stage); }
  auto micro_batch_key() const { return std::tie(device, stage, pipeline, micro_batch); }
};

/// Whether the task is the given computation or one of its exchanges, whose phase tells forward (even) and
/// backward (odd) apart.
bool belongs_to(const TaskLabel& label, Activity computation) {
  const int phase = computation == Activity::forward ? 0 : 1;
  const bool exchanges = label.activity == Activity::all_reduce || label.activity == Activity::pass_keys ||
                         label.activity == Activity::all_to_all;
  return label.activity == computation || (exchanges && label.phase % 2 == phase);
}

/// All computations of the interval's graph, those of a micro-batch on a device next to each other.
std::vector<Computation> computations_of(const RunInterval& run_interval) {
  std::vector<Computation> computations;
  for (std::size_t i = 0; i < run_interval.graph.labels.size(); ++i) {
    throw_if_stopped(run_interval.stop, i);
    const TaskLabel& label = run_interval.graph.labels[i];
    const TaskRecord& record = run_interval.replay.tasks[i];
    const bool is_forward = belongs_to(label, Activity::forward);
    if (!is_forward && !belongs_to(label, Activity::backward) && label.activity != Activity::weight_gradient)
      continue;
    // The device that computes, or that receives the message of an exchange.
    const int device = label.peer == no_index ? label.device : label.peer;
    computations.push_back({device, label.stage, label.pipeline, label.micro_batch, is_forward,
                            has_started(record), busy(record, run_interval)});
  }
  stable_sort_unless_stopped(
      computations.begin(), computations.end(), run_interval.stop,
      [](const Computation& a, const Computation& b) { return a.micro_batch_key() < b.micro_batch_key(); });
  return computations;
}

/// How long a device holds the activations of a micro-batch with these computations: from the start of its
/// forward pass to the end of its backward pass, which may consist of several tasks. If an earlier part of
/// the iteration did the forward pass, the graph has none, and they are held from the start of the interval.
/// If not all computations have started, they are held to its end. Nothing if the forward pass has not
/// started.
std::optional<Interval> activation_lifetime(std::span<const Computation> computations,
                                            const RunInterval& run_interval) {
  bool has_forward = false, any_started = false, all_started = true;
  Interval held{run_interval.end, run_interval.start};  // empty
  for (const Computation& it : computations) {
    has_forward |= it.is_forward;
    any_started |= it.has_started;
    all_started &= it.has_started;
    if (!it.has_started) continue;
    held.begin = std::min(held.begin, it.time.begin);
    held.end = std::max(held.end, it.time.end);
  }
  if (has_forward && !any_started) return std::nullopt;
  if (!has_forward) held.begin = run_interval.start;
  if (!all_started) held.end = run_interval.end;
  return held;
}

/// When a device works on a micro-batch. Messages of an exchange that it receives at the same time count
/// once.
std::vector<Interval> working_times(std::span<const Computation> computations) {
  std::vector<Interval> started;
  for (const Computation& it : computations)
    if (it.has_started) started.push_back(it.time);
  std::sort(started.begin(), started.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> times;
  for (const Interval& it : started)
    if (times.empty() || it.begin >= times.back().end)
      times.push_back(it);
    else
      times.back().end = std::max(times.back().end, it.end);
  return times;
}

/// Collects allocations and releases of memory and turns them into memory steps.
class Changes {
 public:
  void hold(int device, double bytes, Interval time) {
    changes_.push_back({time.begin, device, bytes});
    changes_.push_back({time.end, device, -bytes});
  }
  void take(int device, double bytes, double date) { changes_.push_back({date, device, bytes}); }

  std::vector<MemoryStep> steps(std::size_t devices, const StopFunction& stop) {
    stable_sort_unless_stopped(changes_.begin(), changes_.end(), stop,
                               [](const MemoryStep& a, const MemoryStep& b) {
                                 return std::tie(a.date, a.device) < std::tie(b.date, b.device);
                               });
    std::vector<double> held(devices), reported(devices);
    std::vector<MemoryStep> steps;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      throw_if_stopped(stop, i);
      const auto& [date, device, bytes] = changes_[i];
      held[at(device)] += bytes;
      const bool same_instant =
          i + 1 < changes_.size() && changes_[i + 1].date == date && changes_[i + 1].device == device;
      if (same_instant || held[at(device)] == reported[at(device)]) continue;
      reported[at(device)] = held[at(device)];
      steps.push_back({date, device, held[at(device)]});
    }
    return steps;
  }

 private:
  std::vector<MemoryStep> changes_;
};

}  // namespace

std::vector<MemoryStep> memory_steps(const RunInterval& run_interval, const StageMemoryOf& memory_of) {
  const std::vector<Computation> computations = computations_of(run_interval);
  std::vector<double> starts(run_interval.graph.graph.hosts.size(), run_interval.start);
  for (const auto& [device, task] : run_interval.graph.starts)
    if (const TaskRecord& record = run_interval.replay.tasks[at(task)]; record.state == TaskState::done)
      starts[at(device)] = record.finish;
  Changes changes;
  StageMemory memory;
  const Computation* counted = nullptr;  // the last one whose stage has its state counted
  std::size_t micro_batches = 0;
  for (auto begin = computations.begin(), end = begin; begin != computations.end(); begin = end) {
    throw_if_stopped(run_interval.stop, micro_batches++);
    end = std::find_if(begin, computations.end(), [&](const Computation& it) {
      return it.micro_batch_key() != begin->micro_batch_key();
    });
    const auto held = activation_lifetime({begin, end}, run_interval);
    if (!held) continue;
    const int device = begin->device;
    if (counted == nullptr || counted->stage_key() != begin->stage_key()) {
      memory = memory_of(device, begin->stage);
      changes.take(device, memory.state, starts[at(device)]);
    }
    counted = &*begin;
    changes.hold(device, memory.activation, *held);
    for (const Interval& it : working_times({begin, end})) changes.hold(device, memory.working, it);
  }
  return changes.steps(run_interval.graph.graph.hosts.size(), run_interval.stop);
}

void MemoryUse::place(const Plan& plan) {
  std::vector<double> state(peaks_.size());
  for (const Pipeline& pipeline : plan.pipelines)
    for (int stage = 0; at(stage) < pipeline.stages.size(); ++stage)
      for (const int device : pipeline.stages[at(stage)].devices)
        state[at(device)] += memory_of_(device, stage).state;
  for (std::size_t device = 0; device < peaks_.size(); ++device)
    peaks_[device] = std::max(peaks_[device], state[device]);
}

void MemoryUse::on_interval(const RunInterval& run_interval) {
  for (const MemoryStep& step : memory_steps(run_interval, memory_of_))
    peaks_[at(step.device)] = std::max(peaks_[at(step.device)], step.bytes);
}

}  // namespace dtfm::sim
