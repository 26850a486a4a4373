// Prints the rows of the table of settings, and how exporters of trainers account for them, as JSON, from
// which tests/cli/settings.py writes a JSON Schema and documentation.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "core/plan/settings.hpp"
#include "planner/export/exporter.hpp"

namespace {

using nlohmann::ordered_json;

std::string_view name_of(dtfm::CompressionTraits::Parameter parameter) {
  using Parameter = dtfm::CompressionTraits::Parameter;
  return parameter == Parameter::none ? "none" : parameter == Parameter::share ? "share" : "whole";
}

/// The methods that jobs may name in place of a ratio.
ordered_json methods_json(const dtfm::SettingTraits& setting) {
  ordered_json json = ordered_json::array();
  for (const dtfm::CompressionTraits& it : dtfm::compression_table())
    if (it.compresses_activations || !setting.is_for_activations)
      json.push_back({{"name", it.name}, {"suffix", it.suffix}, {"parameter", name_of(it.parameter)}});
  return json;
}

ordered_json setting_json(const dtfm::SettingTraits& setting) {
  ordered_json json = {{"key", setting.name},
                       {"section", dtfm::name_of(setting.section)},
                       {"type", dtfm::name_of(setting.type)},
                       {"meaning", setting.meaning},
                       {"default", dtfm::format_value(dtfm::default_value(setting.kind))},
                       {"is_required", setting.is_required},
                       {"may_be_auto", setting.may_be_auto},
                       {"none_is_open", setting.none_is_open},
                       {"may_be_list", setting.may_be_list},
                       {"is_in_plans", setting.get_in_plan != nullptr},
                       {"is_always_in_plans", setting.is_always_written || setting.is_always_in_plans}};
  if (setting.type == dtfm::SettingType::count) json["min"] = setting.min;
  if (setting.type == dtfm::SettingType::name) json["names"] = setting.names();
  if (setting.type == dtfm::SettingType::ratio) json["methods"] = methods_json(setting);
  return json;
}

ordered_json trainer_json(const dtfm::exporter::Exporter& trainer) {
  ordered_json rows = ordered_json::array();
  for (const dtfm::exporter::ExportedSetting& it : trainer.settings)
    rows.push_back({{"key", dtfm::name_of(it.kind)}, {"form", name_of(it.form)}, {"as", it.as}});
  return {{"name", trainer.name},
          {"evidence", name_of(trainer.evidence)},
          {"version", trainer.version},
          {"settings", rows}};
}

}  // namespace

int main() {
  ordered_json settings = ordered_json::array(), trainers = ordered_json::array();
  for (const dtfm::SettingTraits& it : dtfm::setting_table()) settings.push_back(setting_json(it));
  for (const dtfm::exporter::Exporter& it : dtfm::exporter::exporters())
    if (it.target) trainers.push_back(trainer_json(it));
  std::cout << ordered_json{{"settings", settings}, {"trainers", trainers}}.dump(1) << "\n";
}
