#include "planner/request/setting_options.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/text/split.hpp"
#include "core/io/writers/plan_json.hpp"

namespace dtfm::request {
namespace {

using nlohmann::ordered_json;

std::string option_name(const SettingTraits& setting) {
  std::string name = fmt::format("--{}", setting.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// "NAME|auto"
std::string placeholder(const SettingTraits& setting) {
  if (setting.type == SettingType::flag) return "true|false";
  const char* value = setting.type == SettingType::name ? "NAME" : "N";
  return fmt::format("{}{}", value, setting.may_be_auto ? "|auto" : "");
}

/// As it would stand in a job file.
ordered_json scalar_of(const std::string& word) {
  if (word == "true" || word == "false") return word == "true";
  const bool is_number = !word.empty() && word.size() < 10 &&
                         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? ordered_json(std::stoll(word)) : ordered_json(word);
}

ordered_json value_of(const std::string& text) {
  if (text.find(',') == std::string::npos) return scalar_of(text);
  ordered_json list = ordered_json::array();
  for (const std::string_view word : io::split(text, ',')) list.push_back(scalar_of(std::string(word)));
  return list;
}

}  // namespace

void add_setting_options(OptionList& list, GivenSettings& settings) {
  for (const SettingTraits& it : setting_table()) {
    if (it.option_help.empty()) continue;
    const std::string name = option_name(it);
    Option& option = add_option(
        list, name.c_str(), placeholder(it).c_str(), fmt::format("{} [that of the job]", it.option_help),
        [&settings, kind = it.kind](const std::string& text) { settings.emplace_back(kind, text); });
    if (it.type != SettingType::name) continue;
    const std::vector<std::string_view> names = it.names();
    set_completion_values(option, {names.begin(), names.end()});
  }
}

Job with_settings(const Job& job, const GivenSettings& settings, const std::optional<int>& batch) {
  if (settings.empty()) return job;
  ordered_json document = io::job_json(job);
  std::vector<std::string> names;
  for (const auto& [kind, text] : settings) {
    const SettingTraits& setting = traits(kind);
    document[std::string(name_of(setting.section))][std::string(setting.name)] = value_of(text);
    names.push_back(option_name(setting));
  }
  if (batch) document["training"]["global_batch"] = *batch;
  try {
    return io::parse_job(document.dump(), "job " + job.name);
  } catch (const Error& error) {
    std::string problem = error.problem();
    if (names.size() == 1)  // The name of the option says which key it is.
      if (const std::string key = fmt::format("`{}`: ", name_of(settings.front().first));
          problem.starts_with(key))
        problem.erase(0, key.size());
    throw Error(fmt::format("{}", fmt::join(names, ", ")), problem);
  }
}

}  // namespace dtfm::request
