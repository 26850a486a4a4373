// Units by their devices, and what each of them lacks in the seats of a plan.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "planner/core/index.hpp"
#include "planner/cost/iteration_time/moving_cost.hpp"

namespace dtfm::search {

inline constexpr int nobody = -1;

/// Plans that a repair or a settling prices at most. Set by hand: some seconds with 1,024 units.
inline constexpr long long most_prices = 5000;

/// The unit that stands on devices, in any order; `nobody` where none does. `units` must outlive this.
class UnitNumbers {
 public:
  explicit UnitNumbers(const std::vector<std::vector<int>>& units) : units_(units) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      of_first_[*std::min_element(units_[unit].begin(), units_[unit].end())] = static_cast<int>(unit);
  }
  int of(const std::vector<int>& devices) const {
    if (devices.empty()) return nobody;
    const auto found = of_first_.find(*std::min_element(devices.begin(), devices.end()));
    if (found == of_first_.end()) return nobody;
    const std::vector<int>& unit = units_[at(found->second)];
    return std::is_permutation(unit.begin(), unit.end(), devices.begin(), devices.end()) ? found->second
                                                                                         : nobody;
  }

 private:
  const std::vector<std::vector<int>>& units_;
  std::map<int, int> of_first_;
};

/// Bytes that each unit lacks of layers; none where nothing moves. `units` and `moving` must outlive this.
class LackingBytes {
 public:
  LackingBytes(const std::vector<std::vector<int>>& units, const cost::MovingCost* moving)
      : units_(units), moving_(moving) {}

  /// Of each unit. What it refers to stays.
  const std::vector<double>& of(const std::vector<std::pair<int, int>>& layers) {
    std::vector<double>& lacking = known_[layers];
    if (lacking.empty())
      for (const std::vector<int>& unit : units_)
        lacking.push_back(moving_ ? moving_->lacking_bytes(unit, layers) : 0);
    return lacking;
  }

 private:
  const std::vector<std::vector<int>>& units_;
  const cost::MovingCost* moving_;
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> known_;
};

}  // namespace dtfm::search
