#include "simulator/report/stage_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/schedule/schedule.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {
namespace {

double total(const StageMemory& memory) {
  return memory.state + memory.activation + memory.working;
}

struct MemoryTable {
  std::map<std::pair<int, int>, StageMemory> by_device;  // by device and stage
  std::vector<StageMemory> largest;                      // by stage: the largest of all pipelines
};

/// With `copies`, a device that takes over a stage already holds the weights of that stage, so only the rest
/// counts for it.
MemoryTable make_table(const Problem& problem, const Plan& computed, bool copies) {
  const LoadModel model(problem, computed);
  MemoryTable table;
  for (const Pipeline& pipeline : computed.pipelines) {
    if (table.largest.size() < pipeline.stages.size()) table.largest.resize(pipeline.stages.size());
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      const StageLoad load = model.of(pipeline.stages[stage]);
      StageMemory memory{load.state_bytes, load.activation_bytes, load.working_bytes};
      StageMemory taken_over = memory;
      if (copies) taken_over.state -= load.weight_bytes;
      if (total(taken_over) > total(table.largest[stage])) table.largest[stage] = taken_over;
      const std::size_t count = pipeline.stages.size(), before = (stage + count - 1) % count;
      if (copies && count > 1) memory.state += model.of(pipeline.stages[before]).weight_bytes;
      for (const int device : pipeline.stages[stage].devices)
        table.by_device[{device, static_cast<int>(stage)}] = memory;
    }
  }
  return table;
}

StageMemoryOf lookup_in(MemoryTable table) {
  return [table = std::move(table)](int device, int stage) {
    const auto found = table.by_device.find({device, stage});
    return found != table.by_device.end() ? found->second : table.largest[at(stage)];
  };
}

/// Removes devices and micro-batch counts, on which the memory of a stage does not depend.
Plan strip_devices(Plan plan) {
  for (Pipeline& pipeline : plan.pipelines) {
    pipeline.micro_batches = 0;
    for (Stage& stage : pipeline.stages) stage.devices.assign(stage.devices.size(), 0);
  }
  return plan;
}

}  // namespace

StageMemoryOf stage_memory(const Problem& problem, const Plan& plan, bool copies) {
  return lookup_in(make_table(problem, expand_virtual_stages(plan), copies));
}

/// A device computes one operation at a time, so that its peak depends on their order only.
std::vector<double> required_memory(const Problem& problem, const Plan& plan) {
  using Kind = Operation::Kind;
  const Schedule schedule = plan.execution.schedule;
  const Kind last = traits(schedule).splits_backward ? Kind::weight_gradient : Kind::backward;
  const LoadModel model(problem, plan);
  const Plan computed = expand_virtual_stages(plan);
  std::vector<double> required(problem.topology->devices.size());
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const auto& [micro_batches, stages] = computed.pipelines[i];
    const int devices = static_cast<int>(plan.pipelines[i].stages.size());
    const int chunks = static_cast<int>(stages.size()) / devices;
    const PipelineShape shape{devices, chunks, micro_batches, planned_orders(plan.pipelines[i], schedule)};
    for (int position = 0; position < devices; ++position) {
      std::vector<StageLoad> loads;  // by chunk
      for (int chunk = 0; chunk < chunks; ++chunk)
        loads.push_back(model.of(stages[at(chunk * devices + position)]));
      double held = 0;
      for (const StageLoad& load : loads) held += load.state_bytes;
      double peak = held;
      for (const Operation& operation :
           operation_order(schedule, shape.position(position), plan.execution.flush.value_or(0))) {
        const StageLoad& load = loads[at(operation.chunk)];
        if (operation.kind == Kind::forward) held += load.activation_bytes;
        peak = std::max(peak, held + load.working_bytes);
        if (operation.kind == last) held -= load.activation_bytes;
      }
      for (const int device : stages[at(position)].devices) required[at(device)] += peak;
    }
  }
  return required;
}

CurrentStageMemory::CurrentStageMemory(const Problem& problem, const Plan& plan, bool copies)
    : problem_(problem),
      copies_(copies),
      layers_(strip_devices(expand_virtual_stages(plan))),
      memory_of_(stage_memory(problem, plan, copies)) {}

/// Keeps the table if only devices were replaced: a replacement counts as a device that is not in the plan.
/// With optimizer sharding, memory may depend on the sites of the devices (sharing_replicas).
void CurrentStageMemory::place(const Plan& computed) {
  Plan layers = strip_devices(computed);
  if (layers == layers_ && !traits(computed.execution.optimizer_sharding).optimizer) return;
  layers_ = std::move(layers);
  memory_of_ = lookup_in(make_table(problem_, computed, copies_));
}

}  // namespace dtfm::sim
