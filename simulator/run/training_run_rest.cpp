// Of a run: an iteration that goes on without the pipelines that a departure has hit.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "simulator/observation/stretch_times.hpp"
#include "simulator/run/iteration_progress.hpp"
#include "simulator/run/training_run.hpp"

namespace dtfm::sim {
namespace {

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

std::vector<bool> tasks_of(const LabelledGraph& graph, const std::vector<bool>& pipelines) {
  std::vector<bool> wanted;
  for (const TaskLabel& label : graph.labels)
    wanted.push_back(label.pipeline != no_index && pipelines[at(label.pipeline)]);
  return wanted;
}

/// Those of the step have no host.
std::vector<bool> tasks_on(const LabelledGraph& graph, const std::vector<bool>& there) {
  std::vector<bool> wanted;
  for (const Task& task : graph.graph.tasks) wanted.push_back(task.host == no_index || there[at(task.host)]);
  return wanted;
}

}  // namespace

struct TrainingRun::Rest {
  Plan computed;  // the stages
  Plan plan;      // with the micro-batches that every pipeline has in this iteration
  IterationProgress progress;
  LabelledGraph whole, left;  // the iteration of those who run, as if it began now; what is left of it
};

/// Until the iteration is done, or lost because nobody is left.
void TrainingRun::go_on(const Played& first) {
  Rest rest{computed_stages(problem_.job, plan_), plan_, {}, graph_, graph_};
  const Plan own = running_plan(plan_, running_);
  for (std::size_t i = 0, next = 0; i < running_.size(); ++i)
    rest.plan.pipelines[i].micro_batches = running_[i] ? own.pipelines[next++].micro_batches : 0;
  Played played = first;
  while (is_broken_off(played)) {
    const std::vector<bool> going = pipelines_not_hit(played.end);
    if (!any(going)) break;
    const bool only_step = is_exchanged(rest.left, played.replay);
    show_part(rest.left, played);
    rest.progress.add(rest.left, played.replay, only_step);
    advance(played.end);
    if (only_step) {  // who has left is not needed for it
      rest.left = rest.progress.rest_of(rest.left, rest.computed, tasks_on(rest.left, machines_.there()));
      for (std::size_t i = 0; i < is_needed_.size(); ++i)
        is_needed_[i] = is_needed_[i] && machines_.there()[i];
    } else {
      drop_all_but(going);
      if (!go_on_unknowing(rest) || !deal_out(rest)) return;
    }
    played = play(rest.left, ScenarioProfiles(scenario_, problem_.topology, rest.left));
  }
  end_iteration(played, rest.left);
}

/// Of those that run, the ones of which nobody leaves up to then.
std::vector<bool> TrainingRun::pipelines_not_hit(double until) const {
  std::vector<bool> result = running_;
  for (std::size_t i = 0; i < result.size(); ++i)
    for (const Stage& stage : plan_.pipelines[i].stages)
      for (const int device : stage.devices)
        if (machines_.next_departure(device) <= until) result[i] = false;
  return result;
}

void TrainingRun::show_part(const LabelledGraph& graph, const Played& played) {
  const Stretch part = stretch_of(Stretch::Kind::part, played, graph);
  show(part);
  for (std::size_t i = 0; i < graph.labels.size(); ++i) {
    const TaskRecord& record = played.replay.tasks[i];
    if (graph.graph.tasks[i].kind != TaskKind::compute || !has_started(record)) continue;
    const Interval time = busy(record, part);
    part_work_s_[at(graph.graph.tasks[i].host)] += time.end - time.begin;
  }
}

/// What the others have computed in this iteration is lost.
void TrainingRun::drop_all_but(const std::vector<bool>& pipelines) {
  runs_.assign(runs_.size(), false);
  for (std::size_t i = 0; i < pipelines.size(); ++i)
    for (const Stage& stage : plan_.pipelines[i].stages)
      for (const int device : stage.devices)
        if (pipelines[i])
          runs_[at(device)] = true;
        else
          report_.lost_work_s += std::exchange(part_work_s_[at(device)], 0.0);
  running_ = pipelines;
  is_needed_ = runs_;
}

/// Until they know of the departure. False: the iteration is over for all.
bool TrainingRun::go_on_unknowing(Rest& rest) {
  while (known_at_ > now_ && !is_over()) {
    LabelledGraph own = rest.progress.rest_of(rest.whole, rest.computed, tasks_of(rest.whole, running_));
    const double until = std::min({known_at_, next_departure(), end_of_run()});
    const Played played =
        player_.play(own, ScenarioProfiles(scenario_, problem_.topology, own), now_, until, true);
    if (played.ended == ReplayEnd::stopped) {
      interrupt();
      return false;
    }
    const std::vector<bool> going = pipelines_not_hit(until);
    show_part(own, played);
    rest.progress.add(own, played.replay);
    advance(until);
    drop_all_but(going);
    if (!any(going)) return false;
  }
  return !is_over();
}

/// Those who are left share the micro-batches of the others. False: they cannot.
bool TrainingRun::deal_out(Rest& rest) {
  is_broken_ = false;
  note(now_, fmt::format("{} of {} pipelines go on with the iteration",
                         std::count(running_.begin(), running_.end(), true), running_.size()));
  rest.plan = dealt_on(rest.plan, running_);
  Plan plan = rest.plan;
  plan.pipelines.clear();
  for (std::size_t i = 0; i < running_.size(); ++i)
    if (running_[i]) plan.pipelines.push_back(rest.plan.pipelines[i]);
  try {
    rest.whole = graph_of(plan);
  } catch (const Error& error) {
    stop_for(fmt::format("what is left of the plan cannot be run: {}", error.what()));
    return false;
  }
  draw_jitter(rest.whole);
  rest.left =
      rest.progress.rest_of(rest.whole, rest.computed, std::vector<bool>(rest.whole.labels.size(), true));
  return true;
}

}  // namespace dtfm::sim
