// Tests the engine beyond the published cases: start times other than 0, early ends, messages on open
// connections, overheads, changing speeds. The comments derive every expected time as a sum.
#include "simulator/graph/graph_replay.hpp"

#include <cmath>
#include <string>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "simulator/io/graph_reader.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

TaskGraph graph_of(const std::string& text) {
  return parse_task_graph(text, "graph.txt");
}

/// Hosts a and b, and a link `wan` from a to b with 1e6 bytes per second and 0.25 s.
const std::string wan = "host a\nhost b\nlink wan 1e6 0.25\nroute a b wan\n";

/// Returns `count` messages of `bytes` in one queue over `wan`.
TaskGraph messages(int count, double bytes, const std::string& options) {
  std::string text = wan;
  for (int i = 0; i < count; ++i)
    text += "flow f" + std::to_string(i) + " a b " + std::to_string(bytes) + " queue q " + options + "\n";
  return graph_of(text);
}

void check_finishes(const Replay& replay, const std::vector<double>& dates) {
  REQUIRE(replay.tasks.size() == dates.size());
  for (std::size_t i = 0; i < dates.size(); ++i) {
    INFO("task " << i);
    CHECK(replay.tasks[i].state == TaskState::done);
    CHECK(replay.tasks[i].finish == Approx(dates[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("a replay can begin at any time") {
  const TaskGraph graph = graph_of(
      "host a\nhost b\nlink l 1e6 0\nroute a b l\nprofile l bw 10 2e6 20 0.5e6\nflow f a b 1e6\ncompute c a "
      "1\n");
  check_finishes(replay(graph), {1, 1});
  check_finishes(replay(graph, {9.5}), {10.25, 10.5});  // 0.5 MB by 10, the rest at 2 MB/s
  check_finishes(replay(graph, {10}), {10.5, 11});      // a value applies from its time on
  check_finishes(replay(graph, {19.75}), {21, 20.75});  // 0.5 MB by 20, the rest at 0.5 MB/s
  check_finishes(replay(graph, {1e6}), {1e6 + 2, 1e6 + 1});
  CHECK(replay(graph, {1e6}).tasks[0].ready == 1e6);
  CHECK(replay(graph, {1e6}).tasks[0].start == 1e6);
}

TEST_CASE("a periodic profile starts at its current value without stepping through the past") {
  // From 0.5 on, 1 MB/s for a second and 0.5 MB/s for another, repeated; 4 MB/s before.
  const TaskGraph graph = graph_of(
      "host a\nhost b\nlink l 4e6 0\nroute a b l\nprofile l bw 0.5 1e6 1.5 0.5e6 period 2\nflow f a b 1e6\n");
  check_finishes(replay(graph), {0.25});
  check_finishes(replay(graph, {0.375}), {1});  // 0.5 MB by 0.5, the rest at 1 MB/s
  for (const double round : {0.0, 1.0, 7.0, 500000.0}) {
    INFO("round " << round);
    const double at = 2 * round;
    check_finishes(replay(graph, {at + 0.5}), {at + 1.5});
    check_finishes(replay(graph, {at + 1}), {at + 2.5});       // 0.5 MB by 1.5, 0.5 MB by 2.5
    check_finishes(replay(graph, {at + 1.5}), {at + 3});       // 0.5 MB by 2.5, 0.5 MB by 3
    check_finishes(replay(graph, {at + 2.25}), {at + 3.375});  // 0.125 MB by 2.5, 0.875 MB at 1 MB/s
    CHECK(replay(graph, {at + 2.25}).events < 5);
  }
}

TEST_CASE("a profile costs nothing while no task is affected") {
  // 1 MB/s in the first half of every second and 2 MB/s in the second half. The flow begins a quarter into a
  // second: 0.25 MB by the half, and 0.75 MB at 2 MB/s.
  const TaskGraph graph = graph_of(
      "host a\nhost b\nlink l 4e6 0\nroute a b l\nprofile l bw 0 1e6 0.5 2e6 period 1\n"
      "compute c a 1000000.25\nflow f a b 1e6 after c\ncompute d a 1000000 after f\nflow g a b 1e6 after "
      "d\n");
  const Replay result = replay(graph);
  // g begins at 7/8 of a second: 0.25 MB by its end, 0.5 MB at 1 MB/s, 0.25 MB at 2 MB/s.
  check_finishes(result, {1000000.25, 1000000.875, 2000000.875, 2000001.625});
  CHECK(result.events < 20);
}

TEST_CASE("failures before the start have ended or still last") {
  const TaskGraph graph = graph_of(wan + "fail link wan 1 2\nfail host b 5\nflow f a b 1e6\ncompute c b 1\n");
  CHECK(replay(graph, {1.5}).tasks[0].state == TaskState::failed);
  CHECK(replay(graph, {1.5}).tasks[0].finish == 1.5);
  CHECK(replay(graph, {1}).tasks[0].state == TaskState::failed);
  check_finishes(replay(graph, {2}), {3.25, 3});
  CHECK(replay(graph, {5}).tasks[1].state == TaskState::failed);
  CHECK(replay(graph, {7}).tasks[1].finish == 7);
}

TEST_CASE("nothing happens after the requested end") {
  const TaskGraph graph = graph_of(wan +
                                   "compute c1 a 1\ncompute c2 a 2 after c1\nflow f a b 1e6 after c1\n"
                                   "flow s a b 1e6 after c1 stream\ndelay d 1 after f\n");
  const Replay whole = replay(graph);
  CHECK(whole.ended == ReplayEnd::finished);
  // s has the link for itself until f starts to send after 0.25 s, then both have half: s has 0.75 MB left at
  // 1.25, sent by 2.75, and arrives at 3; f has 0.25 MB left at 2.75.
  check_finishes(whole, {1, 3, 3, 3, 4});
  CHECK(replay(graph, {0, 4}).ended == ReplayEnd::finished);

  const Replay aborted = replay(graph, {0, 2.9});  // s is in transit and has no bytes left to send
  CHECK(aborted.ended == ReplayEnd::aborted);
  CHECK(aborted.makespan == 1);
  CHECK(aborted.tasks[0].state == TaskState::done);
  for (const std::size_t i : {1u, 2u, 3u}) {
    CHECK(aborted.tasks[i].state == TaskState::aborted);
    CHECK(aborted.tasks[i].start == 1);
    CHECK(std::isnan(aborted.tasks[i].finish));
  }
  CHECK(aborted.tasks[4].state == TaskState::blocked);
  CHECK(std::isnan(aborted.tasks[4].start));
  CHECK(name_of(TaskState::aborted) == "CUT");

  const Replay just = replay(graph, {0, 1});  // events at the end time happen, and their successors begin
  CHECK(just.tasks[0].finish == 1);
  CHECK(just.tasks[1].start == 1);
  CHECK(just.tasks[1].state == TaskState::aborted);
  CHECK(replay(graph, {10, 12}).tasks[0].finish == 11);
  CHECK(replay(graph, {10, 12}).tasks[1].state == TaskState::aborted);
}

TEST_CASE("a replay that cannot continue is deadlocked") {
  const std::string outage = "profile wan bw 0 0\nflow f a b 1e6\ncompute c a 1\n";
  const Replay deadlocked = replay(graph_of(wan + outage));
  CHECK(deadlocked.ended == ReplayEnd::deadlocked);
  CHECK(deadlocked.tasks[0].state == TaskState::blocked);
  CHECK(replay(graph_of(wan + outage), {0, 0.5}).ended == ReplayEnd::aborted);
  CHECK(replay(graph_of(wan + "fail host a 1\ncompute c a 2\ncompute d b 1 after c\n")).ended ==
        ReplayEnd::deadlocked);
  CHECK(replay(graph_of(wan + "fail host a 1\ncompute c a 2\n")).ended == ReplayEnd::finished);
}

TEST_CASE("streamed messages follow each other without a gap") {
  // Message i of n arrives at i · S/B + latency; messages that are not streamed arrive at i · (S/B +
  // latency).
  check_finishes(replay(messages(4, 1e6, "stream")), {1.25, 2.25, 3.25, 4.25});
  check_finishes(replay(messages(4, 1e6, "")), {1.25, 2.5, 3.75, 5});
  // With latency only, all arrive at once.
  check_finishes(replay(messages(3, 0, "stream")), {0.25, 0.25, 0.25});
  const Replay dates = replay(messages(3, 1e6, "stream"));
  CHECK(dates.tasks[2].start == 2);
}

TEST_CASE("successors of a streamed message wait for its arrival but its queue does not") {
  const TaskGraph graph =
      graph_of(wan + "flow f a b 1e6 queue q stream\ndelay d 0 after f\ndelay n 1 queue q\n");
  check_finishes(replay(graph), {1.25, 1.25, 2});
}

TEST_CASE("a streamed message takes the latency of its start and can fail until it arrives") {
  const std::string flow = "flow f a b 1e6 stream\nflow g a b 1e6 after f stream\n";
  check_finishes(replay(graph_of(wan + "profile wan lat 0.5 3\n" + flow)), {1.25, 5.25});
  const Replay failed = replay(graph_of(wan + "fail link wan 1.125 1.2\n" + flow));
  CHECK(failed.tasks[0].state == TaskState::failed);
  CHECK(failed.tasks[0].finish == 1.125);
  CHECK(failed.tasks[1].state == TaskState::blocked);
  // Its queue is not freed twice: g and h, behind f, still run one after the other.
  const Replay queue = replay(graph_of(
      wan +
      "fail link wan 1.125 1.2\nflow f a b 1e6 queue q stream\ndelay g 1 queue q\ndelay h 1 queue q\n"));
  CHECK(queue.tasks[1].finish == 2);
  CHECK(queue.tasks[2].finish == 3);
}

TEST_CASE("streamed messages share links as others do including by round-trip time") {
  // Equal shares: 0.5 MB/s each until both end at 2.
  const std::string two =
      "host a\nhost b\nhost c\nlink l 1e6 0\nlink near 1e9 0.1\nlink far 1e9 0.2\n"
      "route a b l near\nroute a c l far\nflow f a b 1e6 stream\nflow g a c 1e6 stream\n";
  check_finishes(replay(graph_of(two)), {2.1, 2.2});
  // 2/3 and 1/3 MB/s: f is sent in 1.5 s; g has 0.5 MB left, and the whole link.
  check_finishes(replay(graph_of("config share rtt\n" + two)), {1.6, 2.2});
  // A window of 0.1 MB: rate caps of 0.1 / (2 · 0.1) and 0.1 / (2 · 0.2) MB/s.
  check_finishes(replay(graph_of("config tcp_gamma 1e5\n" + two)), {2.1, 4.2});
}

TEST_CASE("the overhead of a message precedes its transfer within the queue") {
  TaskGraph plain = messages(3, 1e6, ""), streamed = messages(3, 1e6, "stream");
  TaskGraph empty = messages(2, 0, "stream");
  for (TaskGraph* graph : {&plain, &streamed, &empty})
    for (Task& task : graph->tasks) task.overhead = 0.5;
  check_finishes(replay(plain), {1.75, 3.5, 5.25});      // i · (overhead + latency + S/B)
  check_finishes(replay(streamed), {1.75, 3.25, 4.75});  // i · (overhead + S/B) + latency
  check_finishes(replay(empty), {0.75, 1.25});           // i · overhead + latency
}

TEST_CASE("an overhead uses no bandwidth") {
  TaskGraph graph = graph_of("host a\nhost b\nlink l 1e6 0\nroute a b l\nflow f a b 2e6\nflow g a b 2e6\n");
  graph.tasks[0].overhead = 1;
  // g has sent 1 MB by 1, then has half of the link: it ends at 3, when 1 MB of f is left.
  check_finishes(replay(graph), {4, 3});
  // A flow that fails during its overhead is not restarted.
  graph.failures.push_back({.host = 0, .down = 0.5, .up = 0.75});
  const Replay failed = replay(graph);
  CHECK(failed.tasks[0].state == TaskState::failed);
  CHECK(failed.tasks[0].finish == 0.5);
}

TEST_CASE("computations continue at the new speed of their host") {
  // 1 by 1, 0.5 by 2, nothing by 4, 1.5 at 2 per second; then d, alone: 1 at 2.
  const std::string profile = "profile a speed 1 0.5 2 0 4 2\n";
  const std::string tasks = "compute c a 3\ncompute d a 1\n";
  check_finishes(replay(graph_of("host a\n" + profile + tasks)), {4.75, 5.25});
  // Shared: 0.5 each by 1, 0.25 each by 2; at 4, 2.25 and 0.25 are left, at 1 each: d ends at 4.25, then c
  // alone continues at 2.
  check_finishes(replay(graph_of("host a 1 ps\n" + profile + tasks)), {5.25, 4.25});
  check_finishes(replay(graph_of("host a\n" + profile + tasks), {2.5}), {5.5, 6});
  check_finishes(replay(graph_of("host a\nhost b\n" + profile + "compute c b 3\ncompute d b 0\n")), {3, 3});
  const Replay deadlocked = replay(graph_of("host a\nprofile a speed 1 0\ncompute c a 3\ncompute d a 0.5\n"));
  CHECK(deadlocked.ended == ReplayEnd::deadlocked);
  CHECK(deadlocked.tasks[0].state == TaskState::blocked);
  CHECK(deadlocked.tasks[0].start == 0);
  CHECK(std::isnan(deadlocked.tasks[1].start));
}

TEST_CASE("one profile scales several targets") {
  TaskGraph graph = graph_of(
      "host a\nhost b\nlink l 1e6 0\nlink m 2e6 0\nroute a b l\nroute b a m\nflow f a b 2e6\nflow g b a "
      "4e6\n");
  Profile profile;
  profile.targets = {{0, 1e6}, {1, 2e6}};
  profile.steps = {{1, 0.5}};
  graph.profiles.push_back(profile);
  check_finishes(replay(graph), {3, 3});  // half by 1, the other half at half the rate
  CHECK(replay(graph).events <= 5);       // one change, and the ends
}

TEST_CASE("a profile that stays at zero forever is a deadlock") {
  const Replay blocked = replay(graph_of(wan + "profile wan bw 0 0 1 0 period 2\nflow f a b 1e6\n"));
  CHECK(blocked.ended == ReplayEnd::deadlocked);
  const Replay late = replay(graph_of(wan + "profile wan bw 0 0 1000 1e6\nflow f a b 1e6\n"));
  CHECK(late.tasks[0].finish == 1001);
}

TEST_CASE("a replay that is stopped keeps its results so far") {
  // A chain of 1 s tasks, and one task concurrent with all of them: every date is the end of one task of the
  // chain.
  std::string text = "delay beside 1e6\n";
  for (int i = 0; i < 1000; ++i)
    text += "delay t" + std::to_string(i) + " 1" + (i > 0 ? " after t" + std::to_string(i - 1) : "") + "\n";
  const TaskGraph graph = graph_of(text);
  ReplayOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked == 3; };
  const Replay stopped = replay(graph, options);
  CHECK(stopped.ended == ReplayEnd::stopped);
  const std::size_t done = 3 * dates_per_stop_check - 1;  // the third check precedes date 3 · 64
  CHECK(stopped.last_event_date == static_cast<double>(done));
  CHECK(stopped.makespan == stopped.last_event_date);
  CHECK(stopped.tasks[0].state == TaskState::aborted);
  CHECK(stopped.tasks[done].state == TaskState::done);
  CHECK(stopped.tasks[done].finish == stopped.last_event_date);
  CHECK(stopped.tasks[done + 1].state == TaskState::aborted);
  CHECK(stopped.tasks[done + 1].start == stopped.last_event_date);
  CHECK(stopped.tasks[done + 2].state == TaskState::blocked);

  asked = 0;
  options.stop = [&] { return ++asked < 0; };
  CHECK(replay(graph, options).ended == ReplayEnd::finished);
  CHECK(asked == 1001 / dates_per_stop_check);
}

TEST_CASE("profile steps too short for the resolution of time are rejected") {
  const auto late = [](const std::string& date) {
    return replay(graph_of("host a\nprofile a speed 0 1 0.5 2 period 1\ndelay d " + date +
                           "\ncompute c a 3 after d\n"));
  };
  CHECK(late("1e6").makespan == 1e6 + 2);  // 1.5 per second
  CHECK(late("1e15").makespan == 1e15 + 2);
  CHECK_THROWS_WITH(late("1e24"),
                    "a profile with a period of 1 s has more than 4.5036e+15 steps in 1e+24 s; "
                    "expected a longer period or shorter tasks");
}

TEST_CASE("a replay can be stopped while it is prepared") {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "delay t" + std::to_string(i) + " 1\n";
  const TaskGraph graph = graph_of(text);
  ReplayOptions options;
  options.start = 3;
  options.stop = [] { return true; };
  const Replay stopped = replay(graph, options);
  CHECK(stopped.ended == ReplayEnd::stopped);
  CHECK(stopped.tasks.empty());
  CHECK(stopped.last_event_date == 3);
}

// All tasks start and end at the same time, so that there are only two event times.
TEST_CASE("a replay can be stopped between tasks that start at the same time") {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "delay t" + std::to_string(i) + " 1\n";
  const TaskGraph graph = graph_of(text);
  ReplayOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  CHECK(replay(graph, options).ended == ReplayEnd::finished);
  const int all = asked;
  REQUIRE(all >= 3);
  asked = 0;
  options.stop = [&] { return ++asked == all; };  // during the last thousands of starts
  const Replay stopped = replay(graph, options);
  CHECK(stopped.ended == ReplayEnd::stopped);
  REQUIRE(stopped.tasks.size() == 10'000);
  CHECK(stopped.tasks[0].start == 0);
  CHECK(stopped.tasks[0].state == TaskState::aborted);
  CHECK(stopped.tasks[9999].state == TaskState::blocked);
}

// A profile that repeats the bandwidth of a fat pipe changes no time, but makes it a capacity of the network.
TEST_CASE("fat pipes act the same as rate caps or as capacities") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 8);
    const auto number = [&](int most) {
      return std::to_string(1 + rng.below(static_cast<std::uint32_t>(most)));
    };
    std::string text = "host a\nhost b\nlink backbone 40 0\nlink access " + number(60) + " 0.1\n";
    std::string profiles;
    for (int i = 0; i < 6; ++i) {
      const std::string bandwidth = number(20), name = "own" + std::to_string(i);
      text += "link " + name + " " + bandwidth + " 0.01 fatpipe\n";
      text += "host c" + std::to_string(i) + "\nroute a c" + std::to_string(i) + " " + name +
              (i % 3 == 0   ? ""
               : i % 3 == 1 ? " backbone"
                            : " access backbone") +
              "\n";
      profiles += "profile " + name + " bw 0.5 " + bandwidth + "\n";
    }
    std::string tasks;
    for (int i = 0; i < 60; ++i)
      tasks +=
          "flow f" + std::to_string(i) + " a c" + std::to_string(rng.below(6)) + " " + number(100) +
          (i >= 6 && rng.below(2) == 0 ? " after f" + std::to_string(rng.below(static_cast<std::uint32_t>(i)))
                                       : "") +
          "\n";
    const Replay caps = replay(graph_of(text + tasks)),
                 capacities = replay(graph_of(text + profiles + tasks));
    REQUIRE(caps.ended == ReplayEnd::finished);
    REQUIRE(capacities.ended == ReplayEnd::finished);
    for (std::size_t i = 0; i < caps.tasks.size(); ++i)
      REQUIRE(caps.tasks[i].finish == capacities.tasks[i].finish);
  }
}
