#include "simulator/run/run_graphs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/base/rng.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/run/jitter.hpp"

namespace dtfm::sim {
namespace {

std::size_t change_count(const std::vector<Profile>& profiles) {
  std::size_t count = 0;
  for (const Profile& profile : profiles) count += profile.steps.size();
  return count;
}

}  // namespace

/// Times in a scenario are at most 1e9 s, and a detection time may be added. Timelines store ns in 63 bits.
void check_date(double date) {
  constexpr double latest = 2e9;
  if (date > latest)
    throw Error("",
                fmt::format("the run would reach {:.3g} s of simulated time; the maximum is {:g} s: check "
                            "speeds and bandwidths",
                            date, latest));
}

RunGraphs::RunGraphs(const Problem& problem, const Scenario& scenario, const PathSchedule* paths,
                     std::uint64_t seed, StopFunction stop)
    : problem_(problem), scenario_(scenario), paths_(paths), seed_(seed), stop_(std::move(stop)) {}

void RunGraphs::prepare(const Plan& plan, const std::vector<bool>& running) {
  if (plan == plan_) return;
  graph_ = make(plan, running);
  plan_ = plan;
  amounts_.clear();
  for (const Task& task : graph_.graph.tasks) amounts_.push_back(task.amount);
  changes_.emplace(scenario_, problem_.topology, graph_);
}

LabelledGraph RunGraphs::make(const Plan& plan, const std::vector<bool>& running) const {
  LabelledGraph graph = iteration_graph(problem_, plan, paths_, stop_);
  std::vector<int> numbers;
  for (int i = 0; at(i) < running.size(); ++i)
    if (running[at(i)]) numbers.push_back(i);
  for (TaskLabel& label : graph.labels)
    if (label.pipeline != no_index) label.pipeline = numbers[at(label.pipeline)];
  return graph;
}

void RunGraphs::draw_jitter() {
  for (std::size_t i = 0; i < amounts_.size(); ++i) graph_.graph.tasks[i].amount = amounts_[i];
  draw_jitter(graph_);
}

void RunGraphs::draw_jitter(LabelledGraph& graph) {
  if (!is_random(scenario_)) return;
  JitterFactors factors(Rng::for_task(seed_, draws_++), scenario_.compute_jitter.cv);
  for (Task& task : graph.graph.tasks)
    if (task.kind == TaskKind::compute) task.amount *= factors.next();
}

ReplayedInterval RunGraphs::replay(LabelledGraph& graph, double start, double until) {
  if (&graph == &graph_) return replay(graph, *changes_, start, until);
  return replay(graph, ScenarioProfiles(scenario_, problem_.topology, graph), start, until);
}

/// Profiles are created for a window of time that grows until the interval fits into it.
ReplayedInterval RunGraphs::replay(LabelledGraph& graph, const ScenarioProfiles& changes, double now,
                                   double until) {
  const bool keep_unfinished = traits(scenario_.on_failure).resumes_iteration,
             is_repeated = &graph == &graph_;
  for (;; window_ *= 2) {
    const double window_end = now + window_;
    graph.graph.profiles = changes.between(now, window_end);
    const double known_until = changes.changes_after(window_end) ? window_end : infinity;
    ReplayedInterval replayed{
        sim::replay(graph.graph, {now, std::min(until, known_until), stop_, keep_unfinished, is_repeated}),
        ReplayEnd::finished, now, 0};
    replayed.ended = replayed.replay.ended;
    if (replayed.ended == ReplayEnd::stopped) return replayed;
    const bool is_futile = replayed.ended == ReplayEnd::deadlocked &&
                           change_count(graph.graph.profiles) > std::size_t{max_futile_changes};
    if (replayed.ended != ReplayEnd::finished && known_until < until && !is_futile) continue;
    if (replayed.ended == ReplayEnd::deadlocked && until < infinity) replayed.ended = ReplayEnd::aborted;
    replayed.end = replayed.ended == ReplayEnd::aborted ? until : replayed.replay.makespan;
    check_date(replayed.end);
    window_ = std::max(window_ / 2, 2 * (replayed.end - now));
    return replayed;
  }
}

}  // namespace dtfm::sim
