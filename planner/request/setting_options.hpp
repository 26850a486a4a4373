// Options for the settings of a job: --schedule, --micro-batch and so on, by the table of settings.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/settings.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::request {

/// Settings with their values: a name or a number, `auto`, or a list to choose from: "1f1b,gpipe".
using GivenSettings = std::vector<std::pair<Setting, std::string>>;

/// Declares an option for every setting with an `option_help`.
void add_setting_options(OptionList& list, GivenSettings& settings);

/// The job with these settings and, if given, this global batch, as if its file had them. Throws Error for
/// values that it may not have.
Job with_settings(const Job& job, const GivenSettings& settings, const std::optional<int>& batch);

}  // namespace dtfm::request
