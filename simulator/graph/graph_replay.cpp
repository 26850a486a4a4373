#include "simulator/graph/graph_replay.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/engine/event_queue.hpp"
#include "simulator/engine/service_queues.hpp"
#include "simulator/graph/graph_network.hpp"
#include "simulator/graph/profile_steps.hpp"
#include "simulator/graph/replay_event.hpp"
#include "simulator/graph/task_progress.hpp"

namespace dtfm::sim {
namespace {

class GraphReplay {
 public:
  GraphReplay(const TaskGraph& graph, const ReplayOptions& options);
  Replay run();

 private:
  void push_failures();
  void prefetch(int task) const;
  void prefetch_ahead() const;
  void link_profiles();
  bool is_over(double next) const;
  bool is_stopped();
  void close(double next);
  void record_unfinished();
  void set_end(UnfinishedTask& unfinished, double left) const;
  const std::vector<int>& running_tasks();
  void handle(const Event& event);
  double next_date();
  void end_flows();
  void end_flow(int flow);
  void set_down(int failure, bool down);
  void change(int profile);
  bool affects_flows(const Profile& profile) const;
  void wake_profiles(int task);
  void wake(int profile);
  void apply(const Profile& profile, std::size_t step);
  void push_change(int profile);

  void make_ready(int task);
  void start_ready();
  void enter_host(int task);
  void enqueue(ServiceQueues& lines, int line, int task);
  void start(int task);
  void start_computation(int task);
  void start_transfer(int task);
  void start_flow(int task);
  void arrive(int task, double latency);
  void push_end(int task, double duration);
  void share(int task, const FlowParameters& parameters, double trailing_latency);
  void leave_network(int task);
  void end(int task, TaskState state);

  const TaskGraph& graph_;
  const double until_;
  const bool keep_unfinished_;
  const StopFunction& stop_;
  long long dates_ = 0;
  std::size_t started_count_ = 0;
  bool stopped_ = false;
  double now_;
  GraphNetwork network_;
  EventQueue<Event> queue_;
  Replay replay_;
  std::size_t ended_ = 0, running_ = 0;  // tasks

  TaskProgress progress_;
  FlowParameterPool flow_parameters_;  // of flows in latency
  std::vector<int> ready_, starting_;
  std::vector<int> started_;  // all running tasks, and some that have ended
  ServiceQueues queues_, hosts_;
  std::vector<ActiveFlow> active_flows_;    // [flow of the network]
  std::vector<std::size_t> steps_;          // [profile]: number of steps taken
  std::vector<std::vector<int>> profiles_;  // [shared capacity]: profiles that change it
  std::vector<bool> asleep_;                // [profile]
  std::size_t asleep_count_ = 0;
  int futile_changes_ = 0;
  std::size_t change_events_ = 0;  // number of change events in the queue
};

GraphReplay::GraphReplay(const TaskGraph& graph, const ReplayOptions& options)
    : graph_(graph),
      until_(options.until),
      keep_unfinished_(options.keep_unfinished && options.until < infinity),
      stop_(options.stop),
      now_(round_to_tick(options.start)),
      network_(graph, options.stop),
      progress_(graph, options.stop),
      queues_(graph.queues),
      hosts_(static_cast<int>(graph.hosts.size())),
      steps_(graph.profiles.size()),
      asleep_(graph.profiles.size(), true),
      asleep_count_(graph.profiles.size()) {
  constexpr std::size_t at_once = 1 << 18;  // 8 MB
  replay_.tasks.reserve(graph.tasks.size());
  while (replay_.tasks.size() < graph.tasks.size()) {
    if (!replay_.tasks.empty()) throw_if_stopped(stop_);
    replay_.tasks.resize(std::min(graph.tasks.size(), replay_.tasks.size() + at_once));
  }
  replay_.makespan = now_;
  link_profiles();
}

/// Only affects performance, not the result.
void GraphReplay::prefetch(int task) const {
  progress_.prefetch(task);
  __builtin_prefetch(&replay_.tasks[at(task)], 1);
}

void GraphReplay::prefetch_ahead() const {
  const Event* event = queue_.peek_sorted(prefetch_distance);
  if (event && event->kind == Event::Kind::task_end) prefetch(event->id);
}

void GraphReplay::link_profiles() {
  for (std::size_t i = 0; i < graph_.profiles.size(); ++i)
    for (const Profile::Target& target : graph_.profiles[i].targets) {
      const std::size_t capacity = at(network_.capacity_of(graph_.profiles[i].quantity, target.index));
      if (profiles_.size() <= capacity) profiles_.resize(capacity + 1);
      profiles_[capacity].push_back(static_cast<int>(i));
    }
}

void GraphReplay::push_failures() {
  for (std::size_t i = 0; i < graph_.failures.size(); ++i)
    if (const Failure& failure = graph_.failures[i]; round_to_tick(failure.up) > now_)
      queue_.push(std::max(now_, round_to_tick(failure.down)), failures,
                  {Event::Kind::down, static_cast<int>(i)});
}

Replay GraphReplay::run() {
  double next = 0;
  try {
    push_failures();
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i)
      if (graph_.tasks[i].after_count == 0) make_ready(static_cast<int>(i));
    // Events at the start time come before the first tasks start.
    if (queue_.next_date() > now_) start_ready();
    while (!is_over(next = next_date()) && !is_stopped()) {
      now_ = next;
      end_flows();
      while (queue_.next_date() == now_) {
        prefetch_ahead();
        handle(queue_.pop());
      }
      start_ready();
    }
  } catch (const WorkStopped&) {  // between two starts of tasks at the same time
    stopped_ = true;
  }
  close(next);
  return std::move(replay_);
}

/// The time of the next event or end of a flow. Rates are updated only after all events at the current time.
double GraphReplay::next_date() {
  const double next_event = queue_.next_date();
  if (next_event == now_) return now_;
  network_.fluid().update_rates(now_, stop_);
  return std::min(next_event, std::max(now_, round_to_tick(network_.fluid().ends().next().date)));
}

bool GraphReplay::is_over(double next) const {
  if (next == infinity || next > until_ || (running_ == 0 && ready_.empty())) return true;
  return futile_changes_ >= max_futile_changes && queue_.size() == change_events_ &&
         network_.fluid().ends().next().flow == FlowEnds::none;
}

bool GraphReplay::is_stopped() {
  if (!stop_ || ++dates_ % dates_per_stop_check != 0) return false;
  return stopped_ = stop_();
}

/// Decides whether the unfinished tasks were aborted or are deadlocked.
void GraphReplay::close(double next) {
  replay_.last_event_date = now_;
  if (ended_ == graph_.tasks.size()) return;
  const bool aborted = running_ > 0 && next < infinity && next > until_;
  replay_.ended = stopped_ ? ReplayEnd::stopped : aborted ? ReplayEnd::aborted : ReplayEnd::deadlocked;
  if (keep_unfinished_ && !stopped_) record_unfinished();
  if (replay_.ended == ReplayEnd::deadlocked) return;
  for (const int task : running_tasks()) replay_.tasks[at(task)].state = TaskState::aborted;
}

/// Records what remains at `until_`: of active flows as the network says, of other tasks by their end times.
void GraphReplay::record_unfinished() {
  for (const int task : running_tasks()) {
    UnfinishedTask& unfinished =
        replay_.unfinished.emplace_back(UnfinishedTask{task, false, 0, progress_[task].amount});
    if (progress_[task].phase == Phase::sharing)
      unfinished.amount = network_.fluid().ends().remaining(progress_[task].slot, until_);
  }
  std::sort(replay_.unfinished.begin(), replay_.unfinished.end(),
            [](const UnfinishedTask& a, const UnfinishedTask& b) { return a.task < b.task; });
  while (!queue_.empty()) {
    const double left = queue_.next_date() - until_;
    const Event event = queue_.pop();
    if (event.kind != Event::Kind::task_end && event.kind != Event::Kind::overhead_end) continue;
    const auto unfinished = std::lower_bound(replay_.unfinished.begin(), replay_.unfinished.end(), event.id,
                                             [](const UnfinishedTask& a, int task) { return a.task < task; });
    if (unfinished != replay_.unfinished.end() && unfinished->task == event.id) set_end(*unfinished, left);
  }
}

/// `left`: seconds until the current phase of the task, whose end is known, would have ended.
void GraphReplay::set_end(UnfinishedTask& unfinished, double left) const {
  const Progress& it = progress_[unfinished.task];
  if (it.phase == Phase::in_overhead) {
    unfinished.overhead = left;
  } else if (it.phase == Phase::timed || it.phase == Phase::arriving) {
    unfinished.is_delay = it.kind != TaskKind::compute;
    unfinished.amount = it.kind == TaskKind::compute ? left * graph_.hosts[at(it.host)].speed : left;
  }
}

void GraphReplay::handle(const Event& event) {
  ++replay_.events;
  if (event.kind == Event::Kind::change) return change(event.id);
  futile_changes_ = 0;
  switch (event.kind) {
    case Event::Kind::task_end:
      if (progress_[event.id].phase == Phase::timed || progress_[event.id].phase == Phase::arriving)
        end(event.id, TaskState::done);
      break;
    case Event::Kind::overhead_end:
      if (progress_[event.id].phase == Phase::in_overhead) start_flow(event.id);
      break;
    case Event::Kind::latency_end:
      if (progress_[event.id].phase == Phase::in_latency)
        share(event.id, flow_parameters_.take(progress_[event.id].slot), 0);
      break;
    case Event::Kind::down:
    case Event::Kind::up:
      set_down(event.id, event.kind == Event::Kind::down);
      break;
    case Event::Kind::change:
      break;
  }
}

void GraphReplay::end_flows() {
  const FlowEnds& ends = network_.fluid().ends();
  for (FlowEnds::End next = ends.next(); round_to_tick(next.date) <= now_; next = ends.next())
    end_flow(next.flow);
}

void GraphReplay::end_flow(int flow) {
  ++replay_.events;
  futile_changes_ = 0;
  const ActiveFlow active_flow = active_flows_[at(flow)];
  if (active_flow.trailing_latency == 0) return end(active_flow.task, TaskState::done);
  leave_network(active_flow.task);
  arrive(active_flow.task, active_flow.trailing_latency);
}

const std::vector<int>& GraphReplay::running_tasks() {
  std::erase_if(started_, [&](int task) { return progress_[task].phase == Phase::ended; });
  return started_;
}

void GraphReplay::set_down(int number, bool down) {
  const Failure& failure = graph_.failures[at(number)];
  network_.set_down(failure, down);
  if (!down) return;
  if (failure.up < infinity) queue_.push(round_to_tick(failure.up), failures, {Event::Kind::up, number});
  std::vector<int> failed;
  for (const int task : running_tasks())
    if (network_.is_down(graph_.tasks[at(task)])) failed.push_back(task);
  std::sort(failed.begin(), failed.end());
  for (const int task : failed) end(task, TaskState::failed);
}

void GraphReplay::change(int number) {
  --change_events_;
  const Profile& profile = graph_.profiles[at(number)];
  if (!affects_flows(profile)) {
    asleep_[at(number)] = true;
    ++asleep_count_;
    return;
  }
  if (profile.period > 0) ++futile_changes_;
  apply(profile, steps_[at(number)]++);
  push_change(number);
}

void GraphReplay::apply(const Profile& profile, std::size_t step) {
  const double value = profile.steps[step % profile.steps.size()].value;
  for (const Profile::Target& target : profile.targets)
    network_.set(profile.quantity, target.index, target.scale * value);
}

void GraphReplay::push_change(int number) {
  const double date = date_of(graph_.profiles[at(number)], steps_[at(number)]);
  if (date == infinity) return;
  queue_.push(date, changes, {Event::Kind::change, number});
  ++change_events_;
}

bool GraphReplay::affects_flows(const Profile& profile) const {
  return std::any_of(profile.targets.begin(), profile.targets.end(), [&](const Profile::Target& target) {
    return network_.fluid().is_used(network_.capacity_of(profile.quantity, target.index));
  });
}

/// Profiles sleep while no flow uses any of their targets.
void GraphReplay::wake_profiles(int task) {
  if (asleep_count_ == 0) return;
  for (const LinkUse& use : network_.uses_of(graph_.tasks[at(task)]))
    if (at(use.link) < profiles_.size())
      for (const int profile : profiles_[at(use.link)])
        if (asleep_[at(profile)]) wake(profile);
}

/// Advances a profile to its value at the current time.
void GraphReplay::wake(int number) {
  asleep_[at(number)] = false;
  --asleep_count_;
  const Profile& profile = graph_.profiles[at(number)];
  if (profile.steps.empty()) return;
  steps_[at(number)] = steps_until(profile, now_);
  if (steps_[at(number)] > 0) apply(profile, steps_[at(number)] - 1);
  push_change(number);
}

void GraphReplay::make_ready(int task) {
  replay_.tasks[at(task)].ready = now_;
  ready_.push_back(task);
}

void GraphReplay::start_ready() {
  while (!ready_.empty() || queues_.has_pending() || hosts_.has_pending()) {
    starting_.swap(ready_);
    for (const int task : starting_)
      if (const int queue = progress_[task].queue; queue == no_index)
        enter_host(task);
      else
        enqueue(queues_, queue, task);
    starting_.clear();
    const auto prefetch_next = [this](int task) { prefetch(task); };
    queues_.serve([this](int task) { enter_host(task); }, prefetch_next);
    hosts_.serve([this](int task) { start(task); }, prefetch_next);
  }
}

void GraphReplay::enter_host(int task) {
  if (const Progress& it = progress_[task]; it.is_fifo)
    enqueue(hosts_, it.host, task);
  else
    start(task);
}

void GraphReplay::enqueue(ServiceQueues& lines, int line, int task) {
  lines.enqueue(line, task, [this](int waiting) {
    return WaitingTask{graph_.tasks[at(waiting)].priority, replay_.tasks[at(waiting)].ready, waiting};
  });
}

void GraphReplay::start(int task) {
  throw_if_stopped(stop_, started_count_++);
  const Progress& it = progress_[task];
  replay_.tasks[at(task)].start = now_;
  started_.push_back(task);
  ++running_;
  if (it.kind == TaskKind::flow) ++replay_.flows;
  if (network_.has_failures() && network_.is_down(graph_.tasks[at(task)]))
    return end(task, TaskState::failed);
  switch (it.kind) {
    case TaskKind::delay:
      return push_end(task, it.amount);
    case TaskKind::compute:
      return start_computation(task);
    case TaskKind::flow:
      return start_transfer(task);
  }
}

void GraphReplay::start_computation(int task) {
  const Progress& it = progress_[task];
  if (it.amount > 0 && network_.uses_fluid_model(it.host)) return share(task, {0, 1, infinity}, 0);
  push_end(task, it.amount / graph_.hosts[at(it.host)].speed);
}

void GraphReplay::start_transfer(int task) {
  const Task& it = graph_.tasks[at(task)];
  if (it.route == no_index) return push_end(task, 0);  // source and destination are the same host
  if (it.overhead == 0) return start_flow(task);
  progress_[task].phase = Phase::in_overhead;
  queue_.push(round_to_tick(now_ + it.overhead), ends, {Event::Kind::overhead_end, task});
}

void GraphReplay::start_flow(int task) {
  const Task& it = graph_.tasks[at(task)];
  wake_profiles(task);
  const FlowParameters parameters = network_.parameters(it);
  if (it.amount == 0)
    return it.streamed ? arrive(task, parameters.latency) : push_end(task, parameters.latency);
  if (parameters.latency == 0 || it.streamed) return share(task, parameters, parameters.latency);
  progress_[task].phase = Phase::in_latency;
  progress_[task].slot = flow_parameters_.store(parameters);
  queue_.push(round_to_tick(now_ + parameters.latency), ends, {Event::Kind::latency_end, task});
}

void GraphReplay::push_end(int task, double duration) {
  progress_[task].phase = Phase::timed;
  queue_.push(round_to_tick(now_ + duration), ends, {Event::Kind::task_end, task});
  if (const auto successors = progress_.successors(task); !successors.empty()) prefetch(successors.front());
}

/// The last byte of a streamed flow has been sent, so its queue is free for the next one.
void GraphReplay::arrive(int task, double latency) {
  if (const int queue = progress_[task].queue; queue != no_index) queues_.release(queue);
  push_end(task, latency);
  progress_[task].phase = Phase::arriving;
}

void GraphReplay::share(int task, const FlowParameters& parameters, double trailing_latency) {
  Progress& progress = progress_[task];
  wake_profiles(task);
  progress.phase = Phase::sharing;
  progress.slot = network_.add(graph_.tasks[at(task)], parameters.weight, parameters.rate_cap);
  if (active_flows_.size() <= at(progress.slot)) active_flows_.resize(at(progress.slot) + 1);
  active_flows_[at(progress.slot)] = {task, trailing_latency};
}

void GraphReplay::leave_network(int task) {
  network_.fluid().remove(progress_[task].slot);
}

void GraphReplay::end(int task, TaskState state) {
  Progress& progress = progress_[task];
  if (progress.phase == Phase::sharing) leave_network(task);
  if (progress.phase == Phase::in_latency) flow_parameters_.take(progress.slot);
  if (progress.queue != no_index && progress.phase != Phase::arriving) queues_.release(progress.queue);
  progress.phase = Phase::ended;
  ++ended_;
  --running_;
  TaskRecord& record = replay_.tasks[at(task)];
  record.state = state;
  record.finish = now_;
  replay_.makespan = std::max(replay_.makespan, now_);
  if (progress.is_fifo) hosts_.release(progress.host);
  if (state != TaskState::done) return;
  for (const int next : progress_.successors(task))
    if (--progress_[next].pending_dependencies == 0) make_ready(next);
}

}  // namespace

Replay replay(const TaskGraph& graph, const ReplayOptions& options) {
  try {
    return GraphReplay(graph, options).run();
  } catch (const WorkStopped&) {  // before it began
    Replay stopped;
    stopped.ended = ReplayEnd::stopped;
    stopped.makespan = stopped.last_event_date = options.start;
    return stopped;
  }
}

}  // namespace dtfm::sim
