#include "planner/api/devices/device_sets.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/layer_times.hpp"
#include "planner/api/devices/canonical_topology.hpp"

namespace dtfm::api {
namespace {

/// GPU and speed.
using Kind = std::pair<int, double>;

Kind kind_of(const Topology& topology, int device) {
  const Device& it = topology.devices[at(device)];
  return {it.gpu, it.speed};
}

/// Seconds of a micro-batch on a device that computes all layers; infinite if they are unknown.
double layers_s(const LayerTimes& times, int layers, int device) {
  double seconds = 0;
  try {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerTime time = times.of(layer, device, 1);
      seconds += time.forward_s + time.backward_s;
    }
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
  return seconds;
}

/// The devices with the fastest ones first; those of one kind follow each other in the given order.
std::vector<int> fastest_first(const Problem& problem, std::vector<int> devices) {
  const LayerTimes times(problem, problem.job.execution, {1});
  std::map<Kind, std::pair<double, int>> rank_of_kind;  // seconds, then first appearance
  for (const int device : devices) {
    const auto rank = static_cast<int>(rank_of_kind.size());
    const auto [kind, is_new] = rank_of_kind.try_emplace(kind_of(problem.topology, device));
    if (is_new) kind->second = {layers_s(times, layer_count(problem.job.model), device), rank};
  }
  std::stable_sort(devices.begin(), devices.end(), [&](int a, int b) {
    return rank_of_kind.at(kind_of(problem.topology, a)) < rank_of_kind.at(kind_of(problem.topology, b));
  });
  return devices;
}

bool are_equal(const Device& a, const Device& b) {
  return a.gpu == b.gpu && a.speed == b.speed && a.uplink == b.uplink && a.downlink == b.downlink &&
         a.host_uplink == b.host_uplink && a.host_downlink == b.host_downlink && a.price == b.price;
}

bool are_equal(const Link& a, const Link& b) {
  return a.latency == b.latency && a.bandwidth == b.bandwidth && a.capacity == b.capacity &&
         a.egress == b.egress && !a.shared_by_sender && !b.shared_by_sender;
}

bool are_equal(const Site& a, const Site& b) {
  return a.uplink == b.uplink && a.downlink == b.downlink;
}

/// Whether the same plans on either set take equally long. Links of different entries whose flows share a
/// sender's bandwidth count as different.
bool are_interchangeable(const Topology& topology, const std::vector<int>& one,
                         const std::vector<int>& other) {
  if (one.size() != other.size()) return false;
  const auto device = [&](int i) -> const Device& { return topology.devices[at(i)]; };
  for (std::size_t i = 0; i < one.size(); ++i) {
    const Device &a = device(one[i]), &b = device(other[i]);
    if (!are_equal(a, b) || !are_equal(topology.sites[at(a.site)], topology.sites[at(b.site)])) return false;
    for (std::size_t j = 0; j < one.size(); ++j) {
      if (i == j) continue;
      const Device &c = device(one[j]), &d = device(other[j]);
      if ((a.host == c.host) != (b.host == d.host) || (a.site == c.site) != (b.site == d.site)) return false;
      if (topology.link_index(one[i], one[j]) == topology.link_index(other[i], other[j]) &&
          !std::holds_alternative<MeasuredLinks>(topology.links))
        continue;
      if (!are_equal(topology.link(one[i], one[j]), topology.link(other[i], other[j]))) return false;
    }
  }
  return true;
}

/// Collects sets of devices, in canonical order, that differ in more than names.
class DeviceSets {
 public:
  DeviceSets(const Topology& topology, std::vector<int> order)
      : topology_(topology), order_(std::move(order)), rank_(order_.size()), sets_{order_}, known_{order_} {
    for (std::size_t i = 0; i < order_.size(); ++i) rank_[at(order_[i])] = static_cast<int>(i);
  }

  /// A set for each group of devices with equal keys.
  template <class KeyOf>
  void add_groups(const KeyOf& key_of) {
    using Key = decltype(key_of(0));
    std::vector<Key> keys;
    std::map<Key, std::vector<int>> groups;
    for (const int device : order_) {
      std::vector<int>& group = groups[key_of(device)];
      if (group.empty()) keys.push_back(key_of(device));
      group.push_back(device);
    }
    for (const Key& key : keys) add(groups.at(key));
  }

  /// The first 1, 2, 4, … of `fastest`, and those of its first kinds.
  void add_fastest(const std::vector<int>& fastest) {
    for (std::size_t count = 1, power = 1; count < fastest.size(); ++count) {
      const bool ends_kind = kind_of(topology_, fastest[count - 1]) != kind_of(topology_, fastest[count]);
      const bool is_power = count == power;
      if (is_power) power *= 2;
      if (is_power || ends_kind) add({fastest.begin(), fastest.begin() + static_cast<std::ptrdiff_t>(count)});
    }
  }

  std::vector<std::vector<int>> take() { return std::move(sets_); }

 private:
  void add(std::vector<int> devices) {
    std::sort(devices.begin(), devices.end(), [&](int a, int b) { return rank_[at(a)] < rank_[at(b)]; });
    if (sets_.size() >= max_sets || !known_.insert(devices).second) return;
    if (std::none_of(sets_.begin(), sets_.end(),
                     [&](const auto& other) { return are_interchangeable(topology_, devices, other); }))
      sets_.push_back(std::move(devices));
  }

  static constexpr std::size_t max_sets = 64;  // chosen by hand; devices may all have different speeds

  const Topology& topology_;
  std::vector<int> order_, rank_;  // `rank_`: by device, the position in `order_`
  std::vector<std::vector<int>> sets_;
  std::set<std::vector<int>> known_;
};

}  // namespace

std::vector<std::vector<int>> device_sets(const Problem& problem) {
  const Topology& topology = problem.topology;
  const std::vector<int> order = canonical_order(topology);
  DeviceSets sets(topology, order);
  const auto site_of = [&](int device) { return topology.devices[at(device)].site; };
  sets.add_groups(site_of);
  sets.add_groups([&](int device) { return kind_of(topology, device); });
  sets.add_groups([&](int device) { return std::pair(site_of(device), kind_of(topology, device)); });
  sets.add_fastest(fastest_first(problem, order));
  return sets.take();
}

std::vector<DeviceCount> device_counts(const Topology& topology, const Plan& plan) {
  std::vector<bool> is_used(topology.devices.size());
  for (const int device : pipeline_major(plan)) is_used[at(device)] = true;
  std::vector<DeviceCount> counts;
  for (const int device : canonical_order(topology)) {
    if (!is_used[at(device)]) continue;
    const Device& it = topology.devices[at(device)];
    const std::string& site = topology.sites[at(it.site)].name;
    const std::string gpu = it.gpu < 0 ? "" : topology.gpus[at(it.gpu)].name;
    auto own = std::find_if(counts.begin(), counts.end(),
                            [&](const DeviceCount& other) { return other.site == site && other.gpu == gpu; });
    if (own == counts.end()) own = counts.insert(own, {site, gpu, 0});
    ++own->count;
  }
  return counts;
}

std::string format_devices_used(const Topology& topology, const std::vector<DeviceCount>& counts) {
  constexpr std::size_t max_listed = 4;  // chosen by hand
  int used = 0;
  std::vector<std::string> sites;
  for (const DeviceCount& it : counts) {
    used += it.count;
    const bool is_mixed = std::count_if(counts.begin(), counts.end(),
                                        [&](const auto& other) { return other.site == it.site; }) > 1;
    sites.push_back(is_mixed ? fmt::format("{} {}×{}", it.site, it.gpu, it.count)
                             : fmt::format("{}×{}", it.site, it.count));
  }
  const int all = topology.size();
  if (used == all) return fmt::format("{} device{}", all, all == 1 ? "" : "s");
  if (sites.size() > max_listed) return fmt::format("{} of {} devices", used, all);
  return fmt::format("{} of {} devices: {}", used, all, fmt::join(sites, ", "));
}

}  // namespace dtfm::api
