#include "planner/search/comm_cost/lower_bound.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/random_networks.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

const auto never = [] { return false; };
const auto stop_immediately = [] { return true; };
constexpr double rounding = 1e-12;

double identity_cost(const CommCostModel& model) {
  Placement placement(model.stages, model.replicas);
  for (int device = 0; device < model.devices(); ++device)
    placement.at(device % model.stages, device / model.stages) = device;
  return comm_cost(model, placement).total();
}

std::vector<double> proven_bounds(const CommCostModel& model, double upper_bound) {
  std::vector<double> values;
  prove_lower_bound(model, upper_bound, never,
                    [&](const LowerBound& bound) { values.push_back(bound.value); });
  return values;
}

void check_increasing(const std::vector<double>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) CHECK(values[i] > values[i - 1]);
}

}  // namespace

// 7 kinds × 8 shapes × 8 seeds.
TEST_CASE("no bound exceeds the optimum and a proof reaches it") {
  const auto network = GENERATE(from_range(all_networks));
  for (const auto& [stages, replicas] :
       {std::pair{1, 4}, std::pair{4, 1}, std::pair{2, 2}, std::pair{3, 2}, std::pair{2, 3}, std::pair{4, 2},
        std::pair{2, 4}, std::pair{3, 3}}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      INFO("network " << static_cast<int>(network) << ", " << stages << " × " << replicas << ", seed "
                      << seed);
      Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(100 + stages * 10 + replicas));
      const CommCostModel model = random_model(rng, network, stages, replicas);
      const double optimum = exhaustive_optimum(model);
      for (const double upper_bound : {optimum, optimum * (1 + 1e-9), identity_cost(model)}) {
        CAPTURE(upper_bound, optimum);
        for (const auto& bound : {quick_lower_bound(model, upper_bound, never),
                                  quick_lower_bound(model, upper_bound, stop_immediately)}) {
          CHECK(bound.value <= std::min(upper_bound, optimum * (1 + rounding)));
          CHECK(bound.value >= 0);
          CHECK_FALSE(bound.method.empty());
        }
        const auto values = proven_bounds(model, upper_bound);
        check_increasing(values);
        REQUIRE_FALSE(values.empty());
        CHECK(values.back() <= optimum * (1 + rounding));
        CHECK(values.back() == Approx(optimum).epsilon(1e-9));
      }
    }
  }
}

// Two sites of two devices: synchronization costs 1 within a site and 5 between, hops 3 within and 7 between.
// With sites as groups: 1 + 7; with one device of each site per group: 5 + 3. With the fastest links alone: 1
// + 3.
TEST_CASE("the quick bound has the value derived by hand") {
  CommCostModel model = empty_model(2, 2);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      model.sync(a, b) = a / 2 == b / 2 ? 1 : 5;
      model.hop(a, b) = a / 2 == b / 2 ? 3 : 7;
    }
  }
  const LowerBound stopped = quick_lower_bound(model, 8, stop_immediately);
  CHECK(stopped.value >= 4 * (1 - rounding));
  CHECK(stopped.value <= 8);
  const LowerBound bound = quick_lower_bound(model, 8, never);
  CHECK(bound.value == 8);
  CHECK(bound.method == "exhaustive search over group compositions of 2 classes of interchangeable devices");
}
