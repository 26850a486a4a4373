// Statistics of a run, for an iteration derived by hand.
#include "simulator/report/run_statistics.hpp"

#include "core/base/intervals.hpp"
#include "simulator/report/critical_path.hpp"
#include "simulator/report/distribution.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Stage 0 has 1000 bytes permanently, 100 per micro-batch, and 7 while computing; stage 1 has 500, 10 and 1.
StageMemory memory_of(int, int stage) {
  return stage == 0 ? StageMemory{1000, 100, 7} : StageMemory{500, 10, 1};
}

SimReport report_of(const TwoStages& run, const RunInterval& run_interval,
                    std::vector<Interval> second_down = {}) {
  RunStatistics statistics(run.topology, memory_of, {{}, std::move(second_down)});
  statistics.on_interval(run_interval);
  SimReport report;
  statistics.add_to(report, {0, 1}, run_interval.end);
  return report;
}

}  // namespace

TEST_CASE("quantiles are interpolated linearly between neighbours") {
  // Positions in {1, 2, 3, 4}: 0.5 · 3 = 1.5, 0.95 · 3 = 2.85, 0.99 · 3 = 2.97.
  const Distribution of_four = distribution({4, 1, 3, 2});
  CHECK(of_four.mean == 2.5);
  CHECK(of_four.p50 == 2.5);
  CHECK(of_four.p95 == Approx(3.85));
  CHECK(of_four.p99 == Approx(3.97));
  CHECK(of_four.min == 1);
  CHECK(of_four.max == 4);
  const Distribution of_one = distribution({7});
  CHECK(of_one.p50 == 7);
  CHECK(of_one.p99 == 7);
  CHECK(distribution({}).max == 0);
}

TEST_CASE("overlapping intervals are counted once") {
  // [1, 4] and [6, 7] together: 4; of them in [3.5, 6.25]: 0.5 + 0.25.
  const std::vector<Interval> intervals = {{6, 7}, {1, 3}, {2, 4}, {2.5, 2.75}};
  CHECK(union_length(intervals) == 4);
  CHECK(union_length(intervals, {3.5, 6.25}) == 0.75);
  CHECK(union_length({}) == 0);
  UnionLength groups;
  groups.add({{4, 6}, {0, 1}, {5, 7}, {2, 2}}, true);
  CHECK(groups.seconds() == 4);
  groups.add({{6.5, 8}, {3, 5}, {0.5, 0.75}}, false);  // 3 … 4 and 7 … 8 are new
  CHECK(groups.seconds() == 6);
  groups.add({{8, 9}, {10, 11}}, true);
  groups.add({}, true);
  groups.add({{20, 21}}, true);
  CHECK(groups.seconds() == 9);
  // [1, 3] and [2, 4] minus [0, 1.5] and [2.5, 3.5]: [1.5, 2.5], [2, 2.5] and [3.5, 4].
  CHECK(union_length(subtract({{1, 3}, {2, 4}}, {{0, 1.5}, {2.5, 3.5}})) == 1.5);
  CHECK(union_length(clip({{1, 3}, {5, 6}}, {2, 5})) == 1);
}

TEST_CASE("the time of a device is computing or waiting for the network or waiting for others") {
  const TwoStages run;
  const SimReport report = report_of(run, run.iteration());
  REQUIRE(report.devices.size() == 2);
  // a/0 computes 1 + 1 + 1.5 + 1.5. It waits for G0 while that is sent (7 to 8.5) and before that for b/0;
  // then for G1 from 10 to 10.5. After its last backward pass there are no more messages.
  const DeviceReport& first = report.devices[0];
  CHECK(first.compute_s == 5);
  CHECK(first.waiting_network_s == 2);
  CHECK(first.waiting_others_s == 5.5);
  CHECK(first.sending_s == 3);
  CHECK(first.receiving_s == 3);
  // b/0 computes 1 + 1 + 2 + 2. It waits for A0 from 1 to 2.5 and for A1, which was queued, from 3.5 to 4.
  // Its own last message is in transit from 9 to 10.5.
  const DeviceReport& second = report.devices[1];
  CHECK(second.compute_s == 6);
  CHECK(second.waiting_network_s == 3.5);
  CHECK(second.waiting_others_s == 3);
}

TEST_CASE("a device that is down does not wait") {
  const TwoStages run;
  // b/0 is down from 10 on, when its last message has half a second to go.
  const DeviceReport second = report_of(run, run.iteration(), {{10, 20}}).devices[1];
  CHECK(second.compute_s == 6);
  CHECK(second.down_s == 2.5);
  CHECK(second.waiting_network_s == 3);
  CHECK(second.waiting_others_s == 1);  // until 1
}

TEST_CASE("computing while being down would show in the sum of a device's times") {
  const TwoStages run;
  const DeviceReport second = report_of(run, run.iteration(), {{8, 9}}).devices[1];
  CHECK(second.compute_s + second.waiting_network_s + second.waiting_others_s + second.down_s == 13.5);
}

TEST_CASE("between intervals and after the last one devices wait for others or are down") {
  const TwoStages run;
  RunStatistics statistics(run.topology, memory_of, {{}, {{13, 14}, {19, 22}}});
  statistics.on_interval(run.iteration());
  SimReport report;
  statistics.add_to(report, {0, 1}, 20);
  CHECK(report.devices[0].waiting_others_s == 5.5 + 7.5);
  CHECK(report.devices[0].down_s == 0);
  CHECK(report.devices[1].down_s == 2);
  CHECK(report.devices[1].waiting_others_s == 3 + 5.5);
}

TEST_CASE("bytes and busy time are reported for each direction between sites") {
  const TwoStages run;
  const SimReport report = report_of(run, run.iteration());
  REQUIRE(report.links.size() == 2);
  CHECK(report.links[0].from == 0);
  CHECK(report.links[0].to == 1);
  CHECK(report.links[0].bytes == 200);
  CHECK(report.links[0].busy_s == 3);  // 1 to 4, without a gap
  CHECK(report.links[1].from == 1);
  CHECK(report.links[1].bytes == 120);
  CHECK(report.links[1].busy_s == 3);  // 7 to 8.5, 9 to 10.5
}

TEST_CASE("memory over time has a peak and reports where it is insufficient") {
  const TwoStages run;
  std::vector<MemoryStep> of_first;
  for (const MemoryStep& step : memory_steps(run.iteration(), memory_of))
    if (step.device == 0) of_first.push_back(step);
  // Both micro-batches are held from their forward to their backward passes, at 0, 1 and 10, 12.
  const std::vector<std::pair<double, double>> expected = {{0, 1107},  {1, 1207},    {2, 1200}, {8.5, 1207},
                                                           {10, 1100}, {10.5, 1107}, {12, 1000}};
  REQUIRE(of_first.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(of_first[i].date == expected[i].first);
    CHECK(of_first[i].bytes == expected[i].second);
  }
  // a/0 has 1200 bytes, b/0 600.
  const SimReport report = report_of(run, run.iteration());
  CHECK(report.devices[0].peak_memory_bytes == 1207);
  CHECK(report.devices[1].peak_memory_bytes == 500 + 2 * 10 + 1);
  CHECK(report.out_of_memory == std::vector<int>{0});
}

TEST_CASE("the critical path passes through queues and messages") {
  const TwoStages run;
  const SimReport report = report_of(run, run.iteration());
  struct Expected {
    std::string text;
    int tasks;
    double start, end;
  };
  // A1 was ready at 2 and had to wait for A0 until 2.5: the path continues with A0 rather than with F1 on
  // a/0.
  const std::vector<Expected> expected = {
      {"compute stage 0 on a/0", 1, 0, 1},     {"send activations a/0 → b/0", 2, 1, 4},
      {"compute stage 1 on b/0", 3, 4, 9},     {"send gradients of activations b/0 → a/0", 1, 9, 10.5},
      {"compute stage 0 on a/0", 1, 10.5, 12}, {"end of the iteration (overhead, barrier)", 1, 12, 12.5}};
  REQUIRE(report.critical_path.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(report.critical_path[i].text == expected[i].text);
    CHECK(report.critical_path[i].tasks == expected[i].tasks);
    CHECK(report.critical_path[i].start_s == expected[i].start);
    CHECK(report.critical_path[i].end_s == expected[i].end);
  }
}

TEST_CASE("steps of the critical path are summed by their text with the longest first") {
  const std::vector<CriticalStepTotal> sums = sum_by_text({{"send", 1, 1, 2},
                                                           {"update", 1, 2, 4},
                                                           {"compute", 2, 4, 5},
                                                           {"send", 3, 5, 7.5},
                                                           {"barrier", 1, 8, 10}});
  struct Expected {
    std::string text;
    long long tasks;
    double seconds;
  };
  // Ties are ordered alphabetically.
  const std::vector<Expected> expected = {
      {"send", 4, 3.5}, {"barrier", 1, 2}, {"update", 1, 2}, {"compute", 2, 1}};
  REQUIRE(sums.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(sums[i].text == expected[i].text);
    CHECK(sums[i].tasks == expected[i].tasks);
    CHECK(sums[i].seconds == expected[i].seconds);
  }
  CHECK(sum_by_text({}).empty());
}

TEST_CASE("a task aborted by a failure counts up to the failure") {
  TwoStages run;
  run.abort_at(3);
  const RunInterval run_interval{RunInterval::Kind::lost_iteration, 0, 0, 3, run.labelled, run.result};
  const SimReport report = report_of(run, run_interval);
  CHECK(report.devices[0].compute_s == 2);
  CHECK(report.devices[0].waiting_network_s == 1);  // A1 is in transit from it
  CHECK(report.devices[1].compute_s == 0.5);
  CHECK(report.devices[1].waiting_network_s == 1.5);
  REQUIRE(report.links.size() == 1);
  CHECK(report.links[0].bytes == 100);  // only A0 has arrived
  CHECK(report.links[0].busy_s == 2);
  CHECK(report.devices[0].peak_memory_bytes == 1207);
  CHECK(report.devices[1].peak_memory_bytes == 511);
  CHECK(report.critical_path.empty());
}
