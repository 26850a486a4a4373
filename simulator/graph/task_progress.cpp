#include "simulator/graph/task_progress.hpp"

namespace dtfm::sim {

TaskProgress::TaskProgress(const TaskGraph& graph, const StopFunction& stop) {
  tasks_.reserve(graph.tasks.size() + 1);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    throw_if_stopped(stop, i);
    const Task& task = graph.tasks[i];
    Progress& progress = tasks_.emplace_back();
    progress.amount = task.amount;
    progress.queue = task.queue;
    progress.host = task.host;
    progress.kind = task.kind;
    progress.is_fifo =
        task.kind == TaskKind::compute && graph.hosts[at(task.host)].sharing == HostSharing::fifo;
    progress.pending_dependencies = task.after_count;
  }
  tasks_.emplace_back();
  link_successors(graph, stop);
}

/// A counting sort: each `first_successor` first points to the end of its range, and filling the ranges from
/// the back moves it to the beginning.
void TaskProgress::link_successors(const TaskGraph& graph, const StopFunction& stop) {
  for (const int before : graph.after) ++tasks_[at(before)].first_successor;
  int end = 0;
  for (Progress& task : tasks_) end = task.first_successor += end;
  successors_.resize(graph.after.size());
  for (std::size_t i = graph.tasks.size(); i-- > 0;) {
    throw_if_stopped(stop, i);
    for (int k = 0; k < graph.tasks[i].after_count; ++k) {
      const int before = graph.after[at(graph.tasks[i].first_after + k)];
      successors_[at(--tasks_[at(before)].first_successor)] = static_cast<int>(i);
    }
  }
}

}  // namespace dtfm::sim
