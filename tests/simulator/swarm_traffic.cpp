// Traffic of swarms, derived by hand for every pair of devices.
#include <array>
#include <map>
#include <utility>

#include "core/model/image_models.hpp"
#include "simulator/swarm/swarm_traffic.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr auto relay = SwarmTransport::relay, peer_to_peer = SwarmTransport::peer_to_peer;
constexpr int steps = 2, micro_batches = 3;  // per step

/// Bytes from one device to another.
using Traffic = std::map<std::pair<int, int>, double>;

/// Four layers with outputs of 100, 200, 300 and 400 bytes per sample, and sequences of 4 tokens. A
/// micro-batch has 2 samples: token ids of 2 · 4 · 8 = 64 bytes, as many labels, and activations of 200, 400,
/// 600 and 800 bytes times `ratio`.
Job small_job(double ratio) {
  Job job = swarm_job(4, 1, 0, 0, 2 * micro_batches);
  auto& model = std::get<LayerChain>(job.model);
  model.sequence = 4;
  for (int layer = 0; layer < 4; ++layer) model.layers[at(layer)].output = Bytes(100 * (layer + 1));
  job.execution.micro_batch = 2;
  job.execution.compression.activations = ratio;
  return job;
}

/// Device 0 has only a trainer with one micro-batch at a time. `per_stage` peers serve each stage.
struct SmallSwarm {
  Problem problem;
  SwarmSetup setup;
  SwarmOptions options;

  SmallSwarm(SwarmTransport transport, int stages, int per_stage, double ratio)
      : problem{flat_topology(std::vector<int>(at(1 + stages * per_stage), 1), link_of(0.1, 1e6),
                              link_of(0.1, 1e6)),
                small_job(ratio),
                {}} {
    setup.stages = stages;
    setup.trainers = setup.in_flight = 1;
    setup.transport = transport;
    options.steps = steps;
  }
  /// Returns the traffic of two steps of three micro-batches.
  Traffic run() const {
    Scenario scenario;
    scenario.events = {{0, 0}};
    const SwarmReport report = simulate_swarm(problem, setup, scenario, options);
    CHECK(report.steps.size() == steps);
    CHECK(report.restarts + report.timeouts == 0);
    Traffic traffic;
    for (const LinkReport& it : report.links)  // every device is a site
      if (it.bytes > 0) traffic[{it.from, it.to}] = it.bytes;
    return traffic;
  }
};

/// Returns what two steps send if a micro-batch sends `traffic`.
Traffic of_run(Traffic traffic) {
  for (auto& entry : traffic) entry.second *= steps * micro_batches;
  return traffic;
}

double sum(const Traffic& traffic) {
  double bytes = 0;
  for (const auto& entry : traffic) bytes += entry.second;
  return bytes;
}

}  // namespace

// Peer to peer: token ids and labels to the peer, the loss back; both acknowledgements are empty: 132 bytes.
// Relay: the backward pass receives token ids and labels again: 260 bytes. There is nothing to compress.
TEST_CASE("a swarm of one stage sends samples and losses but no activations") {
  for (const double ratio : {1.0, 0.5}) {
    CHECK(SmallSwarm(peer_to_peer, 1, 1, ratio).run() == of_run({{{0, 1}, 64 + 64}, {{1, 0}, 4}}));
    CHECK(SmallSwarm(relay, 1, 1, ratio).run() == of_run({{{0, 1}, 2 * (64 + 64)}, {{1, 0}, 4}}));
  }
}

// The boundary is after the second layer: 400 bytes. In all 64 + 64 + 4 + 2 · 400 = 932 bytes peer to peer,
// and 2 (64 + 64) + 4 + 5 · 400 = 2260 with relay.
TEST_CASE("a swarm of two stages has the traffic derived by hand") {
  for (const double ratio : {1.0, 0.5}) {
    CAPTURE(ratio);
    const double a = 400 * ratio;
    const Traffic direct = SmallSwarm(peer_to_peer, 2, 1, ratio).run(),
                  relayed = SmallSwarm(relay, 2, 1, ratio).run();
    CHECK(direct == of_run({{{0, 1}, 64}, {{1, 2}, a}, {{0, 2}, 64}, {{2, 0}, 4}, {{2, 1}, a}}));
    CHECK(relayed == of_run({{{0, 1}, 64 + (64 + a)},        // forward, backward
                             {{1, 0}, a},                    // forward; the backward pass returns nothing
                             {{0, 2}, (a + 64) + (a + 64)},  // no gradient of the output
                             {{2, 0}, 4 + a}}));             // the loss, the gradient of the input
    CHECK(sum(direct) == steps * micro_batches * (132 + 2 * a));
    CHECK(sum(relayed) == steps * micro_batches * (260 + 5 * a));
  }
}

// Every layer is a stage: boundaries of 200, 400 and 600 bytes. A stage in the middle has the traffic of the
// released code: forward in a, out a, backward in 2 a, out a. In all 132 + 2 · 1200 = 2532 bytes peer to
// peer, and 260 + 5 · 1200 = 6260 with relay.
TEST_CASE("a swarm of four stages has the traffic derived by hand") {
  for (const double ratio : {1.0, 0.5}) {
    CAPTURE(ratio);
    const double a = 200 * ratio, b = 400 * ratio, c = 600 * ratio;
    const Traffic direct = SmallSwarm(peer_to_peer, 4, 1, ratio).run(),
                  relayed = SmallSwarm(relay, 4, 1, ratio).run();
    CHECK(direct == of_run({{{0, 1}, 64},
                            {{1, 2}, a},
                            {{2, 3}, b},
                            {{3, 4}, c},
                            {{0, 4}, 64},
                            {{4, 0}, 4},
                            {{4, 3}, c},
                            {{3, 2}, b},
                            {{2, 1}, a}}));
    CHECK(relayed == of_run({{{0, 1}, 64 + (64 + a)},
                             {{1, 0}, a},
                             {{0, 2}, a + (a + b)},
                             {{2, 0}, b + a},
                             {{0, 3}, b + (b + c)},
                             {{3, 0}, c + b},
                             {{0, 4}, (c + 64) + (c + 64)},
                             {{4, 0}, 4 + c}}));
    CHECK(sum(direct) == steps * micro_batches * (132 + 2 * (a + b + c)));
    CHECK(sum(relayed) == steps * micro_batches * (260 + 5 * (a + b + c)));
  }
}

// Two stages of two peers. A backward pass at another peer than the forward pass needs the input of the
// stage: samples from the trainer, activations from the peer that computed the forward pass.
TEST_CASE("a backward pass at another peer receives the samples and activations again") {
  SmallSwarm swarm(peer_to_peer, 2, 2, 1);
  constexpr int trainer = 0;
  constexpr double a = 400;
  std::map<long long, std::array<int, 2>> forward, backward;  // by micro-batch: the peers of both stages
  swarm.options.observe = [&](const SwarmEvent& event) {
    if (event.kind == SwarmEvent::Kind::forward) forward[event.micro_batch][at(event.stage)] = event.peer;
    if (event.kind == SwarmEvent::Kind::gradient) backward[event.micro_batch][at(event.stage)] = event.peer;
  };
  const Traffic traffic = swarm.run();
  Traffic expected;
  int elsewhere[] = {0, 0};
  for (const auto& [micro_batch, by] : backward) {
    const auto [first, last] = forward[micro_batch];
    expected[{trainer, first}] += 64;
    expected[{first, last}] += a;
    expected[{trainer, last}] += 64;
    expected[{last, trainer}] += 4;
    expected[{by[1], by[0]}] += a;
    if (by[1] != last) {
      ++elsewhere[1];
      expected[{trainer, by[1]}] += 64;
      expected[{last, by[1]}] += a;
    }
    if (by[0] != first) {
      ++elsewhere[0];
      expected[{trainer, by[0]}] += 64;
    }
  }
  CHECK(backward.size() == steps * micro_batches);
  for (const int count : elsewhere) CHECK(count > 0);
  CHECK(traffic == expected);
}

// A GPT of hidden size 8 with sequences of 16 tokens: a micro-batch of 3 has 3 · 16 · 8 = 384 bytes of token
// ids and as many of labels. Activations have 3 · 16 · 8 · 2 = 768 bytes in 16 bits, and 384 in 8 bits.
TEST_CASE("a transformer embeds token ids in its first stage and computes the loss in its last") {
  Job job;
  job.model = Transformer{4, 8, 2, 16, 100};
  job.execution.micro_batch = 3;
  job.execution.compression.activations = 0.5;
  const std::vector<StageTraffic> traffic = swarm_traffic(job, 3);
  REQUIRE(traffic.size() == 3);
  const auto bytes = [](const VisitBytes& it) {
    return std::vector{it.samples, it.activations, it.gradient, it.output};
  };
  CHECK(bytes(traffic[0].forward) == std::vector<double>{384, 0, 0, 384});
  CHECK(bytes(traffic[0].backward) == std::vector<double>{384, 0, 384, 0});
  CHECK(bytes(traffic[1].forward) == std::vector<double>{0, 384, 0, 384});
  CHECK(bytes(traffic[1].backward) == std::vector<double>{0, 384, 384, 384});
  CHECK(bytes(traffic[2].forward) == std::vector<double>{384, 384, 0, 4});
  CHECK(bytes(traffic[2].backward) == std::vector<double>{384, 384, 0, 384});
}

// ResNet-50 has images of 3 · 224 · 224 numbers of 2 bytes and one label per image; a perceptron has as many
// numbers as its first width. Without a given size, an image is as large as the first layer's output.
TEST_CASE("image models and perceptrons send their input rather than token ids") {
  Job job;
  job.model = resnet_50(224, 1000, 2);
  CHECK(swarm_traffic(job, 2).front().forward.samples == 3 * 224 * 224 * 2);
  CHECK(swarm_traffic(job, 2).back().forward.samples == 8);
  CHECK(swarm_traffic(job, 1).front().forward.samples == 3 * 224 * 224 * 2 + 8);
  job.model = mlp_model(std::array{784, 10}, 4);
  CHECK(swarm_traffic(job, 1).front().forward.samples == 784 * 4 + 8);
  job = small_job(0.5);
  std::get<LayerChain>(job.model).input_size = Bytes(30);
  CHECK(swarm_traffic(job, 2).front().forward.samples == 2 * 30);
  auto& model = std::get<LayerChain>(job.model);
  model.input = ModelInput::images;
  model.sequence = 1;
  model.input_size = {};
  CHECK(swarm_traffic(job, 2).front().forward.samples == 2 * 100);
}
