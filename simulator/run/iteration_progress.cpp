#include "simulator/run/iteration_progress.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

/// The first device of the stage that a task belongs to; no_index for tasks of no stage.
int owner_of(const TaskLabel& label, const Plan& computed) {
  if (label.pipeline == no_index || label.stage == no_index) return no_index;
  return computed.pipelines[at(label.pipeline)].stages[at(label.stage)].devices.front();
}

void make_unique(std::vector<int>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

void resume_task(Task& task, const UnfinishedTask& unfinished) {
  if (unfinished.is_delay) {
    task = {};
    task.kind = TaskKind::delay;
  }
  task.overhead = unfinished.overhead;
  task.amount = unfinished.amount;
  task.priority = 1;
}

bool is_layer(const TaskLabel& label) {
  return (label.activity == Activity::backward || label.activity == Activity::weight_gradient) &&
         label.layer != no_index;
}

TaskLabel without_layer(TaskLabel label) {
  label.layer = no_index;
  return label;
}

}  // namespace

IterationProgress::Key IterationProgress::key_of(const TaskLabel& label) {
  return {label.activity,    label.device, label.peer,  label.pipeline, label.stage,
          label.micro_batch, label.phase,  label.layer, label.rank};
}

void IterationProgress::add(const LabelledGraph& graph, const Replay& replay, bool include_gradient_sync) {
  for (std::size_t i = 0; i < graph.labels.size(); ++i) {
    const TaskLabel& label = graph.labels[i];
    if (replay.tasks[i].state != TaskState::done || (label.pipeline == no_index && !include_gradient_sync))
      continue;
    states_[key_of(label)].is_done = true;
    if (is_layer(label)) done_layer_s_[key_of(without_layer(label))] += graph.graph.tasks[i].amount;
  }
  for (const UnfinishedTask& unfinished : replay.unfinished) {
    const TaskLabel& label = graph.labels[at(unfinished.task)];
    if (label.pipeline == no_index && !include_gradient_sync) continue;
    states_[key_of(label)].unfinished = unfinished;
    if (is_layer(label))
      done_layer_s_[key_of(without_layer(label))] +=
          graph.graph.tasks[at(unfinished.task)].amount - unfinished.amount;
  }
}

const IterationProgress::State* IterationProgress::state_of(const TaskLabel& label) const {
  const auto state = states_.find(key_of(label));
  return state == states_.end() ? nullptr : &state->second;
}

/// The last backward pass is computed layer by layer. If redistributed micro-batches follow it, it is
/// computed as a whole, less the layers that are done.
double IterationProgress::done_layer_seconds(const TaskLabel& label) const {
  if (label.layer != no_index) return 0;
  const auto done = done_layer_s_.find(key_of(label));
  return done == done_layer_s_.end() ? 0 : done->second;
}

LabelledGraph IterationProgress::remaining_graph(const LabelledGraph& next, const Plan& computed,
                                                 const std::vector<bool>& wanted) const {
  const std::vector<Task>& tasks = next.graph.tasks;
  LabelledGraph result;
  result.links = next.links;
  result.graph = next.graph;
  result.graph.tasks.clear();
  result.graph.after.clear();
  std::vector<int> number(tasks.size(), no_index);     // of each task in the result
  std::vector<std::vector<int>> before(tasks.size());  // unfinished tasks that precede it in its slot
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!wanted[i]) continue;
    const TaskLabel& label = next.labels[i];
    const int owner = owner_of(label, computed);
    const State* state = state_of(label);
    std::vector<int> after, same_owner;
    for (int k = 0; k < tasks[i].after_count; ++k) {
      const std::size_t other = at(next.graph.after[at(tasks[i].first_after + k)]);
      const bool is_same_owner = owner == no_index || owner_of(next.labels[other], computed) == owner;
      std::vector<int> waited = is_same_owner ? before[other] : std::vector<int>{};
      if (number[other] != no_index) waited.push_back(number[other]);
      after.insert(after.end(), waited.begin(), waited.end());
      if (is_same_owner) same_owner.insert(same_owner.end(), waited.begin(), waited.end());
    }
    if (state) before[i] = std::move(same_owner);
    make_unique(before[i]);
    if (state && state->is_done) continue;
    Task task = tasks[i];
    if (task.kind == TaskKind::compute) task.amount = std::max(0.0, task.amount - done_layer_seconds(label));
    if (state) {
      resume_task(task, state->unfinished);
      after.clear();
    }
    make_unique(after);
    task.first_after = static_cast<int>(result.graph.after.size());
    task.after_count = static_cast<int>(after.size());
    result.graph.after.insert(result.graph.after.end(), after.begin(), after.end());
    number[i] = static_cast<int>(result.graph.tasks.size());
    result.graph.tasks.push_back(task);
    result.labels.push_back(label);
  }
  return result;
}

bool is_synchronized(const LabelledGraph& graph, const Replay& replay) {
  for (std::size_t i = 0; i < graph.labels.size(); ++i)
    if (const Activity activity = graph.labels[i].activity; replay.tasks[i].state != TaskState::done &&
                                                            activity != Activity::update &&
                                                            activity != Activity::step)
      return false;
  return true;
}

}  // namespace dtfm::sim
