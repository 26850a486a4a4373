#include "planner/api/least_bandwidth.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/shards.hpp"
#include "planner/api/plan.hpp"
#include "planner/cost/explanation/network_upgrades.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::api {
namespace {

// Chosen by hand. A factor of a million stands for links that are never the bottleneck.
constexpr double unlimited_factor = 1e6, bandwidth_precision = 1.05;
constexpr int shown_halvings = 3, shown_doublings = 1, max_halvings = 16, max_doublings = 16;
constexpr double max_bandwidth_run_tasks = 2e5;

class BandwidthTable {
 public:
  explicit BandwidthTable(const PlanRequest& request) : request_(request) {
    request_.question.reset();
    request_.options.common.ranks = nullptr;
  }

  PlanAnswer run(const PlanQuestion& question) {
    PlanAnswer answer = plan(request_);
    const search::PlanCandidate& own = answer.finalists.front().candidate;
    add_plan(own);
    result_.sites = question.sites ? *question.sites : most_used_link(own);
    slowest_flow_bps_ = slowest_flow_bps();
    search_at(unlimited_factor);
    for (int i = -shown_halvings; i <= shown_doublings; ++i) search_at(std::exp2(i));
    result_.unlimited_s = best_at(unlimited_factor).first;
    result_.is_by_throughput = !question.max_iteration_s;
    result_.max_iteration_s =
        question.max_iteration_s.value_or(result_.unlimited_s / question.min_throughput);
    find_least();
    fill_rows();
    answer.least_bandwidth = std::move(result_);
    return answer;
  }

 private:
  /// A plan and its settings, whatever the bandwidth.
  struct FoundPlan {
    Job job;  // without open settings
    Plan plan;
  };

  std::pair<int, int> most_used_link(const search::PlanCandidate& candidate) const {
    const auto links = cost::used_links(candidate.job->model, candidate.plan);
    for (const auto& [a, b] : links)
      if (a != b) return {a, b};
    if (links.empty())
      throw Error("--objective", "the plan sends nothing between hosts; choose a link with --link SITE,SITE");
    return links.front();
  }

  double slowest_flow_bps() const {
    const Topology& topology = request_.problem.topology;
    const auto [a, b] = result_.sites;
    double slowest = infinity;
    for (int from = 0; from < topology.size(); ++from)
      for (int to = 0; to < topology.size(); ++to) {
        const Device &one = topology.devices[at(from)], &other = topology.devices[at(to)];
        if (one.host != other.host &&
            ((one.site == a && other.site == b) || (one.site == b && other.site == a)))
          slowest = std::min(slowest, topology.link(from, to).bandwidth.value());
      }
    if (slowest == infinity)
      throw Error("--link", fmt::format("there are no links between hosts of {} and {}",
                                        topology.sites[at(a)].name, topology.sites[at(b)].name));
    return slowest;
  }

  Problem problem_at(double factor) const {
    Problem problem = request_.problem;
    if (factor != 1)
      cost::scale_link(problem.topology.edit(), result_.sites.first, result_.sites.second, factor);
    return problem;
  }

  void add_plan(const search::PlanCandidate& candidate) {
    if (candidate.deficit_bytes > 0) return;
    Plan plan = candidate.plan;
    for (const FoundPlan& it : plans_)
      if (it.plan == plan) return;
    plans_.push_back({simulated_problem(candidate).job, std::move(plan)});
  }

  /// Adds the plans of a short search at this bandwidth.
  void search_at(double factor) {
    if (!searched_.emplace(factor, true).second || is_stopped(request_.options.common)) return;
    search::IterationSearchOptions options = request_.options;
    options.common.evaluations = search::min_evaluations;
    options.common.time_limit.reset();
    options.common.on_progress = {};
    options.warm.reset();
    options.keeps_pareto_front = false;
    const Problem problem = problem_at(factor);
    for (const search::PlanCandidate& it : search::search_iteration(problem, options).finalists) add_plan(it);
  }

  double estimate(const FoundPlan& found, const Problem& problem) const {
    Problem decided = problem;
    decided.job = found.job;
    const auto network = std::make_shared<const cost::NetworkCost>(decided.topology, decided.constants);
    const cost::IterationModel model(decided, stage_sizes(found.plan), network);
    return cost::estimate_iteration(model, found.plan).iteration_s;
  }

  /// Seconds and index of the best plan; infinite if none fits in memory.
  std::pair<double, std::size_t> best_at(double factor) const {
    const Problem problem = problem_at(factor);
    std::pair<double, std::size_t> best = {infinity, 0};
    for (std::size_t i = 0; i < plans_.size(); ++i) best = std::min(best, {estimate(plans_[i], problem), i});
    return best;
  }

  bool is_enough(double factor) {
    search_at(factor);
    return best_at(factor).first <= result_.max_iteration_s;
  }

  void find_least() {
    if (plans_.empty() || best_at(unlimited_factor).first > result_.max_iteration_s) return;
    double high = 1, low = 0.5;  // `low` is not enough, in the end
    if (is_enough(1)) {
      for (int i = 1; is_enough(low); ++i) {
        high = low;
        if (i == max_halvings) return;
        low /= 2;
      }
    } else {
      low = 1;
      for (int i = 0; !is_enough(high = 2 * low) && i < max_doublings; ++i) low = high;
    }
    while (high / low > bandwidth_precision && !is_stopped(request_.options.common)) {
      const double middle = std::sqrt(low * high);
      (is_enough(middle) ? high : low) = middle;
    }
  }

  std::optional<double> simulate(const FoundPlan& found, Problem problem) const {
    problem.job = found.job;
    if (sim::tasks_of(problem, found.plan) > max_bandwidth_run_tasks) return std::nullopt;
    try {
      const auto run = sim::simulate_undisturbed(problem, found.plan, request_.options.common.stop);
      if (run.is_complete) return run.seconds;
    } catch (const Error&) {  // the simulator rejects the plan
    }
    return std::nullopt;
  }

  void fill_rows() {
    if (plans_.empty()) return;
    for (const auto& [factor, _] : searched_) {
      if (factor == unlimited_factor) continue;
      const auto [seconds, index] = best_at(factor);
      result_.rows.push_back({factor, factor * slowest_flow_bps_, seconds,
                              simulate(plans_[index], problem_at(factor)), result_.unlimited_s / seconds,
                              seconds <= result_.max_iteration_s, plans_[index].plan});
    }
    for (std::size_t i = result_.rows.size(); i-- > 0 && result_.rows[i].is_enough;) result_.least = i;
  }

  PlanRequest request_;
  LeastBandwidth result_;
  double slowest_flow_bps_ = 0;
  std::vector<FoundPlan> plans_;
  std::map<double, bool> searched_;
};

}  // namespace

PlanAnswer plan_least_bandwidth(const PlanRequest& request) {
  return BandwidthTable(request).run(*request.question);
}

}  // namespace dtfm::api
