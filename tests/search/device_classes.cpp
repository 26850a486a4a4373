#include "planner/search/comm_cost/device_classes.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/shipped_model.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

/// Whether swapping the two devices leaves both tables unchanged.
bool are_interchangeable(const CommCostModel& model, int a, int b) {
  auto permuted = [&](const Eigen::MatrixXd& matrix) {
    Eigen::MatrixXd result = matrix;
    result.row(a).swap(result.row(b));
    result.col(a).swap(result.col(b));
    return result;
  };
  return permuted(model.sync) == model.sync && permuted(model.hop) == model.hop;
}

/// Checks that `class_of` numbers the classes from 0 in the order of their first members, consistently with
/// `members`.
void check_numbering(const DeviceClasses& classes, int devices) {
  REQUIRE(static_cast<int>(classes.class_of.size()) == devices);
  int next = 0;
  for (const int c : classes.class_of) {
    REQUIRE(c >= 0);
    REQUIRE(c <= next);
    if (c == next) ++next;
  }
  REQUIRE(classes.count == next);
  const auto members = classes.members();
  REQUIRE(static_cast<int>(members.size()) == classes.count);
  std::size_t sum = 0;
  for (int c = 0; c < classes.count; ++c) {
    for (const int device : members[at(c)]) REQUIRE(classes.class_of[at(device)] == c);
    sum += members[at(c)].size();
  }
  REQUIRE(static_cast<int>(sum) == devices);
}

/// Returns devices in tight clusters: hops take 1 to 2 within a cluster and 10 to 20 between clusters.
CommCostModel clustered_model(Rng& rng, const std::vector<int>& cluster) {
  const int n = static_cast<int>(cluster.size());
  CommCostModel model = empty_model(1, n);
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < a; ++b)
      model.hop(a, b) = model.hop(b, a) = (cluster[at(a)] == cluster[at(b)] ? 1 : 10) * (1 + rng.uniform());
  return model;
}

/// Checks that each cut refines the one before it.
void check_cuts(const Dendrogram& tree, int devices) {
  DeviceClasses coarser;
  for (int count = 1; count <= devices; ++count) {
    CAPTURE(count);
    const DeviceClasses classes = tree.cut(count);
    REQUIRE(classes.count == count);
    check_numbering(classes, devices);
    std::map<int, int> parent;
    for (std::size_t device = 0; count > 1 && device < classes.class_of.size(); ++device) {
      const int outer = coarser.class_of[device];
      REQUIRE(parent.emplace(classes.class_of[device], outer).first->second == outer);
    }
    coarser = classes;
  }
  CHECK(tree.cut(0).count == 1);
  CHECK(tree.cut(devices + 5).count == devices);
}

void check_leaf_order(const Dendrogram& tree, int devices) {
  auto order = tree.leaf_order();
  std::sort(order.begin(), order.end());
  std::vector<int> all(at(devices));
  std::iota(all.begin(), all.end(), 0);
  REQUIRE(order == all);
}

/// Checks that every cluster of every cut is contiguous in the leaf order.
void check_contiguous(const Dendrogram& tree, int devices) {
  const auto order = tree.leaf_order();
  for (int count = 1; count <= devices; ++count) {
    const DeviceClasses classes = tree.cut(count);
    int changes = 1;
    for (std::size_t i = 1; i < order.size(); ++i)
      changes += classes.class_of[at(order[i])] != classes.class_of[at(order[i - 1])];
    CAPTURE(count);
    REQUIRE(changes == count);
  }
}

void check_tree(const CommCostModel& model) {
  const Dendrogram tree = cluster_devices(model);
  REQUIRE(tree.devices == model.devices());
  REQUIRE(static_cast<int>(tree.merges.size()) == model.devices() - 1);
  for (int i = 0; i + 1 < model.devices(); ++i) {
    const auto& merge = tree.merges[at(i)];
    for (const int half : {merge.left, merge.right}) {
      REQUIRE(half < model.devices() + i);
      if (half < model.devices()) continue;
      REQUIRE(tree.merges[at(half - model.devices())].distance <= merge.distance);
    }
  }
  check_cuts(tree, model.devices());
  check_leaf_order(tree, model.devices());
  check_contiguous(tree, model.devices());
}

}  // namespace

// In the data centre, each host of eight is a class. In the spot case, so is each host of four, and the 32
// other devices together are one. In the other cases, a class is a region.
TEST_CASE("the five cases have classes of interchangeable devices") {
  const std::vector<std::pair<std::string, std::vector<std::size_t>>> cases = {
      {"datacenter", {8, 8, 8, 8, 8, 8, 8, 8}},
      {"spot", {4, 4, 4, 4, 4, 4, 4, 4, 32}},
      {"spot-10g", {4, 4, 4, 4, 4, 4, 4, 4, 32}},
      {"universities", {32, 32}},
      {"regional", {16, 16, 16, 16}},
      {"worldwide", {8, 8, 8, 8, 8, 8, 8, 8}},
  };
  for (const auto& [name, sizes] : cases) {
    CAPTURE(name);
    const auto classes = interchangeable_devices(shipped_model(name));
    check_numbering(classes, 64);
    std::vector<std::size_t> found;
    for (const auto& members : classes.members()) found.push_back(members.size());
    CHECK(found == sizes);
    // the devices of a class are consecutive
    CHECK(std::is_sorted(classes.class_of.begin(), classes.class_of.end()));
  }
}

TEST_CASE("devices are in one class exactly if swapping them changes nothing") {
  for (const Network network : all_networks) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(static_cast<int>(network), seed);
      Rng rng = Rng::for_task(seed, 0);
      const CommCostModel model = random_model(rng, network, 3, 4);
      const auto classes = interchangeable_devices(model);
      check_numbering(classes, 12);
      for (int a = 0; a < 12; ++a)
        for (int b = 0; b < a; ++b)
          REQUIRE((classes.class_of[at(a)] == classes.class_of[at(b)]) == are_interchangeable(model, a, b));
    }
  }
}

TEST_CASE("with noise on every pair all devices differ") {
  Rng rng = Rng::for_task(0, 0);
  CHECK(interchangeable_devices(random_model(rng, Network::smooth, 4, 5)).count == 20);
  CHECK(interchangeable_devices(random_model(rng, Network::noisy_sites, 4, 5)).count == 20);
  CommCostModel model = shipped_model("worldwide");
  for (int a = 0; a < 64; ++a)
    for (int b = 0; b < a; ++b)
      model.hop(a, b) = model.hop(b, a) = model.hop(a, b) * (1 + 1e-9 * rng.uniform());
  CHECK(interchangeable_devices(model).count == 64);
}

// Hops are equal, but 0 and 1 synchronize with 2 at different rates. Swapping 0 and 1 changes only that.
TEST_CASE("devices can differ by synchronization cost as well as by hops") {
  CommCostModel model = empty_model(1, 3);
  model.hop << 0, 1, 1, 1, 0, 1, 1, 1, 0;
  model.sync << 0, 3, 1, 3, 0, 2, 1, 2, 0;
  CHECK(interchangeable_devices(model).count == 3);
  model.sync(1, 2) = model.sync(2, 1) = 1;
  CHECK(interchangeable_devices(model).class_of == std::vector<int>{0, 0, 1});
}

// 0–1 takes 1, 2–3 takes 2, 1–2 takes 5 and all others 9: the average between {0, 1} and {2, 3} is (9 + 9 + 5
// + 9) / 4 = 8.
TEST_CASE("four devices are clustered by average hops") {
  CommCostModel model = empty_model(1, 4);
  model.hop << 0, 1, 9, 9, 1, 0, 5, 9, 9, 5, 0, 2, 9, 9, 2, 0;
  const Dendrogram tree = cluster_devices(model);
  REQUIRE(tree.merges.size() == 3);
  CHECK(tree.merges[2].distance == Approx(8));
  CHECK(tree.cut(2).class_of == std::vector<int>{0, 0, 1, 1});
  CHECK(tree.cut(3).class_of == std::vector<int>{0, 0, 1, 2});
  CHECK(tree.cut(4).class_of == std::vector<int>{0, 1, 2, 3});
  const auto order = tree.leaf_order();  // the tighter pair comes first
  CHECK(std::set<int>(order.begin(), order.begin() + 2) == std::set<int>{0, 1});
}

TEST_CASE("trees of random networks have nested cuts of every size that are contiguous in the leaf order") {
  for (const Network network : all_networks) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(static_cast<int>(network), seed);
      Rng rng = Rng::for_task(seed, 1);
      check_tree(random_model(rng, network, 1, static_cast<int>(seed) + 1));
      check_tree(random_model(rng, network, 6, 8));
    }
  }
}

TEST_CASE("trees with many distances that are equal up to rounding are valid") {
  for (const char* name : {"datacenter", "spot", "universities", "regional", "worldwide"}) {
    CAPTURE(name);
    check_tree(shipped_model(name));
  }
  for (const double distance : {0.1, 0.3, 1.0 / 3, 0.7, 1e-3}) {
    CAPTURE(distance);
    for (const int devices : {3, 7, 11, 33, 64}) {
      CommCostModel model = empty_model(1, devices);
      model.hop.setConstant(distance);
      check_tree(model);
    }
  }
}

TEST_CASE("tight clusters are found and are contiguous") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 2);
    std::vector<int> cluster(30);
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster[i] = static_cast<int>(i) % 5;
    rng.shuffle(std::span(cluster));
    const Dendrogram tree = cluster_devices(clustered_model(rng, cluster));
    const auto found = tree.cut(5).class_of;
    for (std::size_t a = 0; a < 30; ++a)
      for (std::size_t b = 0; b < a; ++b) REQUIRE((found[a] == found[b]) == (cluster[a] == cluster[b]));
    int changes = 0;
    const auto order = tree.leaf_order();
    for (std::size_t i = 1; i < order.size(); ++i)
      changes += cluster[at(order[i])] != cluster[at(order[i - 1])];
    CHECK(changes == 4);
  }
}

TEST_CASE("a single device is a tree and a class") {
  const CommCostModel model = empty_model(1, 1);
  const Dendrogram tree = cluster_devices(model);
  CHECK(tree.merges.empty());
  CHECK(tree.leaf_order() == std::vector<int>{0});
  CHECK(tree.cut(1).class_of == std::vector<int>{0});
  CHECK(interchangeable_devices(model).class_of == std::vector<int>{0});
}

TEST_CASE("classes and clusters that are stopped early are still partitions") {
  Rng rng = Rng::for_task(8, 0);
  const CommCostModel model = random_model(rng, Network::sites, 4, 5);
  const auto whole = interchangeable_devices(model);
  for (int calls = 0; calls < 80; ++calls) {
    CAPTURE(calls);
    int left = calls;
    const auto stop = [&] { return left-- <= 0; };
    const auto classes = interchangeable_devices(model, stop);
    REQUIRE(classes.class_of.size() == 20);
    for (std::size_t a = 0; a < 20; ++a)  // finer, never coarser
      for (std::size_t b = 0; b < a; ++b)
        if (classes.class_of[a] == classes.class_of[b]) CHECK(whole.class_of[a] == whole.class_of[b]);
    left = calls;
    const Dendrogram tree = cluster_devices(model, stop);
    REQUIRE(tree.merges.size() == 19);
    auto order = tree.leaf_order();
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < 20; ++i) CHECK(order[i] == static_cast<int>(i));
    for (int count = 1; count <= 20; ++count) CHECK(tree.cut(count).count == count);
  }
}
