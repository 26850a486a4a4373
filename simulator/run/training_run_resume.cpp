// Training run: resuming an iteration without the pipelines that a failure has affected.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/observation/interval_times.hpp"
#include "simulator/run/iteration_progress.hpp"
#include "simulator/run/training_run.hpp"

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

}  // namespace

struct TrainingRun::ResumedIteration {
  Plan computed;  // plan_ with the stages that are computed (expand_virtual_stages)
  Plan plan;      // with the micro-batches of every pipeline in this iteration
  IterationProgress progress;
  LabelledGraph full_graph;  // the whole iteration of the running pipelines, as if it started now
  LabelledGraph remaining;   // its remaining tasks
};

/// Resumes the iteration after each failure until it is completed, or lost because no pipeline is left.
void TrainingRun::resume_iteration(const ReplayedInterval& first) {
  ResumedIteration resumed{expand_virtual_stages(plan_), plan_, {}, graph_, graph_};
  const Plan own = running_plan(plan_, running_);
  for (std::size_t i = 0, next = 0; i < running_.size(); ++i)
    resumed.plan.pipelines[i].micro_batches = running_[i] ? own.pipelines[next++].micro_batches : 0;
  ReplayedInterval replayed = first;
  while (was_aborted_by_failure(replayed)) {
    const std::vector<bool> unaffected = unaffected_pipelines(replayed.end);
    if (!any(unaffected)) break;
    const bool only_update_left = is_synchronized(resumed.remaining, replayed.replay);
    notify_partial(resumed.remaining, replayed);
    resumed.progress.add(resumed.remaining, replayed.replay, only_update_left);
    advance(replayed.end);
    if (only_update_left) {  // the devices that have left are not needed any more
      resumed.remaining = resumed.progress.remaining_graph(
          resumed.remaining, resumed.computed,
          tasks_on_available(resumed.remaining, device_timeline_.available()));
      for (std::size_t i = 0; i < is_needed_.size(); ++i)
        is_needed_[i] = is_needed_[i] && device_timeline_.available()[i];
    } else {
      keep_only_pipelines(unaffected);
      if (!run_until_detected(resumed) || !redistribute(resumed)) return;
    }
    replayed = replay_interval(resumed.remaining,
                               ScenarioProfiles(scenario_, problem_.topology, resumed.remaining), now_);
  }
  finish_iteration(replayed, resumed.remaining);
}

/// The running pipelines of which no device leaves at or before `until`.
std::vector<bool> TrainingRun::unaffected_pipelines(double until) const {
  std::vector<bool> result = running_;
  for (std::size_t i = 0; i < result.size(); ++i)
    for (const Stage& stage : plan_.pipelines[i].stages)
      for (const int device : stage.devices)
        if (device_timeline_.next_failure(device) <= until) result[i] = false;
  return result;
}

void TrainingRun::notify_partial(const LabelledGraph& graph, const ReplayedInterval& replayed) {
  const RunInterval part = make_interval(RunInterval::Kind::part, replayed, graph);
  notify_observers(part);
  for (std::size_t i = 0; i < graph.labels.size(); ++i) {
    const TaskRecord& record = replayed.replay.tasks[i];
    if (graph.graph.tasks[i].kind != TaskKind::compute || !has_started(record)) continue;
    const Interval time = busy(record, part);
    partial_work_s_[at(graph.graph.tasks[i].host)] += time.end - time.begin;
  }
}

/// Stops all other pipelines; what they have computed in this iteration is lost.
void TrainingRun::keep_only_pipelines(const std::vector<bool>& pipelines) {
  is_running_.assign(is_running_.size(), false);
  for (std::size_t i = 0; i < pipelines.size(); ++i)
    for (const Stage& stage : plan_.pipelines[i].stages)
      for (const int device : stage.devices)
        if (pipelines[i])
          is_running_[at(device)] = true;
        else
          report_.lost_work_s += std::exchange(partial_work_s_[at(device)], 0.0);
  running_ = pipelines;
  is_needed_ = is_running_;
}

/// Runs the unaffected pipelines until the failure is detected. Returns false if the iteration ends before
/// that: no pipeline is left, or the run is over.
bool TrainingRun::run_until_detected(ResumedIteration& resumed) {
  while (detected_at_ > now_ && !is_over()) {
    LabelledGraph own = resumed.progress.remaining_graph(resumed.full_graph, resumed.computed,
                                                         tasks_of_pipelines(resumed.full_graph, running_));
    const double until = std::min({detected_at_, next_failure(), end_of_run()});
    const ReplayedInterval replayed = interval_replay_.replay_interval(
        own, ScenarioProfiles(scenario_, problem_.topology, own), now_, until, true);
    if (replayed.ended == ReplayEnd::stopped) {
      interrupt();
      return false;
    }
    const std::vector<bool> unaffected = unaffected_pipelines(until);
    notify_partial(own, replayed);
    resumed.progress.add(own, replayed.replay);
    advance(until);
    keep_only_pipelines(unaffected);
    if (!any(unaffected)) return false;
  }
  return !is_over();
}

/// Redistributes the micro-batches of the affected pipelines. Returns false if the resulting plan cannot be
/// run.
bool TrainingRun::redistribute(ResumedIteration& resumed) {
  iteration_aborted_ = false;
  note(now_, fmt::format("{} of {} pipelines resume the iteration",
                         std::count(running_.begin(), running_.end(), true), running_.size()));
  resumed.plan = redistribute_micro_batches(resumed.plan, running_);
  Plan plan = resumed.plan;
  plan.pipelines.clear();
  for (std::size_t i = 0; i < running_.size(); ++i)
    if (running_[i]) plan.pipelines.push_back(resumed.plan.pipelines[i]);
  try {
    resumed.full_graph = graph_of(plan);
  } catch (const Error& error) {
    stop_for(fmt::format("the remaining plan cannot be run: {}", error.what()));
    return false;
  }
  draw_jitter(resumed.full_graph);
  resumed.remaining = resumed.progress.remaining_graph(
      resumed.full_graph, resumed.computed, std::vector<bool>(resumed.full_graph.labels.size(), true));
  return true;
}

}  // namespace dtfm::sim
