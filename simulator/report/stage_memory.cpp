#include "simulator/report/stage_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/core/index.hpp"
#include "simulator/lowering/iteration_graph.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm {
namespace {

double total(const StageMemory& memory) {
  return memory.state + memory.activation + memory.working;
}

struct Table {
  std::map<std::pair<int, int>, StageMemory> of_device;  // by device and stage
  std::vector<StageMemory> most;                         // by stage
};

Table table_of(const Problem& problem, const Plan& plan) {
  const LoadModel model(problem, plan);
  Table table;
  for (const Pipeline& pipeline : computed_stages(problem.job, plan).pipelines) {
    if (table.most.size() < pipeline.stages.size()) table.most.resize(pipeline.stages.size());
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      const StageLoad load = model.of(pipeline.stages[stage]);
      const StageMemory memory{load.state_bytes, load.activation_bytes, load.working_bytes};
      if (total(memory) > total(table.most[stage])) table.most[stage] = memory;
      for (const int device : pipeline.stages[stage].devices)
        table.of_device[{device, static_cast<int>(stage)}] = memory;
    }
  }
  return table;
}

}  // namespace

StageMemoryOf stage_memory(const Problem& problem, const Plan& plan) {
  return [table = table_of(problem, plan)](int device, int stage) {
    const auto found = table.of_device.find({device, stage});
    return found != table.of_device.end() ? found->second : table.most[at(stage)];
  };
}

}  // namespace dtfm
