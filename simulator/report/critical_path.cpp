#include "simulator/report/critical_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/stoppable_sort.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::sim {
namespace {

/// The order in which resources that serve one task at a time (queues, FIFO hosts) have served their tasks.
/// The tasks that have started are stored resource by resource, in order of their start.
class ServiceOrder {
 public:
  template <class ResourceOf>
  ServiceOrder(const std::vector<TaskRecord>& records, std::size_t resource_count,
               const ResourceOf& resource_of, const StopFunction& stop)
      : records_(records), first_(resource_count + 1) {
    const auto has_resource = [&](std::size_t i) {
      return resource_of(i) != no_index && has_started(records[i]);
    };
    for (std::size_t i = 0; i < records.size(); ++i) {
      throw_if_stopped(stop, i);
      if (has_resource(i)) ++first_[at(resource_of(i)) + 1];
    }
    for (std::size_t resource = 0; resource < resource_count; ++resource)
      first_[resource + 1] += first_[resource];
    tasks_.resize(first_.back());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t i = 0; i < records.size(); ++i) {
      throw_if_stopped(stop, i);
      if (has_resource(i)) tasks_[next[at(resource_of(i))]++] = static_cast<int>(i);
    }
    for (std::size_t resource = 0; resource < resource_count; ++resource)
      stable_sort_unless_stopped(begin_of(resource), begin_of(resource + 1), stop,
                                 [&](int a, int b) { return records[at(a)].start < records[at(b)].start; });
  }

  /// The last task on `resource` that started before `task`; no_index if there is none.
  int before(int task, int resource) {
    const auto begin = begin_of(at(resource));
    const auto later = std::lower_bound(begin, begin_of(at(resource) + 1), records_[at(task)].start,
                                        [&](int a, double date) { return records_[at(a)].start < date; });
    return later == begin ? no_index : *(later - 1);
  }

 private:
  std::vector<int>::iterator begin_of(std::size_t resource) {
    return tasks_.begin() + static_cast<std::ptrdiff_t>(first_[resource]);
  }

  const std::vector<TaskRecord>& records_;
  std::vector<std::size_t> first_;
  std::vector<int> tasks_;
};

class CriticalPathWalk {
 public:
  explicit CriticalPathWalk(const RunInterval& run_interval)
      : graph_(run_interval.graph.graph),
        records_(run_interval.replay.tasks),
        is_start_(records_.size()),
        queues_(
            records_, at(graph_.queues), [&](std::size_t i) { return graph_.tasks[i].queue; },
            run_interval.stop),
        hosts_(
            records_, graph_.hosts.size(), [&](std::size_t i) { return fifo_host(i); }, run_interval.stop) {
    for (const DeviceTask& start : run_interval.graph.starts) is_start_[at(start.task)] = true;
  }

  /// The tasks of the critical path, from first to last. Without a barrier, it begins with the first
  /// computation of a device, even if the previous iteration delayed that computation.
  std::vector<int> path() {
    std::vector<int> path;
    for (int task = last(); task != no_index && !is_start_[at(task)]; task = before(task))
      path.push_back(task);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  int fifo_host(std::size_t i) const {
    const Task& task = graph_.tasks[i];
    const bool is_fifo =
        task.kind == TaskKind::compute && graph_.hosts[at(task.host)].sharing == HostSharing::fifo;
    return is_fifo ? task.host : no_index;
  }

  int last() const {
    int last = no_index;
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (has_started(records_[i]) && (last == no_index || records_[i].finish >= records_[at(last)].finish))
        last = static_cast<int>(i);
    return last;
  }

  int before(int task) {
    return records_[at(task)].start > records_[at(task)].ready ? previous_on_resource(task)
                                                               : last_dependency(task);
  }

  int previous_on_resource(int task) {
    const int queue = graph_.tasks[at(task)].queue, host = fifo_host(at(task));
    const int in_queue = queue == no_index ? no_index : queues_.before(task, queue);
    const int on_host = host == no_index ? no_index : hosts_.before(task, host);
    if (in_queue == no_index || on_host == no_index) return std::max(in_queue, on_host);
    return records_[at(in_queue)].finish > records_[at(on_host)].finish ? in_queue : on_host;
  }

  int last_dependency(int task) const {
    const Task& it = graph_.tasks[at(task)];
    int last = no_index;
    for (int k = 0; k < it.after_count; ++k) {
      const int before = graph_.after[at(it.first_after + k)];
      if (last == no_index || records_[at(before)].finish > records_[at(last)].finish) last = before;
    }
    return last;
  }

  const TaskGraph& graph_;
  const std::vector<TaskRecord>& records_;
  std::vector<bool> is_start_;  // [task]: LabelledGraph::starts
  ServiceOrder queues_, hosts_;
};

std::string format_step(const TaskLabel& label, const Topology& topology) {
  const auto id = [&](int device) { return device == no_index ? "?" : topology.devices[at(device)].id; };
  const auto message = [&](std::string_view what) {
    return fmt::format("{} {} → {}", what, id(label.device), id(label.peer));
  };
  switch (label.activity) {
    case Activity::forward:
    case Activity::backward:
    case Activity::weight_gradient:
      return fmt::format("compute stage {} on {}", label.stage, id(label.device));
    case Activity::send_activations:
      return message("send activations");
    case Activity::send_gradients:
      return message("send gradients of activations");
    case Activity::all_reduce:
      return message("all-reduce inside a stage");
    case Activity::pass_keys:
      return message("send keys and values to the next device of a stage");
    case Activity::all_to_all:
      return message("send tokens to experts, or their results back");
    case Activity::gradient_sync:
      return message("synchronize gradients");
    case Activity::all_gather:
      return message("gather parameters");
    case Activity::compress:
      return fmt::format("compress on {}", id(label.device));
    case Activity::update:
      return fmt::format("update weights on {}", id(label.device));
    case Activity::wait:
      return "wait";
    case Activity::step:
      return "end of the iteration (overhead, barrier)";
    case Activity::fetch:
      return message("fetch weights");
    case Activity::save_checkpoint:
      return message("save weights");
  }
  return "";
}

}  // namespace

std::vector<CriticalStep> critical_path(const RunInterval& run_interval, const Topology& topology) {
  const std::vector<int> path = CriticalPathWalk(run_interval).path();
  std::vector<CriticalStep> steps;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const TaskRecord& record = run_interval.replay.tasks[at(path[i])];
    const double end = i + 1 < path.size() ? run_interval.replay.tasks[at(path[i + 1])].start
                                           : end_time(record, run_interval);
    if (end <= record.start) continue;
    const std::string text = format_step(run_interval.graph.labels[at(path[i])], topology);
    if (steps.empty() || steps.back().text != text) steps.push_back({text, 0, record.start, end});
    ++steps.back().tasks;
    steps.back().end_s = end;
  }
  return steps;
}

void CriticalPath::on_interval(const RunInterval& run_interval) {
  if (run_interval.kind != RunInterval::Kind::iteration) return;
  steps_ = critical_path(run_interval, topology_);
  const double later = run_interval.last_end() - run_interval.end;
  for (CriticalStep& step : steps_) {
    step.start_s += later;
    step.end_s += later;
  }
}

std::vector<CriticalStepTotal> sum_by_text(const std::vector<CriticalStep>& steps) {
  std::map<std::string, CriticalStepTotal> by_text;
  for (const CriticalStep& step : steps) {
    CriticalStepTotal& sum = by_text[step.text];
    sum.text = step.text;
    sum.tasks += step.tasks;
    sum.seconds += step.end_s - step.start_s;
  }
  std::vector<CriticalStepTotal> sums;
  for (auto& [text, sum] : by_text) sums.push_back(std::move(sum));
  std::stable_sort(sums.begin(), sums.end(), [](const CriticalStepTotal& a, const CriticalStepTotal& b) {
    return a.seconds > b.seconds;
  });
  return sums;
}

}  // namespace dtfm::sim
