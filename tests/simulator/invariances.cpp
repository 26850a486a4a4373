// Transformations of random graphs that must leave all times unchanged or scale them uniformly.
#include <algorithm>
#include <string>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr int links = 9, routes = 20, tasks = 120;

/// Returns a graph of hosts that compute one task at a time, routes of one to four links, tasks with up to
/// three predecessors, and an outage. It has no queues and no shared hosts, because there the order of
/// arrivals decides, which rounding can change.
TaskGraph random_graph(Rng& rng) {
  TaskGraph graph;
  const auto between = [&](double low, double high) { return low + (high - low) * rng.uniform(); };
  for (int i = 0; i < tasks; ++i) graph.hosts.push_back({"", between(0.5, 2), HostSharing::fifo});
  for (int i = 0; i < links; ++i)
    graph.links.push_back(
        {between(10, 100), between(0, 0.2), i % 4 == 3 ? Sharing::fatpipe : Sharing::shared});
  for (int i = 0; i < routes; ++i) {
    std::vector<int> all(at(links));
    for (int link = 0; link < links; ++link) all[at(link)] = link;
    rng.shuffle(std::span(all));
    all.resize(1 + rng.below(4));
    graph.routes.push_back({all, {}});
  }
  graph.profiles.push_back({Profile::Quantity::bandwidth, {{0, 1}}, {{1, 0}, {2, 80}}, 0});
  for (int i = 0; i < tasks; ++i) {
    Task task;
    const auto kind = rng.below(4);
    task.kind = kind == 0 ? TaskKind::compute : kind == 1 ? TaskKind::delay : TaskKind::flow;
    task.host = i;
    task.amount = between(0.1, 1) * (task.kind == TaskKind::flow ? 100 : 1);
    if (task.kind == TaskKind::flow) {
      task.destination = (i + 1) % tasks;
      task.route = static_cast<int>(rng.below(routes));
      if (rng.below(3) == 0) task.rate = between(5, 50);
      task.streamed = rng.below(2) == 0;
      task.overhead = rng.below(2) == 0 ? between(0, 0.1) : 0;
    }
    task.first_after = static_cast<int>(graph.after.size());
    task.after_count = static_cast<int>(std::min<std::uint32_t>(rng.below(4), static_cast<std::uint32_t>(i)));
    for (int k = 0; k < task.after_count; ++k)
      graph.after.push_back(static_cast<int>(rng.below(static_cast<std::uint32_t>(i))));
    graph.tasks.push_back(task);
  }
  return graph;
}

/// Checks that every time of `other` is `factor` times that of `one`.
void check_times(const Replay& one, const Replay& other, double factor) {
  REQUIRE(one.tasks.size() == other.tasks.size());
  for (std::size_t i = 0; i < one.tasks.size(); ++i) {
    INFO("task " << i);
    REQUIRE(one.tasks[i].state == TaskState::done);
    REQUIRE(other.tasks[i].state == TaskState::done);
    CHECK(other.tasks[i].start == Approx(factor * one.tasks[i].start).epsilon(1e-8).margin(1e-9));
    CHECK(other.tasks[i].finish == Approx(factor * one.tasks[i].finish).epsilon(1e-8).margin(1e-9));
  }
}

/// Splits every link into two in series, each with half of the latency.
TaskGraph split_in_series(TaskGraph graph) {
  const int count = static_cast<int>(graph.links.size());
  for (int i = 0; i < count; ++i) {
    graph.links[at(i)].latency /= 2;
    graph.links.push_back(graph.links[at(i)]);
  }
  for (Route& route : graph.routes)
    for (std::size_t i = route.links.size(); i-- > 0;)
      route.links.insert(route.links.begin() + static_cast<std::ptrdiff_t>(i), route.links[i] + count);
  for (Profile& profile : graph.profiles) {
    const auto once = profile.targets;
    for (const auto& target : once) profile.targets.push_back({target.index + count, target.scale});
  }
  return graph;
}

/// Returns the graph with its links in another order.
TaskGraph renumbered(TaskGraph graph, Rng& rng) {
  std::vector<int> place(graph.links.size());
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = static_cast<int>(i);
  rng.shuffle(std::span(place));
  const TaskGraph before = graph;
  for (std::size_t i = 0; i < place.size(); ++i) graph.links[at(place[i])] = before.links[i];
  for (Route& route : graph.routes)
    for (int& link : route.links) link = place[at(link)];
  for (Profile& profile : graph.profiles)
    for (auto& target : profile.targets) target.index = place[at(target.index)];
  return graph;
}

/// Multiplies bandwidths, rates and speeds by k and divides all times by k.
TaskGraph faster(TaskGraph graph, double k) {
  for (Host& host : graph.hosts) host.speed *= k;
  for (GraphLink& link : graph.links) {
    link.bandwidth *= k;
    link.latency /= k;
  }
  for (Profile& profile : graph.profiles)
    for (auto& step : profile.steps) {
      step.date /= k;
      step.value *= k;
    }
  for (Task& task : graph.tasks) {
    if (task.kind == TaskKind::delay) task.amount /= k;
    task.rate *= k;
    task.overhead /= k;
  }
  return graph;
}

}  // namespace

TEST_CASE("splitting links in series or reordering links changes no time") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const TaskGraph graph = random_graph(rng);
    const Replay dates = replay(graph);
    CHECK(dates.flows > tasks / 4);
    check_times(dates, replay(split_in_series(graph)), 1);
    check_times(dates, replay(renumbered(graph, rng)), 1);
  }
}

TEST_CASE("a system that is k times as fast takes 1 / k of every time") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 1);
    const TaskGraph graph = random_graph(rng);
    check_times(replay(graph), replay(faster(graph, 4)), 0.25);
    check_times(replay(graph), replay(faster(graph, 0.3)), 1 / 0.3);
  }
}

TEST_CASE("a flow without contention takes its latencies plus its bytes over the slowest link") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 2);
    TaskGraph graph = random_graph(rng);
    graph.profiles.clear();
    for (const Task& one : TaskGraph(graph).tasks) {
      if (one.kind != TaskKind::flow) continue;
      graph.tasks = {one};
      graph.tasks[0].first_after = graph.tasks[0].after_count = 0;
      graph.after.clear();
      double latency = 0, rate = one.rate;
      for (const int link : graph.routes[at(one.route)].links) {
        latency += graph.links[at(link)].latency;
        rate = std::min(rate, graph.links[at(link)].bandwidth);
      }
      CHECK(replay(graph).makespan == Approx(one.overhead + latency + one.amount / rate).epsilon(1e-9));
    }
  }
}
