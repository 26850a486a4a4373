// Any bytes read as a task graph give an Error or a graph that can be replayed reproducibly, with
// non-decreasing times.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/io/graph_reader.hpp"

namespace {

bool is_ordered(const dtfm::sim::TaskRecord& task) {
  switch (task.state) {
    case dtfm::sim::TaskState::done:
    case dtfm::sim::TaskState::failed:
      return task.ready <= task.start && task.start <= task.finish;
    case dtfm::sim::TaskState::aborted:
      return task.ready <= task.start;
    case dtfm::sim::TaskState::blocked:
      return task.finish != task.finish;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const dtfm::sim::TaskGraph graph =
        dtfm::io::parse_task_graph(std::string(reinterpret_cast<const char*>(data), size), "graph.txt");
    // Periodic profiles could require any number of changes before a distant end.
    for (const dtfm::sim::Profile& profile : graph.profiles)
      if (profile.period > 0) return 0;
    const dtfm::sim::Replay first = dtfm::sim::replay(graph), second = dtfm::sim::replay(graph);
    for (const dtfm::sim::TaskRecord& task : first.tasks) DTFM_ASSERT(is_ordered(task));
    DTFM_ASSERT(first.makespan == second.makespan && first.events == second.events);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
