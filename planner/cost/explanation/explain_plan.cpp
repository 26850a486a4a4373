#include "planner/cost/explanation/explain_plan.hpp"

#include <cmath>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/explanation/widened_model.hpp"

namespace dtfm::cost {
namespace {

using Network = std::shared_ptr<const NetworkCost>;

double sequences_of(const PlannedProblem& planned) {
  double sum = 0;
  for (const Pipeline& pipeline : planned.plan.pipelines)
    sum += static_cast<double>(pipeline.micro_batches) * planned.problem.job.execution.micro_batch;
  return sum;
}

IterationModel model_of(const PlannedProblem& planned, const Network& network) {
  return IterationModel(planned.problem, stage_sizes(planned.plan), network);
}

PlanThroughput throughput_of(const PlannedProblem& planned, const IterationModel& model,
                             const PlanBottleneck& bottleneck) {
  const IterationEstimate estimate = estimate_iteration(model, planned.plan);
  const double iteration_s = estimate.iteration_s;
  // Without micro-batches nothing takes time.
  const double per_s = iteration_s > 0 ? sequences_of(planned) / iteration_s : 0;
  return {iteration_s,
          per_s * sequence_length(planned.problem.job.model),
          per_s * model.stages.model_flops(),
          bottleneck.critical_path.compute_s,
          bottleneck.critical_path.sending_s,
          bottleneck.parts.sync_s,
          estimate.deficit_bytes};
}

PlannedProblem widened(const PlannedProblem& planned, int multiple) {
  return {widen_model(planned.problem, multiple), planned.plan};
}

PlannedProblem compressed(PlannedProblem planned, double factor) {
  planned.problem.job.execution.compression.activations /= factor;
  planned.problem.job.execution.compression.gradients /= factor;
  planned.plan.execution.compression = planned.problem.job.execution.compression;
  return planned;
}

/// Searches powers of two, then bisects geometrically between the first sufficient power and the one before,
/// to 1 %.
std::optional<double> min_compression(const PlannedProblem& planned, const Network& network,
                                      const StopFunction& stop) {
  constexpr double precision = 1.01;
  const auto is_enough = [&](double factor) {
    throw_if_stopped(stop);
    const PlannedProblem other = compressed(planned, factor);
    return is_compute_bound(model_of(other, network), other.plan);
  };
  double high = 1;
  while (!is_enough(high))
    if ((high *= 2) > max_compression) return std::nullopt;
  if (high == 1) return high;
  double low = high / 2;
  while (high / low > precision) {
    const double middle = std::sqrt(low * high);
    (is_enough(middle) ? high : low) = middle;
  }
  return high;
}

std::optional<int> min_width(const PlannedProblem& planned, const Network& network,
                             const StopFunction& stop) {
  const auto is_enough = [&](int multiple) {
    throw_if_stopped(stop);
    const PlannedProblem other = widened(planned, multiple);
    return is_compute_bound(model_of(other, network), other.plan);
  };
  int high = 1;
  while (!is_enough(high))
    if ((high *= 2) > max_width) return std::nullopt;
  int low = high / 2;  // not compute-bound
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (is_enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

PlanExplanation explain_plan(const PlannedProblem& planned, const Network& network, const Work& work) {
  PlanExplanation result;
  const IterationModel model = model_of(planned, network);
  result.bottleneck = find_bottleneck(model, planned.plan);
  result.messages = message_reasons(model, planned.plan);
  result.devices = device_reasons(model, planned.plan, work.stop);
  result.now = throughput_of(planned, model, result.bottleneck);
  result.what_ifs = what_ifs(planned, network, work);
  result.compute_bound_compression = min_compression(planned, network, work.stop);
  if (!std::holds_alternative<Transformer>(planned.problem.job.model)) return result;
  const PlannedProblem twice = widened(planned, 2);
  const IterationModel wide_model = model_of(twice, network);
  result.double_width = throughput_of(twice, wide_model, find_bottleneck(wide_model, twice.plan));
  result.compute_bound_width = min_width(planned, network, work.stop);
  return result;
}

}  // namespace dtfm::cost
