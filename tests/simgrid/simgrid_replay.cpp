// Replays a task graph with SimGrid (https://simgrid.org), which decides how shared resources are divided and
// when tasks end; queues, latencies, failures and the times of profiles are handled here. It is an
// independent check of dtfm-sim, with which it shares only the reader.
//
// It uses SimGrid at its fastest: no actors, an activity for each task that is created when the task is ready
// and freed when it ends, and no other allocation per task that can be avoided.
//
// usage: simgrid_replay GRAPH [exact|full]    writes id,state,finish of every task to stdout, a line of JSON
// to stderr; exact: sets SimGrid's tolerances to their minimum; full: makes SimGrid compute all rates anew
// after every change, which is faster than its default, lazy updates, if most changes affect most flows.
// Supports max-min fairness with equal weights, but no profiles of fat pipes or speeds.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include "core/base/index.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/io/graph_reader.hpp"

namespace {

namespace sg = simgrid::s4u;
using dtfm::at;
using dtfm::sim::TaskKind;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Waiting {
  double priority, ready;
  int task;
  bool operator<(const Waiting& other) const {
    if (priority != other.priority) return priority < other.priority;
    if (ready != other.ready) return ready > other.ready;
    return task > other.task;
  }
};
struct Line {
  std::priority_queue<Waiting> waiting;
  bool busy = false;
};
enum class State { waiting, running, done, failed };

class Driver {
 public:
  explicit Driver(const dtfm::sim::TaskGraph& graph);
  void run();
  void print() const;

 private:
  void build_platform();
  void push_change(std::size_t profile, std::size_t step);
  void change(std::size_t profile, std::size_t step);
  void push_failure(const dtfm::sim::Failure& failure);
  void set_down(const dtfm::sim::Failure& failure, int change);
  bool is_down(const dtfm::sim::Task& task) const;
  template <void (Driver::*then)(int)>
  void after(double seconds, int task);

  void make_ready(int task);
  void start_ready();
  static int next_waiting(Line& line);
  bool is_fifo(const dtfm::sim::Task& task) const;
  void enter_host(int task);
  void start(int task);
  void begin_flow(int task);
  void begin_work(int task);
  void finish(int task) { end(task, State::done); }
  void end(int task, State state);

  const dtfm::sim::TaskGraph& graph_;
  std::vector<sg::Host*> hosts_, sources_;  // sources: per flow
  std::vector<sg::Link*> links_;
  // per link: current value, and maximum over its profile or 0
  std::vector<double> bandwidth_, latency_, max_bandwidth_;
  std::vector<int> link_down_, host_down_;
  std::vector<State> state_;
  std::vector<double> finish_, ready_at_;
  std::vector<int> awaited_, ready_, batch_, running_, queue_changes_, host_changes_;
  std::vector<std::vector<int>> successors_;
  std::vector<sg::ActivityPtr> activity_;
  std::vector<Line> queues_, fifo_;
  std::size_t started_ = 0, ended_ = 0;
  bool begun_ = false, starting_ = false;
  sg::ActivityPtr completing_;  // SimGrid still uses an activity after it has called back
};

Driver::Driver(const dtfm::sim::TaskGraph& graph)
    : graph_(graph),
      link_down_(graph.links.size()),
      host_down_(graph.hosts.size()),
      state_(graph.tasks.size(), State::waiting),
      finish_(graph.tasks.size()),
      ready_at_(graph.tasks.size()),
      awaited_(graph.tasks.size()),
      successors_(graph.tasks.size()),
      activity_(graph.tasks.size()),
      queues_(at(graph.queues)),
      fifo_(graph.hosts.size()) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    awaited_[i] = graph.tasks[i].after_count;
    for (int k = 0; k < graph.tasks[i].after_count; ++k)
      successors_[at(graph.after[at(graph.tasks[i].first_after + k)])].push_back(static_cast<int>(i));
  }
  build_platform();
}

/// Creates links without latency, so that all flows have the same weight. A callback supplies the current
/// bandwidth of a link, because SimGrid would never let a flow exceed the bandwidth that its links had when
/// it started.
void Driver::build_platform() {
  sg::NetZone* zone = sg::create_full_zone("zone");
  for (const dtfm::sim::Host& host : graph_.hosts)
    hosts_.push_back(zone->create_host(host.name, host.speed)->seal());
  max_bandwidth_.resize(graph_.links.size());
  for (const dtfm::sim::Profile& profile : graph_.profiles)
    if (profile.quantity == dtfm::sim::Profile::Quantity::bandwidth)
      for (const dtfm::sim::Profile::Step& step : profile.steps) {
        double& max_bandwidth = max_bandwidth_[at(profile.targets[0].index)];
        max_bandwidth =
            std::max({max_bandwidth, step.value, graph_.links[at(profile.targets[0].index)].bandwidth});
      }
  bandwidth_.resize(graph_.links.size());
  for (std::size_t i = 0; i < graph_.links.size(); ++i) {
    const dtfm::sim::GraphLink& link = graph_.links[i];
    bandwidth_[i] = link.bandwidth;
    latency_.push_back(link.latency);
    sg::Link* made =
        zone->create_link(graph_.link_names[i], max_bandwidth_[i] > 0 ? max_bandwidth_[i] : link.bandwidth)
            ->set_latency(0);
    if (max_bandwidth_[i] > 0)
      made->set_sharing_policy(sg::Link::SharingPolicy::NONLINEAR,
                               [this, i](double, int) { return bandwidth_[i]; });
    else if (link.sharing == dtfm::sim::Sharing::fatpipe)
      made->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE);
    links_.push_back(made->seal());
  }
  std::vector<bool> added(graph_.routes.size());
  for (const dtfm::sim::Task& task : graph_.tasks) {
    sources_.push_back(task.kind == TaskKind::flow ? hosts_[at(task.host)] : nullptr);
    if (task.route == dtfm::no_index || (task.rate == infinity && added[at(task.route)])) continue;
    std::vector<sg::LinkInRoute> route;
    for (const int link : graph_.routes[at(task.route)].links) route.emplace_back(links_[at(link)]);
    if (task.rate < infinity) {
      // Such communications cannot have a rate limit in SimGrid 3.32: the flow gets a link and a source of
      // its own.
      const std::string name = "ceiling " + std::to_string(sources_.size());
      route.emplace_back(zone->create_link(name, task.rate)->set_latency(0)->seal());
      sources_.back() = zone->create_host(name, 1)->seal();
    } else {
      added[at(task.route)] = true;
    }
    zone->add_route(sources_.back()->get_netpoint(), hosts_[at(task.destination)]->get_netpoint(), nullptr,
                    nullptr, route, false);
  }
  zone->seal();
}

void Driver::push_change(std::size_t number, std::size_t step) {
  const dtfm::sim::Profile& profile = graph_.profiles[number];
  const std::size_t round = step / profile.steps.size();
  if (round > 0 && profile.period == 0) return;
  const double date =
      profile.steps[step % profile.steps.size()].date + static_cast<double>(round) * profile.period;
  simgrid::kernel::timer::Timer::set(date, [this, number, step] { change(number, step); });
}

void Driver::change(std::size_t number, std::size_t step) {
  if (begun_ && started_ == ended_) return;  // nothing will change any more
  const dtfm::sim::Profile& profile = graph_.profiles[number];
  const double value = profile.steps[step % profile.steps.size()].value;
  const std::size_t link = at(profile.targets[0].index);
  if (profile.quantity == dtfm::sim::Profile::Quantity::latency) {
    latency_[link] = value;
  } else {
    bandwidth_[link] = value;
    links_[link]->set_bandwidth(max_bandwidth_[link]);  // makes it ask again
  }
  push_change(number, step + 1);
}

void Driver::push_failure(const dtfm::sim::Failure& failure) {
  using simgrid::kernel::timer::Timer;
  Timer::set(failure.down, [this, &failure] { set_down(failure, 1); });
  if (failure.up < infinity) Timer::set(failure.up, [this, &failure] { set_down(failure, -1); });
}

void Driver::set_down(const dtfm::sim::Failure& failure, int change) {
  (failure.host == dtfm::no_index ? link_down_[at(failure.link)] : host_down_[at(failure.host)]) += change;
  if (change < 0) return;
  std::vector<int> failed;
  for (const int task : running_)
    if (state_[at(task)] == State::running && is_down(graph_.tasks[at(task)])) failed.push_back(task);
  for (const int task : failed) end(task, State::failed);
}

bool Driver::is_down(const dtfm::sim::Task& task) const {
  if (task.kind == TaskKind::delay) return false;
  if (host_down_[at(task.host)] > 0) return true;
  if (task.kind == TaskKind::compute) return false;
  if (host_down_[at(task.destination)] > 0) return true;
  if (task.route == dtfm::no_index) return false;
  const std::vector<int>& links = graph_.routes[at(task.route)].links;
  return std::any_of(links.begin(), links.end(), [&](int link) { return link_down_[at(link)] > 0; });
}

/// What the callback captures is small enough for SimGrid to store it without an allocation.
template <void (Driver::*then)(int)>
void Driver::after(double seconds, int task) {
  simgrid::kernel::timer::Timer::set(sg::Engine::get_clock() + seconds, [this, task] {
    if (state_[at(task)] == State::running) (this->*then)(task);
  });
}

void Driver::make_ready(int task) {
  ready_at_[at(task)] = sg::Engine::get_clock();
  ready_.push_back(task);
}

/// Enqueues all ready tasks before any task of their queues is served.
void Driver::start_ready() {
  if (starting_) return;
  starting_ = true;
  while (!ready_.empty() || !queue_changes_.empty() || !host_changes_.empty()) {
    batch_.swap(ready_);
    for (const int task : batch_) {
      const dtfm::sim::Task& it = graph_.tasks[at(task)];
      if (it.queue == dtfm::no_index) {
        enter_host(task);
      } else {
        queues_[at(it.queue)].waiting.push({it.priority, ready_at_[at(task)], task});
        queue_changes_.push_back(it.queue);
      }
    }
    batch_.clear();
    batch_.swap(queue_changes_);
    for (const int queue : batch_)
      if (const int task = next_waiting(queues_[at(queue)]); task >= 0) enter_host(task);
    batch_.clear();
    batch_.swap(host_changes_);
    for (const int host : batch_)
      if (const int task = next_waiting(fifo_[at(host)]); task >= 0) start(task);
    batch_.clear();
  }
  starting_ = false;
}

int Driver::next_waiting(Line& line) {
  if (line.busy || line.waiting.empty()) return -1;
  line.busy = true;
  const int task = line.waiting.top().task;
  line.waiting.pop();
  return task;
}

bool Driver::is_fifo(const dtfm::sim::Task& task) const {
  return task.kind == TaskKind::compute &&
         graph_.hosts[at(task.host)].sharing == dtfm::sim::HostSharing::fifo;
}

void Driver::enter_host(int task) {
  const dtfm::sim::Task& it = graph_.tasks[at(task)];
  if (!is_fifo(it)) return start(task);
  fifo_[at(it.host)].waiting.push({it.priority, ready_at_[at(task)], task});
  host_changes_.push_back(it.host);
}

void Driver::start(int task) {
  const dtfm::sim::Task& it = graph_.tasks[at(task)];
  state_[at(task)] = State::running;
  ++started_;
  if (!graph_.failures.empty()) {
    running_.push_back(task);
    if (is_down(it)) return end(task, State::failed);
  }
  if (it.kind == TaskKind::delay && it.amount == 0) return finish(task);
  if (it.kind == TaskKind::delay) return after<&Driver::finish>(it.amount, task);
  if (it.kind == TaskKind::compute) return begin_work(task);
  if (it.route == dtfm::no_index) return finish(task);
  double latency = 0;
  for (const int link : graph_.routes[at(it.route)].links) latency += latency_[at(link)];
  if (it.amount == 0) return after<&Driver::finish>(latency, task);
  if (latency > 0) return after<&Driver::begin_flow>(latency, task);
  begin_flow(task);
}

void Driver::begin_flow(int task) {
  const dtfm::sim::Task& it = graph_.tasks[at(task)];
  const sg::CommPtr comm = sg::Comm::sendto_async(sources_[at(task)], hosts_[at(it.destination)],
                                                  static_cast<uint64_t>(it.amount));
  comm->set_data(const_cast<dtfm::sim::Task*>(&it));
  activity_[at(task)] = comm;
}

void Driver::begin_work(int task) {
  const dtfm::sim::Task& it = graph_.tasks[at(task)];
  if (it.amount == 0) return finish(task);
  const sg::ExecPtr exec = sg::Exec::init();
  exec->set_flops_amount(it.amount)
      ->set_host(hosts_[at(it.host)])
      ->set_data(const_cast<dtfm::sim::Task*>(&it));
  activity_[at(task)] = exec;
  exec->vetoable_start();
}

void Driver::end(int task, State state) {
  if (state_[at(task)] != State::running) return;
  const dtfm::sim::Task& it = graph_.tasks[at(task)];
  state_[at(task)] = state;
  finish_[at(task)] = sg::Engine::get_clock();
  ++ended_;
  if (state == State::failed && activity_[at(task)]) activity_[at(task)]->cancel();
  if (state == State::done && activity_[at(task)]) completing_ = std::move(activity_[at(task)]);
  if (it.queue != dtfm::no_index) {
    queues_[at(it.queue)].busy = false;
    queue_changes_.push_back(it.queue);
  }
  if (is_fifo(it)) {
    fifo_[at(it.host)].busy = false;
    host_changes_.push_back(it.host);
  }
  if (state == State::done)
    for (const int next : successors_[at(task)])
      if (--awaited_[at(next)] == 0) make_ready(next);
  start_ready();
}

void Driver::run() {
  sg::Activity::on_completion_cb([this](const sg::Activity& activity) {
    finish(static_cast<int>(activity.get_data<const dtfm::sim::Task>() - graph_.tasks.data()));
  });
  for (std::size_t i = 0; i < graph_.profiles.size(); ++i) push_change(i, 0);
  for (const dtfm::sim::Failure& failure : graph_.failures) push_failure(failure);
  simgrid::kernel::timer::Timer::set(0, [this] {
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (awaited_[i] == 0) make_ready(static_cast<int>(i));
    start_ready();
    begun_ = true;
  });
  sg::Engine::get_instance()->run();
}

void Driver::print() const {
  std::printf("id,state,finish\n");
  for (std::size_t i = 0; i < state_.size(); ++i) {
    const bool done = state_[i] == State::done, ended = done || state_[i] == State::failed;
    std::printf("%s,%s,", graph_.task_names[i].c_str(), done ? "DONE" : ended ? "FAILED" : "BLOCKED");
    if (ended) std::printf("%.17g", finish_[i]);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 2 ? argv[2] : "";
  int count = 2;  // SimGrid must not parse our arguments
  std::string quiet = "--log=root.threshold:critical";
  std::vector<char*> arguments = {argv[0], quiet.data(), nullptr};
  sg::Engine engine(&count, arguments.data());
  for (const char* setting : {"network/model:CM02", "network/latency-factor:1", "network/bandwidth-factor:1",
                              "network/weight-S:0", "network/TCP-gamma:1e30", "network/crosstraffic:0"})
    sg::Engine::set_config(setting);
  if (mode == "full") sg::Engine::set_config("network/optim:Full");
  if (mode == "exact") {
    sg::Engine::set_config("surf/precision:1e-12");
    sg::Engine::set_config("maxmin/precision:1e-9");
  }
  const std::string file = argv[1];
  const dtfm::sim::TaskGraph graph =
      dtfm::io::parse_task_graph(dtfm::io::read_file(file, dtfm::io::max_graph_file_bytes), file);
  Driver driver(graph);
  const std::clock_t begin = std::clock();
  driver.run();
  std::fprintf(stderr, "{\"run_cpu_s\": %.6f}\n", static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  driver.print();
  return 0;
}
