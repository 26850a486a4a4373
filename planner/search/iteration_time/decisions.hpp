// What a job leaves open, `auto`, and the jobs in which it is decided.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// What tells decided jobs of one problem apart.
std::string decisions_key(const Job& job);

/// The decided jobs of one problem, made once each. Not for several threads.
class Decisions {
 public:
  /// `problem` must outlive this. `excluded`: devices that are not to be used.
  explicit Decisions(const Problem& problem, std::vector<int> excluded = {});

  /// Forgets all jobs made so far; in those to come these devices are not used either.
  void exclude(const std::vector<int>& devices);
  /// The job with its first choices. Throws Error where no device's times are known, or all of them
  /// are left out.
  std::shared_ptr<const DecidedJob> first();
  /// `job`, decided as `other` is, which has the same model, as far as that is open and possible; with the
  /// tensor degrees of `plan`, even where these hosts would suggest others. Nothing where no host has enough
  /// devices for a stage.
  std::shared_ptr<const DecidedJob> decide_like(const DecidedJob& job, const Job& other, const Plan& plan);
  /// Jobs that differ from `job` in one decision that is open, or in micro-batch, recomputation and tensor
  /// degree together, and can be planned. Tensor degrees: those that divide the model, up to the
  /// devices of the largest host.
  std::vector<std::shared_ptr<const DecidedJob>> alternatives(const DecidedJob& job);
  /// `job` with stages of several tensor degrees, each with at most so many devices as one of the degrees:
  /// where the hosts have different numbers of devices, and tensor is open. A host's largest stage is what it
  /// offers.
  std::vector<std::shared_ptr<const DecidedJob>> mixed_degrees(const DecidedJob& job);
  const std::shared_ptr<const cost::NetworkCost>& network() const { return network_; }
  const Job& undecided_job() const { return problem_.job; }
  bool has_undecided() const { return !(problem_.job.automatic == Automatic{}); }
  /// Devices that nothing can be put on, each with the reason.
  const std::vector<std::pair<int, std::string>>& unusable() const { return unusable_; }

 private:
  std::shared_ptr<const DecidedJob> decide_job(Job job, bool has_mixed_degrees = false);
  std::shared_ptr<DecidedJob> make_job(const Job& job, const std::vector<int>& tensors) const;

  const Problem& problem_;
  std::vector<int> excluded_;  // ascending
  std::shared_ptr<const cost::NetworkCost> network_;
  std::vector<int> order_;  // of devices, by nearness
  std::map<std::string, std::shared_ptr<const DecidedJob>> known_;
  std::vector<std::pair<int, std::string>> unusable_;
};

}  // namespace dtfm::search
