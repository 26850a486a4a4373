// Baselines without planning: devices in file order, deployed as they come.
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {
namespace {

Stopped place(SearchRun& run, bool stage_major) {
  const cost::CommCostModel& model = run.model();
  Placement placement(model.stages, model.replicas);
  for (int device = 0; device < model.devices(); ++device) {
    if (stage_major)
      placement.at(device / model.replicas, device % model.replicas) = device;
    else
      placement.at(device % model.stages, device / model.stages) = device;
  }
  run.offer(placement, cost::comm_cost(model, placement).total(), 1);
  return Stopped::complete;
}

}  // namespace

Stopped run_identity(SearchRun& run) {
  return place(run, false);
}
Stopped run_megatron(SearchRun& run) {
  return place(run, true);
}

}  // namespace dtfm::search
