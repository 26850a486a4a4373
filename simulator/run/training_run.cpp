#include "simulator/run/training_run.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/schedule/schedule.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/observation/interval_times.hpp"
#include "simulator/run/resumed_iteration.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t max_iterations = 1'000'000;  // with a horizon; bounds the size of the report

std::vector<int> spare_devices(const Scenario& scenario, const Topology& topology) {
  if (scenario.spares) return *scenario.spares;
  std::vector<int> all(at(topology.size()));
  for (int i = 0; i < topology.size(); ++i) all[at(i)] = i;
  return all;
}

/// Throws Error for combinations that are not supported.
void check(const Topology& topology, const Plan& plan, const Scenario& scenario, bool has_planner,
           int sync_every, bool has_paths) {
  const auto reject_if = [](bool condition, const std::string& why) {
    if (condition) throw Error("", why);
  };
  const FailurePolicyTraits& policy = traits(scenario.on_failure);
  const bool is_sharded = traits(plan.execution.optimizer_sharding).optimizer;
  const std::string_view sharding = name_of(plan.execution.optimizer_sharding);
  const auto leaves_of = [&](const std::vector<int>& devices) {
    return std::any_of(scenario.events.begin(), scenario.events.end(), [&](const DeviceEvent& event) {
      return event.kind == DeviceEvent::Kind::leave &&
             std::find(devices.begin(), devices.end(), event.device) != devices.end();
    });
  };
  const bool is_left = std::any_of(scenario.events.begin(), scenario.events.end(),
                                   [](const DeviceEvent& it) { return it.kind == DeviceEvent::Kind::leave; });
  const std::string no_sync = fmt::format(
      "requires gradient synchronization in every iteration; replicas synchronize only in every {}th",
      sync_every);
  reject_if(policy.asks_planner && !has_planner,
            fmt::format("policy {} requires a planner, but none is available", policy.name));
  reject_if(policy.keeps_copies && traits(plan.execution.schedule).has_chunks,
            fmt::format("policy {} requires a schedule with one stage per device; `{}` assigns several",
                        policy.name, name_of(plan.execution.schedule)));
  const bool has_replicas =
      plan.pipelines.size() > 1 || plan.execution.token_parts() > 1 || plan.execution.expert > 1;
  const std::vector<int> devices = pipeline_major(plan);
  if (is_sharded && has_replicas && leaves_of(devices)) {
    const bool needs_peers = policy.resumes_iteration || policy.keeps_copies;
    const bool has_copies = at(sharing_replicas(topology, plan)) < plan.pipelines.size();
    reject_if(needs_peers,
              fmt::format("policy {} is not supported with {} if devices of the plan leave: no other device "
                          "has the optimizer shards of a device that leaves; use a checkpoint with policy "
                          "`restart` or `wait`, or `optimizer_sharding: none`",
                          policy.name, sharding));
    reject_if(!scenario.checkpoint && !has_copies,
              fmt::format("device failures are not supported with {} without a checkpoint: no other device "
                          "has the optimizer shards of a device that leaves; add recovery.checkpoint, or use "
                          "`optimizer_sharding: none`",
                          sharding));
  }
  reject_if(is_sharded && sync_every > 1, fmt::format("{} {}", sharding, no_sync));
  reject_if(has_paths && (is_left || scenario.exclude_slower_than > 0),
            "devices that leave or are excluded are not supported with paths of micro-batches, which are "
            "planned over all devices");
  reject_if(policy.resumes_iteration && sync_every > 1, fmt::format("policy {} {}", policy.name, no_sync));
}

/// Lists the assigned devices that are unavailable: "a/0 (left at 5 s), b/1 (left at 7 s)".
std::string missing_devices(const Plan& plan, const DeviceTimeline& timeline, const Topology& topology) {
  constexpr std::size_t max_named = 3;
  std::vector<std::string> missing;
  for (const int device : pipeline_major(plan))
    if (!timeline.available()[at(device)])
      missing.push_back(fmt::format("{} (left at {:.6g} s)", topology.devices[at(device)].id,
                                    timeline.last_failure(device)));
  const std::size_t count = missing.size();
  missing.resize(std::min(count, max_named));
  return fmt::format("{}{}", fmt::join(missing, ", "),
                     count > max_named ? fmt::format(" and {} more", count - max_named) : "");
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
      spares_(spare_devices(scenario, problem.topology)),
      stop_(std::move(stop)),
      record_(stop_),
      devices_(problem, scenario, record_),
      graphs_(problem, scenario, paths, seed, stop_),
      checkpoint_(scenario.checkpoint),
      initial_plan_(plan),
      plan_(plan),
      running_(plan.pipelines.size(), true) {
  check(problem.topology, plan, scenario, replan_ != nullptr, sync_every, paths != nullptr);
  try {
    prepare_graph();
  } catch (const WorkStopped&) {
    record_.interrupt();
  }
}

SimReport TrainingRun::run(const RunLength& length, const std::vector<RunObserver*>& observers) {
  length_ = length;
  devices_.set_end(length.seconds);
  record_.observe(observers);
  record_.place(plan_);
  try {
    run_iterations();
  } catch (const WorkStopped&) {  // in a graph under construction, or in an observer
    record_.interrupt();
  }
  return std::move(record_.report);
}

void TrainingRun::run_iterations() {
  devices_.advance(0);  // devices missing from the start are not failures, because none is needed yet
  while (!is_over()) {
    if (is_stopped(stop_)) return record_.interrupt();
    devices_.wait_for_detection();
    if (is_over()) break;
    if (devices_.needs_decision) decide();
    if (is_over()) break;
    if (std::find(running_.begin(), running_.end(), true) == running_.end())
      wait_for_join();
    else if (recover())
      run_iteration();
  }
}

bool TrainingRun::is_over() const {
  if (!record_.report.stopped.empty()) return true;
  return length_.seconds ? devices_.now() >= devices_.end() : record_.completed() >= length_.iterations;
}

/// Waits until a device joins or leaves.
void TrainingRun::wait_for_join() {
  const double next = devices_.timeline().next_membership_change();
  if (next < infinity) return devices_.advance(next);
  devices_.stop_for(
      fmt::format("no device joins any more, and under policy `{}` no pipeline can run without {}",
                  policy_.name, missing_devices(plan_, devices_.timeline(), problem_.topology)));
}

/// Asks the planner if a device has joined or left since the last time.
void TrainingRun::replan() {
  if (!policy_.asks_planner || !std::exchange(devices_.has_changed, false)) return;
  const std::vector<bool>& available = devices_.available();
  const std::optional<Plan> next = replan_(plan_, available);
  if (!next || *next == plan_) return;
  const std::vector<int> devices = pipeline_major(*next);
  if (next->execution.schedule != plan_.execution.schedule ||
      total_micro_batches(*next) != total_micro_batches(plan_) ||
      !std::all_of(devices.begin(), devices.end(), [&](int it) { return available[at(it)]; }))
    throw Error("", "the new plan changes schedule or number of micro-batches, or uses unavailable devices");
  initial_plan_ = plan_ = *next;
  running_.assign(plan_.pipelines.size(), true);
  record_.note(devices_.now(), fmt::format("a new plan: {} pipeline{} on {} devices", plan_.pipelines.size(),
                                           plan_.pipelines.size() == 1 ? "" : "s", devices.size()));
  record_.place(plan_);
}

void TrainingRun::decide() {
  devices_.needs_decision = false;
  devices_.iteration_ends.clear();
  replan();
  const bool is_aborted = std::exchange(devices_.is_iteration_aborted, false);
  Decision decision = policy_.decide({plan_, devices_.available(), spares_, &initial_plan_, &problem_});
  decision.running = exclude_slow_pipelines(decision.plan, decision.running, devices_.timeline().speeds(),
                                            scenario_.exclude_slower_than);
  assign(decision.plan);
  const auto count = std::count(decision.running.begin(), decision.running.end(), true);
  if (decision.running != running_)
    record_.note(devices_.now(), fmt::format("{} of {} pipelines run", count, decision.running.size()));
  running_ = decision.running;
  devices_.need(devices_of(plan_, running_, devices_.available().size()));
  if (policy_.loads_checkpoint && is_aborted) roll_back();
  if (count == 0 || is_over()) return;
  if (traits(plan_.execution.optimizer_sharding).optimizer) record_.place(running_plan(plan_, running_));
  try {
    prepare_graph();
  } catch (const Error& error) {
    devices_.stop_for(fmt::format("the remaining plan cannot be run: {}", error.what()));
  }
}

/// `plan` is the current one, with replacements of some devices.
void TrainingRun::assign(const Plan& plan) {
  const std::vector<int> before = pipeline_major(plan_), after = pipeline_major(plan);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i])
      record_.note(devices_.now(), fmt::format("{} replaces {}", problem_.topology->devices[at(after[i])].id,
                                               problem_.topology->devices[at(before[i])].id));
  plan_ = plan;
  if (after != before) record_.place(plan_);
}

/// Creates the graph of the running pipelines.
void TrainingRun::prepare_graph() {
  Plan plan = running_plan(plan_, running_);
  if ((record_.completed() + 1) % sync_every_ != 0) plan = without_gradient_sync(std::move(plan));
  graphs_.prepare(plan, running_);
}

void TrainingRun::run_iteration() {
  if (sync_every_ > 1) prepare_graph();
  graphs_.draw_jitter();
  iteration_start_ = devices_.now();
  devices_.begin_iteration();
  LabelledGraph& graph = graphs_.current();
  const double start = set_starts(graph, devices_.iteration_ends, devices_.now());
  const ReplayedInterval replayed = graphs_.replay(graph, start, devices_.needed_until());
  if (!policy_.resumes_iteration || !devices_.is_aborted_by_failure(replayed))
    return finish_iteration(replayed, graph, 0);
  if (const auto last = resume_iteration(replayed, plan_, running_, graphs_, devices_, record_))
    finish_iteration(last->replayed, last->graph, last->earlier_work_s);
}

/// `graph` is the whole iteration, or the last part of a resumed one, whose earlier parts have computed for
/// `earlier_work_s` device-seconds.
void TrainingRun::finish_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph,
                                   double earlier_work_s) {
  if (replayed.ended == ReplayEnd::stopped) return record_.interrupt();
  if (replayed.ended == ReplayEnd::finished) return complete_iteration(replayed, graph, earlier_work_s);
  const RunInterval lost = record_.interval(RunInterval::Kind::lost_iteration, replayed, graph);
  record_.add(lost);
  if (devices_.is_aborted_by_failure(replayed))
    record_.report.lost_work_s += earlier_work_s + computed_seconds(lost);
  devices_.advance_past(replayed, fmt::format("the iteration is deadlocked: no task ends after {:.6g} s",
                                              replayed.replay.makespan));
}

void TrainingRun::complete_iteration(const ReplayedInterval& replayed, const LabelledGraph& graph,
                                     double earlier_work_s) {
  RunInterval done = record_.interval(RunInterval::Kind::iteration, replayed, graph);
  done.repetitions = identical_iterations(done);
  check_date(done.last_end());
  const int times = record_.add(done);
  if (checkpoint_.exists) checkpoint_.work_after_it_s += times * (earlier_work_s + computed_seconds(done));
  std::vector<IterationReport>& iterations = record_.report.iterations;
  for (int i = 1; i <= times; ++i) {
    iterations.push_back({iteration_start_, done.start_of(i)});
    iteration_start_ = done.start_of(i);
  }
  devices_.held = wanted_shards();
  std::erase_if(devices_.held, [&](const StageShard& shard) { return devices_.has_left(shard.device); });
  if (iterations.back().duration_s() == 0 && length_.seconds)
    return devices_.stop_for("an iteration takes no time");
  devices_.advance(iterations.back().end_s);
  if (length_.seconds && iterations.size() == max_iterations)
    record_.report.stopped =
        fmt::format("at {:.6g} s: reached the maximum of {} iterations", devices_.now(), iterations.size());
  if (times < done.repetitions) return record_.interrupt();
  devices_.iteration_ends = device_ends(graph, replayed.replay);
  if (!is_over() && !devices_.is_iteration_aborted &&
      (checkpoint_.is_due(devices_.now()) || needs_checkpoint_before_failure()))
    write_checkpoint();
}

/// Number of identical iterations, from a completed one on. All of them end before the next device event and
/// before the end of the run. A checkpoint can be due only after the last.
int TrainingRun::identical_iterations(const RunInterval& done) const {
  const bool is_whole = &done.graph == &graphs_.current();
  if (!is_whole || !done.graph.ends.empty() || is_random(scenario_) || sync_every_ > 1 ||
      graphs_.traces_change_after(done.start) || done.end <= done.start)
    return 1;
  const std::size_t limit = length_.seconds ? max_iterations : at(length_.iterations),
                    max_iterations_left = limit - record_.report.iterations.size();
  const double until = std::min(devices_.timeline().next_date(), devices_.end());
  const double fitting =
      (std::min(until, checkpoint_.written_at + checkpoint_.period_s) - done.start) / (done.end - done.start);
  int times = static_cast<int>(std::clamp(fitting + 2, 1.0, static_cast<double>(max_iterations_left)));
  const auto may_write_checkpoint = [&](double date) {
    return checkpoint_.is_due(date) ||
           (checkpoint_.exists && devices_.is_leave_announced(checkpoint_.written_at, date));
  };
  while (times > 1 && (done.start_of(times) >= until || may_write_checkpoint(done.start_of(times - 1))))
    --times;
  return times;
}

std::vector<StageShard> TrainingRun::wanted_shards() const {
  const Plan computed = expand_virtual_stages(plan_);
  std::vector<StageShard> shards = stage_shards(problem_.topology, computed, running_);
  if (!policy_.keeps_copies) return shards;
  const std::vector<StageShard> copies =
      redundant_shards(problem_.topology, computed, initial_plan_, running_, devices_.available());
  shards.insert(shards.end(), copies.begin(), copies.end());
  return shards;
}

/// Before the first completed iteration there is nothing to fetch: weights are initialized from the seed.
std::vector<Fetch> TrainingRun::plan_missing_fetches() const {
  if (record_.completed() == 0) return {};
  return plan_fetches(problem_, plan_, wanted_shards(), devices_.held);
}

/// Returns true if all running devices already have their weights, so that the iteration can start. Otherwise
/// time has passed, so the caller must reconsider the state before the next iteration.
bool TrainingRun::recover() {
  std::vector<Fetch> fetches = plan_missing_fetches();
  const auto lost =
      std::find_if(fetches.begin(), fetches.end(), [](const Fetch& fetch) { return !fetch.from; });
  if (lost != fetches.end()) {
    if (!scenario_.checkpoint) {
      devices_.stop_for(
          fmt::format("no available device has the weights of layers {} to {}, and the scenario has no "
                      "checkpoint",
                      lost->layers.first, lost->layers.second - 1));
      return false;
    }
    if (checkpoint_.exists && checkpoint_.iterations < record_.report.iterations.size()) {
      roll_back();
      fetches = plan_missing_fetches();
    }
  }
  if (!fetches.empty()) fetch(fetches);
  return fetches.empty();
}

void TrainingRun::fetch(const std::vector<Fetch>& fetches) {
  double bytes = 0;
  for (const Fetch& fetch : fetches) {
    if (fetch.from) devices_.need_also(*fetch.from);
    bytes += fetch.bytes;
  }
  LabelledGraph graph = recovery_graph(problem_, fetches, scenario_.checkpoint);
  const ReplayedInterval replayed = graphs_.replay(graph, devices_.now(), devices_.needed_until());
  if (replayed.ended == ReplayEnd::stopped) return record_.interrupt();
  const bool is_done = replayed.ended == ReplayEnd::finished;
  record_.note(devices_.now(), fmt::format("recovery: fetching {:.4g} GB of weights{}", bytes / 1e9,
                                           is_done ? "" : ", aborted"));
  record_.add(record_.interval(RunInterval::Kind::recovery, replayed, graph));
  if (is_done) {
    devices_.hold(wanted_shards());
    devices_.need(devices_of(plan_, running_, devices_.available().size()));
  }
  devices_.advance_past(replayed, "fetching the weights is deadlocked");
}

/// Goes back to the checkpoint: later iterations are lost, and no device holds valid weights any more.
void TrainingRun::roll_back() {
  std::vector<IterationReport>& iterations = record_.report.iterations;
  if (iterations.empty()) return;
  if (!scenario_.checkpoint)
    return devices_.stop_for(
        fmt::format("policy `{}` loads the last checkpoint, but the scenario has none", policy_.name));
  devices_.held.clear();
  const std::size_t lost = checkpoint_.exists ? iterations.size() - checkpoint_.iterations : 0;
  if (lost == 0) return;
  record_.note(devices_.now(), fmt::format("{} iteration{} after the last checkpoint {} lost", lost,
                                           lost == 1 ? "" : "s", lost == 1 ? "is" : "are"));
  iterations.resize(checkpoint_.iterations);
  record_.report.rolled_back += static_cast<int>(lost);
  record_.report.lost_work_s += std::exchange(checkpoint_.work_after_it_s, 0.0);
}

/// Whether devices have announced since the last checkpoint that they will leave, and the run will then load
/// the checkpoint: because of the policy, or because no other device has their weights.
bool TrainingRun::needs_checkpoint_before_failure() const {
  if (!checkpoint_.exists || !devices_.is_leave_announced(checkpoint_.written_at, devices_.now()))
    return false;
  if (policy_.loads_checkpoint) return true;
  std::vector<StageShard> remaining = devices_.held;
  std::erase_if(remaining, [&](const StageShard& shard) {
    return devices_.has_announced(shard.device, 0, devices_.now());
  });
  const std::vector<Fetch> fetches = plan_fetches(problem_, plan_, wanted_shards(), remaining);
  return std::any_of(fetches.begin(), fetches.end(), [](const Fetch& fetch) { return !fetch.from; });
}

/// Writing is synchronous: no device computes meanwhile.
void TrainingRun::write_checkpoint() {
  LabelledGraph graph = checkpoint_graph(
      problem_, plan_, stage_shards(problem_.topology, expand_virtual_stages(plan_), running_),
      *scenario_.checkpoint);
  const ReplayedInterval replayed = graphs_.replay(graph, devices_.now(), devices_.needed_until());
  if (replayed.ended == ReplayEnd::stopped) return record_.interrupt();
  record_.add(record_.interval(RunInterval::Kind::checkpoint, replayed, graph));
  const bool is_done = replayed.ended == ReplayEnd::finished;
  record_.note(devices_.now(), is_done ? "a checkpoint is written" : "writing a checkpoint is aborted");
  if (is_done) {
    checkpoint_.iterations = record_.report.iterations.size();
    checkpoint_.written_at = replayed.end;
    checkpoint_.work_after_it_s = 0;
    ++record_.report.checkpoints;
  }
  devices_.advance_past(replayed, "writing the checkpoint is deadlocked");
}

}  // namespace dtfm::sim
