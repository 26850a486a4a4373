// Any bytes read as a task graph give an Error or a graph that can be replayed reproducibly, with
// non-decreasing times.
#include <cstddef>
#include <cstdint>
#include <string>

#include "planner/core/error.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/io/graph_reader.hpp"

namespace {

bool is_ordered(const dtfm::TaskRecord& task) {
  switch (task.state) {
    case dtfm::TaskState::done:
    case dtfm::TaskState::failed:
      return task.ready <= task.start && task.start <= task.finish;
    case dtfm::TaskState::aborted:
      return task.ready <= task.start;
    case dtfm::TaskState::blocked:
      return task.finish != task.finish;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const dtfm::TaskGraph graph =
        dtfm::parse_task_graph(std::string(reinterpret_cast<const char*>(data), size), "graph.txt");
    // Periodic profiles could require any number of changes before a distant end.
    for (const dtfm::Profile& profile : graph.profiles)
      if (profile.period > 0) return 0;
    const dtfm::Replay first = dtfm::replay(graph), second = dtfm::replay(graph);
    for (const dtfm::TaskRecord& task : first.tasks) DTFM_ASSERT(is_ordered(task));
    DTFM_ASSERT(first.makespan == second.makespan && first.events == second.events);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
