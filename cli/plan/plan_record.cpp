#include "cli/plan/plan_record.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/plan/explanation.hpp"
#include "planner/core/index.hpp"
#include "planner/core/layer_times.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/cost/bounds/weighted_time_bound.hpp"

namespace dtfm::cli {
namespace {

io::PlanRecord::IterationEstimate make_estimate(const search::PlanCandidate& candidate) {
  const Problem& problem = candidate.job->problem;
  cost::IterationTimer timer(candidate.job->model, candidate.plan);
  timer.set_flush(candidate.flush);
  const cost::IterationEstimate estimate = timer.estimate();
  const double sequences =
      static_cast<double>(total_micro_batches(candidate.plan)) * problem.job.training.micro_batch;
  const double tokens = sequences * sequence_length(problem.job.model);
  io::PlanRecord::IterationEstimate record;
  record.iteration_time_s = estimate.iteration_s;
  record.tokens_per_s = tokens / estimate.iteration_s;
  record.model_flops_per_s = sequences * candidate.job->model.stages.model_flops() / estimate.iteration_s;
  if (const auto price = search::price_of(problem.topology, candidate.plan); price && tokens > 0) {
    record.egress_per_million_tokens = candidate.egress_usd / tokens * 1e6;
    record.cost_per_million_tokens =
        price->value() / seconds_per_hour / record.tokens_per_s * 1e6 + record.egress_per_million_tokens;
  }
  const double pipelines = estimate.pipelines_s,
               exchanges = std::max(0.0, estimate.gradient_sync_end_s - pipelines);
  record.breakdown_s = {{"pipelines", pipelines},
                        {"exchanges after them", exchanges},
                        {"updates after both", estimate.update_s},
                        {"overhead", estimate.overhead_s}};
  for (const cost::DeviceMemory& it : timer.memory())
    record.memory.push_back({it.device, it.needed, it.capacity});
  return record;
}

/// A lower bound on the cost of a plan that costs `cost`. A negative gap reveals an internal error.
io::PlanRecord::Bound make_bound(double cost, double value, const std::string& unit,
                                 const std::string& method) {
  return {value, unit, (cost - value) / cost, method};
}

/// Of another objective than time, a bound in its unit; `seconds`: of an iteration of `best`.
io::PlanRecord::Bound weighted_bound(const search::PlanCandidate& best, const search::PlanScore& score,
                                     Objective objective, int min_devices, double seconds, double tokens) {
  std::vector<double> weight;
  for (int device = 0; device < best.job->problem.topology.size(); ++device)
    weight.push_back(score.weight(device));
  const bool is_money = objective == Objective::cost_per_token;
  const double unit = is_money ? 1e6 / tokens : 1;
  const double value = cost::min_weighted_time(best.job->model, weight, min_devices) * unit;
  const double cost = score.of(seconds, score.total_weight(best.plan), best.egress_usd) * unit;
  return make_bound(cost, value, std::string(traits(objective).unit),
                    "every layer computed where that costs least, no communication, no waiting");
}

}  // namespace

io::PlanRecord make_plan_record(const PlanOptions& options, const search::PlanCandidate& best) {
  io::PlanRecord record;
  record.objective = options.objective;
  record.iteration = make_estimate(best);
  record.version = DTFM_VERSION;
  const Job& job = best.job->problem.job;
  for (const std::string& note :
       LayerTimes(job, best.job->problem.topology, best.job->problem.roofline, tensor_degrees(best.plan))
           .notes(pipeline_major(best.plan)))
    record.warnings.push_back(note);
  if (options.explain) record.explanation = make_explanation(best, options.threads);
  return record;
}

io::PlanRecord::Finalist make_finalist(const search::PlanCandidate& candidate) {
  return {candidate.shape().stages, candidate.shape().replicas,
          candidate.plan.tensor,    static_cast<int>(pipeline_major(candidate.plan).size()),
          candidate.iteration_s,    {}};
}

std::vector<io::PlanRecord::Finalist::Simulated> make_simulated(
    const std::vector<api::SimulatedTimes>& times) {
  std::vector<io::PlanRecord::Finalist::Simulated> result;
  for (const auto& [scenario, mean_s, p95_s, max_s] : times)
    result.push_back({scenario, mean_s, p95_s, max_s});
  return result;
}

std::vector<io::PlanRecord::Finalist> make_finalists(const api::PlanResult& search) {
  std::vector<io::PlanRecord::Finalist> finalists;
  for (const search::PlanCandidate& plan : search.plans) finalists.push_back(make_finalist(plan));
  for (std::size_t i = 0; i < search.finalist_results.size(); ++i)
    finalists[i].simulated = make_simulated(search.finalist_results[i].simulated);
  return finalists;
}

void add_notes(const std::vector<std::string>& notes, io::PlanRecord& record) {
  record.warnings.insert(record.warnings.end(), notes.begin(), notes.end());
}

std::vector<std::string> no_progress_notes(const io::PlanRecord::Finalist& finalist) {
  std::vector<std::string> notes;
  for (const auto& it : finalist.simulated)
    if (std::isfinite(it.mean_s) && !std::isfinite(it.max_s))
      notes.push_back(fmt::format(
          "simulated under scenario {}, the plan stops permanently before the horizon, over which its "
          "mean is taken",
          it.scenario));
    else if (!std::isfinite(it.mean_s))
      notes.push_back(fmt::format(
          "simulated under scenario {}, the plan completes no iteration or exceeds memory", it.scenario));
  return notes;
}

std::string format_memory_deficit(const search::PlanCandidate& candidate) {
  cost::IterationTimer timer(candidate.job->model, candidate.plan);
  timer.set_flush(candidate.flush);
  cost::DeviceMemory worst;
  for (const cost::DeviceMemory& it : timer.memory())
    if (it.needed - it.capacity > worst.needed - worst.capacity) worst = it;
  return fmt::format("{} needs {:.3g} GB and has {:.3g} GB",
                     candidate.job->problem.topology.devices[at(worst.device)].id, worst.needed / 1e9,
                     worst.capacity / 1e9);
}

double nominal_seconds(const io::PlanRecord& record) {
  if (!record.finalists.empty())
    if (const auto& simulated = record.finalists.front().simulated;
        !simulated.empty() && std::isfinite(simulated.front().mean_s))
      return simulated.front().mean_s;
  return record.iteration->iteration_time_s;
}

void add_bound(const search::PlanCandidate& best, const search::IterationSearchOptions& search,
               bool has_undecided, io::PlanRecord& record) {
  constexpr int max_layers = 2000;  // beyond, it takes longer than the search
  if (best.job->model.stages.layers() > max_layers) return;
  const auto& [stages, replicas] = search.limits;
  const cost::IterationBounds bounds(best.job->model);
  const cost::IterationBound time_bound =
      stages && replicas ? bounds.for_shape(*stages, *replicas) : bounds.for_all_shapes();
  if (!time_bound.fits) return;
  const double seconds = nominal_seconds(record);
  const double tokens = record.iteration->iteration_time_s * record.iteration->tokens_per_s;
  io::PlanRecord::Bound bound = make_bound(seconds, time_bound.value, "s", time_bound.method);
  if (search.objective != Objective::iteration_time) {
    const int places = stages.value_or(bounds.min_stages()) * replicas.value_or(1);
    bound = weighted_bound(best, search::PlanScore(search.objective, best.job->problem.topology),
                           search.objective, places * best.job->model.by_degree.front().tensor(), seconds,
                           tokens);
  }
  if (has_undecided) bound.method = "of plans with these decisions: " + bound.method;
  if (bound.gap < -1e-9)
    record.warnings.emplace_back(
        "the lower bound is above what the plan takes: one of them is wrong, please report it");
  bound.gap = std::max(0.0, bound.gap);
  record.lower_bound = bound;
}

}  // namespace dtfm::cli
