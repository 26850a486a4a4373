#include "core/plan/stage_mesh.hpp"

#include <numeric>
#include <variant>

#include <fmt/format.h>

#include "core/plan/job.hpp"

namespace dtfm {

int devices_per_stage(const Job& job) {
  return job.parallelism.tensor * job.execution.stage_data.value_or(1);
}

int expert_count(const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  return transformer != nullptr ? transformer->experts.count : 0;
}

std::string mesh_obstacle(const Job& job) {
  const int data = job.execution.stage_data.value_or(1), expert = job.execution.expert,
            experts = expert_count(job.model);
  if (expert > 1 && experts == 0)
    return fmt::format("expert-parallel degree {} requires a model with experts", expert);
  if (expert > 1 && experts % expert != 0)
    return fmt::format("expert-parallel degree {} does not divide the {} experts of the model", expert,
                       experts);
  if (devices_per_stage(job) % expert != 0)
    return fmt::format(
        "expert-parallel degree {} does not divide the devices of a stage, tensor {} × "
        "stage_data {}",
        expert, job.parallelism.tensor, data);
  if (job.execution.micro_batch % data != 0)
    return fmt::format("micro_batch {} is not a multiple of stage_data {}", job.execution.micro_batch, data);
  return "";
}

void fit_stage_data(Job& job) {
  const int tensor = job.parallelism.tensor, data = std::lcm(tensor, job.execution.expert) / tensor;
  job.execution.stage_data.reset();
  if (data > 1) job.execution.stage_data = data;
}

}  // namespace dtfm
