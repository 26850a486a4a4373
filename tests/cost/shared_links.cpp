// Estimates of pipelines whose messages share links, on problems that isolate one effect each.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/regular_layout.hpp"

using namespace dtfm;

// Forward 1 + 0.9 + 1 s and 3 more micro-batches of 1 s; backward twice that except for the message. Then one
// uplink of 1e6 bytes per second serves both first stages: in the steady state messages take twice as long,
// 1.8 s, which backward passes of 2 s hide.
TEST_CASE("messages of pipelines that share a link take longer") {
  Problem problem{flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 0.9e6), {}};
  const Plan plan = plan_of(problem.job, 2, 2, 4);  // devices 0, 1 and 2, 3
  CHECK(estimated_iteration_s(problem, plan) == Approx(1 + 0.9 + 1 + 3 * 1 + 2 + 0.9 + 2 + 3 * 2));
  std::get<RuleLinks>(problem.topology.edit().links).same_host(0, 0) = 0;
  for (const int device : {0, 2}) {  // the first stages
    problem.topology.edit().devices[at(device)].host = 0;
    problem.topology.edit().devices[at(device)].host_uplink = BitsPerSecond(8e6);
  }
  CHECK(estimated_iteration_s(problem, plan) == Approx(1 + 1.8 + 1 + 3 * 1.8 + 2 + 0.9 + 2 + 3 * 2));
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)));
}

// Two pipelines between two hosts. Every device can send at 0.6 MB/s, and both devices of a host together at
// 0.9 MB/s. A message alone is limited only by its device's link, so the other pipeline's messages delay it
// less than they would on one common link.
TEST_CASE("traffic of others delays a message on the shared link only") {
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved}) {
    Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(8, 0, 1e6), {}};
    problem.job.execution.schedule = schedule;
    problem.job.execution.chunks = schedule == Schedule::interleaved ? 2 : 1;
    for (int device = 0; device < 4; ++device) {
      Device& it = problem.topology.edit().devices[at(device)];
      it.host = device / 2;
      it.uplink = BitsPerSecond(8 * 0.6e6);
      it.host_uplink = BitsPerSecond(8 * 0.9e6);
    }
    std::get<RuleLinks>(problem.topology.edit().links).same_host(0, 0) = 0;
    Plan plan{1, problem.job.execution, {}};
    plan.execution.gradient_sync = GradientSync::ring;
    for (int i = 0; i < 2; ++i) plan.pipelines.push_back({24, {{{0, 4}, {i}}, {{4, 8}, {i + 2}}}});
    CAPTURE(schedule);
    CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.05));
  }
}

// Host s has stage s of all pipelines, which send at the same times: each of their messages takes as long as
// all of them together. Under other schedules than gpipe, messages of both directions share the uplink of a
// host. The estimate sends them one after the other, the simulator at the same time.
TEST_CASE("uniform pipelines on shared links are synchronized") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const int pipelines : {2, 4})
      for (const int micro_batches : {4, 8, 16, 64}) {
        const auto [problem, plan] = regular_layout(schedule, 4, pipelines, micro_batches);
        CAPTURE(schedule, pipelines, micro_batches);
        CHECK(
            estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(schedule == Schedule::gpipe ? 0.002 : 0.12));
      }
}

// Uplinks of different hosts with equal rate and load must not be treated as a single link through which
// messages of several stages pass one after the other.
TEST_CASE("links of the same rate and load are distinct") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    auto [problem, plan] = regular_layout(schedule, 4, 2, 6);
    const double equal_links_s = estimated_iteration_s(problem, plan);
    for (Device& device : problem.topology.edit().devices)
      device.host_uplink = BitsPerSecond(8e6 * (1 + device.host * 1e-6));
    CAPTURE(schedule);
    CHECK(equal_links_s == Approx(estimated_iteration_s(problem, plan)).epsilon(1e-4));
  }
}

// The second pipeline has 24 times the micro-batches of the first, whose last stage is slow. The first is
// done long before the shared link has carried all messages.
TEST_CASE("later traffic of others does not delay a pipeline") {
  Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(4, 0, 1e6), {}};
  problem.job.execution.schedule = Schedule::one_f_one_b;
  for (const int device : {0, 2}) {
    problem.topology.edit().devices[at(device)].host = 0;
    problem.topology.edit().devices[at(device)].host_uplink = BitsPerSecond(8 * 0.5e6);
  }
  std::get<RuleLinks>(problem.topology.edit().links).same_host(0, 0) = 0;
  problem.topology.edit().devices[1].speed = 0.05;
  const Plan plan{1,
                  {.schedule = Schedule::one_f_one_b, .gradient_sync = GradientSync::ring},
                  {{1, {{{0, 2}, {0}}, {{2, 4}, {1}}}}, {24, {{{0, 2}, {2}}, {{2, 4}, {3}}}}}};
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.02));
}

// All stages send through the same narrow capacity. A single micro-batch has no contention; many are as slow
// as this capacity; for few, the estimate of 1f1b assumes too many in flight.
TEST_CASE("only micro-batches in flight contend") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
    Problem problem{flat_topology({6}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(12, 0, 1e6), {}};
    problem.job.execution.schedule = schedule;
    problem.job.execution.chunks = schedule == Schedule::interleaved ? 2 : 1;
    std::get<RuleLinks>(problem.topology.edit().links).links.front().capacity = BitsPerSecond(8 * 0.5e6);
    const bool chunks = schedule == Schedule::interleaved;
    Plan plan = plan_of(problem.job, chunks ? 1 : 6, 1, 1);
    CAPTURE(schedule);
    if (!chunks) {
      CHECK(estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
      problem.job.execution.flush = plan.execution.flush = 1;
      plan.pipelines.front().micro_batches = 7;
      CHECK(estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
      problem.job.execution.flush.reset();
    }
    for (const int micro_batches : {6, 12, 24}) {
      CAPTURE(micro_batches);
      plan = plan_of(problem.job, 6, 1, micro_batches);
      CHECK(estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(micro_batches == 6 ? 0.2 : 0.1));
    }
  }
}

// One pipeline alternates between two hosts: the messages of the first and of the third stage leave the same
// host, which sends one of them in 2 s.
TEST_CASE("messages of one pipeline contend with those between its other stages") {
  Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(4, 0, 1e6), {}};
  problem.job.execution.schedule = Schedule::one_f_one_b;
  for (int device = 0; device < 4; ++device) {
    problem.topology.edit().devices[at(device)].host = device % 2;
    problem.topology.edit().devices[at(device)].host_uplink = BitsPerSecond(8 * 0.5e6);
  }
  std::get<RuleLinks>(problem.topology.edit().links).same_host(0, 0) = 0;
  const Plan plan{1,
                  {.schedule = Schedule::one_f_one_b, .gradient_sync = GradientSync::ring},
                  {{24, {{{0, 1}, {0}}, {{1, 2}, {1}}, {{2, 3}, {2}}, {{3, 4}, {3}}}}}};
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.12));
}
