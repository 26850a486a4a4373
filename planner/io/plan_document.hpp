// Writes plan files, schema dtfm-plan/1.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/plan_answer.hpp"

namespace dtfm::io {

/// The content of a plan file. Equal answers give equal documents.
nlohmann::ordered_json plan_document(const api::PlanAnswer& answer);

/// What the planner may decide besides the devices and layers of stages: micro_batch, recompute,
/// recompute_layers (0: all), schedule, chunks (0: none), flush (0: once per iteration), gradient_sync,
/// optimizer_sharding, tensor, context and expert (0: not used), context_exchange and expert_dispatch (none:
/// not used), activations and gradients.
nlohmann::ordered_json decisions_json(const Plan& plan);
/// [finalist]: those of its decisions in which the finalists differ.
std::vector<nlohmann::ordered_json> differing_decisions(const std::vector<api::Finalist>& finalists);

/// Settings that a target replaces: a list of key, from and to.
nlohmann::ordered_json changes_json(const std::vector<TargetChange>& changes);
/// An element of `targets`: the time of a target with its changes, or its obstacle.
nlohmann::ordered_json target_json(const api::TargetTime& time);

/// `topology` has the devices of the migration.
nlohmann::ordered_json migration_json(const api::MigrationSummary& migration, const Topology& topology);

}  // namespace dtfm::io
