#include "core/plan/target_settings.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/plan/target_requirements.hpp"

namespace dtfm {
namespace {

std::string format_flag(bool flag) {
  return flag ? "true" : "false";
}

std::string format_flush(const std::optional<int>& flush) {
  return flush ? fmt::format("{}", *flush) : "none";
}

std::string format_compression(double ratio, const std::optional<CompressionPreset>& preset, bool is_open) {
  if (is_open) return "auto";
  return preset ? name_of(*preset) : fmt::format("{:.4g}", ratio);
}

/// The schedule that runs instead of `wanted`: the same order of computations if there is one.
std::optional<Schedule> same_order(std::span<const Schedule> schedules, Schedule wanted) {
  for (const Schedule it : schedules)
    if (traits(it).order == traits(wanted).order) return it;
  return std::nullopt;
}

class TargetSettings {
 public:
  /// `decides`: chooses the first of several possibilities; otherwise leaves them open.
  TargetSettings(Job& job, Target target, bool decides)
      : job_(job), execution_(job.execution), target_(traits(target)), decides_(decides) {
    job.target = target;
  }

  std::vector<TargetChange> apply() {
    set_schedule();
    choose("parallelism.gradient_sync", target_.gradient_syncs, execution_.gradient_sync,
           job_.automatic.gradient_sync);
    set_sharding();
    choose("training.recompute", target_.recomputations, execution_.recomputation,
           job_.automatic.recomputation);
    set_optimizer();
    set_parallelism();
    if (target_.overlap != OverlapSupport::optional)
      set_flag("parallelism.overlap", execution_.overlap, target_.overlap == OverlapSupport::always);
    set_flag("parallelism.tied_embedding_sync", execution_.tied_embedding_sync,
             target_.tied_embedding_sync && has_tied_layers());
    // With loss scaling, all devices agree in every iteration whether gradients have overflowed.
    set_flag("parallelism.iteration_barrier", execution_.iteration_barrier,
             target_.iteration_barrier || job_.training.precision == Precision::fp16);
    if (target_.flushes == FlushSupport::never && execution_.flush)
      change("parallelism.flush", format_flush(std::exchange(execution_.flush, std::nullopt)), "none");
    remove_compression();
    return std::move(changes_);
  }

 private:
  void change(std::string key, std::string from, std::string to) {
    if (from != to) changes_.push_back({std::move(key), std::move(from), std::move(to)});
  }

  void set_flag(const char* key, bool& flag, bool value) {
    change(key, format_flag(flag), format_flag(value));
    flag = value;
  }

  template <class Kind>
  void choose(const char* key, std::span<const Kind> kinds, Kind& kind, bool& is_open) {
    const std::string before(is_open ? "auto" : name_of(kind));
    if (is_open ? kinds.size() == 1 : !has(kinds, kind)) {
      kind = kinds.front();
      is_open = kinds.size() > 1 && !decides_;
    } else if (is_open && !has(kinds, kind)) {
      kind = kinds.front();
    }
    change(key, before, std::string(is_open ? "auto" : name_of(kind)));
  }

  void set_schedule() {
    if (!job_.automatic.schedule && !has(target_.schedules, execution_.schedule))
      if (const auto same = same_order(target_.schedules, execution_.schedule)) {
        change("parallelism.schedule", std::string(name_of(execution_.schedule)),
               std::string(name_of(*same)));
        execution_.schedule = *same;
      }
    choose("parallelism.schedule", target_.schedules, execution_.schedule, job_.automatic.schedule);
    if (!traits(execution_.schedule).has_chunks) execution_.chunks.reset();
  }

  /// Replaces a sharding that the target does not support by zero1, if the target supports zero1, because it
  /// partitions the optimizer state as well.
  void set_sharding() {
    OptimizerSharding& sharding = execution_.optimizer_sharding;
    constexpr const char* key = "parallelism.optimizer_sharding";
    const std::span<const OptimizerSharding> run = target_.optimizer_shardings;
    if (decides_ && traits(sharding).optimizer && !has(run, sharding) && has(run, OptimizerSharding::zero1)) {
      change(key, std::string(name_of(sharding)), std::string(name_of(OptimizerSharding::zero1)));
      sharding = OptimizerSharding::zero1;
    }
    choose(key, run, sharding, job_.automatic.optimizer_sharding);
  }

  /// Jobs with other optimizers than Adam keep them.
  void set_optimizer() {
    Optimizer& optimizer = job_.training.optimizer;
    if (!traits(optimizer).has_profiled_step_time) return;
    const Optimizer adam = target_.adam(job_.training.precision);
    change("training.optimizer", std::string(name_of(optimizer)), std::string(name_of(adam)));
    optimizer = adam;
  }

  void set_parallelism() {
    Parallelism& parallelism = job_.parallelism;
    if (target_.uniform_pipelines)
      set_flag("parallelism.uniform_pipelines", parallelism.uniform_pipelines, true);
    if (!target_.tensor_parallelism && (parallelism.tensor > 1 || job_.automatic.tensor)) {
      change("parallelism.tensor", job_.automatic.tensor ? "auto" : fmt::format("{}", parallelism.tensor),
             "1");
      parallelism.tensor = 1;
      job_.automatic.tensor = false;
    }
    if (parallelism.tensor == 1 && !job_.automatic.tensor) return;
    if (target_.sequence_parallel)
      set_flag("parallelism.sequence_parallel", parallelism.sequence_parallel, *target_.sequence_parallel);
    if (!target_.scatter_gather || parallelism.sequence_parallel)
      set_flag("parallelism.scatter_gather", parallelism.scatter_gather, false);
  }

  bool has_tied_layers() const {
    const std::vector<Layer> chain = layer_chain(job_);
    return std::any_of(chain.begin(), chain.end(), [](const Layer& it) { return it.tied_parameters > 0; });
  }

  /// Removes compression that the target does not support, and compression that is `auto`.
  void remove_compression() {
    Compression& compression = execution_.compression;
    const auto remove = [&](const char* key, double& ratio, std::optional<CompressionPreset>& preset,
                            bool& is_open) {
      if (!is_open && preset && has(target_.compressions, preset->method)) return;
      change(key, format_compression(ratio, preset, is_open), "1");
      ratio = 1;
      preset.reset();
      is_open = false;
    };
    remove("compression.activations", compression.activations, compression.activation_preset,
           job_.automatic.activations);
    remove("compression.gradients", compression.gradients, compression.gradient_preset,
           job_.automatic.gradients);
  }

  Job& job_;
  ExecutionConfig& execution_;
  const TargetTraits& target_;
  const bool decides_;
  std::vector<TargetChange> changes_;
};

}  // namespace

std::string format_change(const TargetChange& change) {
  const std::string key = change.key.substr(change.key.find('.') + 1);
  if (change.to == "auto") return fmt::format("planned {} instead of {}", key, change.from);
  return fmt::format("{} {} instead of {}", key, change.to, change.from);
}

std::vector<TargetChange> restrict_to_target(Job& job, Target target) {
  return TargetSettings(job, target, false).apply();
}

TargetedPlan run_on_target(const Plan& plan, const Job& job, Target target) {
  check_runnable(traits(target), plan, job);
  TargetedPlan result{job, plan, {}};
  result.job.automatic = {};
  result.job.execution = plan.execution;
  result.job.parallelism.tensor = plan.tensor;
  result.job.parallelism.uniform_pipelines = traits(target).uniform_pipelines;
  result.changes = TargetSettings(result.job, target, true).apply();
  result.plan.execution = result.job.execution;
  return result;
}

}  // namespace dtfm
