// Swarms with times, bytes and steps derived by hand.
#include <cmath>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr auto relay = SwarmTransport::relay, peer_to_peer = SwarmTransport::peer_to_peer;

/// One trainer with one micro-batch, and one stage of one layer on every device; the trainer is next to
/// device 0.
struct Line {
  int stages = 2;
  double latency = 0.5, bandwidth = 10, forward = 1, activation = 20;
  SwarmTransport transport = relay;
  bool access = false;  // links belong to devices rather than to pairs
  Calibration constants = {};

  SwarmReport run(double seconds) const {
    const Link link = link_of(latency, bandwidth);
    const Problem problem{
        access ? access_link_topology(1, stages, latency, bandwidth) : flat_topology({stages}, link, link),
        swarm_job(stages, forward, activation, 1, 1000), constants};
    SwarmSetup setup;
    setup.stages = stages;
    setup.trainers = setup.in_flight = 1;
    setup.transport = transport;
    SwarmOptions options;
    options.seconds = seconds;
    return simulate_swarm(problem, setup, {}, options);
  }
  /// Returns the seconds per micro-batch: forward and backward passes of all stages, and messages to and from
  /// the stages that are not next to the trainer. A label has 8 bytes, a loss 4.
  double period() const {
    const double computing =
        stages * (4 * forward * constants.compute_scale + 2 * constants.micro_batch_overhead_s);
    const double rate = bandwidth * constants.network_efficiency;
    const double message = activation / rate, label = 8 / rate, loss = 4 / rate;
    const double wait = latency + constants.message_overhead_s;
    // The last stage returns a loss, and receives labels rather than a gradient, twice.
    if (transport == relay)
      return computing + (stages - 1) * (4 * wait + 5 * message) + 2 * (label - message) + loss;
    // Forward: from stage to stage, and the loss back to the trainer; backward: the request, which has no
    // bytes, and from stage to stage. The label arrives before the activations, unless they share a link.
    return computing + (2 * (stages - 1) + 2) * wait + 2 * (stages - 1) * message + loss +
           (access ? label : 0);
  }
};

}  // namespace

TEST_CASE("one micro-batch after the other takes the sum of its parts") {
  for (const SwarmTransport transport : {relay, peer_to_peer})
    for (const int stages : {2, 3, 5}) {
      Line line;
      line.stages = stages;
      line.transport = transport;
      const SwarmReport report = line.run(10.5 * line.period());
      CHECK(report.samples == 10);
      CHECK(line.run(10 * line.period() * (1 + 1e-9)).samples == 10);
      CHECK(line.run(10 * line.period() * (1 - 1e-9)).samples == 9);
      for (const SwarmDevice& device : report.devices) CHECK(device.compute_s >= 10 * 4 * line.forward);
    }
}

TEST_CASE("calibration constants apply as elsewhere and device links equal pair links") {
  for (const SwarmTransport transport : {relay, peer_to_peer})
    for (const bool access : {false, true}) {
      Line line;
      line.transport = transport;
      line.access = access;
      line.constants.message_overhead_s = 0.25;
      line.constants.network_efficiency = 0.8;
      line.constants.compute_scale = 1.5;
      line.constants.micro_batch_overhead_s = 0.125;
      CHECK(line.run(10 * line.period() * (1 + 1e-9)).samples == 10);
      CHECK(line.run(10 * line.period() * (1 - 1e-9)).samples == 9);
    }
}

// Ten micro-batches, relayed, all within the single site. The stage in the middle receives and sends 1 + 1
// activations forward and 2 + 1 backward, of 20 bytes. The last one receives 1 + 1 with labels of 8 bytes,
// and sends the loss and a gradient. The first one is next to the trainer.
TEST_CASE("bytes per visit between stages are those of the released code") {
  Line line;
  line.stages = 3;
  const SwarmReport report = line.run(10 * line.period() * (1 + 1e-9));
  REQUIRE(report.links.size() == 1);
  CHECK(report.links[0].bytes == 10 * (5 * 20 + (3 * 20 + 2 * 8 + 4)));
}

// Computing grows as h³, messages as h²; U = T_c ÷ (T_c + T_t + k RTT), where relaying takes T_t = 5 (S − 1)
// − 2 messages, plus two labels and a loss (20 bytes), and k = 2 (S − 1) round trips. Over a grid of 6 widths
// and 6 latencies, (1 ÷ U − 1) T_c without labels and loss is fitted by messages and k round trips.
TEST_CASE("utilization follows the square-cube law") {
  constexpr int stages = 4, grid = 6;
  constexpr double labels_and_loss_s = 20.0 / 500;
  double u[grid][grid], mm = 0, mr = 0, rr = 0, my = 0, ry = 0;
  // A forward pass takes at most 9.8 s and a backward pass 29.5 s, so no request reaches its timeout.
  const auto line_of = [](int width, int delay) {
    const double hidden = std::exp2(width);
    Line line;
    line.stages = stages;
    line.forward = 0.0003 * hidden * hidden * hidden;
    line.activation = hidden * hidden;
    line.bandwidth = 500;
    line.latency = 0.05 * std::exp2(delay);
    return line;
  };
  for (int width = 0; width < grid; ++width)
    for (int delay = 0; delay < grid; ++delay) {
      const Line line = line_of(width, delay);
      const SwarmReport report = line.run(20 * line.period() * (1 + 1e-9));
      double computing = 0;
      for (const SwarmDevice& device : report.devices) computing += device.compute_s;
      u[width][delay] = computing / report.length_s;
      const double y = (1 / u[width][delay] - 1) * 4 * line.forward * stages - labels_and_loss_s;
      const double message = line.activation / line.bandwidth, round_trip = 2 * line.latency;
      mm += message * message;
      mr += message * round_trip;
      rr += round_trip * round_trip;
      my += message * y;
      ry += round_trip * y;
      if (width > 0) CHECK(u[width][delay] > u[width - 1][delay]);
      if (delay > 0) CHECK(u[width][delay] < u[width][delay - 1]);
    }
  const double messages = (my * rr - ry * mr) / (mm * rr - mr * mr);
  const double round_trips = (ry * mm - my * mr) / (mm * rr - mr * mr);
  CHECK(messages == Approx(5 * (stages - 1) - 2).epsilon(1e-6));
  CHECK(round_trips == Approx(2 * (stages - 1)).epsilon(1e-6));
  double mean = 0, residual = 0, total = 0;
  for (const auto& row : u)
    for (const double value : row) mean += value / (grid * grid);
  for (int width = 0; width < grid; ++width)
    for (int delay = 0; delay < grid; ++delay) {
      const Line line = line_of(width, delay);
      const double computing = 4 * line.forward * stages;
      const double fitted = computing / (computing + messages * line.activation / line.bandwidth +
                                         round_trips * 2 * line.latency + labels_and_loss_s);
      residual += (u[width][delay] - fitted) * (u[width][delay] - fitted);
      total += (u[width][delay] - mean) * (u[width][delay] - mean);
    }
  CHECK(1 - residual / total > 0.9999);
}

// One stage of six peers, and a trainer at site 0, whose device has left: the bytes elsewhere are those of
// all-reduces, 2 Ψ (G − 1) ÷ G per peer.
TEST_CASE("an all-reduce of equal peers has the bytes of a ring") {
  constexpr double parameters = 1000;
  for (const bool apart : {false, true}) {
    const Link link = link_of(0, 100);
    const Topology topology =
        apart ? flat_topology({1, 4, 2}, link, link) : flat_topology({1, 6}, link, link);
    Problem problem{topology, swarm_job(1, 1, 0, parameters, 32), {}};
    SwarmSetup setup;
    setup.trainers = 1;
    setup.rebalance_s = 1000;
    Scenario scenario;
    scenario.events = {{0, 0}};
    SwarmOptions options;
    options.steps = 5;
    options.seconds = 1e6;
    SwarmReport report = simulate_swarm(problem, setup, scenario, options);
    REQUIRE(report.steps.size() == 5);
    const double psi = 2 * parameters;  // fp16
    std::erase_if(report.links, [](const LinkReport& it) { return it.from == 0 || it.to == 0; });
    double bytes = 0;
    for (const LinkReport& it : report.links) bytes += it.bytes;
    CHECK(bytes == Approx(5 * 6 * (2 * psi * 5 / 6)).epsilon(1e-12));
    if (apart) {
      // From site 1 to site 2: 4 · 2 pairs, V (1/6 + 1/6) each; the same in reverse.
      for (const LinkReport& it : report.links)
        if (it.from != it.to) CHECK(it.bytes == Approx(5 * 8 * psi / 3).epsilon(1e-12));
    }
    // Five partners at 100 B/s each.
    for (const SwarmStep& step : report.steps)
      CHECK(step.end_s - step.start_s == Approx(2 * psi * 5 / 6 / 500).epsilon(1e-9));
    CHECK(report.stages[0].accepted >= 5 * 32);
  }
}

TEST_CASE("a delayed update overlaps with the next batch") {
  Problem problem{flat_topology({4}, link_of(0, 1e3), link_of(0, 1e3)), swarm_job(2, 1, 1, 3000, 16), {}};
  SwarmSetup setup;
  setup.stages = 2;
  SwarmOptions options;
  options.seconds = 2000;
  const SwarmReport in_turn = simulate_swarm(problem, setup, {}, options);
  setup.delayed_update = true;
  const SwarmReport delayed = simulate_swarm(problem, setup, {}, options);
  CHECK(delayed.useful_samples > in_turn.useful_samples);
  // Batches of 16 at two peers of 4 s per sample take 32 s; an all-reduce of 6 kB between two peers takes 6
  // s.
  CHECK(in_turn.steps.size() == Approx(2000 / 38.0).epsilon(0.05));
  CHECK(delayed.steps.size() == Approx(2000 / 32.0).epsilon(0.05));
}

TEST_CASE("runs depend on speeds and jitter and seed") {
  Problem problem{flat_topology({4}, link_of(0.01, 1e6), link_of(0.01, 1e6)), swarm_job(2, 1, 10, 10, 8), {}};
  SwarmSetup setup;
  setup.stages = 2;
  SwarmOptions options;
  options.seconds = 500;
  const auto bytes = [&](const Scenario& scenario) {
    const SwarmReport report = simulate_swarm(problem, setup, scenario, options);
    std::string text;
    for (const SwarmDevice& it : report.devices) text += fmt::format("{:.17g} {} ", it.compute_s, it.visits);
    for (const SwarmStep& it : report.steps) text += fmt::format("{:.17g} ", it.end_s);
    return text;
  };
  CHECK(bytes({}) == bytes({}));
  Scenario jitter;
  jitter.compute_jitter.cv = 0.2;
  CHECK(bytes(jitter) == bytes(jitter));
  CHECK(bytes(jitter) != bytes({}));
  const std::string before = bytes(jitter);
  jitter.seed = 1;
  CHECK(bytes(jitter) != before);
  // Two peers per stage complete 1/2 sample per second; at half their speed from 250 s on, half of that.
  Scenario slow;
  for (int device = 0; device < 4; ++device)
    slow.events.push_back({250, device, DeviceEvent::Kind::speed, 0.5});
  const SwarmReport report = simulate_swarm(problem, setup, slow, options);
  CHECK(report.optimal_samples_per_s == Approx(0.375));
  CHECK(report.share_of_optimum > 0.9);
  CHECK(report.share_of_optimum < 1.01);
}

TEST_CASE("what is not modelled is rejected") {
  Problem problem{flat_topology({4}, link_of(0, 1e3), link_of(0, 1e3)), swarm_job(2, 1, 1, 1, 16), {}};
  SwarmSetup setup;
  setup.stages = 3;
  CHECK_THROWS_AS(simulate_swarm(problem, setup, {}, {}), Error);
  setup.stages = 2;
  Scenario scenario;
  scenario.link_traces.emplace_back();
  CHECK_THROWS_AS(simulate_swarm(problem, setup, scenario, {}), Error);
  setup.in_flight = 0;
  CHECK_THROWS_AS(simulate_swarm(problem, setup, {}, {}), Error);
}
