// Checks that incremental rates equal rates computed from scratch.
#include "simulator/network/fluid_network.hpp"

#include <algorithm>
#include <optional>

#include "simulator/network/level_network.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/max_min_fairness.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// The next flow to end is the one with the least remaining time.
template <class Network>
void check_next_end(const Network& network, const std::vector<int>& numbers) {
  double least = std::numeric_limits<double>::infinity();
  for (const int flow : numbers) least = std::min(least, network.ends().end(flow));
  if (least < std::numeric_limits<double>::infinity())
    CHECK(network.ends().next().date == Approx(least).epsilon(1e-9));
}

/// A network together with its contents, so that incremental rates can be compared with rates computed from
/// scratch.
struct CheckedNetwork {
  explicit CheckedNetwork(std::vector<LinkCapacity> made) : links(std::move(made)), network(links) {}

  std::vector<LinkCapacity> links;
  FluidNetwork network;
  std::vector<FlowDemand> flows;
  std::vector<int> numbers;

  void add(Rng& rng) {
    const FlowDemand flow = random_flow(rng, links.size());
    numbers.push_back(network.add(flow.uses, 1e6, flow.weight, flow.rate_cap));
    flows.push_back(flow);
  }
  void remove(std::size_t i) {
    network.remove(numbers[i]);
    flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(i));
    numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void change(Rng& rng) {
    const std::uint32_t kind = rng.below(8);
    if (kind == 0) {
      const std::uint32_t link = rng.below(static_cast<std::uint32_t>(links.size()));
      links[link].capacity = random_capacity(rng);
      network.set_capacity(static_cast<int>(link), links[link].capacity);
    } else if (kind <= 3 && !numbers.empty()) {
      remove(rng.below(static_cast<std::uint32_t>(numbers.size())));
    } else {
      add(rng);
    }
  }
  void check() const {
    const std::vector<double> expected = max_min_rates(links, flows);
    for (std::size_t i = 0; i < flows.size(); ++i)
      CHECK(network.rate(numbers[i]) == Approx(expected[i]).epsilon(1e-7).margin(1e-9));
    check_next_end(network, numbers);
  }
};

}  // namespace

TEST_CASE("rates after any changes equal those of the whole system") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 1);
    CheckedNetwork checked(random_links(rng));
    for (int step = 0; step < 60; ++step) {
      INFO("step " << step);
      const double now = 0.01 * step;
      for (std::uint32_t i = 0; i < 1 + rng.below(3); ++i) checked.change(rng);
      checked.network.update_rates(now);
      checked.check();
    }
  }
}

TEST_CASE("rates after single changes equal those of the whole system") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 7);
    CheckedNetwork checked(random_links(rng));
    for (int step = 0; step < 200; ++step) {
      INFO("step " << step);
      const std::uint32_t count = rng.below(4) == 0 ? 1 + rng.below(3) : 1;
      for (std::uint32_t i = 0; i < count; ++i) checked.change(rng);
      checked.network.update_rates(0.01 * step);
      checked.check();
    }
  }
}

// Messages between peers use one uplink and one downlink each; then any uses, as above, and links that are
// added later.
TEST_CASE("iterated link levels converge to the rates of the whole system") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 12);
    const bool messages = seed % 2 == 0;
    LevelNetwork network;
    std::vector<LinkCapacity> links(2 + rng.below(messages ? 30 : 12));
    const bool equal = rng.below(3) == 0;
    for (LinkCapacity& link : links) {
      link.capacity = equal ? 1 : random_capacity(rng);
      network.add_link(link.capacity);
    }
    const std::uint32_t half = static_cast<std::uint32_t>(links.size()) / 2;
    std::vector<FlowDemand> flows;
    std::vector<int> numbers;
    const auto add = [&] {
      FlowDemand flow = random_flow(rng, links.size());
      if (messages)
        flow.uses = {{static_cast<int>(rng.below(half))}, {static_cast<int>(half + rng.below(half))}};
      numbers.push_back(network.add(flow.uses, 1e6, flow.weight, flow.rate_cap));
      flows.push_back(flow);
    };
    const auto remove = [&](std::ptrdiff_t i) {
      network.remove(numbers[static_cast<std::size_t>(i)]);
      flows.erase(flows.begin() + i);
      numbers.erase(numbers.begin() + i);
    };
    for (int step = 0; step < 150; ++step) {
      INFO("step " << step);
      for (std::uint32_t i = 0; i < 1 + rng.below(3); ++i) {
        if (!messages && rng.below(16) == 0) {
          links.push_back({random_capacity(rng)});
          CHECK(network.add_link(links.back().capacity) == static_cast<int>(links.size()) - 1);
        }
        if (rng.below(16) < 7 && !numbers.empty())
          remove(static_cast<std::ptrdiff_t>(rng.below(static_cast<std::uint32_t>(numbers.size()))));
        else
          add();
      }
      network.update_rates(0.01 * step);
      const std::vector<double> expected = max_min_rates(links, flows);
      for (std::size_t i = 0; i < flows.size(); ++i)
        CHECK(network.rate(numbers[i]) == Approx(expected[i]).epsilon(1e-9).margin(1e-12));
      check_next_end(network, numbers);
    }
  }
}

TEST_CASE("end times follow the changes of rates") {
  // Flows 0 and 1 share a link; 2 is alone on another.
  const std::vector<LinkCapacity> links = {{2}, {4}};
  FluidNetwork network(links);
  const FlowEnds& ends = network.ends();
  const auto add = [&](int link, double rate_cap) {
    return network.add(std::vector<LinkUse>{{link}}, 8, 1, rate_cap);
  };
  const int first = add(0, 100), alone = add(1, 100);
  network.update_rates(0);
  CHECK(ends.end(first) == Approx(4));
  CHECK(ends.end(alone) == Approx(2));
  CHECK(ends.next().flow == alone);
  CHECK(ends.next().date == Approx(2));
  const int second = add(0, 100);
  network.update_rates(1);
  CHECK(ends.end(first) == Approx(7));  // 2 of 8 have been sent; 6 remain at rate 1
  CHECK(ends.end(second) == Approx(9));
  network.set_capacity(0, 0);
  network.remove(alone);
  network.update_rates(2);
  CHECK(ends.end(first) == std::numeric_limits<double>::infinity());
  CHECK(ends.next().flow == FlowEnds::none);
  CHECK(ends.remaining(first, 5) == Approx(5));
  network.set_capacity(0, 10);
  network.update_rates(5);
  CHECK(ends.end(first) == Approx(6));
  CHECK(ends.next().flow == first);
  network.remove(first);
  network.update_rates(6);
  CHECK(ends.end(second) == Approx(6.2));  // 7 remained at rate 2; 5 of them by 6; then 2 at rate 10
}
