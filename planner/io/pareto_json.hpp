// Writes a Pareto front of plans, schema dtfm-pareto/1.
#pragma once

#include <string>
#include <vector>

#include "planner/io/plan_document.hpp"
#include "planner/api/pareto.hpp"

namespace dtfm::io {

/// Content of a Pareto file besides the topology.
struct ParetoRecord {
  /// A plan that no other plan beats in iteration time, cost and number of devices at once.
  struct Point {
    api::ParetoPoint costs;
    search::PlanCandidate candidate;
    PlanRecord record;  // for its plan file
  };
  std::vector<Point> points;  // sorted by time, then cost, then devices
  PlanRecord::Search search;  // that found the whole front
  std::vector<std::string> warnings;
  std::string version;
};

/// The text of a Pareto file. Keys: schema, topology {name, fingerprint}, points, search {seed, evaluations,
/// stopped}, warnings (if there are any), version. A point has
///   iteration_time_s, usd    estimates; usd is per iteration, and null if a price is unknown
///   simulated                {iteration_time_s, usd}, which determine the front; null if not simulated
///   devices, pipeline, data, tensor
///   decisions                {micro_batch, recompute, schedule, chunks, flush, gradient_sync,
///                            optimizer_sharding, activations, gradients}; chunks and flush only if the plan
///                            uses them
///   plan                     a complete plan file, dtfm-plan/1
/// Equal arguments give equal bytes.
std::string pareto_json(const Topology& topology, const ParetoRecord& record);

/// Whether a file that begins with `text` looks like a Pareto file.
bool is_pareto_prefix(const std::string& text);

}  // namespace dtfm::io
