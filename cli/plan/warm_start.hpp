// Formats how a plan differs from the running plan from which its search started.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::cli {

/// `input` is what the model counts.
std::string format_warm_start(const api::WarmStartAnswer& warm, Objective objective, ModelInput input,
                              const Topology& topology);
/// A table of the devices and what they fetch; empty if no state is migrated.
std::string format_migration(const api::MigrationSummary& migration, const Topology& topology);

}  // namespace dtfm::cli
