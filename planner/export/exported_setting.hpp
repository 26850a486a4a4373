// How the settings of a plan reach a trainer. Each exporter of a trainer for which plans are made has a row
// for every setting; docs/exported-settings.md shows them all.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "core/base/kind_table.hpp"
#include "core/plan/settings.hpp"
#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

enum class SettingForm : unsigned char {
  file,      // files contain it, and ReadBack::settings has it
  layout,    // it follows from the number of ranks and their layers, which ReadBack has
  built_in,  // the trainer knows only the value with which it runs plans (core/plan/target.cpp)
  note       // the user is told
};
std::string_view name_of(SettingForm form);

struct ExportedSetting {
  Setting kind = {};
  SettingForm form = {};
  std::string_view as = {};  // the flag or key, or what the trainer does
};

/// A row for each setting, in the order of the enum.
using ExportedSettings = std::array<ExportedSetting, setting_count>;

constexpr bool is_complete(const ExportedSettings& settings) {
  return has_row_for_each(settings, static_cast<Setting>(setting_count - 1));
}

/// The value with which the trainer runs the plan of the bundle, in the notation of files (format_value).
/// Degrees are those of the plan, whose pipelines must be uniform. What has no effect without tensor
/// parallelism has its default value then.
std::string exported_value(const ExportBundle& bundle, Setting setting);

}  // namespace dtfm::exporter
