// A set of settings.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "core/plan/execution_config.hpp"

namespace dtfm {

class SettingSet {
 public:
  SettingSet() = default;
  SettingSet(std::initializer_list<Setting> settings) {
    for (const Setting it : settings) (*this)[it] = true;
  }

  /// Whether the set contains the setting.
  bool& operator[](Setting setting) { return contains_[static_cast<std::size_t>(setting)]; }
  bool operator[](Setting setting) const { return contains_[static_cast<std::size_t>(setting)]; }
  bool is_empty() const { return *this == SettingSet(); }

  friend SettingSet operator&(SettingSet a, const SettingSet& b) {
    for (std::size_t i = 0; i < setting_count; ++i) a.contains_[i] = a.contains_[i] && b.contains_[i];
    return a;
  }
  friend bool operator==(const SettingSet&, const SettingSet&) = default;

 private:
  std::array<bool, setting_count> contains_{};
};

}  // namespace dtfm
