// The parts of IterationEstimator that concern sharded optimizers.
#include <algorithm>

#include "core/base/index.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/sharded_training_time.hpp"

namespace dtfm::cost {

/// A device updates its part of the parameters when it has computed everything and has its part of all
/// gradients. The parameters of a bucket are gathered when all of its replicas have. A channel carries one
/// bucket after the other, as in synchronize_bucket.
void IterationEstimator::gather_parameters(const Plan& plan) {
  double longest_update_s = 0;
  std::vector<std::vector<double>> updated_s(plan.pipelines.size());
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i)
    for (std::size_t stage = 0; stage < stages_[i].size(); ++stage) {
      double ready_s = stages_[i][stage].decompressed_s;
      for (std::size_t chunk = stage; chunk < times_[i]->backward_s.size(); chunk += stages_[i].size())
        ready_s = std::max(ready_s, times_[i]->backward_s[chunk]);
      updated_s[i].push_back(ready_s + costs_[i]->update_s[stage]);
      longest_update_s = std::max(longest_update_s, costs_[i]->update_s[stage]);
      end_s_ = std::max(end_s_, updated_s[i].back());
    }
  for (std::size_t number = buckets_.size(); number-- > 0;) {
    const GradientBucket& bucket = buckets_[number];
    const SyncTime& gather = syncs_[number].entries[syncs_[number].last].gather;
    const auto stage_of = [&](std::size_t i) { return at(bucket.stages[i]) % stages_[i].size(); };
    double start_s = 0, latest_s = 0, second_latest_s = 0;
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      const double gathered_s = stages_[i][stage_of(i)].gathered_s;
      start_s = std::max(start_s, updated_s[i][stage_of(i)]);
      second_latest_s = std::max(second_latest_s, std::min(latest_s, gathered_s));
      latest_s = std::max(latest_s, gathered_s);
    }
    start_s = std::max(start_s, second_latest_s);
    const double end_s = use_links(gather, start_s);
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      double& gathered_s = stages_[i][stage_of(i)].gathered_s;
      gathered_s = std::max(gathered_s, start_s + gather.channel_busy_s);
    }
    sum_of_ends_s_ += end_s - sync_ends_s_[number];
    end_s_ = std::max(end_s_, end_s);
    estimate_.egress_usd += gather.egress_usd;
  }
  if (!buckets_.empty()) estimate_.gradient_sync_end_s = end_s_ - longest_update_s;
}

void IterationEstimator::estimate_partitioned_gradients(const Plan& plan) {
  std::vector<int> recomputed;
  for (const PipelineCost* cost : costs_) recomputed.push_back(cost->work.recomputed.front());
  const ShardedTrainingTime time = sharded_training_time(model_, plan, recomputed);
  buckets_.clear();
  end_s_ = std::max(end_s_, time.end_s);
  sum_of_ends_s_ = static_cast<double>(costs_.size()) * time.computed_s;
  estimate_.gradient_sync_end_s = end_s_ - time.update_s;
  estimate_.egress_usd += time.egress_usd;
  set_totals();
}

}  // namespace dtfm::cost
