// What dtfm-plan is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/work.hpp"
#include "core/plan/objective.hpp"
#include "core/plan/target_kind.hpp"
#include "planner/api/plan_request.hpp"
#include "planner/request/problem_options.hpp"

namespace dtfm::request {

struct PlanOptions : ProblemInputs {  // without a job: GPT-3 XL, or the job in the scored plan
  TopologyInput topology;
  std::optional<std::string> gpus;  // instead of a topology, with `links` (cluster_text.hpp)
  std::vector<std::string> links;
  Objective objective = Objective::iteration_time;
  bool objective_given = false;
  std::optional<api::QuestionKind> question;  // named by --objective; the objective is then iteration time
  std::optional<double> max_iteration_s, min_throughput;
  std::optional<std::pair<std::string, std::string>> link;  // names of two sites
  std::optional<int> pipeline, data;                        // empty if not given, or auto
  bool pipeline_auto = false, data_auto = false;            // `auto` overrides the job
  std::optional<int> tensor;                                // empty if not given, or auto
  bool tensor_auto = false;
  std::optional<int> context, expert;  // as tensor
  bool context_auto = false, expert_auto = false;
  std::optional<Target> target;      // of the job, if not given
  bool uniform_pipelines = false;    // also if the job allows heterogeneous ones
  std::vector<TextInput> scenarios;  // the finalists are simulated under each
  std::optional<int> finalists;
  std::optional<api::RobustCriterion> robust;
  std::optional<double> near_equal;  // share of the best plan's objective
  std::string strategy = std::string(api::default_strategy);
  std::uint64_t seed = 0;
  Work work;  // threads, ranks, time limit, progress and interrupts
  std::optional<long long> evaluations;
  // Start of the request, from which its time limit counts.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool prove = false;
  std::optional<PlanFileInput> score;       // a plan to score instead of searching
  std::optional<TextInput> ranks;           // the device of each rank of a Megatron-LM plan
  std::optional<PlanFileInput> warm_start;  // the running plan
  std::optional<double> horizon;            // s
  bool advise = false;                      // with `score`: also search, and compare the plans
  bool explain = false;
  bool keeps_pareto_front = false;
};

/// Each declares the options under one heading of --help.
void add_plan_inputs(OptionList& list, PlanOptions& options);
void add_parallelism_options(OptionList& list, PlanOptions& options);
void add_search_options(OptionList& list, PlanOptions& options);
void add_simulation_options(OptionList& list, PlanOptions& options);
void add_given_plan_options(OptionList& list, PlanOptions& options);
/// Declares --explain.
void add_explain_option(OptionList& list, PlanOptions& options);

/// Throws Error for options that cannot be combined. Decides the objective of --prove.
void check_plan_options(const OptionList& list, PlanOptions& options);

}  // namespace dtfm::request
