#include "core/io/readers/plan_mesh.hpp"

#include "core/base/error.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/stage_mesh.hpp"

namespace dtfm::io {

void set_degrees(const Job& job, Plan& plan) {
  Job decided = job;
  decided.execution = plan.execution;
  if (!plan.execution.stage_data && !job.automatic[Setting::tensor]) {
    fit_stage_data(decided);
    plan.execution.stage_data = decided.execution.stage_data;
  }
  check_stage_sizes(plan);
  plan.tensor = tensor_degrees(plan).back();
  decided.parallelism.tensor = plan.tensor;
  if (const std::string what = mesh_obstacle(decided); !what.empty()) throw Error("", what);
}

}  // namespace dtfm::io
