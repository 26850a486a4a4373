// Jobs that leave settings to the planner.
#pragma once

#include "core/plan/settings.hpp"

namespace dtfm {

/// Everything that a job may leave to the planner, besides the numbers of stages and replicas.
inline SettingSet all_open_settings() {
  SettingSet open;
  for (const SettingTraits& it : setting_table()) open[it.kind] = it.may_be_auto && !it.none_is_open;
  return open;
}

}  // namespace dtfm
