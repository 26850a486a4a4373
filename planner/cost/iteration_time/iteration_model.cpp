#include "planner/cost/iteration_time/iteration_model.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

std::vector<StageCosts> costs_by_degree(const Problem& problem, const std::vector<int>& tensors) {
  std::vector<StageCosts> costs;
  costs.reserve(tensors.size());
  for (const int tensor : tensors) costs.emplace_back(problem, tensor);
  return costs;
}

std::vector<std::size_t> numbers_of(const std::vector<int>& tensors) {
  DTFM_ASSERT(!tensors.empty());
  std::vector<std::size_t> numbers(at(tensors.back()) + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) numbers[at(tensors[i])] = i;
  return numbers;
}

}  // namespace

IterationModel::IterationModel(const Problem& of, int tensor)
    : IterationModel(of, std::vector{tensor},
                     std::make_shared<const NetworkCost>(of.topology, of.constants)) {}

IterationModel::IterationModel(const Problem& of, const std::vector<int>& tensors,
                               std::shared_ptr<const NetworkCost> its_network)
    : problem(of),
      by_degree(costs_by_degree(of, tensors)),
      number_of_degree(numbers_of(tensors)),
      stages(by_degree.back()),
      shared_network(std::move(its_network)),
      network(*shared_network),
      schedule(of.job.execution.schedule),
      messaging(of.job.execution.messaging),
      sync(of.job.execution.gradient_sync),
      sharding(traits(of.job.execution.optimizer_sharding)),
      chunks(stage_chunks(of.job)),
      flush(of.job.execution.flush.value_or(0)) {}

std::size_t IterationModel::degree_below(std::size_t degree) const {
  const std::size_t number = number_of_degree[degree];
  return number > 0 ? static_cast<std::size_t>(by_degree[number - 1].devices()) : 0;
}

bool IterationModel::has_degree(std::size_t degree) const {
  return degree < number_of_degree.size() && static_cast<std::size_t>(stages_of(degree).devices()) == degree;
}

const std::string& IterationModel::unknown(int device) const {
  for (const StageCosts& costs : by_degree)
    if (!costs.unknown(device).empty()) return costs.unknown(device);
  return stages.unknown(device);
}

double IterationModel::compressed_share(const std::vector<int>& own, const std::vector<int>& other,
                                        Direction direction) const {
  const int parts = parts_between(own, other), of_rank = parts / static_cast<int>(own.size());
  int most = 0, compressed = 0;
  for (int part = 0; part < parts; ++part) {
    if (part % of_rank == 0) compressed = 0;
    const int device = device_of_part(own, part, parts), peer = device_of_part(other, part, parts);
    if (direction == Direction::sent ? is_compressed(device, peer) : is_compressed(peer, device))
      ++compressed;
    most = std::max(most, compressed);
  }
  return static_cast<double>(most) / of_rank;
}

}  // namespace dtfm::cost
