#include "planner/cost/iteration_time/pipeline_time.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.hpp"
#include "planner/cost/iteration_time/greedy_order.hpp"
#include "planner/cost/iteration_time/in_flight.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

using enum Schedule;

/// Returns stages of 1 s forward and 2 s backward whose messages all take `occupancy_s` and `latency_s`.
PipelineWork even_work(int stages, int micro_batches, double occupancy_s = 0, double latency_s = 0) {
  const std::vector<HopTime> hops(at(stages - 1), {occupancy_s, latency_s});
  return {std::vector<double>(at(stages), 1), std::vector<double>(at(stages), 2), hops, hops, micro_batches};
}

/// Like even_work, with 1 s and 2 s for each of `chunks` chunks.
PipelineWork interleaved_work(int devices, int chunks, int micro_batches) {
  PipelineWork work = even_work(devices * chunks, micro_batches);
  work.chunks = chunks;
  return work;
}

double seconds_of(Schedule schedule, const PipelineWork& work) {
  return pipeline_time(schedule, work).end_s;
}

/// One pipeline of devices in which both directions of every pair have links of their own.
struct RandomPipeline {
  Problem problem;
  Plan plan;
  PipelineWork work;
};

struct Size {
  int devices = 1, chunks = 1, micro_batches = 1, flush = 0;
};

/// Returns a pipeline that ranges from compute-bound to communication-bound.
RandomPipeline random_pipeline(Rng& rng, Schedule schedule, const Size& size,
                               Messaging messaging = Messaging::ahead) {
  const int layers = size.devices * size.chunks;
  const double longest_s = 0.1 + 4 * rng.uniform() * rng.uniform();
  RandomPipeline it{{flat_topology({size.devices}, {}, {}), chain_job(layers, 0, 0), {}}, {}, {}};
  Eigen::MatrixXd latency(size.devices, size.devices), bandwidth = latency;
  for (int from = 0; from < size.devices; ++from)
    for (int to = 0; to < size.devices; ++to) {
      latency(from, to) = rng.below(2) * longest_s * rng.uniform();
      bandwidth(from, to) = 8e6 / (1e-3 + longest_s * rng.uniform());
    }
  it.problem.topology.edit().links = MeasuredLinks{latency, bandwidth};
  it.problem.constants.message_overhead_s = 0.1 * rng.uniform();

  std::vector<Layer>& chain = std::get<LayerChain>(it.problem.job.model).layers;
  for (Layer& layer : chain) {
    layer.forward = Flops(1e12 * (0.1 + rng.uniform()));
    layer.backward = Flops(1e12 * (0.1 + rng.uniform()));
    layer.output = Bytes(1e6 * rng.uniform());
    if (traits(schedule).splits_backward)
      layer.parameters = 1;  // weight gradients take as long as the forward
  }
  it.problem.job.execution.schedule = schedule;
  it.problem.job.execution.messaging = it.work.messaging = messaging;
  it.problem.job.execution.chunks = size.chunks;
  if (size.flush > 0) it.problem.job.execution.flush = size.flush;
  it.plan = plan_of(it.problem.job, size.devices, 1, size.micro_batches);

  PipelineWork& work = it.work;
  work.micro_batches = size.micro_batches;
  work.flush = size.flush;
  work.chunks = size.chunks;
  const auto hop = [&](int from, int to, Bytes bytes) -> HopTime {
    if (from == to) return {};
    return {it.problem.constants.message_overhead_s + 8 * bytes.value() / bandwidth(from, to),
            latency(from, to)};
  };
  for (int stage = 0; stage < layers; ++stage) {
    const Layer& layer = chain[at(stage)];
    work.forward_s.push_back(layer.forward.value() / 1e12);
    work.backward_s.push_back(layer.backward.value() / 1e12);
    work.weight_gradient_s.push_back(std::min(layer.forward, layer.backward).value() / 1e12);
    if (stage + 1 == layers) break;
    const int here = stage % size.devices, next = (stage + 1) % size.devices;
    work.forward_hops.push_back(hop(here, next, layer.output));
    work.backward_hops.push_back(hop(next, here, layer.output));
  }
  return it;
}

/// Returns the simulated times of the pipeline. If the backward is split, weight gradients end it.
PipelineTime simulated(const RandomPipeline& it) {
  const LabelledGraph lowered = iteration_graph(it.problem, it.plan);
  const Replay result = replay(lowered.graph);
  const std::size_t stages = it.work.forward_s.size();
  const bool is_ahead = it.work.messaging == Messaging::ahead,
             is_split = traits(it.plan.execution.schedule).splits_backward,
             is_blocking = traits(it.plan.execution.schedule).is_blocking || !is_ahead;
  const std::size_t devices = stages / at(it.work.chunks);
  PipelineTime time{std::vector<double>(stages), std::vector<double>(stages)};
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    const TaskLabel& label = lowered.labels[i];
    const double finish = result.tasks[i].finish;
    if (label.activity == (is_split ? Activity::weight_gradient : Activity::backward)) {
      double& backward = time.backward_s[at(label.stage)];
      backward = std::max(backward, finish);
      time.end_s = std::max(time.end_s, finish);
    }
    if (!is_ahead && label.stage != no_index && label.activity != Activity::wait) {
      // A device waits for all it has sent.
      for (std::size_t stage = at(label.stage) % devices; stage < stages; stage += devices)
        time.gradients_s[stage] = std::max(time.gradients_s[stage], finish);
    } else if (is_split
                   ? label.activity == Activity::weight_gradient
                   : label.activity == Activity::backward || label.activity == Activity::send_gradients) {
      double& gradients = time.gradients_s[at(label.stage)];
      gradients = std::max(gradients, finish);
    }
    // The step waits for all messages.
    if (is_blocking && label.activity != Activity::step) time.end_s = std::max(time.end_s, finish);
  }
  return time;
}

/// Gives the pipeline warm-ups that are up to `longer` forwards longer than those of 1F1B from one stage to
/// the next.
void set_warm_ups(Rng& rng, int longer, RandomPipeline& it) {
  std::vector<Stage>& stages = it.plan.pipelines.front().stages;
  int warm_up = -1;
  for (std::size_t stage = stages.size(); stage-- > 0;) {
    warm_up += 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(longer + 1)));
    stages[stage].warm_up = warm_up;
    it.work.warm_ups.insert(it.work.warm_ups.begin(), warm_up);
  }
}

/// Gives the pipeline the passes that a search finds with memory for up to `more` micro-batches more than
/// under 1F1B.
void set_passes(Rng& rng, int more, RandomPipeline& it) {
  std::vector<Stage>& stages = it.plan.pipelines.front().stages;
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    it.work.max_warm_ups.push_back(
        static_cast<int>(stages.size() - stage - 1 + rng.below(static_cast<std::uint32_t>(more + 1))));
  it.work.passes = search_passes(it.work);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) stages[stage].passes = it.work.passes[stage];
}

void check_exact(Schedule schedule, const RandomPipeline& it) {
  const PipelineTime estimated = pipeline_time(schedule, it.work), expected = simulated(it);
  CHECK(estimated.end_s == Approx(expected.end_s).epsilon(1e-9));
  for (std::size_t stage = 0; stage < it.work.forward_s.size(); ++stage) {
    CAPTURE(stage);
    CHECK(estimated.backward_s[stage] == Approx(expected.backward_s[stage]).epsilon(1e-9));
    CHECK(estimated.gradients_s[stage] == Approx(expected.gradients_s[stage]).epsilon(1e-9));
  }
}

int one_to(Rng& rng, int most) {
  return 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(most)));
}

}  // namespace

// Resources forward: 1, 0.5 (+ 0.1 latency), 2, 3 (+ 0.2), 1; 7.8 s in total, the longest 3 s, so that the
// fourth micro-batch is through after 7.8 + 3 · 3 = 16.8 s. Backward from the last stage: 2, 0.5 (+ 0.2), 4,
// 1 (+ 0.1), 2. The last stage ends 2 + 3 · 2 later, and its gradients have arrived after 2.7 + 3 · 2. The
// middle stage ends after 6.7 + 3 · 4, and its gradients have arrived after 7.8 + 3 · 4. The first stage ends
// after 9.8 + 3 · 4.
TEST_CASE("gpipe: the time is the sum and maximum over all resources") {
  PipelineWork work;
  work.forward_s = {1, 2, 1};
  work.backward_s = {2, 4, 2};
  work.forward_hops = {{0.5, 0.1}, {3, 0.2}};
  work.backward_hops = {{1, 0.1}, {0.5, 0.2}};
  work.micro_batches = 4;
  const PipelineTime time = pipeline_time(gpipe, work);
  CHECK(time.end_s == Approx(16.8 + 21.8));
  CHECK(time.steady_s == Approx(3 + 4));
  const std::vector<double> backward = {16.8 + 21.8, 16.8 + 18.7, 16.8 + 8},
                            gradients = {16.8 + 21.8, 16.8 + 19.8, 16.8 + 8.7};
  for (std::size_t stage = 0; stage < 3; ++stage) {
    CHECK(time.backward_s[stage] == Approx(backward[stage]));
    CHECK(time.gradients_s[stage] == Approx(gradients[stage]));
  }
}

// (m + p − 1)(f + b) if messages take no time (Narayanan et al., arXiv 2104.04473, 2.2), for both schedules.
TEST_CASE("without messages a pipeline takes (m + p - 1)(f + b)") {
  for (const int stages : {1, 2, 4, 7})
    for (const int micro_batches : {1, 2, 8, 33, 1000}) {
      CAPTURE(stages, micro_batches);
      CHECK(seconds_of(gpipe, even_work(stages, micro_batches)) == Approx((micro_batches + stages - 1) * 3));
      CHECK(seconds_of(one_f_one_b, even_work(stages, micro_batches)) ==
            Approx((micro_batches + stages - 1) * 3));
    }
}

// Two stages, latency 1 s. The first computes F0 at 0, F1 at 1; the second F0 at 2, B0 at 3, and F1 at 5, B1
// at 6, F2 at 10, B2 at 11, F3 at 13, B3 at 14. The first gets B0 at 6, B1 at 9, B2 at 14, B3 at 17; it
// computes B0 at 6, F2 at 8, B1 at 9, F3 at 11, B2 at 14 and B3 at 17: 19 s. From then on, two micro-batches
// share the cycle of both stages and both latencies, 2 · 3 + 2 · 1.
TEST_CASE("1f1b: two micro-batches share a cycle through two stages") {
  const PipelineTime time = pipeline_time(one_f_one_b, even_work(2, 4, 0, 1));
  CHECK(time.end_s == Approx(19));
  CHECK(time.steady_s == Approx(4));
  CHECK(time.backward_s[1] == Approx(16));
  CHECK(time.gradients_s[1] == Approx(17));
  CHECK(seconds_of(one_f_one_b, even_work(2, 1000, 0, 1)) == Approx(19 + 996 * 4));
}

// The cycle of all ten stages takes 30 s, which ten micro-batches would share.
TEST_CASE("1f1b: the steady state does not depend on the number of micro-batches") {
  for (const int micro_batches : {2, 4, 9, 100})
    CHECK(pipeline_time(one_f_one_b, even_work(10, micro_batches)).steady_s == Approx(3));
}

TEST_CASE("eager-1f1b: warm-ups that are too long to evaluate are rejected") {
  PipelineWork work = even_work(2, 1'000'000'000);
  work.warm_ups = {1'000'000'000, 0};
  CHECK(error_message([&] { pipeline_time(eager_one_f_one_b, work); }) ==
        "1000000000 micro-batches in 2 stages are too many to estimate; shorten `warm_up`");
}

// m v (f + b) and a bubble of (p − 1)(f + b), where f and b are those of a chunk (arXiv 2104.04473, 2.2).
TEST_CASE("interleaved: the bubble is that of a chunk") {
  for (const int devices : {1, 2, 4})
    for (const int chunks : {1, 2, 3})
      for (const int rounds : {1, 2, 5, 100}) {
        CAPTURE(devices, chunks, rounds);
        const int micro_batches = rounds * devices;
        CHECK(seconds_of(interleaved, interleaved_work(devices, chunks, micro_batches)) ==
              Approx(micro_batches * chunks * 3 + (devices - 1) * 3));
      }
}

// Rounds of 3, 3 and 1 micro-batches in 3 stages: (3 + 2) · 3 s, the same again, and 3 · 3 s.
TEST_CASE("the pipeline has a bubble at every flush") {
  PipelineWork work = even_work(3, 7);
  work.flush = 3;
  CHECK(seconds_of(gpipe, work) == Approx(15 + 15 + 9));
  CHECK(seconds_of(one_f_one_b, work) == Approx(15 + 15 + 9));
  CHECK(pipeline_time(gpipe, work).steady_s == Approx(5));
  work.flush = 7;
  CHECK(seconds_of(gpipe, work) == Approx((7 + 2) * 3));
}

TEST_CASE("a pipeline without micro-batches takes no time") {
  for (const Schedule schedule : {gpipe, one_f_one_b, interleaved}) {
    const PipelineTime time = pipeline_time(schedule, even_work(3, 0));
    CHECK(time.end_s == 0);
    CHECK(time.gradients_s == std::vector<double>(3));
  }
}

TEST_CASE("work that a schedule cannot run is rejected") {
  CHECK(error_message([] { pipeline_time(interleaved, interleaved_work(2, 2, 3)); }) ==
        "schedule interleaved requires a multiple of 2 micro-batches, the number of devices of a pipeline; "
        "found 3; change the number of micro-batches, the flush interval or the number of stages");
  CHECK(error_message([] { pipeline_time(Schedule::paths, interleaved_work(2, 1, 2)); }) ==
        "schedule paths requires a path for each micro-batch");
}

TEST_CASE("the number of micro-batches in flight depends on schedule and stage") {
  const auto in_flight = [](Schedule schedule, const PipelinePosition& position) {
    return traits(schedule).in_flight(position);
  };
  CHECK(in_flight(gpipe, {4, 1, 1, 9}) == 9);
  CHECK(in_flight(one_f_one_b, {4, 0, 1, 9}) == 4);
  CHECK(in_flight(one_f_one_b, {4, 3, 1, 9}) == 1);
  CHECK(in_flight(one_f_one_b, {4, 0, 1, 2}) == 2);
  CHECK(in_flight(eager_one_f_one_b, {4, 0, 1, 9}) == 7);
  CHECK(in_flight(eager_one_f_one_b, {4, 0, 1, 9, {.warm_up = 4}}) == 5);
  // 4 devices of 2 chunks: the first is 2 · 3 + 4 forward passes ahead and computes one more.
  CHECK(in_flight(interleaved, {4, 0, 2, 8}) == 11);
  CHECK(in_flight(interleaved, {4, 3, 2, 8}) == 5);
  for (const int stage : {0, 3}) CHECK(in_flight(Schedule::zero_bubble_h1, {4, stage, 1, 9}) == 4);
}

// Two devices of two chunks. The first device computes F0 F1 of its first chunk, F0 F1 of its second, and F2
// of its first before the first backward pass: 3 and 2 micro-batches. The second device computes F0 F1, then
// F0 B0 F1 B1 of its second chunk, and then F2 B0 F3 B1 of its first: 2 and 1, or 3 and none.
TEST_CASE("micro-batches in memory are counted per chunk") {
  const auto max_bytes = [](int device, double first, double second, double working_second = 0) {
    const std::vector<StageNeeds> chunks = {{1000, first, 0}, {2000, second, working_second}};
    return InFlightMicroBatches(interleaved, {2, device, 2, 8}).max_bytes(chunks) - 3000;
  };
  CHECK(max_bytes(0, 1, 100) == 203);
  CHECK(max_bytes(0, 100, 1) == 401);
  CHECK(max_bytes(1, 1, 100) == 102);
  CHECK(max_bytes(1, 100, 1) == 300);
  CHECK(max_bytes(1, 100, 1, 250) == 201 + 250);
  CHECK(InFlightMicroBatches(one_f_one_b, {4, 1, 1, 9}).max_bytes(std::vector<StageNeeds>{{5, 10, 1}}) == 36);
  CHECK(InFlightMicroBatches(one_f_one_b, {4, 1, 1, 0}).max_bytes(std::vector<StageNeeds>{{5, 10, 1}}) == 5);
}

TEST_CASE("gpipe: the estimate equals the simulator for random pipelines") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(1, seed);
    const Size size{one_to(rng, 8), 1, one_to(rng, 40), rng.below(3) == 0 ? one_to(rng, 12) : 0};
    check_exact(gpipe, random_pipeline(rng, Schedule::gpipe, size));
  }
}

TEST_CASE("1f1b: the estimate equals the simulator for few micro-batches") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(2, seed);
    const int devices = one_to(rng, 8);
    const Size size{devices, 1, one_to(rng, 3 * devices + 4), rng.below(3) == 0 ? one_to(rng, 12) : 0};
    check_exact(one_f_one_b, random_pipeline(rng, Schedule::one_f_one_b, size));
  }
}

// Of 8 s in the cycle of two stages of 3 s and two messages of 1 s, a warm-up of w forwards shares w + 1
// micro-batches: 4 s, 2.67 s. A stage needs 3 s.
TEST_CASE("eager-1f1b: a longer warm-up hides messages") {
  PipelineWork work = even_work(2, 1000, 0, 1);
  work.max_warm_ups = {1000, 1000};
  CHECK(alternating_steady_s(work, {1, 0}) == Approx(4));
  CHECK(alternating_steady_s(work, {2, 0}) == Approx(3));
  CHECK(choose_warm_ups(work) == std::vector{2, 0});
  CHECK(pipeline_time(eager_one_f_one_b, work).steady_s == Approx(3));
  work.max_warm_ups = {1, 1};
  CHECK(choose_warm_ups(work) == std::vector{1, 0});
  CHECK(seconds_of(eager_one_f_one_b, work) == Approx(seconds_of(one_f_one_b, work)));
}

TEST_CASE("eager-1f1b: warm-ups of more forwards than micro-batches compute all forwards first") {
  PipelineWork work = even_work(3, 5, 0.5, 0.25);
  work.warm_ups = {1'000'000'000, 999'999'999, 0};
  const double most_s = seconds_of(eager_one_f_one_b, work);
  work.warm_ups = {5, 5, 0};
  CHECK(most_s == seconds_of(eager_one_f_one_b, work));
}

TEST_CASE("eager-1f1b: no warm-ups within the limits have a shorter steady state, or are shorter") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(7, seed);
    const int most = 8;
    PipelineWork work = random_pipeline(rng, eager_one_f_one_b, {3, 1, 50}).work;
    work.max_warm_ups = {one_to(rng, most), one_to(rng, most), 0};
    const std::vector<int> chosen = choose_warm_ups(work);
    const double steady_s = alternating_steady_s(work, chosen);
    for (int second = 1; second <= std::max(1, work.max_warm_ups[1]); ++second)
      for (int first = second + 1; first <= std::max(2, work.max_warm_ups[0]); ++first) {
        CAPTURE(first, second);
        const double other_s = alternating_steady_s(work, {first, second, 0});
        CHECK(steady_s <= other_s * 1.0011);
        if (first < chosen[0] || second < chosen[1]) CHECK(other_s >= steady_s * (1 - 1e-6));
      }
  }
}

TEST_CASE("eager-1f1b: the estimate equals the simulator for few micro-batches") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(8, seed);
    const int devices = one_to(rng, 8);
    const Size size{devices, 1, one_to(rng, 3 * devices + 4), rng.below(3) == 0 ? one_to(rng, 12) : 0};
    const auto messaging = rng.below(2) == 0 ? Messaging::ahead : Messaging::torch;
    RandomPipeline it = random_pipeline(rng, eager_one_f_one_b, size, messaging);
    set_warm_ups(rng, 2, it);
    check_exact(eager_one_f_one_b, it);
  }
}

TEST_CASE("zb-greedy: the estimate equals the simulator for few micro-batches") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(9, seed);
    const int devices = one_to(rng, 8);
    const auto messaging = rng.below(2) == 0 ? Messaging::ahead : Messaging::torch;
    RandomPipeline it =
        random_pipeline(rng, zero_bubble_greedy, {devices, 1, one_to(rng, 3 * devices + 4)}, messaging);
    set_passes(rng, 2 * devices, it);
    check_exact(zero_bubble_greedy, it);
  }
}

TEST_CASE("interleaved: the estimate equals the simulator for few micro-batches") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(3, seed);
    const int devices = one_to(rng, 5);
    const Size size{devices, one_to(rng, 4), devices * one_to(rng, 5),
                    rng.below(3) == 0 ? devices * one_to(rng, 2) : 0};
    check_exact(interleaved, random_pipeline(rng, Schedule::interleaved, size));
  }
}

TEST_CASE("unrolled schedules: the estimate equals the simulator for few micro-batches") {
  for (const Schedule schedule : {Schedule::zero_bubble_h1, Schedule::one_f_one_b_blocking})
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(schedule, seed);
      Rng rng = Rng::for_task(5, seed);
      const int devices = one_to(rng, 8);
      Size size{devices, 1, one_to(rng, 6 * devices), rng.below(3) == 0 ? one_to(rng, 12) : 0};
      if (traits(schedule).splits_backward) size.flush = 0;  // rounds overlap, and the estimate is a bound
      check_exact(schedule, random_pipeline(rng, schedule, size));
    }
}

TEST_CASE("receives posted as trainers do: the estimate equals the simulator for few micro-batches") {
  const std::pair<Messaging, Schedule> pairs[] = {{Messaging::torch, gpipe},
                                                  {Messaging::torch, one_f_one_b},
                                                  {Messaging::torch, Schedule::one_f_one_b_blocking},
                                                  {Messaging::torch, interleaved},
                                                  {Messaging::torch, Schedule::zero_bubble_h1},
                                                  {Messaging::megatron, one_f_one_b},
                                                  {Messaging::megatron, interleaved},
                                                  {Messaging::deepspeed, one_f_one_b}};
  for (const auto& [messaging, schedule] : pairs)
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(messaging, schedule, seed);
      Rng rng = Rng::for_task(7, seed);
      const bool has_chunks = traits(schedule).has_chunks;
      const int devices = has_chunks ? 1 + one_to(rng, 4) : one_to(rng, 7);
      Size size{devices, 1, one_to(rng, 6 * devices), rng.below(3) == 0 ? one_to(rng, 12) : 0};
      if (has_chunks) size = {devices, 1 + one_to(rng, 3), devices * one_to(rng, 5), 0};
      if (traits(schedule).splits_backward) size.flush = 0;  // rounds overlap, and the estimate is a bound
      check_exact(schedule, random_pipeline(rng, schedule, size, messaging));
    }
}

TEST_CASE("zb-h1: with flushes the estimate is an upper bound") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(6, seed);
    const Size size{2 + one_to(rng, 4), 1, one_to(rng, 12), one_to(rng, 4)};
    const RandomPipeline it = random_pipeline(rng, Schedule::zero_bubble_h1, size);
    CHECK(seconds_of(Schedule::zero_bubble_h1, it.work) >= simulated(it).end_s * (1 - 1e-9));
  }
}

// f = b = w = 1 s (Qi et al., arXiv 2401.10241, table 2).
TEST_CASE("zb-h1: the bubble is (p - 1)(f + b - w)") {
  for (int p = 1; p <= 8; ++p)
    for (int m : {p, p + 1, 4 * p, 100}) {
      CAPTURE(p, m);
      PipelineWork work = even_work(p, m);
      work.weight_gradient_s.assign(at(p), 1);
      CHECK(seconds_of(Schedule::zero_bubble_h1, work) == Approx(3 * m + p - 1));
    }
}

// Two stages, f = 1 s, b = 2 s, messages 0.5 s. The first stage sends from 1 to 1.5 and from 2.5 to 3, the
// last one computes from 1.5 to 4.5, sends until 5, and computes from 5 to 8. The first stage computes from 5
// to 7, and after the second message from 8.5 to 10.5.
TEST_CASE("1f1b-blocking: a device waits for its messages") {
  CHECK(seconds_of(Schedule::one_f_one_b_blocking, even_work(2, 2, 0.5)) == Approx(10.5));
  CHECK(seconds_of(Schedule::one_f_one_b_blocking, even_work(2, 2)) == Approx(9));
}

TEST_CASE("extrapolated steady states are within 1 % of the simulator for thousands of micro-batches") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(4, seed);
    const int devices = one_to(rng, 6);
    const RandomPipeline alternating =
        random_pipeline(rng, Schedule::one_f_one_b, {devices, 1, 1000 + one_to(rng, 1000)});
    CHECK(seconds_of(one_f_one_b, alternating.work) == Approx(simulated(alternating).end_s).epsilon(0.01));
    const RandomPipeline chunked = random_pipeline(
        rng, Schedule::interleaved, {devices, one_to(rng, 3), devices * (200 + one_to(rng, 200))});
    CHECK(seconds_of(interleaved, chunked.work) == Approx(simulated(chunked).end_s).epsilon(0.01));
    RandomPipeline eager = random_pipeline(rng, eager_one_f_one_b, {devices, 1, 1000 + one_to(rng, 1000)});
    set_warm_ups(rng, 4, eager);
    CHECK(seconds_of(eager_one_f_one_b, eager.work) == Approx(simulated(eager).end_s).epsilon(0.01));
    RandomPipeline ordered = random_pipeline(rng, zero_bubble_greedy, {devices, 1, 1000 + one_to(rng, 1000)});
    set_passes(rng, 8, ordered);
    CHECK(seconds_of(zero_bubble_greedy, ordered.work) == Approx(simulated(ordered).end_s).epsilon(0.01));
    for (const Schedule schedule : {Schedule::zero_bubble_h1, Schedule::one_f_one_b_blocking}) {
      CAPTURE(schedule);
      const RandomPipeline unrolled = random_pipeline(rng, schedule, {devices, 1, 1000 + one_to(rng, 1000)});
      CHECK(seconds_of(schedule, unrolled.work) == Approx(simulated(unrolled).end_s).epsilon(0.01));
    }
  }
}
