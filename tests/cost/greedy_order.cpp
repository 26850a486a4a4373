#include "planner/cost/iteration_time/greedy_order.hpp"

#include <algorithm>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/base/rng.hpp"
#include "core/io/text/pass_order.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

using Kind = Operation::Kind;

int up_to(Rng& rng, int most) {
  return static_cast<int>(rng.below(static_cast<std::uint32_t>(most + 1)));
}

/// Stages of similar times, between them messages of up to `longest_s`, and memory for up to `more`
/// micro-batches more than under 1F1B.
PipelineWork random_work(Rng& rng, int stages, int micro_batches, double longest_s, int more) {
  PipelineWork work;
  work.micro_batches = micro_batches;
  for (int stage = 0; stage < stages; ++stage) {
    const double seconds = 0.6 + 0.4 * rng.uniform();
    work.forward_s.push_back(seconds);
    work.backward_s.push_back((2 + rng.below(2)) * seconds);  // with or without recomputation
    work.weight_gradient_s.push_back(seconds);
    work.max_warm_ups.push_back(std::min(micro_batches, stages - stage - 1 + up_to(rng, more)));
    if (stage + 1 == stages) break;
    work.forward_hops.push_back({0.2 * rng.uniform(), longest_s * rng.uniform()});
    work.backward_hops.push_back({0.2 * rng.uniform(), longest_s * rng.uniform()});
  }
  return work;
}

double seconds_of(PipelineWork work, std::vector<PassOrder> passes) {
  work.passes = std::move(passes);
  return pipeline_time(Schedule::zero_bubble_greedy, work).end_s;
}

/// Visits all orders of `micro_batches` in which at most `most` are in flight.
template <class Visit>
void for_each_order(int micro_batches, int most, PassOrder& order, const Visit& visit) {
  int done[3] = {0, 0, 0};
  for (const Kind it : order) ++done[static_cast<int>(it)];
  if (done[2] == micro_batches) return visit();
  const bool may[3] = {done[0] < micro_batches && done[0] - done[2] < most, done[1] < done[0],
                       done[2] < done[1]};
  for (const Kind kind : {Kind::forward, Kind::backward, Kind::weight_gradient}) {
    if (!may[static_cast<int>(kind)]) continue;
    order.push_back(kind);
    for_each_order(micro_batches, most, order, visit);
    order.pop_back();
  }
}

std::vector<PassOrder> all_orders(int micro_batches, int most) {
  std::vector<PassOrder> all;
  PassOrder order;
  for_each_order(micro_batches, most, order, [&] { all.push_back(order); });
  return all;
}

/// The shortest time over all orders of all stages within the memory.
double shortest_s(const PipelineWork& work) {
  const std::size_t stages = work.forward_s.size();
  std::vector<std::vector<PassOrder>> orders;
  for (const int warm_up : work.max_warm_ups) orders.push_back(all_orders(work.micro_batches, warm_up + 1));
  double best = infinity;
  std::vector<std::size_t> chosen(stages);
  for (;;) {
    std::vector<PassOrder> passes;
    std::vector<const PassOrder*> pointers;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      passes.push_back(orders[stage][chosen[stage]]);
      pointers.push_back(&orders[stage][chosen[stage]]);
    }
    if (can_complete(pointers)) best = std::min(best, seconds_of(work, std::move(passes)));
    std::size_t stage = 0;
    while (stage < stages && ++chosen[stage] == orders[stage].size()) chosen[stage++] = 0;
    if (stage == stages) return best;
  }
}

}  // namespace

// F = 1 s, I = 1 s, W = 1 s, no messages, memory for 3 and 2 micro-batches. The second stage begins after 1 s
// and computes 3 · 3 s without a pause, and the first one 9 s before.
TEST_CASE("weight gradients fill the time in which the last gradient returns") {
  PipelineWork work;
  work.micro_batches = 3;
  work.forward_s = work.weight_gradient_s = {1, 1};
  work.backward_s = {2, 2};
  work.forward_hops = work.backward_hops = {{0, 0}};
  work.max_warm_ups = {2, 1};
  const std::vector<PassOrder> passes = search_passes(work);
  CHECK(io::format_passes(passes[1]) == "(FI)*2 W F I W*2");
  CHECK(seconds_of(work, passes) == Approx(10));
  CHECK(shortest_s(work) == Approx(10));
}

TEST_CASE("found orders of tiny pipelines are as fast as the best of all orders") {
  double worst = 0;
  for (const auto& [stages, micro_batches] : {std::pair(2, 2), {2, 3}, {3, 2}})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(stages, micro_batches, seed);
      Rng rng = Rng::for_task(3, seed);
      const PipelineWork work = random_work(rng, stages, micro_batches, 2 * rng.uniform(), 3);
      const double best = shortest_s(work), found = seconds_of(work, search_passes(work));
      CHECK(found >= best * (1 - 1e-12));
      worst = std::max(worst, found / best - 1);
    }
  UNSCOPED_INFO("worst " << worst);
  CHECK(worst < 1e-9);  // measured: 2e-16
}

TEST_CASE("found orders stay within memory, and are not slower than zb-h1 within it") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(4, seed);
    const int stages = 1 + up_to(rng, 6), micro_batches = 1 + up_to(rng, 40);
    const PipelineWork work = random_work(rng, stages, micro_batches, 3 * rng.uniform(), 12);
    const std::vector<PassOrder> passes = search_passes(work);
    bool zero_bubble_fits = true;
    for (int stage = 0; stage < stages; ++stage) {
      CHECK(max_in_flight(passes[at(stage)]) <= std::max(stages - stage, work.max_warm_ups[at(stage)] + 1));
      if (zero_bubble_h1_in_flight({stages, stage, 1, micro_batches}) > work.max_warm_ups[at(stage)] + 1)
        zero_bubble_fits = false;
    }
    if (zero_bubble_fits)
      CHECK(seconds_of(work, passes) <= pipeline_time(Schedule::zero_bubble_h1, work).end_s * (1 + 1e-12));
  }
}

TEST_CASE("without shared links, the estimate without an order is that of the alternating order") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(6, seed);
    const PipelineWork work = random_work(rng, 1 + up_to(rng, 6), 1 + up_to(rng, 12), 3 * rng.uniform(), 12);
    const std::vector<PassOrder> passes = alternating_passes(work, zero_bubble_limits(work, usual_scale));
    CHECK(pipeline_time(Schedule::zero_bubble_greedy, work).end_s ==
          Approx(seconds_of(work, passes)).epsilon(1e-9));
  }
}

TEST_CASE("the estimate without an order is close to that of the order that is found") {
  double sum = 0, low = 0, high = 0;
  constexpr int count = 100;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(5, seed);
    const int stages = 1 + up_to(rng, 7), micro_batches = 1 + up_to(rng, 200);
    const PipelineWork work = random_work(rng, stages, micro_batches, 3 * rng.uniform(), 20);
    const double error =
        pipeline_time(Schedule::zero_bubble_greedy, work).end_s / seconds_of(work, search_passes(work)) - 1;
    sum += error;
    low = std::min(low, error);
    high = std::max(high, error);
  }
  UNSCOPED_INFO("mean " << sum / count << ", from " << low << " to " << high);
  CHECK(std::abs(sum / count) < 0.001);  // measured: 0.05 % in the mean, from −0.7 to 1.9 %
  CHECK(low > -0.01);
  CHECK(high < 0.025);
}
