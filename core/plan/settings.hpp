// The settings of jobs and plans: one row each. Readers, writers, JSON Schema, the tables of
// docs/files/job.md, conflicts between plan and job, the comparison of plans, and what trainers run are loops
// over the rows (docs/add-a-setting.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/setting_value.hpp"

namespace dtfm {

struct TargetTraits;

/// The maps of a job file that contain settings.
enum class SettingSection : unsigned char { training, parallelism, compression };
std::string_view name_of(SettingSection section);

enum class SettingType : unsigned char {
  flag,    // true or false
  count,   // a whole number
  factor,  // a number of at least 1
  name,    // of a row in the table of a kind
  ratio,   // a factor, or the name of a method of compression
  rate     // bits per second
};
std::string_view name_of(SettingType type);

/// How a plan diff shows a setting.
struct SettingDiff {
  std::string_view name = {};    // if it is not the key
  std::string_view prefix = {};  // of its values
  std::string_view none = {};    // if it has no value
  int rank = 2;  // of the row within its section; rows of equal rank are in the order of the table
};

struct SettingTraits {
  Setting kind = {};
  std::string_view name = {};  // key in files
  SettingSection section = SettingSection::parallelism;
  std::string_view meaning = {};          // for docs/files/job.md and, without links, the JSON Schema
  std::string_view option_help = {};      // of the programs' option for it; empty: there is none
  bool is_required = false;               // in jobs
  bool may_be_auto = false;               // a job may leave it to the planner by `auto`
  bool may_be_list = false;               // or by a list of values
  bool none_is_open = false;              // without a value the planner decides; `auto` is no value
  std::optional<Setting> open_with = {};  // it is open if that setting is
  /// Files have it even if it has its default value. In a plan file without it, it is that of the job; other
  /// settings are their defaults.
  bool is_always_written = false;
  bool is_always_in_plans = false;       // is_always_written, but only in plans; missing: its default
  bool is_in_plan_summary = false;       // plan files repeat it in `parallelism`
  bool is_degree = false;                // the pipelines of a plan show it
  bool is_within_tensor_groups = false;  // it has no effect without tensor parallelism
  int min = 1, max = 1'000'000'000;      // of a count
  bool is_for_activations = false;       // of a ratio: some presets compress only gradients
  void (*compress)(Job&, const CompressionPreset&) = nullptr;  // sets a ratio by a preset
  /// What a target runs for a job; the first is what jobs with other values get. Empty: whatever the job
  /// says. Null: only the default.
  std::vector<SettingValue> (*runs)(const TargetTraits&, const Job&) = nullptr;
  int target_rank = 4;  // order in which targets change settings; equal ranks: the order of the table
  SettingDiff diff = {};

  // These follow from the member that holds the value.
  SettingType type = {};
  // For type `name`: the names that jobs may give, and those of them that the planner tries.
  std::vector<std::string_view> (*names)() = nullptr, (*candidates)() = nullptr;
  SettingValue (*get)(const Job&) = nullptr;
  SettingValue (*get_in_plan)(const ExecutionConfig&) = nullptr;  // null: plans do not have it
  void (*set)(Job&, const SettingValue&) = nullptr;
};

/// A row for each value, in the order of the keys in files.
std::span<const SettingTraits> setting_table();
const SettingTraits& traits(Setting setting);
/// The key in files: "schedule".
std::string_view name_of(Setting setting);
/// The rows in ascending order of a rank; rows of equal rank in their order.
std::vector<const SettingTraits*> settings_by_rank(int (*rank)(const SettingTraits&));

/// Its value if a job does not give it.
SettingValue default_value(Setting setting);
/// A ratio that a preset defines, as the ratio alone; other values as they are.
SettingValue without_preset(const SettingValue& value);
/// The notation of files: "1f1b", "true", "1000000000 bps"; empty if there is none.
std::string format_value(const SettingValue& value);

/// Whether the setting has no effect with the degrees of the job, whatever its value.
bool has_no_effect(const Job& job, Setting setting);
/// What a target runs for the job (SettingTraits::runs); empty: whatever the job says.
std::vector<SettingValue> values_run(const TargetTraits& target, const Job& job, Setting setting);

/// The values among which the job lets the planner choose; empty if it does not list them.
std::vector<SettingValue> listed_values(const Job& job, Setting setting);
/// Whether the job leaves the setting to the planner.
bool is_open(const Job& job, Setting setting);
/// Whether a plan of the job may have this value.
bool allows(const Job& job, Setting setting, const SettingValue& value);
/// What the planner may choose for an automatic setting: what the job lists, else what its target runs, else
/// the candidates of a kind; empty: anything.
std::vector<SettingValue> choices(const Job& job, Setting setting);
bool is_choice(const Job& job, Setting setting, const SettingValue& value);
/// What the job says, in the notation of files: a value, or a list to choose from; empty if it says nothing.
std::string format_allowed(const Job& job, Setting setting);

}  // namespace dtfm
