#include "simulator/graph/graph_replay.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/graph/graph_network.hpp"
#include "simulator/graph/graph_profiles.hpp"
#include "simulator/graph/ready_tasks.hpp"
#include "simulator/graph/replay_event.hpp"
#include "simulator/graph/task_progress.hpp"
#include "simulator/graph/tcp.hpp"

namespace dtfm::sim {
namespace {

/// Tasks are prefetched this many events ahead. Handling that many events hides the memory latency; any value
/// from 4 to 16 works as well.
constexpr std::size_t prefetch_distance = 8;

class GraphReplay {
 public:
  GraphReplay(const TaskGraph& graph, const ReplayOptions& options, std::vector<SlowStart> connections);
  Replay run();
  std::vector<SlowStart> take_connections() { return std::move(connections_); }

 private:
  void begin();
  bool is_over(double next) const;
  double next_date();
  void advance(double date);
  void close(double next, bool stopped);
  const std::vector<int>& running_tasks();
  std::vector<UnfinishedTask> unfinished_tasks();

  void handle(const Event& event);
  void end_flow(int flow);
  void set_down(int failure, bool down);

  void make_ready(int task);
  void start_ready();
  void start(int task);
  void start_transfer(int task);
  void start_flow(int task);
  void share(int task, const FlowParameters& parameters, double trailing_latency);
  void arrive(int task, double latency);
  void run_for(int task, double duration, Phase phase);
  void end_phase(int task);
  void end(int task, TaskState state);
  void prefetch(int task) const;

  const TaskGraph& graph_;
  const ReplayOptions& options_;
  double now_;
  long long dates_ = 0;
  std::size_t ended_ = 0, running_ = 0;  // tasks
  std::vector<int> started_;             // all running tasks, and some that have ended
  TaskProgress progress_;
  Replay replay_;
  ReplayQueue queue_;
  GraphNetwork network_;
  GraphProfiles profiles_;
  ReadyTasks ready_;
  std::vector<SlowStart> connections_;
};

GraphReplay::GraphReplay(const TaskGraph& graph, const ReplayOptions& options,
                         std::vector<SlowStart> connections)
    : graph_(graph),
      options_(options),
      now_(round_to_tick(options.start)),
      progress_(graph, options.stop),
      network_(graph, options.stop),
      profiles_(graph, network_, queue_),
      ready_(graph, progress_, replay_.tasks),
      connections_(std::move(connections)) {
  replay_.tasks.resize(graph.tasks.size());
  replay_.makespan = now_;
}

Replay GraphReplay::run() {
  bool stopped = false;
  double next = 0;
  try {
    begin();
    while (!is_over(next = next_date())) {
      if (++dates_ % dates_per_stop_check == 0) throw_if_stopped(options_.stop);
      advance(next);
    }
  } catch (const WorkStopped&) {  // also between two starts of tasks at the same time
    stopped = true;
  }
  close(next, stopped);
  return std::move(replay_);
}

void GraphReplay::begin() {
  for (std::size_t i = 0; i < graph_.failures.size(); ++i)
    if (const Failure& failure = graph_.failures[i]; round_to_tick(failure.up) > now_)
      queue_.push(std::max(now_, round_to_tick(failure.down)), failures,
                  {Event::Kind::down, static_cast<int>(i)});
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i)
    if (graph_.tasks[i].after_count == 0) make_ready(static_cast<int>(i));
  // Events at the start time come before the first tasks start.
  if (queue_.next_date() > now_) start_ready();
}

/// The time of the next event or end of a flow. Rates are updated only after all events at the current time.
double GraphReplay::next_date() {
  const double next_event = queue_.next_date();
  if (next_event == now_) return now_;
  network_.fluid().update_rates(now_, options_.stop);
  return std::min(next_event, std::max(now_, round_to_tick(network_.fluid().ends().next().date)));
}

bool GraphReplay::is_over(double next) const {
  if (next == infinity || next > options_.until || (running_ == 0 && ready_.empty())) return true;
  return profiles_.are_futile() && network_.fluid().ends().next().flow == FlowEnds::none;
}

void GraphReplay::advance(double date) {
  now_ = date;
  const FlowEnds& ends = network_.fluid().ends();
  for (FlowEnds::End next = ends.next(); round_to_tick(next.date) <= now_; next = ends.next())
    end_flow(next.flow);
  while (queue_.next_date() == now_) {
    const Event* later = queue_.peek_sorted(prefetch_distance);
    if (later && later->kind == Event::Kind::task) prefetch(later->id);
    handle(queue_.pop());
  }
  start_ready();
}

/// Decides whether the unfinished tasks were aborted or are deadlocked.
void GraphReplay::close(double next, bool stopped) {
  replay_.last_event_date = now_;
  if (ended_ == graph_.tasks.size()) return;
  const bool aborted = running_ > 0 && next < infinity && next > options_.until;
  replay_.ended = stopped ? ReplayEnd::stopped : aborted ? ReplayEnd::aborted : ReplayEnd::deadlocked;
  if (options_.keep_unfinished && options_.until < infinity && !stopped)
    replay_.unfinished = unfinished_tasks();
  if (replay_.ended == ReplayEnd::deadlocked) return;
  for (const int task : running_tasks()) replay_.tasks[at(task)].state = TaskState::aborted;
}

const std::vector<int>& GraphReplay::running_tasks() {
  std::erase_if(started_, [&](int task) { return progress_[task].phase == Phase::ended; });
  return started_;
}

/// What remains at the end of the options' time: of flows in the network as that says, of other tasks by the
/// end of their phase. Empties the queue of events.
std::vector<UnfinishedTask> GraphReplay::unfinished_tasks() {
  std::map<int, double> left;  // s until the events of tasks
  while (!queue_.empty()) {
    const double date = queue_.next_date();
    if (const Event event = queue_.pop(); event.kind == Event::Kind::task)
      left[event.id] = date - options_.until;
  }
  std::vector<UnfinishedTask> result;
  for (const int task : running_tasks()) {
    const Progress& it = progress_[task];
    UnfinishedTask& rest = result.emplace_back(UnfinishedTask{task, false, 0, it.amount});
    if (it.phase == Phase::sharing) {
      rest.amount = network_.fluid().ends().remaining(it.slot, options_.until);
    } else if (it.phase == Phase::in_overhead) {
      rest.overhead = left[task];
    } else if (it.phase != Phase::in_latency) {
      rest.is_delay = it.kind != TaskKind::compute;
      rest.amount = rest.is_delay ? left[task] : left[task] * graph_.hosts[at(it.host)].speed;
    }
  }
  std::sort(result.begin(), result.end(),
            [](const UnfinishedTask& a, const UnfinishedTask& b) { return a.task < b.task; });
  return result;
}

void GraphReplay::handle(const Event& event) {
  ++replay_.events;
  if (event.kind == Event::Kind::change) return profiles_.change(event.id);
  profiles_.record_progress();
  if (event.kind == Event::Kind::task) return end_phase(event.id);
  set_down(event.id, event.kind == Event::Kind::down);
}

/// The last byte of a flow has been sent, or a computation of the fluid model is done.
void GraphReplay::end_flow(int flow) {
  ++replay_.events;
  profiles_.record_progress();
  const auto [task, trailing_latency] = network_.active(flow);
  if (trailing_latency == 0) return end(task, TaskState::done);
  network_.remove(flow);
  arrive(task, trailing_latency);
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

void GraphReplay::make_ready(int task) {
  replay_.tasks[at(task)].ready = now_;
  ready_.add(task);
}

void GraphReplay::start_ready() {
  ready_.start_all([this](int task) { start(task); }, [this](int task) { prefetch(task); });
}

void GraphReplay::start(int task) {
  throw_if_stopped(options_.stop, ended_ + running_);
  const Progress& it = progress_[task];
  replay_.tasks[at(task)].start = now_;
  started_.push_back(task);
  ++running_;
  if (it.kind == TaskKind::flow) ++replay_.flows;
  if (network_.has_failures() && network_.is_down(graph_.tasks[at(task)]))
    return end(task, TaskState::failed);
  if (it.kind == TaskKind::flow) return start_transfer(task);
  if (it.kind == TaskKind::delay) return run_for(task, it.amount, Phase::timed);
  if (it.amount > 0 && network_.uses_fluid_model(it.host)) return share(task, {0, 1, infinity}, 0);
  run_for(task, it.amount / graph_.hosts[at(it.host)].speed, Phase::timed);
}

void GraphReplay::start_transfer(int task) {
  const Task& it = graph_.tasks[at(task)];
  if (it.route == no_index)
    return run_for(task, 0, Phase::timed);  // source and destination are the same host
  double wait_s = it.overhead;
  if (it.connection != no_index) wait_s += connections_[at(it.connection)].stall_s(it.amount, it.rate, now_);
  if (wait_s == 0) return start_flow(task);
  run_for(task, wait_s, Phase::in_overhead);
}

void GraphReplay::start_flow(int task) {
  const Task& it = graph_.tasks[at(task)];
  profiles_.wake(network_.uses_of(it), now_);
  const FlowParameters parameters = network_.parameters(it);
  if (it.amount == 0)
    return it.streamed ? arrive(task, parameters.latency) : run_for(task, parameters.latency, Phase::timed);
  if (parameters.latency == 0 || it.streamed) return share(task, parameters, parameters.latency);
  progress_[task].slot = network_.store(parameters);
  run_for(task, parameters.latency, Phase::in_latency);
}

void GraphReplay::share(int task, const FlowParameters& parameters, double trailing_latency) {
  profiles_.wake(network_.uses_of(graph_.tasks[at(task)]), now_);
  progress_[task].phase = Phase::sharing;
  progress_[task].slot = network_.add(task, parameters, trailing_latency);
}

/// The last byte of a streamed flow has been sent, so its queue is free for the next one.
void GraphReplay::arrive(int task, double latency) {
  if (const int connection = graph_.tasks[at(task)].connection; connection != no_index)
    connections_[at(connection)].use(now_);
  ready_.release_queue(progress_[task]);
  run_for(task, latency, Phase::arriving);
}

void GraphReplay::run_for(int task, double duration, Phase phase) {
  progress_[task].phase = phase;
  queue_.push(round_to_tick(now_ + duration), ends, {Event::Kind::task, task});
  if (const auto successors = progress_.successors(task); !successors.empty()) prefetch(successors.front());
}

void GraphReplay::end_phase(int task) {
  switch (progress_[task].phase) {
    case Phase::timed:
    case Phase::arriving:
      return end(task, TaskState::done);
    case Phase::in_overhead:
      return start_flow(task);
    case Phase::in_latency:
      return share(task, network_.take(progress_[task].slot), 0);
    default:
      return;  // the task has failed
  }
}

void GraphReplay::end(int task, TaskState state) {
  Progress& progress = progress_[task];
  if (progress.phase == Phase::sharing) network_.remove(progress.slot);
  if (progress.phase == Phase::in_latency) network_.take(progress.slot);
  if (progress.phase != Phase::arriving) ready_.release_queue(progress);
  progress.phase = Phase::ended;
  ++ended_;
  --running_;
  TaskRecord& record = replay_.tasks[at(task)];
  record.state = state;
  record.finish = now_;
  replay_.makespan = std::max(replay_.makespan, now_);
  ready_.release_host(progress);
  if (state != TaskState::done) return;
  for (const int next : progress_.successors(task))
    if (--progress_[next].pending_dependencies == 0) make_ready(next);
}

/// Only affects performance, not the result.
void GraphReplay::prefetch(int task) const {
  progress_.prefetch(task);
  __builtin_prefetch(&replay_.tasks[at(task)], 1);
}

/// Returns the connections as a replay that ends when this one starts leaves them.
std::vector<SlowStart> used_connections(const TaskGraph& graph, const ReplayOptions& options,
                                        std::vector<SlowStart> idle) {
  ReplayOptions before;
  before.start = options.start;
  before.stop = options.stop;
  GraphReplay replay(graph, before, idle);
  const Replay done = replay.run();
  if (done.ended != ReplayEnd::finished) return idle;
  std::vector<SlowStart> connections = replay.take_connections();
  for (SlowStart& it : connections) it.shift(before.start - done.makespan);
  return connections;
}

}  // namespace

Replay replay(const TaskGraph& graph, const ReplayOptions& options) {
  try {
    std::vector<SlowStart> connections;
    for (const Connection& it : graph.connections) connections.emplace_back(it.initial_window, it.round_trip);
    if (options.is_repeated && !connections.empty())
      connections = used_connections(graph, options, std::move(connections));
    return GraphReplay(graph, options, std::move(connections)).run();
  } catch (const WorkStopped&) {  // before it began
    Replay stopped;
    stopped.ended = ReplayEnd::stopped;
    stopped.makespan = stopped.last_event_date = options.start;
    return stopped;
  }
}

}  // namespace dtfm::sim
