#include "planner/api/churn_plans.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/api/devices/sub_topology.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"

namespace dtfm::api {
namespace {

/// Of each search for one depth and some devices. A thousand take about a second on 32 devices. If fewer are
/// left than the first plan of a search takes, there are no more searches. Chosen by hand.
constexpr long long evaluations_per_search = 1'000, min_per_search = 100;

/// Fraction of the time for which each device is available, summed over all scenarios with departures. A run
/// without a horizon goes on after the last event, which is counted as as long again.
std::vector<double> availability(const std::vector<NamedScenario>& scenarios, int devices) {
  std::vector<double> shares(at(devices));
  for (const NamedScenario& named : scenarios) {
    if (!has_departures(named.scenario)) continue;
    const std::vector<sim::DeviceEvent>& events = named.scenario.events;
    const double end = named.scenario.horizon_s.value_or(std::max(2 * events.back().date, 1.0));
    std::vector<double> since(at(devices), 0.0);  // negative: not available
    for (const sim::DeviceEvent& event : events) {
      const double date = std::min(event.date, end);
      double& from = since[at(event.device)];
      if (event.kind == sim::DeviceEvent::Kind::leave && from >= 0) {
        shares[at(event.device)] += (date - from) / end;
        from = -1;
      } else if (event.kind == sim::DeviceEvent::Kind::join) {
        from = date;
      }
    }
    for (std::size_t device = 0; device < since.size(); ++device)
      if (since[device] >= 0) shares[device] += (end - since[device]) / end;
  }
  return shares;
}

/// All devices, and the most available ones in several numbers.
std::vector<std::vector<bool>> device_choices(const std::vector<double>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  std::vector<std::vector<bool>> choices;
  std::size_t last = 0;
  for (const double share : {1.0, 0.875, 0.75, 0.5, 0.25}) {
    const auto count = static_cast<std::size_t>(share * static_cast<double>(order.size()));
    if (count == 0 || count == last) continue;
    last = count;
    std::vector<bool>& included = choices.emplace_back(order.size());
    for (std::size_t i = 0; i < count; ++i) included[order[i]] = true;
  }
  return choices;
}

class ChurnPlans {
 public:
  /// Finds no plan that is among the `finalists`. All must outlive this.
  ChurnPlans(const Problem& problem, const search::IterationSearchOptions& options,
             const std::vector<search::PlanCandidate>& finalists)
      : problem_(problem),
        options_(options),
        finalists_(finalists),
        stop_(until_time_limit(options.common).stop),
        score_(options.objective, problem.topology),
        network_(std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants)) {}

  /// The fastest plans of several depths that use these devices only. This and `later` more calls share the
  /// evaluations.
  void search(const std::vector<bool>& included, std::size_t later) {
    SubTopology part = sub_topology(problem_.topology, included);
    const Problem smaller{std::move(part.topology), problem_.job, problem_.constants, problem_.roofline};
    const int most = std::min(layer_count(problem_.job.model), smaller.topology->size());
    std::vector<int> depths;
    for (int depth = 1; depth <= most; depth *= 2) depths.push_back(depth);
    if (options_.limits.stages) depths = {*options_.limits.stages};
    search::IterationSearchOptions options = options_;
    options.gives_up = true;
    options.common.on_progress = {};
    options.finalists = 1;
    std::size_t searches = depths.size() * (later + 1);
    for (const int depth : depths) {
      if (is_over() || left() < min_per_search) return;
      options.limits.stages = depth;
      options.common.evaluations =
          std::clamp(left() / static_cast<long long>(searches--), min_per_search, evaluations_per_search);
      if (const auto found = search_once(smaller, options))
        offer(*found->job, renumber_devices(found->plan, part.whole));
    }
  }

  /// The plan with as many micro-batches between flushes as fit, if its schedule keeps all of them.
  void offer(const search::DecidedJob& decided, Plan plan) {
    const auto job = std::make_shared<const search::DecidedJob>(problem_, decided.problem.job,
                                                                stage_sizes(plan), network_);
    const int flush = cost::max_fitting_flush(job->model, plan);
    const Job& of = decided.problem.job;
    if (!of.execution.flush && !of.target && flush > plan.execution.flush.value_or(0) &&
        flush < micro_batch_count(of))
      plan.execution.flush = flush;
    if (left() < 1) return;
    ++evaluated_;
    search::PlanCandidate candidate = search::evaluate_plan(job, std::move(plan), score_);
    const auto is_same = [&](const search::PlanCandidate& it) { return it.plan == candidate.plan; };
    const bool is_known = std::any_of(found_.begin(), found_.end(), is_same) ||
                          std::any_of(finalists_.begin(), finalists_.end(), is_same);
    if (!is_known && candidate.deficit_bytes <= 0) found_.push_back(std::move(candidate));
  }

  bool is_over() const { return is_stopped(stop_); }
  search::EvaluatedPlans take() { return {std::move(found_), evaluated_}; }

 private:
  long long left() const {
    const auto given = options_.common.evaluations;
    return given ? *given - evaluated_ : std::numeric_limits<long long>::max();
  }

  std::optional<search::PlanCandidate> search_once(const Problem& problem,
                                                   const search::IterationSearchOptions& options) {
    try {
      search::IterationSearchResult found = search::search_iteration(problem, options);
      evaluated_ += found.evaluations;
      if (found.finalists.front().deficit_bytes <= 0) return std::move(found.finalists.front());
    } catch (const Error&) {
      // Another depth may be possible, or other devices: those of a part may have unknown speeds.
    }
    return std::nullopt;
  }

  const Problem& problem_;
  const search::IterationSearchOptions& options_;
  const std::vector<search::PlanCandidate>& finalists_;
  const StopFunction stop_;
  const search::PlanScore score_;
  const std::shared_ptr<const cost::NetworkCost> network_;
  std::vector<search::PlanCandidate> found_;
  long long evaluated_ = 0;
};

}  // namespace

search::EvaluatedPlans churn_plans(const Problem& problem, const search::IterationSearchOptions& options,
                                   const std::vector<NamedScenario>& scenarios,
                                   const std::vector<search::PlanCandidate>& finalists) {
  ChurnPlans plans(problem, options, finalists);
  for (const search::PlanCandidate& it : finalists) plans.offer(*it.job, it.plan);
  const auto choices = device_choices(availability(scenarios, problem.topology->size()));
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (!plans.is_over()) plans.search(choices[i], choices.size() - 1 - i);
  return plans.take();
}

}  // namespace dtfm::api
