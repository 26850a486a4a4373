// How Megatron-LM's flags express the model and the settings of a job: one table, which the exporter writes
// and the importer reads.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/job.hpp"

namespace dtfm::io {

class MegatronFlags;

enum class FlagArgument : unsigned char { none, number, word, words };

/// A job as Megatron-LM runs it, whose settings are decided.
struct MegatronRun {
  const Job& job;
  int tensor = 1, stages = 1;  // tensor-parallel degree, stages of a pipeline
  int instances = 1;           // of a sharded optimizer
};

/// A flag by which Megatron-LM learns of a part of the job.
struct MegatronSettingFlag {
  std::string_view name;
  FlagArgument argument = {};
  /// Its value for a job, empty without an argument; nullopt: the job has no such flag.
  std::optional<std::string> (*value)(const MegatronRun&) = nullptr;
  /// What a job says that this flag expresses: "optimizer_sharding: zero1".
  std::string (*says)(const Job&) = nullptr;
  /// What Megatron-LM takes without the flag; null: nothing.
  std::string (*by_default)(const MegatronFlags&, const MegatronRun&) = nullptr;
  /// A flag without which Megatron-LM ignores this one; empty: none.
  std::string_view parent = {};
  /// The common notation of values that plans do not distinguish; null: the value itself.
  std::string (*canonical)(const std::string&, const MegatronFlags&, const MegatronRun&) = nullptr;
};

std::span<const MegatronSettingFlag> megatron_setting_flags();

/// The flags of a job with their values, in the order of the table. Number and layers of stages, batches and
/// the other sizes are not among them.
std::vector<std::pair<std::string, std::string>> megatron_arguments(const MegatronRun& run);

/// The settings that flags express, in the notation of format_value. `chunks`: virtual stages per device.
std::map<Setting, std::string> megatron_settings(const MegatronFlags& flags, int chunks,
                                                 std::optional<int> stage_data);

/// For each flag that differs from the job, a line with both values.
std::vector<std::string> megatron_differences(const MegatronFlags& flags, const MegatronRun& run);

}  // namespace dtfm::io
