#include "simulator/graph/graph_replay.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/core/index.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/engine/event_queue.hpp"
#include "simulator/engine/waiting_lines.hpp"
#include "simulator/graph/graph_network.hpp"

namespace dtfm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// After so many changes of links in a row that let nothing move, what waits is blocked: periodic profiles
/// would go on for ever.
constexpr int futile_changes = 1'000'000;

/// In the order in which they come at one instant; starts come after all of them.
enum Rank : unsigned { ends, failures, changes };

struct Event {
  enum class Kind : std::uint8_t { task_end, latency_end, flow_end, down, up, change };
  Kind kind = Kind::task_end;
  std::uint32_t stamp = 0;  // of a flow_end: out of date if the flow has another one
  int id = 0;               // a task; a flow of the network; a failure; a profile
};

enum class Phase : std::uint8_t { waiting, timed, in_latency, sharing, ended };

struct Progress {
  Phase phase = Phase::waiting;
  int awaited = 0;      // how many tasks it still waits for
  int running_at = 0;   // where it is among the running
  int flow = no_index;  // in the network
  double weight = 1, ceiling = infinity;
};

/// A flow or shared computation that the network moves.
struct Moving {
  int task = 0;
  std::uint32_t stamp = 0;
  double event = infinity;  // the date at which the queue will ask for it: its end, or before
};

class GraphReplay {
 public:
  explicit GraphReplay(const TaskGraph& graph);
  Replay run();

 private:
  void link_successors();
  bool is_over() const;
  void handle(const Event& event);
  void end_flow(const Event& event);
  void set_down(int failure, bool down);
  void change(int profile);
  void push_change(int profile);

  void make_ready(int task);
  void start_ready();
  void go_to_host(int task);
  void start(int task);
  void start_flow(int task);
  void push_end(int task, double duration);
  void wait_for_end(int flow);
  void share(int task);
  void settle();
  void end(int task, TaskState state);

  const TaskGraph& graph_;
  GraphNetwork network_;
  EventQueue<Event> queue_;
  double now_ = 0;
  Replay replay_;

  std::vector<Progress> progress_;  // of each task
  std::vector<int> first_successor_, successors_;
  std::vector<int> ready_, starting_, running_;
  WaitingLines queues_, hosts_;
  std::vector<Moving> moving_;      // of each flow of the network
  std::vector<std::size_t> steps_;  // that each profile has taken
  int futile_changes_ = 0;
  std::size_t change_events_ = 0;  // in the queue
};

GraphReplay::GraphReplay(const TaskGraph& graph)
    : graph_(graph),
      network_(graph),
      progress_(graph.tasks.size()),
      queues_(graph.queues),
      hosts_(static_cast<int>(graph.hosts.size())),
      steps_(graph.profiles.size()) {
  replay_.tasks.resize(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) progress_[i].awaited = graph.tasks[i].after_count;
  link_successors();
}

void GraphReplay::link_successors() {
  first_successor_.assign(graph_.tasks.size() + 1, 0);
  for (const int before : graph_.after) ++first_successor_[at(before) + 1];
  for (std::size_t i = 1; i < first_successor_.size(); ++i) first_successor_[i] += first_successor_[i - 1];
  successors_.resize(graph_.after.size());
  std::vector<int> next(first_successor_.begin(), first_successor_.end() - 1);
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i)
    for (int k = 0; k < graph_.tasks[i].after_count; ++k) {
      const int before = graph_.after[at(graph_.tasks[i].first_after + k)];
      successors_[at(next[at(before)]++)] = static_cast<int>(i);
    }
}

Replay GraphReplay::run() {
  for (std::size_t i = 0; i < graph_.failures.size(); ++i)
    queue_.push(on_grid(graph_.failures[i].down), failures, {Event::Kind::down, 0, static_cast<int>(i)});
  for (std::size_t i = 0; i < graph_.profiles.size(); ++i) push_change(static_cast<int>(i));
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i)
    if (graph_.tasks[i].after_count == 0) make_ready(static_cast<int>(i));
  // What happens at 0 comes before the first starts.
  if (queue_.empty() || queue_.next().date > 0) start_ready();
  for (;;) {
    if (queue_.empty() || queue_.next().date > now_) settle();
    if (is_over()) return std::move(replay_);
    now_ = queue_.next().date;
    while (!queue_.empty() && queue_.next().date == now_) handle(queue_.pop());
    start_ready();
  }
}

bool GraphReplay::is_over() const {
  if (queue_.empty() || (running_.empty() && ready_.empty())) return true;
  return queue_.size() == change_events_ && futile_changes_ >= futile_changes;
}

void GraphReplay::handle(const Event& event) {
  ++replay_.events;
  if (event.kind == Event::Kind::change) return change(event.id);
  futile_changes_ = 0;
  switch (event.kind) {
    case Event::Kind::task_end:
      if (progress_[at(event.id)].phase == Phase::timed) end(event.id, TaskState::done);
      break;
    case Event::Kind::latency_end:
      if (progress_[at(event.id)].phase == Phase::in_latency) share(event.id);
      break;
    case Event::Kind::flow_end:
      end_flow(event);
      break;
    case Event::Kind::down:
    case Event::Kind::up:
      set_down(event.id, event.kind == Event::Kind::down);
      break;
    case Event::Kind::change:
      break;
  }
}

void GraphReplay::end_flow(const Event& event) {
  Moving& moving = moving_[at(event.id)];
  if (moving.stamp != event.stamp) return;
  moving.event = infinity;
  if (on_grid(network_.fluid().end(event.id)) <= now_)
    end(moving.task, TaskState::done);
  else
    wait_for_end(event.id);
}

void GraphReplay::set_down(int number, bool down) {
  const Failure& failure = graph_.failures[at(number)];
  network_.set_down(failure, down);
  if (!down) return;
  if (failure.up < infinity) queue_.push(on_grid(failure.up), failures, {Event::Kind::up, 0, number});
  std::vector<int> failed;
  for (const int task : running_)
    if (network_.is_down(graph_.tasks[at(task)])) failed.push_back(task);
  std::sort(failed.begin(), failed.end());
  for (const int task : failed) end(task, TaskState::failed);
}

void GraphReplay::change(int number) {
  --change_events_;
  ++futile_changes_;
  const LinkProfile& profile = graph_.profiles[at(number)];
  const LinkProfile::Step& step = profile.steps[steps_[at(number)]++ % profile.steps.size()];
  if (profile.quantity == LinkProfile::Quantity::bandwidth)
    network_.set_bandwidth(profile.link, step.value);
  else
    network_.set_latency(profile.link, step.value);
  push_change(number);
}

void GraphReplay::push_change(int number) {
  const LinkProfile& profile = graph_.profiles[at(number)];
  const std::size_t taken = steps_[at(number)], round = taken / profile.steps.size();
  if (round > 0 && profile.period == 0) return;
  const double date =
      profile.steps[taken % profile.steps.size()].date + static_cast<double>(round) * profile.period;
  queue_.push(on_grid(date), changes, {Event::Kind::change, 0, number});
  ++change_events_;
}

void GraphReplay::make_ready(int task) {
  replay_.tasks[at(task)].ready = now_;
  ready_.push_back(task);
}

void GraphReplay::start_ready() {
  while (!ready_.empty() || queues_.has_news() || hosts_.has_news()) {
    starting_.swap(ready_);
    for (const int task : starting_) {
      const Task& it = graph_.tasks[at(task)];
      if (it.queue == no_index)
        go_to_host(task);
      else
        queues_.join(it.queue, {it.priority, now_, task});
    }
    starting_.clear();
    queues_.serve([&](int task) { go_to_host(task); });
    hosts_.serve([&](int task) { start(task); });
  }
}

void GraphReplay::go_to_host(int task) {
  const Task& it = graph_.tasks[at(task)];
  if (it.kind == TaskKind::compute && graph_.hosts[at(it.host)].sharing == HostSharing::fifo)
    hosts_.join(it.host, {it.priority, replay_.tasks[at(task)].ready, task});
  else
    start(task);
}

void GraphReplay::start(int task) {
  const Task& it = graph_.tasks[at(task)];
  Progress& progress = progress_[at(task)];
  replay_.tasks[at(task)].start = now_;
  progress.running_at = static_cast<int>(running_.size());
  running_.push_back(task);
  if (it.kind == TaskKind::flow) ++replay_.flows;
  if (network_.is_down(it)) return end(task, TaskState::failed);
  if (it.kind == TaskKind::flow) return start_flow(task);
  if (it.kind == TaskKind::delay) return push_end(task, it.amount);
  const Host& host = graph_.hosts[at(it.host)];
  if (host.sharing == HostSharing::fifo || it.amount == 0)
    push_end(task, it.amount / host.speed);
  else
    share(task);
}

void GraphReplay::start_flow(int task) {
  const Task& it = graph_.tasks[at(task)];
  if (it.route == no_index) return push_end(task, 0);  // to oneself
  const FlowTerms terms = network_.terms(it);
  if (it.amount == 0) return push_end(task, terms.latency);
  Progress& progress = progress_[at(task)];
  progress.weight = terms.weight;
  progress.ceiling = terms.ceiling;
  if (terms.latency == 0) return share(task);
  progress.phase = Phase::in_latency;
  queue_.push(on_grid(now_ + terms.latency), ends, {Event::Kind::latency_end, 0, task});
}

void GraphReplay::push_end(int task, double duration) {
  progress_[at(task)].phase = Phase::timed;
  queue_.push(on_grid(now_ + duration), ends, {Event::Kind::task_end, 0, task});
}

void GraphReplay::share(int task) {
  Progress& progress = progress_[at(task)];
  progress.phase = Phase::sharing;
  progress.flow = network_.add(graph_.tasks[at(task)], progress.weight, progress.ceiling, now_);
  if (moving_.size() <= at(progress.flow)) moving_.resize(at(progress.flow) + 1);
  moving_[at(progress.flow)].task = task;
}

void GraphReplay::settle() {
  for (const int flow : network_.fluid().settle(now_)) wait_for_end(flow);
}

/// An event that comes too early does no harm: at its date, the flow waits on. So only an earlier end is put
/// in the queue at once.
void GraphReplay::wait_for_end(int flow) {
  Moving& moving = moving_[at(flow)];
  const double end = std::max(now_, on_grid(network_.fluid().end(flow)));
  if (end >= moving.event) return;
  moving.event = end;
  queue_.push(end, ends, {Event::Kind::flow_end, ++moving.stamp, flow});
}

void GraphReplay::end(int task, TaskState state) {
  const Task& it = graph_.tasks[at(task)];
  Progress& progress = progress_[at(task)];
  if (progress.phase == Phase::sharing) {
    network_.fluid().remove(progress.flow);
    ++moving_[at(progress.flow)].stamp;
    moving_[at(progress.flow)].event = infinity;
  }
  progress.phase = Phase::ended;
  progress_[at(running_.back())].running_at = progress.running_at;
  running_[at(progress.running_at)] = running_.back();
  running_.pop_back();
  replay_.tasks[at(task)].state = state;
  replay_.tasks[at(task)].finish = now_;
  replay_.makespan = std::max(replay_.makespan, now_);
  if (it.queue != no_index) queues_.leave(it.queue);
  if (it.kind == TaskKind::compute && graph_.hosts[at(it.host)].sharing == HostSharing::fifo)
    hosts_.leave(it.host);
  if (state != TaskState::done) return;
  for (int k = first_successor_[at(task)]; k < first_successor_[at(task) + 1]; ++k)
    if (const int next = successors_[at(k)]; --progress_[at(next)].awaited == 0) make_ready(next);
}

}  // namespace

std::string_view name_of(TaskState state) {
  switch (state) {
    case TaskState::done:
      return "DONE";
    case TaskState::failed:
      return "FAILED";
    case TaskState::blocked:
      break;
  }
  return "BLOCKED";
}

Replay replay(const TaskGraph& graph) {
  return GraphReplay(graph).run();
}

}  // namespace dtfm
