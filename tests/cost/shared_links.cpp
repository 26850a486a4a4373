// Estimates where messages of pipelines share links, on problems made for one effect each.
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/regular_layout.hpp"

using namespace dtfm;

// Forward 1 + 0.9 + 1 s and 3 more micro-batches of 1 s, backward twice that but for the message. Then with
// one uplink of 1e6 bytes a second out of both first stages: in the long run messages take twice as long, 1.8
// s, which backwards of 2 s hide.
TEST_CASE("pipelines share links") {
  Problem problem{flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 0.9e6), {}};
  const Plan plan = plan_of(problem.job, 2, 2, 4);  // devices 0, 1 and 2, 3
  CHECK(estimated_iteration_s(problem, plan) == Approx(1 + 0.9 + 1 + 3 * 1 + 2 + 0.9 + 2 + 3 * 2));
  std::get<RuleLinks>(problem.topology.links).same_host.mutable_matrix()(0, 0) = 0;
  for (const int device : {0, 2}) {  // the first stages
    problem.topology.devices[at(device)].host = 0;
    problem.topology.devices[at(device)].host_uplink = BitsPerSecond(8e6);
  }
  CHECK(estimated_iteration_s(problem, plan) == Approx(1 + 1.8 + 1 + 3 * 1.8 + 2 + 0.9 + 2 + 3 * 2));
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)));
}

// Two pipelines from host to host. Every device sends at 0.6 MB/s, both of a host at 0.9 MB/s: alone a
// message is held up by its device's link alone, so that the other one's costs it less than it would on the
// same link.
TEST_CASE("what others send holds up the link that they share, not a narrower one") {
  for (const std::string schedule : {"1f1b", "interleaved"}) {
    Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(8, 0, 1e6), {}};
    problem.job.parallelism.schedule = schedule;
    problem.job.parallelism.chunks = schedule == "interleaved" ? 2 : 1;
    for (int device = 0; device < 4; ++device) {
      Device& it = problem.topology.devices[at(device)];
      it.host = device / 2;
      it.uplink = BitsPerSecond(8 * 0.6e6);
      it.host_uplink = BitsPerSecond(8 * 0.9e6);
    }
    std::get<RuleLinks>(problem.topology.links).same_host.mutable_matrix()(0, 0) = 0;
    Plan plan{1, schedule, "ring", {}};
    for (int i = 0; i < 2; ++i) plan.pipelines.push_back({24, {{{0, 4}, {i}}, {{4, 8}, {i + 2}}}});
    CAPTURE(schedule);
    CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.05));
  }
}

// Host s has stage s of all pipelines, which send at the same moments: each of their messages takes as long
// as all of them together. The longest pipelines of 1f1b go on with the growth of the first micro-batches.
TEST_CASE("pipelines that are alike are in step") {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved"})
    for (const int pipelines : {2, 4})
      for (const int micro_batches : {4, 8, 16, 64}) {
        const auto [problem, plan] = regular_layout(schedule, 4, pipelines, micro_batches);
        CAPTURE(schedule, pipelines, micro_batches);
        CHECK(estimated_iteration_s(problem, plan) ==
              Approx(simulated_iteration_s(problem, plan)).epsilon(micro_batches == 64 ? 0.02 : 0.002));
      }
}

// That the uplinks of all hosts are alike does not make them one, through which messages of several stages go
// one after the other.
TEST_CASE("links of the same rate and load are not one link") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    auto [problem, plan] = regular_layout(schedule, 4, 2, 6);
    const double alike = estimated_iteration_s(problem, plan);
    for (Device& device : problem.topology.devices)
      device.host_uplink = BitsPerSecond(8e6 * (1 + device.host * 1e-6));
    CAPTURE(schedule);
    CHECK(alike == Approx(estimated_iteration_s(problem, plan)).epsilon(1e-4));
  }
}

// The second pipeline has 24 times the micro-batches of the first, whose last stage is slow: it is done long
// before the link that both share has carried everything.
TEST_CASE("what others send over a link may come later") {
  Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(4, 0, 1e6), {}};
  problem.job.parallelism.schedule = "1f1b";
  for (const int device : {0, 2}) {
    problem.topology.devices[at(device)].host = 0;
    problem.topology.devices[at(device)].host_uplink = BitsPerSecond(8 * 0.5e6);
  }
  std::get<RuleLinks>(problem.topology.links).same_host.mutable_matrix()(0, 0) = 0;
  problem.topology.devices[1].speed = 0.05;
  const Plan plan{
      1, "1f1b", "ring", {{1, {{{0, 2}, {0}}, {{2, 4}, {1}}}}, {24, {{{0, 2}, {2}}, {{2, 4}, {3}}}}}};
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.02));
}

// All stages send through the same narrow capacity. What a lone micro-batch sends meets nothing; many are as
// late as this link; of a few, the estimate of 1f1b waits for too many.
TEST_CASE("only micro-batches that are in flight meet") {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved"}) {
    Problem problem{flat_topology({6}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(12, 0, 1e6), {}};
    problem.job.parallelism.schedule = schedule;
    problem.job.parallelism.chunks = schedule == "interleaved" ? 2 : 1;
    std::get<RuleLinks>(problem.topology.links).links.front().capacity = BitsPerSecond(8 * 0.5e6);
    const bool chunks = schedule == "interleaved";
    Plan plan = plan_of(problem.job, chunks ? 1 : 6, 1, 1);
    CAPTURE(schedule);
    if (!chunks) {
      CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
      problem.job.parallelism.flush = 1;
      plan.pipelines.front().micro_batches = 7;
      CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(1e-9));
      problem.job.parallelism.flush.reset();
    }
    for (const int micro_batches : {6, 12, 24}) {
      CAPTURE(micro_batches);
      plan = plan_of(problem.job, 6, 1, micro_batches);
      CHECK(estimated_iteration_s(problem, plan) ==
            Approx(simulated_iteration_s(problem, plan)).epsilon(micro_batches == 6 ? 0.2 : 0.1));
    }
  }
}

// One pipeline to and fro between two hosts: the messages from the first stage and from the third leave the
// same host, which sends one of them in 2 s.
TEST_CASE("messages of one pipeline meet those between its other stages") {
  Problem problem{flat_topology({4}, link_of(0.01, 1e7), link_of(0.01, 1e7)), chain_job(4, 0, 1e6), {}};
  problem.job.parallelism.schedule = "1f1b";
  for (int device = 0; device < 4; ++device) {
    problem.topology.devices[at(device)].host = device % 2;
    problem.topology.devices[at(device)].host_uplink = BitsPerSecond(8 * 0.5e6);
  }
  std::get<RuleLinks>(problem.topology.links).same_host.mutable_matrix()(0, 0) = 0;
  const Plan plan{1, "1f1b", "ring", {{24, {{{0, 1}, {0}}, {{1, 2}, {1}}, {{2, 3}, {2}}, {{3, 4}, {3}}}}}};
  CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)).epsilon(0.1));
}
