#include "planner/search/iteration_time/plan_codec.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/plan/fields.hpp"

namespace dtfm::search {

void PlanCodec::write(ByteWriter& out, const PlanCandidate& candidate) const {
  const auto& [job, plan, iteration_s, deficit_bytes, migration, egress_usd, score] = candidate;
  const auto& [tensor, execution, pipelines] = plan;
  const auto number = std::find(jobs.begin(), jobs.end(), job);
  DTFM_ASSERT(number != jobs.end());
  ExecutionConfig of_job = job->problem.job.execution;
  of_job.flush = execution.flush;
  DTFM_ASSERT(execution == of_job);
  out.put(number - jobs.begin());
  out.put(execution.flush);
  out.put(tensor);
  out.put(pipelines);
  out.put(iteration_s);
  out.put(deficit_bytes);
  const auto& [migration_s, migration_usd] = migration;
  out.put(migration_s);
  out.put(migration_usd);
  out.put(egress_usd);
  out.put(score);
}

void PlanCodec::read(ByteReader& in, PlanCandidate& candidate) const {
  auto& [job, plan, iteration_s, deficit_bytes, migration, egress_usd, score] = candidate;
  auto& [tensor, execution, pipelines] = plan;
  job = jobs.at(in.get<std::size_t>());
  execution = job->problem.job.execution;
  execution.flush = in.get<std::optional<int>>();
  tensor = in.get<int>();
  pipelines = in.get<std::vector<Pipeline>>();
  iteration_s = in.get<double>();
  deficit_bytes = in.get<double>();
  auto& [migration_s, migration_usd] = migration;
  migration_s = in.get<double>();
  migration_usd = in.get<double>();
  egress_usd = in.get<double>();
  score = in.get<double>();
}

void PlanCodec::write(ByteWriter& out, const std::vector<PlanCandidate>& candidates) const {
  out.put(candidates.size());
  for (const PlanCandidate& it : candidates) write(out, it);
}

void PlanCodec::read(ByteReader& in, std::vector<PlanCandidate>& candidates) const {
  candidates.resize(in.get<std::size_t>());
  for (PlanCandidate& it : candidates) read(in, it);
}

void PlanCodec::write(ByteWriter& out, const EvaluatedPlans& found) const {
  const auto& [plans, evaluations] = found;
  write(out, plans);
  out.put(evaluations);
}

void PlanCodec::read(ByteReader& in, EvaluatedPlans& found) const {
  auto& [plans, evaluations] = found;
  read(in, plans);
  evaluations = in.get<long long>();
}

void PlanCodec::write(ByteWriter& out, const AnnealedPlan& annealed) const {
  const auto& [best, evaluations, is_complete, front] = annealed;
  write(out, best);
  out.put(evaluations);
  out.put(is_complete);
  write(out, front);
}

void PlanCodec::read(ByteReader& in, AnnealedPlan& annealed) const {
  auto& [best, evaluations, is_complete, front] = annealed;
  read(in, best);
  evaluations = in.get<long long>();
  is_complete = in.get<bool>();
  read(in, front);
}

}  // namespace dtfm::search
