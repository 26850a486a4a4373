// Writes a Pareto front of plans, schema dtfm-pareto/1.
#pragma once

#include <string>

#include "planner/api/plan_answer.hpp"

namespace dtfm::io {

/// The text of a Pareto file. Keys: schema, topology {name, fingerprint}, points, search {seed, evaluations,
/// stopped}, warnings (if there are any), version. A point has
///   iteration_time_s, usd    estimates; usd is per iteration, and null if a price is unknown
///   simulated                {iteration_time_s, usd}, which determine the front; null if not simulated
///   devices, pipeline, data, tensor
///   decisions                {micro_batch, recompute, recompute_layers, schedule, chunks, flush,
///                            gradient_sync, optimizer_sharding, context, context_exchange, expert,
///                            expert_dispatch, activations, gradients}; recompute_layers, chunks, flush,
///                            context, context_exchange, expert and expert_dispatch only if the plan uses
///                            them
///   plan                     a complete plan file, dtfm-plan/1
/// The answer must have a front. Equal answers give equal bytes.
std::string pareto_json(const api::PlanAnswer& answer);

/// Whether a file that begins with `text` looks like a Pareto file.
bool is_pareto_prefix(const std::string& text);

}  // namespace dtfm::io
