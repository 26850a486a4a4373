// Tensor-parallel groups by their devices, and the state that they must fetch for the slots of a plan.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::search {

inline constexpr int no_tensor_group = -1;

/// Maximum number of evaluations of a repair or of minimizing migration. Chosen by hand: some seconds with
/// 1,024 groups.
inline constexpr long long max_evaluations = 5000;

/// Finds the tensor-parallel group with given devices, in any order; `no_tensor_group` if there is none.
/// `tensor_groups` must outlive this.
class TensorGroupIndex {
 public:
  explicit TensorGroupIndex(const std::vector<std::vector<int>>& tensor_groups)
      : tensor_groups_(tensor_groups) {
    for (std::size_t tensor_group = 0; tensor_group < tensor_groups_.size(); ++tensor_group)
      of_first_[*std::min_element(tensor_groups_[tensor_group].begin(), tensor_groups_[tensor_group].end())] =
          static_cast<int>(tensor_group);
  }
  int of(const std::vector<int>& devices) const {
    if (devices.empty()) return no_tensor_group;
    const auto found = of_first_.find(*std::min_element(devices.begin(), devices.end()));
    if (found == of_first_.end()) return no_tensor_group;
    const std::vector<int>& tensor_group = tensor_groups_[at(found->second)];
    return std::is_permutation(tensor_group.begin(), tensor_group.end(), devices.begin(), devices.end())
               ? found->second
               : no_tensor_group;
  }

 private:
  const std::vector<std::vector<int>>& tensor_groups_;
  std::map<int, int> of_first_;
};

/// Bytes that each tensor-parallel group must fetch for given layers; 0 without migration. `tensor_groups`
/// and `migration` must outlive this.
class MissingBytes {
 public:
  MissingBytes(const std::vector<std::vector<int>>& tensor_groups, const cost::MigrationCost* migration)
      : tensor_groups_(tensor_groups), migration_(migration) {}

  /// By tensor-parallel group. The reference stays valid.
  const std::vector<double>& of(const std::vector<std::pair<int, int>>& layers) {
    std::vector<double>& missing = known_[layers];
    if (missing.empty())
      for (const std::vector<int>& tensor_group : tensor_groups_)
        missing.push_back(migration_ ? migration_->missing_bytes(tensor_group, layers) : 0);
    return missing;
  }

 private:
  const std::vector<std::vector<int>>& tensor_groups_;
  const cost::MigrationCost* migration_;
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> known_;
};

}  // namespace dtfm::search
