#include "planner/export/exported_setting.hpp"

#include <fmt/format.h>

#include "planner/export/export_requirements.hpp"

namespace dtfm::exporter {

std::string_view name_of(SettingForm form) {
  constexpr std::array names = {std::string_view("file"), std::string_view("layout"),
                                std::string_view("built in"), std::string_view("note")};
  return names.at(static_cast<std::size_t>(form));
}

std::string exported_value(const ExportBundle& bundle, Setting setting) {
  if (setting == Setting::pipeline) return fmt::format("{}", stage_count(bundle));
  if (setting == Setting::data) return fmt::format("{}", replica_count(bundle));
  if (setting == Setting::tensor) return fmt::format("{}", tensor_degree(bundle));
  if ((traits(setting).is_within_tensor_groups && tensor_degree(bundle) == 1) ||
      has_no_effect(bundle.job, setting))
    return format_value(default_value(setting));
  return format_value(traits(setting).get(bundle.job));
}

}  // namespace dtfm::exporter
