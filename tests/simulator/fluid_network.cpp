// Step by step and all at once are the same.
#include "simulator/network/fluid_network.hpp"

#include <algorithm>
#include <optional>

#include "tests/support/catch.hpp"
#include "tests/support/fair.hpp"

using namespace dtfm;

namespace {

/// A network and, beside it, what is in it: rates computed from nothing must be those computed step by step.
struct Twin {
  explicit Twin(std::vector<LinkCapacity> made) : links(std::move(made)), network(links) {}

  std::vector<LinkCapacity> links;
  FluidNetwork network;
  std::vector<FlowDemand> flows;
  std::vector<int> numbers;

  void add(Rng& rng, double now) {
    const FlowDemand flow = random_flow(rng, links.size());
    numbers.push_back(network.add(flow.uses, 1e6, flow.weight, flow.ceiling, now));
    flows.push_back(flow);
  }
  void remove(std::size_t i) {
    network.remove(numbers[i]);
    flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(i));
    numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void change(Rng& rng, double now) {
    const std::uint32_t kind = rng.below(8);
    if (kind == 0) {
      const std::uint32_t link = rng.below(static_cast<std::uint32_t>(links.size()));
      links[link].capacity = random_capacity(rng);
      network.set_capacity(static_cast<int>(link), links[link].capacity);
    } else if (kind <= 3 && !numbers.empty()) {
      remove(rng.below(static_cast<std::uint32_t>(numbers.size())));
    } else {
      add(rng, now);
    }
  }
  void check() const {
    const std::vector<double> expected = max_min_rates(links, flows);
    for (std::size_t i = 0; i < flows.size(); ++i)
      CHECK(network.rate(numbers[i]) == Approx(expected[i]).epsilon(1e-7).margin(1e-9));
  }
};

}  // namespace

TEST_CASE("rates after any changes are those of the whole system") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 1);
    Twin twin(random_links(rng));
    for (int step = 0; step < 60; ++step) {
      INFO("step " << step);
      const double now = 0.01 * step;
      for (std::uint32_t i = 0; i < 1 + rng.below(3); ++i) twin.change(rng, now);
      twin.network.settle(now);
      twin.check();
    }
  }
}

TEST_CASE("only flows that feel a change get a new end") {
  // 0 and 1 share a link; 2 is alone on another, and 3 shares that of 2 but is held by its ceiling.
  const std::vector<LinkCapacity> links = {{2}, {4}};
  FluidNetwork network(links);
  const auto add = [&](int link, double ceiling, double now) {
    return network.add(std::vector<LinkUse>{{link}}, 8, 1, ceiling, now);
  };
  const int first = add(0, 100, 0), alone = add(1, 100, 0);
  CHECK(network.settle(0).size() == 2);
  CHECK(network.end(first) == Approx(4));
  CHECK(network.end(alone) == Approx(2));
  const int second = add(0, 100, 1);
  const auto changed = network.settle(1);
  CHECK(std::find(changed.begin(), changed.end(), alone) == changed.end());
  CHECK(network.end(first) == Approx(7));  // 2 of 8 have moved; 6 at 1
  CHECK(network.end(second) == Approx(9));
  network.set_capacity(0, 0);
  network.settle(2);
  CHECK(network.end(first) == std::numeric_limits<double>::infinity());
  CHECK(network.remaining(first, 5) == Approx(5));
  network.set_capacity(0, 10);
  network.settle(5);
  CHECK(network.end(first) == Approx(6));
  network.remove(first);
  network.settle(6);
  CHECK(network.end(second) == Approx(6.2));  // 7 were left at 2; 5 of them by 6; then 2 at 10
}
