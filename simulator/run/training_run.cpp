#include "simulator/run/training_run.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/rng.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/model/zero.hpp"
#include "simulator/observation/stretch_times.hpp"
#include "simulator/run/jitter.hpp"
#include "planner/core/schedule/schedule.hpp"
#include "simulator/sync/sync.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t most_iterations = 1'000'000;  // in a horizon; each is in the report
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<int> given_spares(const Scenario& scenario, const Topology& topology) {
  if (scenario.spares) return *scenario.spares;
  std::vector<int> all(at(topology.size()));
  for (int i = 0; i < topology.size(); ++i) all[at(i)] = i;
  return all;
}

}  // namespace

TrainingRun::TrainingRun(const Problem& problem, const Plan& plan, const Scenario& scenario,
                         std::uint64_t seed, Replanner replan, int sync_every, const PathSchedule* paths)
    : problem_(problem),
      scenario_(scenario),
      policy_(departure_policy(scenario.on_departure)),
      replan_(std::move(replan)),
      sync_every_(sync_every),
      paths_(paths),
      seed_(seed),
      machines_(scenario, problem.topology.size()),
      spares_(given_spares(scenario, problem.topology)),
      home_(plan),
      plan_(plan),
      running_(plan.pipelines.size(), true),
      runs_(at(problem.topology.size())),
      had_place_(runs_.size()),
      is_needed_(runs_.size()),
      hit_(runs_.size()) {
  if (policy_.asks_planner && !replan_)
    throw Error("", fmt::format("policy {} needs a planner, and there is none here", policy_.name));
  if (policy_.keeps_copies && plan.schedule == "interleaved")
    throw Error("", fmt::format("policy {} needs a schedule in which every device has one stage, and "
                                "`interleaved` deals out several",
                                policy_.name));
  const bool leaves =
      std::any_of(scenario.events.begin(), scenario.events.end(),
                  [](const DeviceEvent& event) { return event.kind == DeviceEvent::Kind::leave; });
  if (zero_stage(plan.gradient_sync) && leaves)
    throw Error(
        "", fmt::format("departures under {} are not simulated: nobody else has the parts of a device that "
                        "leaves",
                        plan.gradient_sync));
  if (paths && (leaves || scenario.exclude_slower_than > 0))
    throw Error("",
                "devices that leave or are left out are not simulated where micro-batches have paths: they "
                "are planned over all devices");
  if (policy_.asks_planner && plan.schedule == blocking_schedule)
    throw Error("", fmt::format("policy {} makes plans of its own, and {} is of one scheme alone",
                                policy_.name, plan.schedule));
  if (policy_.goes_on && sync_every_ > 1)
    throw Error("",
                fmt::format("policy {} deals micro-batches to others until the next exchange, and replicas "
                            "exchange in every {}th iteration alone",
                            policy_.name, sync_every_));
  for (const int device : pipeline_major(plan)) had_place_[at(device)] = true;
  make_graph();
}

SimReport TrainingRun::run(const RunLength& length, const std::vector<RunObserver*>& observers,
                           const std::function<bool()>& stop) {
  length_ = length;
  observers_ = observers;
  player_.set_stop(stop);
  tell_places();
  advance(0);  // who is gone at the start was never expected: nobody is needed yet
  while (!is_over()) {
    if (stop && stop()) {
      interrupt();
      break;
    }
    notice();
    if (is_over()) break;
    if (is_changed_) decide();
    if (is_over()) break;
    if (std::find(running_.begin(), running_.end(), true) == running_.end())
      wait();
    else if (recover())
      iterate();
  }
  return std::move(report_);
}

std::vector<int> TrainingRun::devices() const {
  std::vector<int> devices;
  for (int i = 0; at(i) < had_place_.size(); ++i)
    if (had_place_[at(i)]) devices.push_back(i);
  return devices;
}

double TrainingRun::end_of_run() const {
  return length_.seconds ? on_grid(*length_.seconds) : infinity;
}

bool TrainingRun::is_over() const {
  if (!report_.stopped.empty()) return true;
  return length_.seconds ? now_ >= end_of_run()
                         : static_cast<int>(report_.iterations.size()) >= length_.iterations;
}

void TrainingRun::stop_for(const std::string& reason) {
  report_.stuck = true;
  report_.stopped = fmt::format("after {} iteration{}, at {:.6g} s: {}", report_.iterations.size(),
                                report_.iterations.size() == 1 ? "" : "s", now_, reason);
  if (length_.seconds) now_ = end_of_run();  // nothing more happens until then
}

/// What has not been completed is as if it had not begun.
void TrainingRun::interrupt() {
  report_.stopped = stopped_by_user;
}

/// Takes what happens up to `date`.
void TrainingRun::advance(double date) {
  now_ = std::min(date, end_of_run());
  while (const DeviceEvent* event = machines_.take(now_)) take(*event);
}

void TrainingRun::take(const DeviceEvent& event) {
  const std::string& id = problem_.topology.devices[at(event.device)].id;
  if (event.kind == DeviceEvent::Kind::speed) {
    note(event.date, fmt::format("{} computes at {:.4g} of its speed", id, event.speed));
    if (scenario_.exclude_slower_than > 0) is_changed_ = true;
    return;
  }
  is_changed_ = has_event_ = true;
  std::erase_if(held_, [&](const Place& place) { return place.device == event.device; });
  const bool leaves = event.kind == DeviceEvent::Kind::leave;
  note(event.date, fmt::format("{} {}", id, !leaves ? "joins" : event.date > 0 ? "leaves" : "is not there"));
  if (leaves) hit_[at(event.device)] = true;
  if (!leaves || !is_needed_[at(event.device)]) return;
  is_broken_ = true;
  known_at_ = std::max(known_at_, on_grid(event.date + scenario_.detection_s));
}

/// A departure is known some time later, in which there may be another one.
void TrainingRun::notice() {
  while (known_at_ > now_ && !is_over()) advance(known_at_);
}

/// Until somebody comes or goes.
void TrainingRun::wait() {
  const double next = machines_.next_change();
  if (next == infinity)
    stop_for(fmt::format("nobody joins any more, and under the policy `{}` no pipeline runs without {}",
                         policy_.name, missing_devices()));
  else
    advance(next);
}

/// The planner is asked whenever somebody has come or gone.
void TrainingRun::replan() {
  if (!policy_.asks_planner || !std::exchange(has_event_, false)) return;
  const std::optional<Plan> next = replan_(plan_, machines_.there());
  if (!next || *next == plan_) return;
  const std::vector<int> devices = pipeline_major(*next);
  if (next->schedule != plan_.schedule || micro_batches_of(*next) != micro_batches_of(plan_) ||
      !std::all_of(devices.begin(), devices.end(), [&](int it) { return machines_.there()[at(it)]; }))
    throw Error("", "the planner changed what is trained, or took devices that are not there");
  for (const int device : devices) had_place_[at(device)] = true;
  home_ = plan_ = *next;
  running_.assign(plan_.pipelines.size(), true);
  note(now_, fmt::format("a new plan: {} pipeline{} on {} devices", plan_.pipelines.size(),
                         plan_.pipelines.size() == 1 ? "" : "s", devices.size()));
  tell_places();
}

void TrainingRun::decide() {
  is_changed_ = false;
  replan();
  Decision decision = policy_.decide({plan_, machines_.there(), spares_, &home_, is_broken_});
  is_broken_ = false;
  decision.running =
      without_slow(decision.plan, decision.running, machines_.speeds(), scenario_.exclude_slower_than);
  const bool is_new = decision.running != running_;
  note_replacements(decision.plan);
  const bool has_moved = pipeline_major(decision.plan) != pipeline_major(plan_);
  plan_ = decision.plan;
  if (has_moved) tell_places();
  running_ = decision.running;
  const auto count = std::count(running_.begin(), running_.end(), true);
  if (is_new) note(now_, fmt::format("{} of {} pipelines run", count, running_.size()));
  runs_.assign(runs_.size(), false);
  is_needed_ = runs_;
  if (decision.rolls_back) roll_back();
  if (count == 0 || is_over()) return;
  try {
    make_graph();
  } catch (const Error& error) {
    stop_for(fmt::format("what is left of the plan cannot be run: {}", error.what()));
  }
  is_needed_ = runs_;
}

void TrainingRun::tell_places() {
  const Plan computed = computed_stages(problem_.job, plan_);
  for (RunObserver* observer : observers_) observer->place(computed);
}

/// "a/0 (gone at 5 s), b/1 (gone at 7 s)": the devices with a place that are not there.
std::string TrainingRun::missing_devices() const {
  constexpr std::size_t most_named = 3;
  std::vector<std::string> missing;
  for (const int device : pipeline_major(plan_))
    if (!machines_.there()[at(device)])
      missing.push_back(fmt::format("{} (gone at {:.6g} s)", problem_.topology.devices[at(device)].id,
                                    machines_.last_departure(device)));
  const std::size_t count = missing.size();
  missing.resize(std::min(count, most_named));
  return fmt::format("{}{}", fmt::join(missing, ", "),
                     count > most_named ? fmt::format(" and {} more", count - most_named) : "");
}

void TrainingRun::note_replacements(const Plan& next) {
  const std::vector<int> before = pipeline_major(plan_), after = pipeline_major(next);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    had_place_[at(after[i])] = true;
    note(now_, fmt::format("{} takes the place of {}", problem_.topology.devices[at(after[i])].id,
                           problem_.topology.devices[at(before[i])].id));
  }
}

/// The graph of the pipelines that run, unless it is the one at hand.
void TrainingRun::make_graph() {
  Plan plan = running_plan(plan_, running_);
  if ((static_cast<int>(report_.iterations.size()) + 1) % sync_every_ != 0) plan.gradient_sync = no_exchange;
  const std::vector<int> devices = pipeline_major(plan);
  for (const int device : devices) runs_[at(device)] = true;
  if (plan == graph_plan_) return;
  graph_ = graph_of(plan);
  graph_plan_ = plan;
  amounts_.clear();
  for (const Task& task : graph_.graph.tasks) amounts_.push_back(task.amount);
  changes_.emplace(scenario_, problem_.topology, graph_);
}

/// `plan`: the pipelines that run. Labels have their numbers in the whole plan.
LabelledGraph TrainingRun::graph_of(const Plan& plan) const {
  LabelledGraph graph = iteration_graph(problem_, plan, paths_);
  std::vector<int> numbers;
  for (int i = 0; at(i) < running_.size(); ++i)
    if (running_[at(i)]) numbers.push_back(i);
  for (TaskLabel& label : graph.labels)
    if (label.pipeline != no_index) label.pipeline = numbers[at(label.pipeline)];
  return graph;
}

/// Of a device that is needed.
double TrainingRun::next_departure() const {
  double date = infinity;
  for (int device = 0; at(device) < is_needed_.size(); ++device)
    if (is_needed_[at(device)]) date = std::min(date, machines_.next_departure(device));
  return date;
}

void TrainingRun::iterate() {
  if (sync_every_ > 1) make_graph();
  draw_jitter();
  begun_at_ = now_;
  part_work_s_.assign(runs_.size(), 0);
  hit_.assign(runs_.size(), false);
  const Played played = play(graph_, *changes_);
  if (policy_.goes_on && is_broken_off(played)) return go_on(played);
  end_iteration(played, graph_);
}

/// `graph`: the last part of the iteration, or all of it.
void TrainingRun::end_iteration(const Played& played, const LabelledGraph& graph) {
  if (played.ended == ReplayEnd::stopped) return interrupt();
  const double before = std::accumulate(part_work_s_.begin(), part_work_s_.end(), 0.0);
  if (played.ended == ReplayEnd::finished) {
    const Stretch done = stretch_of(Stretch::Kind::iteration, played, graph);
    show(done);
    if (saves_by_period()) unsaved_work_s_ += before + computed_seconds(done);
    complete(played.end);
    return is_checkpoint_due() ? save() : void();
  }
  const Stretch lost = stretch_of(Stretch::Kind::lost_iteration, played, graph);
  show(lost);
  if (is_broken_off(played)) report_.lost_work_s += before + computed_seconds(lost);
  const bool is_stuck = stays_stuck(played);
  advance(played.end);
  if (is_stuck)
    stop_for(fmt::format("the iteration has come to a stand for ever: nothing of it ends after {:.6g} s",
                         played.replay.makespan));
}

bool TrainingRun::is_broken_off(const Played& played) const {
  return played.ended == ReplayEnd::cut && next_departure() <= played.end;
}

void TrainingRun::draw_jitter() {
  for (std::size_t i = 0; i < amounts_.size(); ++i) graph_.graph.tasks[i].amount = amounts_[i];
  draw_jitter(graph_);
}

void TrainingRun::draw_jitter(LabelledGraph& graph) {
  const std::uint64_t attempt = attempts_++;
  if (!is_random(scenario_)) return;
  JitterFactors factors(Rng::for_task(seed_, attempt), scenario_.compute_jitter.cv);
  for (Task& task : graph.graph.tasks)
    if (task.kind == TaskKind::compute) task.amount *= factors.next();
}

/// Until it is done or the next departure or the end of the run breaks it off.
Played TrainingRun::play(LabelledGraph& graph, const ScenarioProfiles& changes) {
  return player_.play(graph, changes, now_, std::min(next_departure(), end_of_run()), policy_.goes_on);
}

/// Nothing goes on, and no departure will break it off.
bool TrainingRun::stays_stuck(const Played& played) const {
  return played.replay.ended == ReplayEnd::stuck && next_departure() > played.end;
}

Stretch TrainingRun::stretch_of(Stretch::Kind kind, const Played& played, const LabelledGraph& graph) const {
  return {kind, static_cast<int>(report_.iterations.size()), now_, played.end, graph, played.replay};
}

void TrainingRun::show(const Stretch& stretch) {
  report_.tasks += static_cast<long long>(stretch.replay.tasks.size());
  report_.events_handled += stretch.replay.events;
  report_.flows += stretch.replay.flows;
  for (RunObserver* observer : observers_) observer->see(stretch);
}

void TrainingRun::complete(double end) {
  report_.iterations.push_back({begun_at_, end});
  held_ = wanted_places();
  std::erase_if(held_, [&](const Place& place) { return hit_[at(place.device)]; });
  if (end == begun_at_ && length_.seconds) return stop_for("an iteration takes no time");
  advance(end);
  if (length_.seconds && report_.iterations.size() == most_iterations)
    report_.stopped = fmt::format("at {:.6g} s, after {} iterations, the most that are simulated", now_,
                                  report_.iterations.size());
}

}  // namespace dtfm::sim
