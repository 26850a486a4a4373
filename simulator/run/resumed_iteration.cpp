#include "simulator/run/resumed_iteration.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/observation/interval_times.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/run/iteration_progress.hpp"

namespace dtfm::sim {
namespace {

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

std::vector<bool> tasks_of_pipelines(const LabelledGraph& graph, const std::vector<bool>& pipelines) {
  std::vector<bool> wanted;
  for (const TaskLabel& label : graph.labels)
    wanted.push_back(label.pipeline != no_index && pipelines[at(label.pipeline)]);
  return wanted;
}

/// Tasks without a host, such as the end of the iteration, are always wanted.
std::vector<bool> tasks_on_available(const LabelledGraph& graph, const std::vector<bool>& available) {
  std::vector<bool> wanted;
  for (const Task& task : graph.graph.tasks)
    wanted.push_back(task.host == no_index || available[at(task.host)]);
  return wanted;
}

class ResumedIteration {
 public:
  ResumedIteration(const Plan& plan, std::vector<bool>& running, RunGraphs& graphs, RunDevices& devices,
                   RunRecord& record)
      : plan_(plan),
        running_(running),
        graphs_(graphs),
        devices_(devices),
        record_(record),
        computed_(expand_virtual_stages(plan)),
        redistributed_(plan),
        full_graph_(graphs.current()),
        remaining_(graphs.current()),
        work_s_(devices.available().size()) {
    const Plan own = running_plan(plan, running);
    for (std::size_t i = 0, next = 0; i < running.size(); ++i)
      redistributed_.pipelines[i].micro_batches = running[i] ? own.pipelines[next++].micro_batches : 0;
  }

  std::optional<LastPart> run(ReplayedInterval replayed) {
    while (devices_.is_aborted_by_failure(replayed)) {
      const std::vector<bool> unaffected = unaffected_pipelines(replayed.end);
      if (!any(unaffected)) break;
      const bool only_update_left = is_synchronized(remaining_, replayed.replay);
      add_part(remaining_, replayed);
      progress_.add(remaining_, replayed.replay, only_update_left);
      devices_.advance(replayed.end);
      if (only_update_left) {  // the devices that have left are not needed any more
        remaining_ = progress_.remaining_graph(remaining_, computed_,
                                               tasks_on_available(remaining_, devices_.available()));
        devices_.need_only_available();
      } else {
        keep_only_pipelines(unaffected);
        if (!run_until_detected() || !redistribute()) return std::nullopt;
      }
      replayed = graphs_.replay(remaining_, devices_.now(), devices_.needed_until());
    }
    const double work_s = std::accumulate(work_s_.begin(), work_s_.end(), 0.0);
    return LastPart{std::move(replayed), std::move(remaining_), work_s};
  }

 private:
  /// The running pipelines of which no device leaves at or before `until`.
  std::vector<bool> unaffected_pipelines(double until) const {
    std::vector<bool> result = running_;
    for (std::size_t i = 0; i < result.size(); ++i)
      for (const Stage& stage : plan_.pipelines[i].stages)
        for (const int device : stage.devices)
          if (devices_.timeline().next_failure(device) <= until) result[i] = false;
    return result;
  }
  void add_part(const LabelledGraph& graph, const ReplayedInterval& replayed) {
    const RunInterval part = record_.interval(RunInterval::Kind::part, replayed, graph);
    record_.add(part);
    for (std::size_t i = 0; i < graph.labels.size(); ++i) {
      const TaskRecord& record = replayed.replay.tasks[i];
      if (graph.graph.tasks[i].kind != TaskKind::compute || !has_started(record)) continue;
      const Interval time = busy(record, part);
      work_s_[at(graph.graph.tasks[i].host)] += time.end - time.begin;
    }
  }
  /// Stops all other pipelines; what they have computed in this iteration is lost.
  void keep_only_pipelines(const std::vector<bool>& pipelines) {
    for (std::size_t i = 0; i < pipelines.size(); ++i)
      for (const Stage& stage : plan_.pipelines[i].stages)
        for (const int device : stage.devices)
          if (!pipelines[i]) record_.report.lost_work_s += std::exchange(work_s_[at(device)], 0.0);
    running_ = pipelines;
    devices_.need(devices_of(plan_, running_, work_s_.size()));
  }
  /// Runs the unaffected pipelines until the failure is detected. Returns false if the iteration ends before
  /// that: no pipeline is left, or the run is over.
  bool run_until_detected() {
    while (devices_.is_failure_undetected() && devices_.now() < devices_.end()) {
      LabelledGraph own =
          progress_.remaining_graph(full_graph_, computed_, tasks_of_pipelines(full_graph_, running_));
      const double until = std::min(devices_.detected_at(), devices_.needed_until());
      const ReplayedInterval replayed = graphs_.replay(own, devices_.now(), until);
      if (replayed.ended == ReplayEnd::stopped) {
        record_.interrupt();
        return false;
      }
      const std::vector<bool> unaffected = unaffected_pipelines(until);
      add_part(own, replayed);
      progress_.add(own, replayed.replay);
      devices_.advance(until);
      keep_only_pipelines(unaffected);
      if (!any(unaffected)) return false;
    }
    return devices_.now() < devices_.end();
  }
  /// Redistributes the micro-batches of the affected pipelines. Returns false if the resulting plan cannot be
  /// run.
  bool redistribute() {
    devices_.is_iteration_aborted = false;
    record_.note(devices_.now(),
                 fmt::format("{} of {} pipelines resume the iteration",
                             std::count(running_.begin(), running_.end(), true), running_.size()));
    redistributed_ = redistribute_micro_batches(redistributed_, running_);
    Plan plan = redistributed_;
    plan.pipelines.clear();
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (running_[i]) plan.pipelines.push_back(redistributed_.pipelines[i]);
    try {
      full_graph_ = graphs_.make(plan, running_);
    } catch (const Error& error) {
      devices_.stop_for(fmt::format("the remaining plan cannot be run: {}", error.what()));
      return false;
    }
    graphs_.draw_jitter(full_graph_);
    remaining_ =
        progress_.remaining_graph(full_graph_, computed_, std::vector<bool>(full_graph_.labels.size(), true));
    return true;
  }

  const Plan& plan_;
  std::vector<bool>& running_;
  RunGraphs& graphs_;
  RunDevices& devices_;
  RunRecord& record_;
  Plan computed_;       // plan_ with the stages that are computed (expand_virtual_stages)
  Plan redistributed_;  // plan_ with the micro-batches of every pipeline in this iteration
  IterationProgress progress_;
  LabelledGraph full_graph_;    // the whole iteration of the running pipelines, as if it started now
  LabelledGraph remaining_;     // its remaining tasks
  std::vector<double> work_s_;  // [device]: computed in earlier parts of the iteration
};

}  // namespace

std::optional<LastPart> resume_iteration(const ReplayedInterval& aborted, const Plan& plan,
                                         std::vector<bool>& running, RunGraphs& graphs, RunDevices& devices,
                                         RunRecord& record) {
  return ResumedIteration(plan, running, graphs, devices, record).run(aborted);
}

}  // namespace dtfm::sim
