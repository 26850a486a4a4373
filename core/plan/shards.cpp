#include "core/plan/shards.hpp"

#include <set>
#include <string>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

std::string find_stage_of_degree(const Plan& plan, int degree) {
  for (std::size_t pipeline = 0; pipeline < plan.pipelines.size(); ++pipeline)
    for (std::size_t stage = 0; stage < plan.pipelines[pipeline].stages.size(); ++stage)
      if (plan.pipelines[pipeline].stages[stage].devices.size() == at(degree))
        return fmt::format("stage {} of pipeline {}", stage, pipeline);
  return "";
}

}  // namespace

std::vector<int> tensor_degrees(const Plan& plan) {
  std::set<int> degrees;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) degrees.insert(static_cast<int>(stage.devices.size()));
  return {degrees.begin(), degrees.end()};
}

void check_tensor_degrees(const Plan& plan) {
  const std::vector<int> degrees = tensor_degrees(plan);
  for (std::size_t i = 1; i < degrees.size(); ++i) {
    const int smaller = degrees[i - 1], larger = degrees[i];
    if (larger % smaller != 0)
      throw Error("", fmt::format("{} has {} devices and {} has {}: of any two tensor degrees, the larger "
                                  "must be a multiple of the smaller",
                                  find_stage_of_degree(plan, smaller), smaller,
                                  find_stage_of_degree(plan, larger), larger));
  }
}

}  // namespace dtfm
