#include "planner/search/comm_cost/device_class_network.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/base/infinity.hpp"

namespace dtfm::search {
namespace {}  // namespace

bool DeviceClassNetwork::measure_hops(const StopFunction& stop) {
  hop_ = Eigen::MatrixXd::Constant(count_, count_, infinity);
  for (int a = 0; a < count_; ++a) {
    for (int b = 0; b < count_; ++b) {
      if (stop()) return false;
      for (const int device : members_[at(a)])
        for (const int peer : members_[at(b)])
          if (device != peer) hop_(b, a) = std::min(hop_(b, a), model_.hop(peer, device));
    }
  }
  for (int c = 0; c < count_; ++c) min_hop_.push_back(hop_.col(c).minCoeff());
  return true;
}

bool DeviceClassNetwork::measure_sync(const DeviceClasses& classes, const StopFunction& stop) {
  const int n = model_.devices();
  sync_prefix_.resize(at(count_) * at(n));
  for (int device = 0; device < n; ++device) {
    if (stop()) return false;
    for (int peer = 0; peer < n; ++peer)
      if (peer != device)
        sync_prefix_[at(classes.class_of[at(peer)]) * at(n) + at(device)].push_back(
            model_.sync(peer, device));
    for (int c = 0; c < count_; ++c) {
      auto& sums = sync_prefix_[at(c) * at(n) + at(device)];
      std::sort(sums.begin(), sums.end());
      sums.insert(sums.begin(), 0);
      if (sums.size() > at(model_.replicas) + 1) sums.resize(at(model_.replicas) + 1);
      std::partial_sum(sums.begin(), sums.end(), sums.begin());
    }
  }
  return true;
}

// A member of class c synchronizes no faster than with the fastest members of each class. Of the k members
// that the group takes from c, the slowest is no faster than the k-th fastest of the whole class.
Composition DeviceClassNetwork::measure(Counts counts) const {
  Composition result{std::move(counts), 0, 0};
  const std::size_t n = at(model_.devices());
  std::vector<double> sums;
  for (int c = 0; c < count_; ++c) {
    const int taken = result.counts[at(c)];
    if (taken == 0) continue;
    result.min_hop = std::max(result.min_hop, min_hop_[at(c)]);
    sums.clear();
    for (const int device : members_[at(c)]) {
      double sum = 0;
      for (int other = 0; other < count_; ++other)
        sum += sync_prefix_[at(other) * n + at(device)][at(result.counts[at(other)] - (other == c ? 1 : 0)) *
                                                        (result.counts[at(other)] > 0)];
      sums.push_back(sum);
    }
    std::nth_element(sums.begin(), sums.begin() + (taken - 1), sums.end());
    result.sync = std::max(result.sync, sums[at(taken - 1)]);
  }
  return result;
}

double DeviceClassNetwork::hop_between(const Counts& a, const Counts& b) {
  int row = 0, column = 0;
  for (int c = 0; c < count_; ++c) {
    for (int i = 0; i < a[at(c)]; ++i) matcher_.set_row(row++, &hop_(0, c));
    for (int i = 0; i < b[at(c)]; ++i) matcher_.set_column(column++, c);
  }
  return matcher_.solve();
}

bool DeviceClassNetwork::are_interchangeable(int a, int b) const {
  if (size(a) != size(b) || hop_(a, a) != hop_(b, b)) return false;
  for (int c = 0; c < count_; ++c)
    if (c != a && c != b && hop_(c, a) != hop_(c, b)) return false;
  // Synchronization must agree as well, device by device, so only classes of interchangeable devices qualify.
  const std::size_t n = at(model_.devices());
  const auto prefix = [&](int to, int device) -> const std::vector<double>& {
    return sync_prefix_[at(to) * n + at(device)];
  };
  for (std::size_t i = 0; i < members_[at(a)].size(); ++i) {
    const int in_a = members_[at(a)][i], in_b = members_[at(b)][i];
    if (prefix(a, in_a) != prefix(b, in_b) || prefix(b, in_a) != prefix(a, in_b)) return false;
    for (int c = 0; c < count_; ++c) {
      if (c == a || c == b) continue;
      if (prefix(c, in_a) != prefix(c, in_b)) return false;
      for (const int device : members_[at(c)])
        if (prefix(a, device) != prefix(b, device)) return false;
    }
  }
  return true;
}

void DeviceClassNetwork::find_interchangeable() {
  std::vector<char> placed(at(count_));
  for (int a = 0; a < count_; ++a) {
    if (placed[at(a)]) continue;
    std::vector<int> set{a};
    for (int b = a + 1; b < count_; ++b) {
      if (placed[at(b)] ||
          !std::all_of(set.begin(), set.end(), [&](int c) { return are_interchangeable(c, b); }))
        continue;
      set.push_back(b);
      placed[at(b)] = true;
    }
    if (set.size() > 1) interchangeable_classes_.push_back(std::move(set));
  }
}

void DeviceClassNetwork::make_canonical(Counts& a, Counts& b) const {
  std::vector<std::pair<std::int16_t, std::int16_t>> pairs;
  for (const auto& set : interchangeable_classes_) {
    pairs.clear();
    for (const int c : set) pairs.emplace_back(a[at(c)], b[at(c)]);
    std::sort(pairs.begin(), pairs.end());
    for (std::size_t i = 0; i < set.size(); ++i) std::tie(a[at(set[i])], b[at(set[i])]) = pairs[i];
  }
}

}  // namespace dtfm::search
