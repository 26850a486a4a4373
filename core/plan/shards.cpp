#include "core/plan/shards.hpp"

#include <algorithm>
#include <string>
#include <utility>

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

std::vector<int> stage_sizes(const Plan& plan) {
  std::vector<int> sizes;  // few
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const int size = static_cast<int>(stage.devices.size());
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
    }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::vector<int> tensor_degrees(const Plan& plan) {
  std::vector<int> degrees = stage_sizes(plan);
  for (int& it : degrees) it /= plan.execution.token_parts();
  return degrees;
}

void check_stage_sizes(const Plan& plan) {
  for (const int size : stage_sizes(plan))
    for (const auto& [name, degree] : {std::pair("context × stage_data", plan.execution.token_parts()),
                                       std::pair("expert", plan.execution.expert)})
      if (size % degree != 0)
        throw Error("", fmt::format("{} has {} devices, not a multiple of `{}`, {}",
                                    find_stage_of_degree(plan, size), size, name, degree));
}

void check_tensor_degrees(const Plan& plan) {
  const std::vector<int> degrees = stage_sizes(plan);
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
