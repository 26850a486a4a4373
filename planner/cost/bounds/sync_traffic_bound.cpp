#include "planner/cost/bounds/sync_traffic_bound.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

struct Peer {
  double rate = 0;  // bytes per second
  SharedPath path;
  bool is_inside = true;
};

void sort_by_service(ReceiverSets& sets) {
  std::sort(sets.begin(), sets.end(), [](const ReceiverSet& a, const ReceiverSet& b) {
    return a.members * b.capacity < b.members * a.capacity;
  });
}

std::vector<Peer> peers_of(const NetworkCost& network, const std::vector<int>& devices,
                           const std::vector<int>& group, int device, bool sends) {
  std::vector<Peer> peers;
  peers.reserve(devices.size());
  for (const int other : devices) {
    if (other == device) continue;
    const int from = sends ? device : other, to = sends ? other : device;
    const double seconds_per_byte = network.message(from, to).seconds_per_byte;
    peers.push_back({seconds_per_byte > 0 ? 1 / seconds_per_byte : infinity,
                     network.shared_count() > 0 ? network.shared(from, to) : SharedPath(),
                     std::binary_search(group.begin(), group.end(), other)});
  }
  return peers;
}

ReceiverSets sets_of(const NetworkCost& network, const std::vector<Peer>& peers) {
  std::map<int, int> users;  // by capacity
  for (const Peer& peer : peers)
    for (const int id : peer.path) ++users[id];
  ReceiverSets sets;
  std::map<int, ReceiverSet> shared;
  for (const Peer& peer : peers) {
    int best = -1, best_users = 0;
    for (const int id : peer.path) {
      const int of_id = users.at(id);
      if (best >= 0 && of_id <= best_users) continue;
      best = id;
      best_users = of_id;
    }
    ReceiverSet& set = best < 0 ? sets.emplace_back() : shared[best];
    ++set.members;
    set.inside += peer.is_inside ? 1 : 0;
    set.capacity += peer.rate;
  }
  for (auto& [id, set] : shared) {
    set.capacity = std::min(set.capacity, 1 / network.shared_seconds_per_byte(id));
    sets.push_back(set);
  }
  sort_by_service(sets);
  return sets;
}

/// The same sets if at most `inside` receivers are in the group. No set has more of them. Of receivers that
/// share nothing, the fastest are the best choice.
ReceiverSets restricted(const ReceiverSets& sets, int inside) {
  ReceiverSets result;
  int single = 0;
  for (ReceiverSet set : sets) {
    if (set.members == 1 && set.inside == 1 && ++single > inside) continue;
    set.members += std::min<double>(set.inside, inside) - set.inside;
    if (set.members > 0) result.push_back(set);
  }
  sort_by_service(result);
  return result;
}

/// Returns the least τ with Σ min(members, τ · capacity) ≥ partners.
double seconds(const ReceiverSets& sets, double partners) {
  double capacity = 0, served = 0;
  for (const ReceiverSet& set : sets) capacity += set.capacity;
  for (const ReceiverSet& set : sets) {
    if (served + capacity * (set.members / set.capacity) >= partners) return (partners - served) / capacity;
    served += set.members;
    capacity -= set.capacity;
  }
  return sets.empty() ? 0 : sets.back().members / sets.back().capacity;
}

/// Raises each element n of `slowest` to at least seconds(sets, n). The set that serves the last partner
/// cannot come earlier for more partners, so all elements together take one pass over the sets.
void add_slowest(const ReceiverSets& sets, std::vector<double>& slowest) {
  double capacity = 0, served = 0;
  for (const ReceiverSet& set : sets) capacity += set.capacity;
  std::size_t next = 0;
  for (std::size_t partners = 0; partners < slowest.size(); ++partners) {
    const auto count = static_cast<double>(partners);
    while (next < sets.size() && !(served + capacity * (sets[next].members / sets[next].capacity) >= count)) {
      served += sets[next].members;
      capacity -= sets[next++].capacity;
    }
    double seconds = sets.empty() ? 0 : sets.back().members / sets.back().capacity;
    if (next < sets.size()) seconds = (count - served) / capacity;
    slowest[partners] = std::max(slowest[partners], seconds);
  }
}

/// Those of `group` without all but one of each set of interchangeable ones, which have equal bounds: of one
/// kind, on hosts that are equally equipped.
std::vector<int> different_devices(const IterationModel& model, const std::vector<int>& devices,
                                   const std::vector<int>& group) {
  std::map<int, std::vector<int>> on_host;  // kinds of `devices`
  const auto host_of = [&](int device) { return model.problem.topology->devices[at(device)].host; };
  for (const int device : devices) on_host[host_of(device)].push_back(model.network.kind(device));
  for (auto& [host, kinds] : on_host) std::sort(kinds.begin(), kinds.end());
  std::set<std::pair<int, std::vector<int>>> known;
  std::vector<int> result;
  for (const int device : group)
    if (known.emplace(model.network.kind(device), on_host[host_of(device)]).second) result.push_back(device);
  return result;
}

}  // namespace

SyncTrafficBound::SyncTrafficBound(const IterationModel& model, const std::vector<int>& devices,
                                   const std::vector<int>& group, const StopFunction& stop)
    : to_each_s_(devices.size() + 1, infinity) {
  const NetworkCost& network = model.network;
  const bool has_peers = devices.size() > 1 || devices != group, has_outside = devices != group;
  total_s_ = has_peers ? infinity : 0;
  std::vector<double> slowest(to_each_s_.size());
  const bool is_whole = devices == group;  // otherwise own hosts may differ in which devices are inside
  for (const int device : is_whole ? different_devices(model, devices, group) : group) {
    throw_if_stopped(stop);
    std::vector<ReceiverSets> all;
    double total_s = 0;
    for (const bool sends : {true, false}) {
      all.push_back(sets_of(network, peers_of(network, devices, group, device, sends)));
      double capacity = 0;
      for (const ReceiverSet& set : all.back()) capacity += set.capacity;
      total_s = std::max(total_s, 1 / capacity);
    }
    if (has_peers) total_s_ = std::min(total_s_, total_s);
    std::fill(slowest.begin(), slowest.end(), 0.0);
    for (const ReceiverSets& sets : all) add_slowest(sets, slowest);
    for (std::size_t i = 0; i < slowest.size(); ++i) to_each_s_[i] = std::min(to_each_s_[i], slowest[i]);
    if (has_outside) devices_.push_back(std::move(all));
  }
  std::sort(devices_.begin(), devices_.end());
  devices_.erase(std::unique(devices_.begin(), devices_.end()), devices_.end());
}

double SyncTrafficBound::to_each_s(int partners, int inside) const {
  if (inside >= partners) return to_each_s_.at(at(partners));
  double least = infinity;
  for (const std::vector<ReceiverSets>& device : devices_) {
    double slowest = 0;
    for (const ReceiverSets& sets : device) {
      const ReceiverSets possible = restricted(sets, inside);
      double members = 0;
      for (const ReceiverSet& set : possible) members += set.members;
      slowest = members < partners ? infinity : std::max(slowest, seconds(possible, partners));
    }
    least = std::min(least, slowest);
  }
  return least;
}

}  // namespace dtfm::cost
