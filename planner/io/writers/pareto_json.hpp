// The file of a front of plans, schema dtfm-pareto/1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/problem.hpp"
#include "planner/io/writers/plan_json.hpp"

namespace dtfm::io {

/// A plan that no other beats in time, price and number of devices at once.
struct ParetoPoint {
  struct Cost {
    double iteration_time_s = 0;
    std::optional<double> usd;  // of an iteration; nothing: a price is not known
  };
  Cost estimated;
  std::optional<Cost> simulated;  // nothing: it was not simulated
  int devices = 0;
  std::vector<PlanRecord::Decision> decisions;  // all of them
  Job job;                                      // of the plan
  Plan plan;
  PlanRecord record;
};

struct ParetoRecord {
  std::vector<ParetoPoint> points;  // by time, then price, then devices
  PlanRecord::Search search;        // of the whole front
  std::vector<std::string> warnings;
  std::string version;
};

/// Keys: schema, topology {name, fingerprint}, points, search {seed, evaluations, stopped},
/// warnings (if there are any), version. A point has
///   iteration_time_s, usd    as estimated; usd, of an iteration, is null where a price is not known
///   simulated                {iteration_time_s, usd}, by which the front is made; null: not simulated
///   devices, pipeline, data, tensor
///   decisions                {micro_batch, recompute, schedule, chunks, flush, gradient_sync,
///                            activations, gradients}: chunks and flush where there are such
///   plan                     a whole plan file, dtfm-plan/1
/// Same arguments, same bytes.
std::string pareto_json(const Topology& topology, const ParetoRecord& record);

/// Does a file that begins so look as if it were one?
bool is_pareto_prefix(const std::string& text);

}  // namespace dtfm::io
