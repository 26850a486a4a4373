// Checks max-min fair rates against their definition.
#include "tests/support/max_min_rates.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/max_min_fairness.hpp"

using namespace dtfm;
using namespace dtfm::sim;

TEST_CASE("three links saturate at three levels") {
  // A = 1 limits f1 … f3 to 1/3; C = 1/2 limits f5; B = 1 leaves 2/3 to f4, which shares it with f1.
  const std::vector<LinkCapacity> links = {{1}, {1}, {0.5}};
  const std::vector<FlowDemand> flows = {{{{0}, {1}}}, {{{0}}}, {{{0}}}, {{{1}}}, {{{2}}}};
  const std::vector<double> rates = max_min_rates(links, flows);
  for (const std::size_t i : {0u, 1u, 2u}) CHECK(rates[i] == Approx(1.0 / 3));
  CHECK(rates[3] == Approx(2.0 / 3));
  CHECK(rates[4] == Approx(0.5));
}

TEST_CASE("weights and rate caps and fat pipes are taken into account") {
  const std::vector<LinkCapacity> links = {{3}, {1, Sharing::fatpipe}};
  const std::vector<double> weighted = max_min_rates(links, std::vector<FlowDemand>{{{{0}}, 2}, {{{0}}, 1}});
  CHECK(weighted[0] == Approx(2));
  CHECK(weighted[1] == Approx(1));
  const std::vector<double> piped =
      max_min_rates(links, std::vector<FlowDemand>{{{{1}}}, {{{1}}}, {{{0}}, 1, 0.25}});
  CHECK(piped == std::vector<double>{1, 1, 0.25});
}

TEST_CASE("rates are fair on random networks") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 0);
    const std::vector<LinkCapacity> links = random_links(rng);
    std::vector<FlowDemand> flows(rng.below(30));
    for (FlowDemand& flow : flows) flow = random_flow(rng, links.size());
    check_max_min_fair(links, flows, max_min_rates(links, flows));
  }
}
