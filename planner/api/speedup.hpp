// What makes a plan faster than a scheme: placement, schedule or collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/api/schemes/scheme.hpp"

namespace dtfm::api {

/// Schedule, optimizer sharding and gradient synchronization: settings of a trainer that do not depend on the
/// placement.
struct RunSettings {
  Schedule schedule = {};
  std::optional<int> chunks = {};
  GradientSync gradient_sync = {};
  bool overlap = false;
  OptimizerSharding optimizer_sharding = {};

  friend bool operator==(const RunSettings&, const RunSettings&) = default;
};

RunSettings settings_of(const Plan& plan);
/// The job with these settings, none of them left open.
Job with_settings(Job job, const RunSettings& settings);
/// "1f1b-blocking, ring" or "gpipe, ring zero2"
std::string format_settings(const RunSettings& settings);

/// Whether the layout's speed differs from that of a plan only by placement, schedule and collective. This is
/// not so if replicas synchronize rarely, if stages are skipped, or if jobs cannot have its sharding.
bool is_decomposable(const ChosenLayout& chosen);

/// Two settings on the way from a decomposable layout to a plan: those of the layout, and those with the
/// schedule of the plan. A layout without pipelines has the schedule of the plan, and a layout without
/// replicas its collective, because it does not matter to them.
struct SettingSteps {
  RunSettings layout, planned_schedule;
};
SettingSteps steps_between(const Layout& layout, const Plan& planned);

/// How many times as fast as a scheme the plan is. `total` is the product of the factors, each of which
/// replaces one thing more by that of the plan:
///   placement   the scheme ÷ a plan made for the schedule and the collective of the scheme
///   schedule    that plan ÷ a plan made for the plan's own schedule and the collective of the scheme
///   collective  this plan ÷ the plan; includes the sharding of the optimizer
struct Speedup {
  std::string scheme;
  double total = 0, placement = 0, schedule = 0, collective = 0;
};

}  // namespace dtfm::api
