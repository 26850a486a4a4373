// What TCP and the libraries that use it add to messages between hosts.
#include "simulator/graph/graph_replay.hpp"
#include "simulator/graph/tcp.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "simulator/lowering/gradient_sync.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double B = 1e6, a = 0.1;  // bytes per second, seconds: 200 kB fill the path for a round trip

Topology pair_over(std::string_view library) {
  Topology topology = flat_topology({2}, link_of(a, B), link_of(a, B));
  for (const Transport& it : transports)
    if (it.library == library) topology.transport = it;
  return topology;
}

/// Seconds until the second of two equal messages has arrived.
double two_messages_s(const Topology& topology, double bytes, Activity second = Activity::gradient_sync) {
  const Calibration neutral;
  GraphBuilder builder(topology, neutral);
  const int first = builder.send(builder.channel(0, 1, Activity::gradient_sync), bytes, {}, {});
  builder.send(builder.channel(0, 1, second), bytes, std::array{first}, {});
  return replay_makespan(builder.take());
}

}  // namespace

// 14,480, 28,960, 57,920 and 115,840 bytes are sent in the first four round trips of 0.2 s, in which 200 kB
// could have been sent.
TEST_CASE("a connection doubles its window until the path is full") {
  const double sent = 15 * 14480.0;
  SlowStart whole(14480, 2 * a);
  CHECK(whole.stall_s(1e6, B, 0) == Approx(4 * 2 * a - sent / B));
  CHECK(whole.stall_s(1e6, B, 0) == 0);
  // One message doubles the window; the next is longer than that by a byte.
  SlowStart parts(14480, 2 * a);
  CHECK(parts.stall_s(14480, B, 0) == 0);
  CHECK(parts.stall_s(28961, B, 0) == Approx(2 * a - 28960 / B));
  CHECK(parts.stall_s(1e6, B, 0) == Approx(2 * 2 * a - (57920 + 115840) / B));
  SlowStart local(14480, 0);
  CHECK(local.stall_s(1e6, B, 0) == 0);
}

// In the end, 200 kB are in flight, of which the last wait for 0.2 s in the queue: the timeout is 0.6 s, and
// the window 400 kB. Last used at 10 s, it halves to the 200 kB of a round trip at 10.6 s, and to less
// at 11.2 s; it is back at its initial size after five halvings.
TEST_CASE("an idle connection halves its window for each timeout") {
  const auto after = [](double idle_s) {
    SlowStart connection(14480, 2 * a);
    connection.stall_s(1e6, B, 0);
    connection.use(10);
    return connection.stall_s(1e6, B, 10 + idle_s);
  };
  CHECK(after(0.59) == 0);
  CHECK(after(1.19) == 0);
  CHECK(after(1.21) == Approx(2 * a - 100e3 / B));
  CHECK(after(1.79) == Approx(2 * a - 100e3 / B));
  CHECK(after(1.81) == Approx(2 * 2 * a - (50e3 + 100e3) / B));
  CHECK(after(100) == Approx(4 * 2 * a - 15 * 14480 / B));
}

// A message of 100 kB within the window of 400 kB takes 0.1 s, which its end waits: the timeout is 0.5 s.
TEST_CASE("the timeout has what a message waits in the queue of a link") {
  const auto after = [](double idle_s) {
    SlowStart connection(14480, 2 * a);
    connection.stall_s(1e6, B, 0);
    connection.stall_s(100e3, B, 0);
    connection.use(10);
    return connection.stall_s(1e6, B, 10 + idle_s);
  };
  CHECK(after(0.99) == 0);
  CHECK(after(1.01) == Approx(2 * a - 100e3 / B));
}

// 14,480 bytes are followed by 20 kB within the doubled window, whose acknowledgements double what was in
// flight. A rest that is shorter than half of the window does not enlarge it.
TEST_CASE("what follows the last stall enlarges the window") {
  const auto next = [](double bytes) {
    SlowStart connection(14480, 2 * a);
    CHECK(connection.stall_s(bytes, B, 0) == Approx(2 * a - 14480 / B));
    return connection.stall_s(100e3, B, 0);
  };
  CHECK(next(14480 + 20e3) == Approx(2 * a - 40e3 / B));
  CHECK(next(14480 + 10e3) == Approx(2 * 2 * a - (28960 + 57920) / B));
}

TEST_CASE("a window and data in the other direction limit the rate of a connection") {
  const TcpPath path{B, a, 2 * a};
  CHECK(connection_rate(path, 1e9, false) == B);
  CHECK(connection_rate(path, 60e3, false) == Approx(60e3 / (2 * a)));
  // A round trip of data is in flight, and acknowledged after another half.
  CHECK(connection_rate(path, 1e9, true) == Approx(B * 2 / 3));
  // 60 kB are sent in less than a latency, so that no acknowledgement waits.
  CHECK(connection_rate(path, 60e3, true) == Approx(60e3 / (2 * a)));
  CHECK(connection_rate({B, 0, 0}, 60e3, true) == B);
}

TEST_CASE("libraries add their handshakes, and a window limits the rate") {
  const double slow_start_s = 4 * 2 * a - 15 * 14480 / B;
  CHECK(two_messages_s(flat_topology({2}, link_of(a, B), link_of(a, B)), 1e6) == Approx(2 * (a + 1)));
  CHECK(two_messages_s(pair_over("tcp"), 1e6) == Approx(2 * (a + 1) + slow_start_s));
  CHECK(two_messages_s(pair_over("mpi"), 1e6) == Approx(2 * (3 * a + 1) + slow_start_s));
  CHECK(two_messages_s(pair_over("gloo"), 1e6) == Approx(2 * (2 * a + 1) + slow_start_s));
  Topology narrow = pair_over("tcp");
  narrow.transport->window = Bytes(100e3);
  const double rate = 100e3 / (2 * a);
  CHECK(two_messages_s(narrow, 1e6) == Approx(2 * (a + 1e6 / rate) + 3 * 2 * a - 7 * 14480 / rate));
}

TEST_CASE("messages of all kinds between two devices use one connection") {
  const Topology topology = pair_over("tcp");
  CHECK(two_messages_s(topology, 1e6, Activity::send_activations) == two_messages_s(topology, 1e6));
}

// DeepSpeed, two stages of 1 s and 2 s, two micro-batches, messages of T = 0.5 s. F0 0–1 on the first device,
// its message arrives at 1 + a + T. The second one computes F0 and B0 until 4 + a + T and sends B0, which
// arrives at 4 + 2a + 2T, because the receive is posted. Only then does the first device send F1. If the send
// of B0 has ended at once, the receive of F1 has been announced: F1 arrives at 4 + 3a + 3T; F1 and B1 take 3
// s, the message a + T, B1 of the first device 2 s. Otherwise the receive is posted when B0 has arrived, and
// F1 waits for the announcement, a. In between, the first device waits for it, but not for longer than the
// second. In the end, the first device announces that it receives the loss of the second, which takes 2 a.
TEST_CASE("a send over Gloo ends when it begins if the kernel has room for the message") {
  const double T = 0.5;
  Topology topology = pair_over("gloo");
  topology.transport->initial_window = topology.transport->window = Bytes(1e9);  // no slow start
  Job job = chain_job(2, 0, T * B);
  job.execution.schedule = Schedule::one_f_one_b_blocking;
  job.execution.messaging = Messaging::deepspeed;
  job.training.precision = Precision::fp32;
  const auto seconds = [&] {
    const Problem problem{topology, job, Calibration{1, 0, 1, 0},
                          uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
    return replay_makespan(iteration_graph(problem, plan_of(job, 2, 1, 2)));
  };
  CHECK(seconds() == Approx(9 + 6 * a + 4 * T));
  topology.transport->window = Bytes(T * B - 1);
  CHECK(seconds() == Approx(9 + 7 * a + 4 * T));
}

// Each of the two devices sends one message. In the first four round trips slow start doubles the window from
// 14,480 to 115,840 bytes, so they carry 15 × 14,480 bytes.
TEST_CASE("where synchronizations overlap, both ends of a connection send") {
  const Topology topology = pair_over("tcp");
  const Calibration neutral;
  for (const GradientSync sync : {GradientSync::tree, GradientSync::central_ps})
    for (const bool overlaps : {false, true}) {
      CAPTURE(name_of(sync), overlaps);
      GraphBuilder builder(topology, neutral);
      SyncGroup group{{0, 1}, 1e6, {no_index, no_index}};
      group.overlaps = overlaps;
      add_gradient_sync(builder, sync, group);
      const double rate = connection_rate({B, a, 2 * a}, 1e9, overlaps);
      CHECK(replay_makespan(builder.take()) == Approx(2 * (a + (1e6 - 15 * 14480) / rate + 4 * 2 * a)));
    }
}

TEST_CASE("synchronizations overlap if a stage has several layers") {
  for (const int layers : {1, 2})
    for (const bool overlap : {false, true}) {
      CAPTURE(layers, overlap);
      Problem problem{pair_over("tcp"), chain_job(layers, 1e6, 0), {}, {}};
      problem.job.execution.gradient_sync = GradientSync::tree;
      problem.job.execution.overlap = overlap;
      const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, 1, 2, 1));
      const double rate = connection_rate({B, a, 2 * a}, transports[0].window.value(), overlap && layers > 1);
      int messages = 0;
      for (const Task& task : lowered.graph.tasks) {
        if (task.kind != TaskKind::flow) continue;
        CHECK(task.rate == rate);
        ++messages;
      }
      CHECK(messages >= 2);
    }
}

// The sender's connections share its link, on which a window leaves room for the others.
TEST_CASE("the window of a connection does not limit what a sender's connections share") {
  Topology topology = flat_topology({4}, link_of(a, B), link_of(a, B));
  std::get<RuleLinks>(topology.links).links[0].shared_by_sender = true;
  topology.transport = transports[0];
  topology.transport->window = Bytes(20e3);
  const Calibration neutral;
  GraphBuilder builder(topology, neutral);
  for (int receiver = 1; receiver < 4; ++receiver)
    builder.send(builder.channel(0, receiver, Activity::gradient_sync), 14480, {}, {});
  CHECK(replay_makespan(builder.take()) == Approx(14480 / (20e3 / (2 * a)) + a));
}

TEST_CASE("messages inside a host have no transport") {
  Topology topology = pair_over("mpi");
  std::get<RuleLinks>(topology.links).same_host(0, 0) = 0;
  for (Device& device : topology.devices) device.host = 0;
  CHECK(two_messages_s(topology, 1e6) == Approx(2 * (a + 1)));
  CHECK(topology.fingerprint() != flat_topology({2}, link_of(a, B), link_of(a, B)).fingerprint());
}
