// The bytes of plans, for ranks that search together. All ranks hold the same decided jobs, so a plan refers
// to its job by number.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/byte_codec.hpp"
#include "core/base/error.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

using DecidedJobs = std::vector<std::shared_ptr<const DecidedJob>>;

/// Plans that a piece of work has found, and how many evaluations that took.
struct EvaluatedPlans {
  std::vector<PlanCandidate> plans;
  long long evaluations = 0;
  std::string discarded = {};  // why one could not be evaluated; empty if all could
};

/// What writer and reader share is a DecidedJobs with the jobs of all plans.
template <class Archive, class Candidate>
  requires std::same_as<std::remove_const_t<Candidate>, PlanCandidate>
void transfer_bytes(Archive& archive, Candidate& candidate) {
  auto& [job, plan, iteration_s, deficit_bytes, migration, egress_usd, score] = candidate;
  auto& [tensor, execution, pipelines] = plan;
  const auto& jobs = archive.template shared<DecidedJobs>();
  auto number = static_cast<std::size_t>(std::find(jobs.begin(), jobs.end(), job) - jobs.begin());
  archive(number);
  DTFM_ASSERT(number < jobs.size());
  ExecutionConfig of_job = jobs[number]->problem.job.execution;
  of_job.flush = execution.flush;
  if constexpr (Archive::reads) {
    job = jobs[number];
    execution = of_job;
  }
  DTFM_ASSERT(execution == of_job);
  archive(execution.flush);
  archive(tensor);
  archive(pipelines);
  archive(iteration_s);
  archive(deficit_bytes);
  archive(migration);
  archive(egress_usd);
  archive(score);
}

}  // namespace dtfm::search
