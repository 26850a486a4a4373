// Plans as bytes, for ranks that search together. All ranks hold the same decided jobs, so a plan refers to
// its job by number.
#pragma once

#include <memory>
#include <vector>

#include "core/base/byte_codec.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

using DecidedJobs = std::vector<std::shared_ptr<const DecidedJob>>;

/// Plans that a piece of work has found, and how many evaluations that took.
struct EvaluatedPlans {
  std::vector<PlanCandidate> plans;
  long long evaluations = 0;
};

/// The codec of `distributed_map` for plans of `jobs`.
struct PlanCodec {
  const DecidedJobs& jobs;

  void write(ByteWriter& out, const PlanCandidate& candidate) const;
  void write(ByteWriter& out, const std::vector<PlanCandidate>& candidates) const;
  void write(ByteWriter& out, const EvaluatedPlans& found) const;
  void write(ByteWriter& out, const AnnealedPlan& annealed) const;

  template <class T>
  T read(ByteReader& in) const {
    T result;
    read(in, result);
    return result;
  }

 private:
  void read(ByteReader& in, PlanCandidate& candidate) const;
  void read(ByteReader& in, std::vector<PlanCandidate>& candidates) const;
  void read(ByteReader& in, EvaluatedPlans& found) const;
  void read(ByteReader& in, AnnealedPlan& annealed) const;
};

}  // namespace dtfm::search
