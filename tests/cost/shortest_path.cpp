#include "planner/cost/comm_cost/shortest_path.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

std::vector<int> identity(int nodes) {
  std::vector<int> order(at(nodes));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int> random_order(Rng& rng, int nodes) {
  auto order = identity(nodes);
  rng.shuffle(std::span(order));
  return order;
}

/// Returns weights with at most `values` distinct values, or all different if `values` is 0.
Eigen::MatrixXd random_weights(Rng& rng, int nodes, std::uint32_t values) {
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(nodes, nodes);
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < a; ++b)
      weights(a, b) = weights(b, a) = values == 0 ? rng.uniform() : 1 + rng.below(values);
  return weights;
}

/// Returns the sum over consecutive nodes, computed independently of the code under test.
double length_of(const Eigen::MatrixXd& weights, const std::vector<int>& order) {
  double length = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) length += weights(order[i], order[i + 1]);
  return length;
}

double brute_force(const Eigen::MatrixXd& weights) {
  auto order = identity(static_cast<int>(weights.rows()));
  double shortest = std::numeric_limits<double>::infinity();
  do shortest = std::min(shortest, length_of(weights, order));
  while (std::next_permutation(order.begin(), order.end()));
  return shortest;
}

bool is_permutation_of_all(std::vector<int> order, int nodes) {
  std::sort(order.begin(), order.end());
  return order == identity(nodes);
}

/// Returns the length of the shortest path that one 2-opt or Or-opt move leads to: every segment reversed,
/// and every segment of up to three nodes moved to every other position in either direction. Each path is
/// measured in full.
double best_neighbour(const Eigen::MatrixXd& weights, const std::vector<int>& order) {
  double best = std::numeric_limits<double>::infinity();
  const std::size_t n = order.size();
  const auto position = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  for (std::size_t first = 0; first < n; ++first) {
    for (std::size_t end = first + 1; end <= n; ++end) {
      auto path = order;
      std::reverse(path.begin() + position(first), path.begin() + position(end));
      best = std::min(best, length_of(weights, path));
      if (end - first > 3) continue;
      std::vector<int> segment(order.begin() + position(first), order.begin() + position(end));
      auto rest = order;
      rest.erase(rest.begin() + position(first), rest.begin() + position(end));
      for (int way = 0; way < 2; ++way) {
        for (std::size_t place = 0; place <= rest.size(); ++place) {
          auto moved = rest;
          moved.insert(moved.begin() + position(place), segment.begin(), segment.end());
          best = std::min(best, length_of(weights, moved));
        }
        std::reverse(segment.begin(), segment.end());
      }
    }
  }
  return best;
}

}  // namespace

// Four towns: 0–1 takes 1, 1–2 takes 5, 2–3 takes 1, 3–0 takes 2, 0–2 takes 9, 1–3 takes 9. The best path is
// 1, 0, 3, 2 with 1 + 2 + 1, in either direction. The shortest edges, 0–1 and 2–3, can be joined by an edge
// of 2, 5, 9 or 9.
TEST_CASE("four towns have the shortest path derived by hand") {
  Eigen::MatrixXd weights(4, 4);
  weights << 0, 1, 9, 2,  //
      1, 0, 5, 9,         //
      9, 5, 0, 1,         //
      2, 9, 1, 0;
  const auto order = shortest_path(weights);
  CHECK(path_length(weights, order) == 4);
  CHECK((order == std::vector<int>{1, 0, 3, 2} || order == std::vector<int>{2, 3, 0, 1}));
  CHECK(path_length(weights, identity(4)) == 1 + 5 + 1);
}

TEST_CASE("up to eight nodes the path is the shortest of all") {
  for (int nodes = 1; nodes <= 8; ++nodes) {
    for (std::uint32_t values : {0u, 1u, 2u, 4u}) {
      for (std::uint64_t seed = 0; seed < (nodes < 8 ? 10u : 3u); ++seed) {
        CAPTURE(nodes, values, seed);
        Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(nodes) * 10 + values);
        const auto weights = random_weights(rng, nodes, values);
        const auto order = shortest_path(weights, random_order(rng, nodes));
        REQUIRE(is_permutation_of_all(order, nodes));
        REQUIRE(length_of(weights, order) == Approx(brute_force(weights)).epsilon(1e-12));
        REQUIRE(path_length(weights, order) == Approx(length_of(weights, order)).epsilon(1e-12));
      }
    }
  }
}

// Nodes on a line in random order: the distances are |i − j|, so the shortest path follows the line and has
// length n − 1.
TEST_CASE("the path through sixteen nodes on a line follows the line") {
  Rng rng = Rng::for_task(3, 0);
  const auto where = random_order(rng, max_exact_path_nodes);
  Eigen::MatrixXd weights(max_exact_path_nodes, max_exact_path_nodes);
  for (int a = 0; a < max_exact_path_nodes; ++a)
    for (int b = 0; b < max_exact_path_nodes; ++b) weights(a, b) = std::abs(where[at(a)] - where[at(b)]);
  const auto order = shortest_path(weights);
  CHECK(is_permutation_of_all(order, max_exact_path_nodes));
  CHECK(length_of(weights, order) == max_exact_path_nodes - 1);
}

TEST_CASE("paths of one and of two nodes are trivial") {
  CHECK(shortest_path(Eigen::MatrixXd::Zero(1, 1)) == std::vector<int>{0});
  CHECK(improve_path(Eigen::MatrixXd::Zero(1, 1), {0}) == std::vector<int>{0});
  Eigen::MatrixXd weights(2, 2);
  weights << 0, 3, 3, 0;
  CHECK(is_permutation_of_all(shortest_path(weights), 2));
  CHECK(path_length(weights, shortest_path(weights)) == 3);
  CHECK(is_permutation_of_all(improve_path(weights, {1, 0}), 2));
  CHECK(path_length(weights, std::vector<int>{}) == 0);
  CHECK(path_length(weights, std::vector<int>{1}) == 0);
}

TEST_CASE("an improved path is no longer than its start and no move shortens it") {
  for (int nodes : {2, 3, 4, 5, 8, 17, 40}) {
    for (std::uint32_t values : {0u, 1u, 3u, 20u}) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(nodes, values, seed);
        Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(nodes) * 100 + values);
        const auto weights = random_weights(rng, nodes, values);
        const auto start = random_order(rng, nodes);
        const auto order = improve_path(weights, start);
        REQUIRE(is_permutation_of_all(order, nodes));
        const double length = length_of(weights, order);
        REQUIRE(length <= length_of(weights, start));
        REQUIRE(length <= best_neighbour(weights, order) * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("beyond the exact size the path is locally optimal and never longer than the start") {
  for (int nodes : {17, 40}) {
    for (std::uint32_t values : {0u, 1u, 3u}) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(nodes, values, seed);
        Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(nodes) * 100 + values);
        const auto weights = random_weights(rng, nodes, values);
        const auto start = random_order(rng, nodes);
        for (const auto& order : {shortest_path(weights, start), shortest_path(weights)}) {
          REQUIRE(is_permutation_of_all(order, nodes));
          const double length = length_of(weights, order);
          REQUIRE(length <= best_neighbour(weights, order) * (1 + 1e-9));
        }
        REQUIRE(length_of(weights, shortest_path(weights, start)) <=
                length_of(weights, improve_path(weights, start)));
        REQUIRE(length_of(weights, shortest_path(weights)) <= length_of(weights, identity(nodes)));
      }
    }
  }
}
