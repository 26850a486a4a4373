// Verification by recomputing calls: its cost, and how soon a faulty peer is detected.
#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr auto relay = SwarmTransport::relay, peer_to_peer = SwarmTransport::peer_to_peer;

/// Equal peers of one stage. A backward pass takes three times as long as a forward pass, messages take no
/// time, and there is no optimizer step.
struct OneStage {
  Problem problem;
  SwarmSetup setup;
  SwarmOptions options;
  Scenario scenario = {};

  explicit OneStage(int peers, double forward_s = 1)
      : problem{flat_topology({peers}, link_of(0, 1e300), link_of(0, 1e300)),
                swarm_job(1, forward_s, 7, 10, 1'000'000'000),
                {}} {}
  SwarmReport run() const { return simulate_swarm(problem, setup, scenario, options); }
};

}  // namespace

// Each call causes 1 + p computations of its length, and with 20 micro-batches per peer all peers always
// compute: 1 ÷ (1 + p) of the micro-batches. For 40,000 calls (whose backward passes are 3/4 of the work) the
// drawn share differs from p by 4 √(p (1 − p) ÷ 40,000) ≤ 0.01; at the end 160 calls and as many checks are
// in flight: 0.008.
TEST_CASE("verifying a share p of the calls leaves 1 / (1 + p) of the throughput") {
  OneStage swarm(8, 0.1);
  swarm.setup.trainers = 1;
  swarm.setup.in_flight = 160;
  swarm.options.seconds = 2000;
  const SwarmReport without = swarm.run();
  CHECK(without.samples == Approx(8 * 2000 / 0.4).epsilon(0.004));
  CHECK(without.verification.verified == 0);
  for (const double share : {0.1, 0.25, 0.5, 1.0})
    for (const SwarmTransport transport : {relay, peer_to_peer}) {
      INFO("share " << share);
      swarm.setup.verify = share;
      swarm.setup.transport = transport;
      const SwarmReport report = swarm.run();
      const auto samples = static_cast<double>(report.samples);
      CHECK(samples / static_cast<double>(without.samples) == Approx(1 / (1 + share)).epsilon(0.012));
      // All computation: the first time 0.4 s per sample, except for what is in flight, plus the second time.
      double computing = 0;
      for (const SwarmDevice& device : report.devices) computing += device.compute_s;
      CHECK(computing - 0.4 * samples - report.verification.compute_s ==
            Approx(0).margin(0.4 * 160 + 8 * 0.3));
      CHECK(report.verification.compute_s == Approx(0.4 * share * samples).margin(0.4 * 0.012 * 40'000));
      CHECK(report.verification.unverified == 0);
      CHECK(report.useful_samples <= report.samples + 160);  // recomputed samples are not counted twice
    }
}

// Two peers, one micro-batch at a time, and a trainer next to peer 0, to which messages have no bytes. All
// calls are verified, each by the peer that did not compute it. Token id and label have 8 bytes each.
TEST_CASE("a check sends only the input again") {
  for (const SwarmTransport transport : {relay, peer_to_peer}) {
    OneStage swarm(2);
    swarm.setup.transport = transport;
    swarm.setup.trainers = swarm.setup.in_flight = 1;
    swarm.setup.verify = 1;
    swarm.options.seconds = 1000.5;
    double bytes = 0;
    long long calls = 0;
    int forward_by = 0;
    swarm.options.observe = [&](const SwarmEvent& event) {
      const bool is_forward = event.kind == SwarmEvent::Kind::forward;
      if (!is_forward && event.kind != SwarmEvent::Kind::gradient) return;
      ++calls;
      // A check needs the samples. The peer that has them from its own forward pass does not need them again.
      if (is_forward) forward_by = event.peer;
      if (event.peer != 0) return;  // peer 1 has computed it, and peer 0 does so now
      if (is_forward || transport == relay || forward_by == 0) bytes += 16;
    };
    const SwarmReport report = swarm.run();
    CHECK(bytes > 0);
    CHECK(report.verification.bytes == bytes);
    CHECK(report.verification.unverified == 0);
    CHECK(report.verification.verified <= calls);
    CHECK(report.verification.verified >= calls - 4);  // except those queued at the end
  }
}

TEST_CASE("a call without a second peer is not verified and costs nothing") {
  OneStage swarm(1);
  swarm.options.seconds = 400.5;
  const SwarmReport without = swarm.run();
  swarm.setup.verify = 1;
  const SwarmReport report = swarm.run();
  CHECK(report.verification.verified == 0);
  CHECK(report.verification.unverified == report.visits);
  CHECK(report.verification.compute_s == 0);
  CHECK(report.verification.bytes == 0);
  CHECK(report.samples == without.samples);
}

// The number n of corrupt calls up to the first that is verified has P(n) = p (1 − p)ⁿ⁻¹: mean 1 ÷ p,
// variance (1 − p) ÷ p², P(1) = p. Over 500 runs, mean and share are within four standard deviations. With
// two peers, all checks of one are queued at the other in order.
TEST_CASE("a faulty peer is detected after 1 / p corrupt calls on average") {
  constexpr int runs = 500;
  for (const double share : {0.1, 0.3}) {
    double sum = 0, at_once = 0;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
      OneStage swarm(2);
      swarm.setup.verify = share;
      swarm.setup.faulty_share = 0.5;
      swarm.options.seed = seed;
      swarm.options.seconds = 1500;
      const SwarmReport report = swarm.run();
      REQUIRE(report.verification.caught.size() == 1);
      const CaughtPeer& caught = report.verification.caught.front();
      CHECK(caught.samples >= caught.calls);
      CHECK(caught.samples == report.verification.corrupt_calls);
      CHECK(report.devices[at(caught.device)].stage == -1);
      CHECK(report.devices[at(caught.device)].down_s == Approx(report.length_s - caught.date_s));
      sum += static_cast<double>(caught.calls);
      at_once += caught.calls == 1 ? 1 : 0;
    }
    CHECK(sum / runs == Approx(1 / share).margin(4 * std::sqrt((1 - share) / runs) / share));
    CHECK(at_once / runs == Approx(share).margin(4 * std::sqrt(share * (1 - share) / runs)));
  }
}

TEST_CASE("a banned peer does not return and a correct peer is not banned") {
  OneStage swarm(4);
  swarm.options.seconds = 2000;
  swarm.setup.verify = 0.5;
  CHECK(swarm.run().verification.caught.empty());
  swarm.setup.faulty_share = 0.25;
  const SwarmReport report = swarm.run();
  REQUIRE(report.verification.caught.size() == 1);
  const int faulty_peer = report.verification.caught.front().device;
  swarm.scenario.events = {{1000, faulty_peer}, {1200, faulty_peer, DeviceEvent::Kind::join}};
  const SwarmReport again = swarm.run();
  CHECK(again.joins == 0);
  CHECK(again.stages[0].peers == 3);
  swarm.setup.verify = 0;  // no verification
  CHECK(swarm.run().joins == 1);
  CHECK(swarm.run().verification.corrupt_calls > 0);
}

TEST_CASE("invalid verification shares are rejected") {
  OneStage swarm(2);
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    swarm.setup.verify = share;
    CHECK_THROWS_AS(swarm.run(), Error);
    swarm.setup.verify = 0;
    swarm.setup.faulty_share = share;
    CHECK_THROWS_AS(swarm.run(), Error);
    swarm.setup.faulty_share = 0;
  }
}
