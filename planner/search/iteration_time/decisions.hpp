// Decides what a job leaves open (`auto`).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// Whether eager-1f1b is tried instead of 1f1b, which is the same with its shortest warm-ups.
bool covers_one_f_one_b(const Job& undecided);

/// Identifies a decided job among those of one problem.
std::string decisions_key(const Job& job);

/// Creates and caches the decided jobs of one problem. Not thread-safe.
class Decisions {
 public:
  /// `problem` must outlive this. Devices in `excluded` are not used.
  explicit Decisions(const Problem& problem, std::vector<int> excluded = {});

  /// Forgets all jobs created so far; later ones do not use these devices either.
  void exclude(const std::vector<int>& devices);
  /// The job with initial decisions. Throws Error if the compute times of no device are known, or if no host
  /// has enough usable devices for a stage.
  std::shared_ptr<const DecidedJob> first();
  /// Applies the decisions of `other`, which has the same model, to `job`, as far as they are open and
  /// possible; with the tensor degrees of `plan`, even if the hosts suggest others. Null if no host has
  /// enough devices for a stage.
  std::shared_ptr<const DecidedJob> decide_like(const DecidedJob& job, const Job& other, const Plan& plan);
  /// Jobs that differ from `job` in one open decision, or in micro-batch, recomputation and tensor degree
  /// together, and that can be planned. Tensor degrees are those that divide the model, up to the number of
  /// devices of the largest host.
  std::vector<std::shared_ptr<const DecidedJob>> alternatives(const DecidedJob& job);
  /// Whether stages may have tensor degrees other than those of `job`, or degrees that differ between stages.
  bool may_vary_degrees(const DecidedJob& job) const;
  /// Variants of `job` with mixed tensor degrees, one for each maximum degree. Empty unless the tensor degree
  /// is open and hosts have different numbers of devices. Each host gets groups as large as possible.
  std::vector<std::shared_ptr<const DecidedJob>> mixed_degrees(const DecidedJob& job);
  /// The same job, except that each stage may have its own tensor degree, even on homogeneous hosts. Null
  /// unless the degree is open and there are several.
  std::shared_ptr<const DecidedJob> with_any_degree(const DecidedJob& job);
  /// Variants of `job` with another maximum degree on one GPU model. Empty unless the tensor degree is open
  /// and there are several models.
  std::vector<std::shared_ptr<const DecidedJob>> degrees_by_gpu(const DecidedJob& job);
  /// Jobs without open settings of which, whatever a plan of the problem decides, one needs no more memory
  /// than the plan: every combination of degrees, recomputation and optimizer sharding that is open, with the
  /// smallest micro-batch. Those of one group differ only in degrees that the stages of a plan may mix.
  std::vector<std::vector<Job>> least_memory_jobs() const;
  /// The decided job of one of `least_memory_jobs`. Null if no host has enough devices for a stage.
  std::shared_ptr<const DecidedJob> decide(const Job& least_memory) { return decide_job(least_memory); }
  /// Devices of known compute times that are not excluded. `first` must have been called.
  std::vector<int> usable() const;
  const std::shared_ptr<const cost::NetworkCost>& network() const { return network_; }
  const Problem& problem() const { return problem_; }
  const Job& undecided_job() const { return problem_.job; }
  bool has_undecided() const { return !problem_.job.automatic.is_empty(); }
  /// Devices that cannot be used, each with the reason.
  const std::vector<std::pair<int, std::string>>& unusable() const { return unusable_; }

 private:
  std::shared_ptr<const DecidedJob> decide_job(Job job, const std::vector<int>& max_degrees = {});
  std::shared_ptr<DecidedJob> make_job(const Job& job, const std::vector<int>& tensors,
                                       const std::vector<int>& max_degrees = {}) const;
  void fit_mesh(Job& job) const;
  std::vector<int> same_degrees(int degree) const;

  Problem problem_;            // without choices that some GPU cannot run
  std::vector<int> excluded_;  // ascending
  std::shared_ptr<const cost::NetworkCost> network_;
  std::vector<int> order_;  // all devices in nearness order
  std::map<std::string, std::shared_ptr<const DecidedJob>> known_;
  std::vector<std::pair<int, std::string>> unusable_;
};

}  // namespace dtfm::search
