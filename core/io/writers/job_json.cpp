#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

std::string format_size(Bytes size) {
  return fmt::format("{} B", size.value());
}

ordered_json setting_json(const SettingValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* count = std::get_if<int>(&value)) return *count;
  if (const auto* factor = std::get_if<double>(&value)) return *factor;
  const auto* ratio = std::get_if<CompressionRatio>(&value);
  return ratio && !ratio->preset ? ordered_json(ratio->ratio) : ordered_json(format_value(value));
}

/// What the job leaves to the planner: a list to choose from, or `auto`.
ordered_json open_json(const Job& job, Setting setting) {
  const std::vector<SettingValue> listed = listed_values(job, setting);
  if (listed.empty()) return "auto";
  ordered_json list = ordered_json::array();
  for (const SettingValue& it : listed) list.push_back(setting_json(it));
  return list;
}

ordered_json section_json(const Job& job, SettingSection section) {
  ordered_json json = ordered_json::object();
  for (const SettingTraits& it : setting_table()) {
    if (it.section != section) continue;
    if (it.may_be_auto && is_open(job, it.kind))
      json[std::string(it.name)] = open_json(job, it.kind);
    else if (const SettingValue value = it.get(job); it.is_always_written || value != default_value(it.kind))
      json[std::string(it.name)] = setting_json(value);
  }
  return json;
}

/// A list of the profiles, or the entry itself if there is only one.
ordered_json profiles_json(const Job& job) {
  ordered_json list = ordered_json::array();
  for (const LayerProfile& profile : job.profiles) list.push_back(profile_json(profile));
  if (job.efficiency) list.push_back({{"analytic", true}, {"efficiency", *job.efficiency}});
  return list.size() == 1 ? list.front() : list;
}

}  // namespace

ordered_json execution_json(const ExecutionConfig& execution) {
  ordered_json json;
  for (const SettingTraits& it : setting_table()) {
    if (it.get_in_plan == nullptr) continue;
    const SettingValue value = it.get_in_plan(execution);
    if (!it.is_always_written && !it.is_always_in_plans && value == default_value(it.kind)) continue;
    ordered_json& part =
        it.section == SettingSection::compression ? json[std::string(name_of(it.section))] : json;
    part[std::string(it.name)] = setting_json(value);
  }
  return json;
}

ordered_json plan_summary_json(const ExecutionConfig& execution) {
  ordered_json json;
  for (const SettingTraits& it : setting_table()) {
    if (!it.is_in_plan_summary) continue;
    const SettingValue value = it.get_in_plan(execution);
    if (it.is_always_written || value != default_value(it.kind))
      json[std::string(it.name)] = setting_json(value);
  }
  return json;
}

ordered_json job_json(const Job& job) {
  ordered_json json = {{"version", 1}, {"name", job.name}};
  if (job.target) json["target"] = name_of(*job.target);
  json["model"] = model_json(job.model);
  for (const SettingSection section :
       {SettingSection::training, SettingSection::parallelism, SettingSection::compression})
    json[std::string(name_of(section))] = section_json(job, section);
  if (!job.profiles.empty() || job.efficiency) json["profile"] = profiles_json(job);
  if (job.calibration) json["calibration"] = calibration_reference_json(*job.calibration);
  if (job.comm_cost)
    json["comm_cost"] = {{"gradient", format_size(job.comm_cost->gradient)},
                         {"activation", format_size(job.comm_cost->activation)}};
  if (job.comm_cost && job.comm_cost_stages) json["comm_cost"]["stages"] = *job.comm_cost_stages;
  return json;
}

}  // namespace dtfm::io
