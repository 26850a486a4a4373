#include "core/plan/plan_conflicts.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"

namespace dtfm {
namespace {

enum class Choice : bool { fixed, may_be_auto };

std::string format_count(const std::optional<int>& count) {
  return count ? fmt::format("{}", *count) : "";
}

std::string format_rate(const std::optional<BitsPerSecond>& rate) {
  return rate ? fmt::format("{} bps", rate->value()) : "";
}

std::string format_ratio(double ratio, const std::optional<CompressionPreset>& preset) {
  return preset ? name_of(*preset) : fmt::format("{}", ratio);
}

class ConflictList {
 public:
  /// Adds a conflict if the values, in the notation of files, differ. An empty value means that there is
  /// none.
  void compare(const std::string& key, const std::string& job_key, const std::string& planned,
               const std::string& of_job, Choice choice = Choice::fixed) {
    if (planned == of_job) return;
    const std::string has = planned.empty() ? "no " + key : key + " " + planned;
    const std::string wants = of_job.empty() ? fmt::format("the job has no {}", job_key)
                                             : fmt::format("the job's {} is {}", job_key, of_job);
    const std::string fix = planned.empty() ? "remove the job's"
                                            : fmt::format("set the job's to {}{}", planned,
                                                          choice == Choice::may_be_auto ? " or auto" : "");
    conflicts_.push_back({key, fmt::format("{}, but {}", has, wants), fix});
  }

  std::vector<PlanConflict> take() { return std::move(conflicts_); }

 private:
  std::vector<PlanConflict> conflicts_;
};

void compare_compression(const Compression& planned, const Job& job, ConflictList& list) {
  const Compression& of_job = job.execution.compression;
  if (!job.automatic.activations)
    list.compare("compression.activations", "compression.activations",
                 format_ratio(planned.activations, planned.activation_preset),
                 format_ratio(of_job.activations, of_job.activation_preset), Choice::may_be_auto);
  if (!job.automatic.gradients)
    list.compare("compression.gradients", "compression.gradients",
                 format_ratio(planned.gradients, planned.gradient_preset),
                 format_ratio(of_job.gradients, of_job.gradient_preset), Choice::may_be_auto);
  list.compare("compression.throughput", "compression.throughput", format_rate(planned.throughput),
               format_rate(of_job.throughput));
  list.compare("compression.bandwidth_threshold", "compression.bandwidth_threshold",
               format_rate(planned.bandwidth_threshold), format_rate(of_job.bandwidth_threshold));
}

}  // namespace

std::string format_conflict(const PlanConflict& conflict) {
  return fmt::format("{}; {}, or use the job that the plan was made for", conflict.problem, conflict.fix);
}

std::vector<PlanConflict> plan_conflicts(const Plan& plan, const Job& job) {
  const ExecutionConfig &planned = plan.execution, &of_job = job.execution;
  const Automatic& open = job.automatic;
  ConflictList list;
  const std::vector<int>& choices = job.micro_batch_choices;
  if (!open.micro_batch)
    list.compare("micro_batch", "training.micro_batch", fmt::format("{}", planned.micro_batch),
                 fmt::format("{}", of_job.micro_batch), Choice::may_be_auto);
  else if (!choices.empty() &&
           std::find(choices.begin(), choices.end(), planned.micro_batch) == choices.end())
    list.compare("micro_batch", "training.micro_batch", fmt::format("{}", planned.micro_batch),
                 fmt::format("[{}]", fmt::join(choices, ", ")), Choice::may_be_auto);
  if (!open.schedule) {
    list.compare("schedule", "parallelism.schedule", std::string(name_of(planned.schedule)),
                 std::string(name_of(of_job.schedule)), Choice::may_be_auto);
    list.compare("chunks", "parallelism.chunks", format_count(planned.chunks), format_count(of_job.chunks));
  }
  if (of_job.flush)
    list.compare("flush", "parallelism.flush", format_count(planned.flush), format_count(of_job.flush));
  if (!open.gradient_sync)
    list.compare("gradient_sync", "parallelism.gradient_sync", std::string(name_of(planned.gradient_sync)),
                 std::string(name_of(of_job.gradient_sync)), Choice::may_be_auto);
  if (!open.optimizer_sharding)
    list.compare("optimizer_sharding", "parallelism.optimizer_sharding",
                 std::string(name_of(planned.optimizer_sharding)),
                 std::string(name_of(of_job.optimizer_sharding)), Choice::may_be_auto);
  list.compare("overlap", "parallelism.overlap", fmt::format("{}", planned.overlap),
               fmt::format("{}", of_job.overlap));
  list.compare("tied_embedding_sync", "parallelism.tied_embedding_sync",
               fmt::format("{}", planned.tied_embedding_sync), fmt::format("{}", of_job.tied_embedding_sync));
  list.compare("iteration_barrier", "parallelism.iteration_barrier",
               fmt::format("{}", planned.iteration_barrier), fmt::format("{}", of_job.iteration_barrier));
  if (!open.recomputation)
    list.compare("recompute", "training.recompute", std::string(name_of(planned.recomputation)),
                 std::string(name_of(of_job.recomputation)), Choice::may_be_auto);
  compare_compression(planned.compression, job, list);
  return list.take();
}

void check_no_conflict(const Plan& plan, const Job& job, const std::string& where) {
  const std::vector<PlanConflict> conflicts = plan_conflicts(plan, job);
  if (conflicts.empty()) return;
  throw Error(where, format_conflict(conflicts.front()));
}

}  // namespace dtfm
