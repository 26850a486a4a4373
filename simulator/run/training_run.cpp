#include "simulator/run/training_run.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/base/rng.hpp"
#include "core/schedule/schedule.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/observation/interval_times.hpp"
#include "simulator/run/jitter.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t max_iterations = 1'000'000;  // with a horizon; bounds the size of the report

std::vector<int> spare_devices(const Scenario& scenario, const Topology& topology) {
  if (scenario.spares) return *scenario.spares;
  std::vector<int> all(at(topology.size()));
  for (int i = 0; i < topology.size(); ++i) all[at(i)] = i;
  return all;
}

/// The same `later` seconds later.
Replay shifted(Replay replay, double later) {
  replay.makespan = round_to_tick(replay.makespan + later);
  replay.last_event_date = round_to_tick(replay.last_event_date + later);
  for (TaskRecord& record : replay.tasks)
    for (double* date : {&record.ready, &record.start, &record.finish}) *date = round_to_tick(*date + later);
  return replay;
}

/// Notifies the observers that do not count repetitions of each of them. Returns the number of repetitions
/// that all of these have recorded, which is less than that of the interval only after a stop. Throws
/// WorkStopped if there are none.
int notify_of_each(const RunInterval& all, const std::vector<RunObserver*>& observers) {
  int done = 0;
  try {
    for (; done < all.repetitions; ++done) {
      throw_if_stopped(all.stop);
      const double later = all.start_of(done) - all.start;
      const Replay replay = done > 0 ? shifted(all.replay, later) : Replay();
      for (RunObserver* observer : observers)
        if (!observer->counts_repetitions())
          observer->on_interval({all.kind, all.iteration + done, all.start_of(done), all.start_of(done + 1),
                                 all.graph, done > 0 ? replay : all.replay, all.stop});
    }
  } catch (const WorkStopped&) {
    if (done == 0) throw;
  }
  return done;
}

}  // namespace

TrainingRun::TrainingRun(const Problem& problem, const Plan& plan, const Scenario& scenario,
                         std::uint64_t seed, StopFunction stop, Replanner replan, int sync_every,
                         const PathSchedule* paths)
    : problem_(problem),
      scenario_(scenario),
      policy_(traits(scenario.on_failure)),
      replan_(std::move(replan)),
      sync_every_(sync_every),
      paths_(paths),
      seed_(seed),
      device_timeline_(scenario, problem.topology->size()),
      spares_(spare_devices(scenario, problem.topology)),
      initial_plan_(plan),
      plan_(plan),
      running_(plan.pipelines.size(), true),
      is_running_(at(problem.topology->size())),
      was_assigned_(is_running_.size()),
      is_needed_(is_running_.size()),
      has_failed_(is_running_.size()) {
  if (policy_.asks_planner && !replan_)
    throw Error("", fmt::format("policy {} requires a planner, but none is available", policy_.name));
  if (policy_.keeps_copies && traits(plan.execution.schedule).has_chunks)
    throw Error("", fmt::format("policy {} requires a schedule with one stage per device; `{}` "
                                "assigns several",
                                policy_.name, name_of(plan.execution.schedule)));
  const bool leaves =
      std::any_of(scenario.events.begin(), scenario.events.end(),
                  [](const DeviceEvent& event) { return event.kind == DeviceEvent::Kind::leave; });
  if (traits(plan.execution.optimizer_sharding).optimizer && plan.pipelines.size() > 1 && leaves)
    throw Error("",
                fmt::format("device failures are not supported with {}: no other device has the shards of a "
                            "device that leaves; use optimizer_sharding none",
                            name_of(plan.execution.optimizer_sharding)));
  if (traits(plan.execution.optimizer_sharding).optimizer && sync_every_ > 1)
    throw Error("", fmt::format("{} requires gradient synchronization in every iteration; replicas "
                                "synchronize only in every {}th",
                                name_of(plan.execution.optimizer_sharding), sync_every_));
  if (paths && (leaves || scenario.exclude_slower_than > 0))
    throw Error("",
                "devices that leave or are excluded are not supported with paths of micro-batches, which are "
                "planned over all devices");
  if (policy_.resumes_iteration && sync_every_ > 1)
    throw Error("", fmt::format("policy {} requires gradient synchronization in every iteration; replicas "
                                "synchronize only in every {}th",
                                policy_.name, sync_every_));
  for (const int device : pipeline_major(plan)) was_assigned_[at(device)] = true;
  interval_replay_.set_stop(std::move(stop));
  try {
    make_graph();
  } catch (const WorkStopped&) {
    interrupt();
  }
}

SimReport TrainingRun::run(const RunLength& length, const std::vector<RunObserver*>& observers) {
  length_ = length;
  observers_ = observers;
  notify_assignment();
  try {
    run_iterations();
  } catch (const WorkStopped&) {  // in a graph under construction, or in an observer
    interrupt();
  }
  return std::move(report_);
}

void TrainingRun::run_iterations() {
  advance(0);  // devices missing from the start are not failures, because none is needed yet
  while (!is_over()) {
    if (is_stopped(interval_replay_.stop())) return interrupt();
    wait_for_detection();
    if (is_over()) break;
    if (needs_decision_) decide();
    if (is_over()) break;
    if (std::find(running_.begin(), running_.end(), true) == running_.end())
      wait_for_join();
    else if (recover())
      run_iteration();
  }
}

std::vector<int> TrainingRun::devices() const {
  std::vector<int> devices;
  for (int i = 0; at(i) < was_assigned_.size(); ++i)
    if (was_assigned_[at(i)]) devices.push_back(i);
  return devices;
}

double TrainingRun::end_of_run() const {
  return length_.seconds ? round_to_tick(*length_.seconds) : infinity;
}

bool TrainingRun::is_over() const {
  if (!report_.stopped.empty()) return true;
  return length_.seconds ? now_ >= end_of_run()
                         : static_cast<int>(report_.iterations.size()) >= length_.iterations;
}

void TrainingRun::stop_for(const std::string& reason) {
  report_.deadlocked = true;
  report_.stopped = fmt::format("after {} iteration{}, at {:.6g} s: {}", report_.iterations.size(),
                                report_.iterations.size() == 1 ? "" : "s", now_, reason);
  if (length_.seconds) now_ = end_of_run();  // nothing more happens until then
}

/// Incomplete work counts as not started.
void TrainingRun::interrupt() {
  report_.stopped = stopped_by_user;
}

/// Advances the time to `date` and applies all events up to then.
void TrainingRun::advance(double date) {
  device_ends_.clear();
  now_ = std::min(date, end_of_run());
  while (const DeviceEvent* event = device_timeline_.take(now_)) take(*event);
}

void TrainingRun::take(const DeviceEvent& event) {
  const std::string& id = problem_.topology->devices[at(event.device)].id;
  if (event.kind == DeviceEvent::Kind::speed) {
    note(event.date, fmt::format("{} computes at {:.4g} of its speed", id, event.speed));
    if (scenario_.exclude_slower_than > 0) needs_decision_ = true;
    return;
  }
  needs_decision_ = has_event_ = true;
  std::erase_if(held_shards_, [&](const StageShard& place) { return place.device == event.device; });
  const bool leaves = event.kind == DeviceEvent::Kind::leave;
  note(event.date, fmt::format("{} {}", id,
                               !leaves          ? "joins"
                               : event.date > 0 ? "leaves"
                                                : "is unavailable"));
  if (leaves) has_failed_[at(event.device)] = true;
  if (!leaves || !is_needed_[at(event.device)]) return;
  iteration_aborted_ = true;
  detected_at_ = std::max(detected_at_, round_to_tick(event.date + scenario_.detection_s));
}

/// Loops because further failures may happen before the last one is detected.
void TrainingRun::wait_for_detection() {
  while (detected_at_ > now_ && !is_over()) advance(detected_at_);
}

/// Waits until a device joins or leaves.
void TrainingRun::wait_for_join() {
  const double next = device_timeline_.next_membership_change();
  if (next == infinity)
    stop_for(fmt::format("no device joins any more, and under policy `{}` no pipeline can run without {}",
                         policy_.name, missing_devices()));
  else
    advance(next);
}

/// Asks the planner if a device has joined or left since the last time.
void TrainingRun::replan() {
  if (!policy_.asks_planner || !std::exchange(has_event_, false)) return;
  const std::optional<Plan> next = replan_(plan_, device_timeline_.available());
  if (!next || *next == plan_) return;
  const std::vector<int> devices = pipeline_major(*next);
  if (next->execution.schedule != plan_.execution.schedule ||
      total_micro_batches(*next) != total_micro_batches(plan_) ||
      !std::all_of(devices.begin(), devices.end(),
                   [&](int it) { return device_timeline_.available()[at(it)]; }))
    throw Error("", "the new plan changes schedule or number of micro-batches, or uses unavailable devices");
  for (const int device : devices) was_assigned_[at(device)] = true;
  initial_plan_ = plan_ = *next;
  running_.assign(plan_.pipelines.size(), true);
  note(now_, fmt::format("a new plan: {} pipeline{} on {} devices", plan_.pipelines.size(),
                         plan_.pipelines.size() == 1 ? "" : "s", devices.size()));
  notify_assignment();
}

void TrainingRun::decide() {
  needs_decision_ = false;
  device_ends_.clear();
  replan();
  Decision decision = policy_.decide(
      {plan_, device_timeline_.available(), spares_, &initial_plan_, iteration_aborted_, &problem_});
  iteration_aborted_ = false;
  decision.running = exclude_slow_pipelines(decision.plan, decision.running, device_timeline_.speeds(),
                                            scenario_.exclude_slower_than);
  const bool is_new = decision.running != running_;
  note_replacements(decision.plan);
  const bool has_moved = pipeline_major(decision.plan) != pipeline_major(plan_);
  plan_ = decision.plan;
  if (has_moved) notify_assignment();
  running_ = decision.running;
  const auto count = std::count(running_.begin(), running_.end(), true);
  if (is_new) note(now_, fmt::format("{} of {} pipelines run", count, running_.size()));
  is_running_.assign(is_running_.size(), false);
  is_needed_ = is_running_;
  if (decision.rolls_back) roll_back();
  if (count == 0 || is_over()) return;
  try {
    make_graph();
  } catch (const Error& error) {
    stop_for(fmt::format("the remaining plan cannot be run: {}", error.what()));
  }
  is_needed_ = is_running_;
}

void TrainingRun::notify_assignment() {
  const Plan computed = expand_virtual_stages(plan_);
  for (RunObserver* observer : observers_) observer->place(computed);
}

/// Lists the assigned devices that are unavailable: "a/0 (left at 5 s), b/1 (left at 7 s)".
std::string TrainingRun::missing_devices() const {
  constexpr std::size_t max_named = 3;
  std::vector<std::string> missing;
  for (const int device : pipeline_major(plan_))
    if (!device_timeline_.available()[at(device)])
      missing.push_back(fmt::format("{} (left at {:.6g} s)", problem_.topology->devices[at(device)].id,
                                    device_timeline_.last_failure(device)));
  const std::size_t count = missing.size();
  missing.resize(std::min(count, max_named));
  return fmt::format("{}{}", fmt::join(missing, ", "),
                     count > max_named ? fmt::format(" and {} more", count - max_named) : "");
}

void TrainingRun::note_replacements(const Plan& next) {
  const std::vector<int> before = pipeline_major(plan_), after = pipeline_major(next);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    was_assigned_[at(after[i])] = true;
    note(now_, fmt::format("{} replaces {}", problem_.topology->devices[at(after[i])].id,
                           problem_.topology->devices[at(before[i])].id));
  }
}

/// Creates the graph of the running pipelines, unless the current one can be reused.
void TrainingRun::make_graph() {
  Plan plan = running_plan(plan_, running_);
  if ((static_cast<int>(report_.iterations.size()) + 1) % sync_every_ != 0)
    plan = without_gradient_sync(std::move(plan));
  const std::vector<int> devices = pipeline_major(plan);
  for (const int device : devices) is_running_[at(device)] = true;
  if (plan == graph_plan_) return;
  graph_ = graph_of(plan);
  graph_plan_ = plan;
  amounts_.clear();
  for (const Task& task : graph_.graph.tasks) amounts_.push_back(task.amount);
  changes_.emplace(scenario_, problem_.topology, graph_);
}

/// `plan` has only the running pipelines. Labels get the pipeline numbers of the whole plan.
LabelledGraph TrainingRun::graph_of(const Plan& plan) const {
  LabelledGraph graph = iteration_graph(problem_, plan, paths_, interval_replay_.stop());
  std::vector<int> numbers;
  for (int i = 0; at(i) < running_.size(); ++i)
    if (running_[at(i)]) numbers.push_back(i);
  for (TaskLabel& label : graph.labels)
    if (label.pipeline != no_index) label.pipeline = numbers[at(label.pipeline)];
  return graph;
}

/// The time (s) at which the first needed device leaves.
double TrainingRun::next_failure() const {
  double date = infinity;
  for (int device = 0; at(device) < is_needed_.size(); ++device)
    if (is_needed_[at(device)]) date = std::min(date, device_timeline_.next_failure(device));
  return date;
}

void TrainingRun::run_iteration() {
  if (sync_every_ > 1) make_graph();
  draw_jitter();
  iteration_start_ = now_;
  partial_work_s_.assign(is_running_.size(), 0);
  has_failed_.assign(is_running_.size(), false);
  const ReplayedInterval replayed =
      replay_interval(graph_, *changes_, set_starts(graph_, device_ends_, now_));
  if (policy_.resumes_iteration && was_aborted_by_failure(replayed)) return resume_iteration(replayed);
  finish_iteration(replayed, graph_);
}

/// `graph` is the whole iteration, or the last part of a resumed one.
void TrainingRun::finish_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph) {
  if (replayed.ended == ReplayEnd::stopped) return interrupt();
  const double before = std::accumulate(partial_work_s_.begin(), partial_work_s_.end(), 0.0);
  if (replayed.ended == ReplayEnd::finished) {
    RunInterval done = make_interval(RunInterval::Kind::iteration, replayed, graph);
    done.repetitions = identical_iterations(done);
    check_date(done.last_end());
    const int times = notify_observers(done);
    if (has_periodic_checkpoint()) uncheckpointed_work_s_ += times * (before + computed_seconds(done));
    for (int i = 1; i < times; ++i) {
      report_.iterations.push_back({iteration_start_, done.start_of(i)});
      iteration_start_ = done.start_of(i);
    }
    complete_iteration(done.start_of(times));
    if (times < done.repetitions) return interrupt();
    device_ends_ = device_ends(graph, replayed.replay);
    return is_checkpoint_due() ? write_checkpoint() : void();
  }
  const RunInterval lost = make_interval(RunInterval::Kind::lost_iteration, replayed, graph);
  notify_observers(lost);
  if (was_aborted_by_failure(replayed)) report_.lost_work_s += before + computed_seconds(lost);
  const bool is_deadlocked = stays_deadlocked(replayed);
  advance(replayed.end);
  if (is_deadlocked)
    stop_for(
        fmt::format("the iteration is deadlocked: no task ends after {:.6g} s", replayed.replay.makespan));
}

bool TrainingRun::was_aborted_by_failure(const ReplayedInterval& replayed) const {
  return replayed.ended == ReplayEnd::aborted && next_failure() <= replayed.end;
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

/// Replays `graph` from `start` until it is finished or aborted by the next failure or the end of the run.
ReplayedInterval TrainingRun::replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes,
                                              double start) {
  return interval_replay_.replay_interval(graph, changes, start, std::min(next_failure(), end_of_run()),
                                          policy_.resumes_iteration);
}

/// Whether the replay is deadlocked and no failure will abort it.
bool TrainingRun::stays_deadlocked(const ReplayedInterval& replayed) const {
  return replayed.replay.ended == ReplayEnd::deadlocked && next_failure() > replayed.end;
}

RunInterval TrainingRun::make_interval(RunInterval::Kind kind, const ReplayedInterval& replayed,
                                       const LabelledGraph& graph) const {
  return {kind,
          static_cast<int>(report_.iterations.size()),
          replayed.start,
          replayed.end,
          graph,
          replayed.replay,
          interval_replay_.stop()};
}

/// Returns the number of repetitions that all observers have recorded, which is less than that of the
/// interval only after a stop. Throws WorkStopped if there are none.
int TrainingRun::notify_observers(RunInterval run_interval) {
  const int all = run_interval.repetitions;
  const auto counts = [](const RunObserver* it) { return it->counts_repetitions(); };
  if (!std::all_of(observers_.begin(), observers_.end(), counts))
    run_interval.repetitions = notify_of_each(run_interval, observers_);
  // The other observers must not miss what these have recorded.
  if (all > 1) run_interval.stop = {};
  for (RunObserver* observer : observers_)
    if (counts(observer)) observer->on_interval(run_interval);
  const int times = run_interval.repetitions;
  report_.tasks += times * static_cast<long long>(run_interval.replay.tasks.size());
  report_.events_handled += times * run_interval.replay.events;
  report_.flows += times * run_interval.replay.flows;
  return times;
}

/// Number of identical iterations, from a completed one on. All of them end before the next device event and
/// before the end of the run. A checkpoint can be due only after the last.
int TrainingRun::identical_iterations(const RunInterval& done) const {
  const bool is_whole = &done.graph == &graph_;
  if (!is_whole || !graph_.ends.empty() || is_random(scenario_) || sync_every_ > 1 ||
      changes_->traces_change_after(done.start) || done.end <= done.start)
    return 1;
  const std::size_t limit = length_.seconds ? max_iterations : at(length_.iterations),
                    max_iterations_left = limit - report_.iterations.size();
  const double until = std::min(device_timeline_.next_date(), end_of_run()),
               period = has_periodic_checkpoint() ? scenario_.checkpoint->period_s : infinity;
  const double fitting = (std::min(until, checkpointed_at_ + period) - done.start) / (done.end - done.start);
  int times = static_cast<int>(std::clamp(fitting + 2, 1.0, static_cast<double>(max_iterations_left)));
  const auto is_due = [&](double date) { return date - checkpointed_at_ >= period; };
  while (times > 1 && (done.start_of(times) >= until || is_due(done.start_of(times - 1)))) --times;
  return times;
}

void TrainingRun::complete_iteration(double end) {
  report_.iterations.push_back({iteration_start_, end});
  held_shards_ = wanted_shards();
  std::erase_if(held_shards_, [&](const StageShard& place) { return has_failed_[at(place.device)]; });
  if (end == iteration_start_ && length_.seconds) return stop_for("an iteration takes no time");
  advance(end);
  if (length_.seconds && report_.iterations.size() == max_iterations)
    report_.stopped =
        fmt::format("at {:.6g} s: reached the maximum of {} iterations", now_, report_.iterations.size());
}

}  // namespace dtfm::sim
