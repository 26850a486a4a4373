// The plan file of the contract, schema dtfm-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

/// What a plan file says besides the topology, the job and who computes what. What is not known is left out.
struct PlanRecord {
  struct CommCostEstimate {
    double data_parallel = 0, pipeline_parallel = 0;  // s
  };
  struct Bound {
    double value = 0;  // in the unit of the objective
    std::string unit;
    double gap = 0;  // (cost − value) ÷ cost
    std::string method;
  };
  struct Search {
    std::string strategy;
    std::uint64_t seed = 0;
    long long evaluations = 0;
    std::string stopped;
    std::vector<std::pair<long long, double>> convergence;  // evaluations, best cost
  };

  std::string objective;
  std::optional<CommCostEstimate> comm_cost;
  std::optional<Bound> lower_bound;
  std::optional<Search> search;
  std::vector<std::string> warnings;
  std::string version;
};

/// The text of a plan file. Same arguments, same bytes.
std::string plan_json(const Topology& topology, const Job& job, const Plan& plan, const PlanRecord& record);

/// The job in the words of a job file: as YAML, which JSON is, it reads back as the same job.
nlohmann::ordered_json job_json(const Job& job);

}  // namespace dtfm
