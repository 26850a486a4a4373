#include "planner/cost/iteration_time/network_cost.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::cost {
namespace {

constexpr std::size_t max_kinds_in_table = 1500;  // 54 MB for messages between hosts

std::size_t entry_count(const Topology& topology) {
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  return rules ? rules->links.size() : 0;
}

int number_in(const std::vector<int>& numbers, std::size_t index) {
  return numbers.empty() ? -1 : numbers[index];
}

}  // namespace

NetworkCost::NetworkCost(Shared<Topology> topology, const Calibration& calibration)
    : topology_(std::move(topology)), constants_(calibration) {
  if (const auto* rules = std::get_if<RuleLinks>(&topology_->links))
    is_priced_ = std::any_of(rules->links.begin(), rules->links.end(),
                             [](const Link& link) { return link.egress.value() > 0; });
  number_senders();
  number_site_pairs();
  number_ends();
  number_kinds();
  tabulate_messages();
}

MessageCost NetworkCost::message_in_parts(std::span<const std::pair<int, int>> pairs) const {
  const auto parts = static_cast<double>(pairs.size());
  MessageCost slowest;
  for (const auto& [from, to] : pairs) {
    const MessageCost part = message(from, to);
    slowest = {std::max(slowest.overhead_s, part.overhead_s),
               std::max(slowest.seconds_per_byte, part.seconds_per_byte / parts),
               std::max(slowest.latency_s, part.latency_s)};
  }
  if (pairs.size() > 1)
    slowest.seconds_per_byte =
        std::max(slowest.seconds_per_byte, joint_seconds_per_byte(pairs.front().first, pairs.front().second));
  return slowest;
}

double NetworkCost::joint_seconds_per_byte(int from, int to) const {
  double slowest = 0;
  if (shared_count() == 0) return slowest;
  for (const int id : shared(from, to))
    if (owner(id) != CapacityOwner::sender && owner(id) != CapacityOwner::receiver)
      slowest = std::max(slowest, shared_seconds_per_byte(id));
  return slowest;
}

/// True if messages between the two, and between each of them and every third device, cost the same and cross
/// the same capacities of many hosts. This relation is transitive.
bool NetworkCost::have_equal_links(int device, int other) const {
  const auto crosses_same = [&](int from, int to, int other_from, int other_to) {
    std::vector<int> ids, other_ids;
    for (const int id : shared(from, to))
      if (owner(id) == CapacityOwner::many) ids.push_back(id);
    for (const int id : shared(other_from, other_to))
      if (owner(id) == CapacityOwner::many) other_ids.push_back(id);
    return ids == other_ids;
  };
  const auto are_equal = [&](int from, int to, int other_from, int other_to) {
    return computed(from, to) == computed(other_from, other_to) &&
           (shared_count() == 0 || crosses_same(from, to, other_from, other_to));
  };
  if (!are_equal(device, other, other, device)) return false;
  for (int third = 0; third < topology_->size(); ++third)
    if (third != device && third != other &&
        !(are_equal(device, third, other, third) && are_equal(third, device, third, other)))
      return false;
  return true;
}

/// Rules do not distinguish devices of one link class. Measured links are compared pair by pair.
void NetworkCost::number_kinds() {
  const auto* rules = std::get_if<RuleLinks>(&topology_->links);
  const auto capacity = [&](int id) { return id < 0 ? 0 : shared_seconds_per_byte(id); };
  std::map<std::tuple<int, int, double, double, double, double>, int> coarse_kinds;
  std::vector<std::vector<int>> first;  // by coarse kind: device of each kind
  for (int i = 0; i < topology_->size(); ++i) {
    const Device& device = topology_->devices[at(i)];
    const auto [position, is_new] = coarse_kinds.emplace(
        std::tuple{rules ? rules->link_class[at(i)] : 0, device.site, capacity(up_[at(i)]),
                   capacity(down_[at(i)]), capacity(host_up_[at(device.host)]),
                   capacity(host_down_[at(device.host)])},
        static_cast<int>(first.size()));
    if (is_new) first.emplace_back();
    std::vector<int>& candidates = first[at(position->second)];
    const auto same = std::find_if(candidates.begin(), candidates.end(),
                                   [&](int other) { return rules || have_equal_links(i, other); });
    coarse_kind_.push_back(position->second);
    host_.push_back(device.host);
    kind_.push_back(same == candidates.end() ? static_cast<int>(kinds_++) : kind(*same));
    if (same == candidates.end()) candidates.push_back(i);
  }
  coarse_kinds_ = first.size();
}

void NetworkCost::tabulate_messages() {
  const bool has_kinds = kinds_ <= max_kinds_in_table;
  const bool has_coarse_kinds = coarse_kinds_ < kinds_ && coarse_kinds_ <= max_kinds_in_table;
  if (!has_kinds && !has_coarse_kinds) return;
  const MessageCost unset{0, -1, 0};
  const std::set<int> hosts(host_.begin(), host_.end());
  if (has_kinds) by_kind_[0].assign(kinds_ * kinds_, unset);
  if (has_kinds && hosts.size() < host_.size()) by_kind_[1].assign(kinds_ * kinds_, unset);
  if (has_coarse_kinds) by_coarse_kind_.resize(coarse_kinds_ * coarse_kinds_);
  for (int from = 0; from < topology_->size(); ++from)
    for (int to = 0; to < topology_->size(); ++to) {
      if (from == to) continue;
      if (has_kinds) {
        MessageCost& known = by_kind_[is_inside(from, to) ? 1 : 0][kind_pair(from, to)];
        if (!(known == unset)) continue;
        known = computed(from, to);
      }
      if (!has_coarse_kinds) continue;
      const MessageCost cost = message(from, to);
      MessageCost& worst = by_coarse_kind_[coarse_pair(from, to)];
      worst = {std::max(worst.overhead_s, cost.overhead_s),
               std::max(worst.seconds_per_byte, cost.seconds_per_byte),
               std::max(worst.latency_s, cost.latency_s)};
    }
}

int NetworkCost::add_capacity(BitsPerSecond capacity, CapacityOwner owner) {
  if (!(capacity < unlimited)) return -1;
  capacities_.push_back({bits_per_byte / (capacity.value() * constants_.network_efficiency), owner});
  return static_cast<int>(capacities_.size()) - 1;
}

/// Numbers the link rules whose bandwidth a sender shares among its receivers.
void NetworkCost::number_senders() {
  const auto* rules = std::get_if<RuleLinks>(&topology_->links);
  if (rules == nullptr || std::none_of(rules->links.begin(), rules->links.end(),
                                       [](const Link& link) { return link.shared_by_sender; }))
    return;
  const std::size_t entries = rules->links.size();
  std::vector<int> first_receiver(entries);
  sender_capacity_.assign(topology_->devices.size() * entries, -1);
  for (int from = 0; from < topology_->size(); ++from) {
    std::fill(first_receiver.begin(), first_receiver.end(), -1);
    for (int to = 0; to < topology_->size(); ++to) {
      if (from == to) continue;
      const int link_index = topology_->link_index(from, to);
      const Link& link = rules->links[at(link_index)];
      if (!link.shared_by_sender) continue;
      int& number = sender_capacity_[at(from) * entries + at(link_index)];
      if (first_receiver[at(link_index)] < 0)
        first_receiver[at(link_index)] = to;
      else if (number < 0)  // a second receiver: only now is there contention
        number = add_capacity(link.bandwidth, CapacityOwner::sender);
    }
  }
}

/// Uses the smallest capacity that a link rule gives to the messages between two sites.
void NetworkCost::number_site_pairs() {
  const auto* rules = std::get_if<RuleLinks>(&topology_->links);
  if (rules == nullptr || std::none_of(rules->links.begin(), rules->links.end(),
                                       [](const Link& link) { return link.capacity < unlimited; }))
    return;
  const std::size_t sites = topology_->sites.size();
  std::array<std::vector<BitsPerSecond>, 2> least;
  least.fill(std::vector<BitsPerSecond>(sites * sites, unlimited));
  for (int from = 0; from < topology_->size(); ++from)
    for (int to = 0; to < topology_->size(); ++to) {
      if (from == to) continue;
      const bool inside = topology_->devices[at(from)].host == topology_->devices[at(to)].host;
      BitsPerSecond& capacity = least[inside ? 1 : 0][site_pair(from, to)];
      capacity = std::min(capacity, topology_->link(from, to).capacity);
    }
  for (const std::size_t inside : {0u, 1u}) {
    pair_capacity_[inside].reserve(sites * sites);
    for (const BitsPerSecond capacity : least[inside])
      pair_capacity_[inside].push_back(add_capacity(capacity, CapacityOwner::many));
  }
}

void NetworkCost::number_ends() {
  int hosts = 0;
  for (const Device& device : topology_->devices) hosts = std::max(hosts, device.host + 1);
  host_up_.assign(at(hosts), -1);
  host_down_.assign(at(hosts), -1);
  std::vector<bool> seen(at(hosts));
  for (const Device& device : topology_->devices) {
    up_.push_back(add_capacity(device.uplink, CapacityOwner::sender));
    down_.push_back(add_capacity(device.downlink, CapacityOwner::receiver));
    if (seen[at(device.host)]) continue;
    seen[at(device.host)] = true;
    host_up_[at(device.host)] = add_capacity(device.host_uplink, CapacityOwner::sender_host);
    host_down_[at(device.host)] = add_capacity(device.host_downlink, CapacityOwner::receiver_host);
  }
  for (const Site& site : topology_->sites) {
    site_up_.push_back(add_capacity(site.uplink, CapacityOwner::many));
    site_down_.push_back(add_capacity(site.downlink, CapacityOwner::many));
  }
}

std::size_t NetworkCost::site_pair(int from, int to) const {
  return at(topology_->devices[at(from)].site) * topology_->sites.size() +
         at(topology_->devices[at(to)].site);
}

SharedPath NetworkCost::shared(int from, int to) const {
  const Device &sender = topology_->devices[at(from)], &receiver = topology_->devices[at(to)];
  const bool inside = sender.host == receiver.host;
  SharedPath path;
  if (!sender_capacity_.empty())
    path.add(sender_capacity_[at(from) * entry_count(*topology_) + at(topology_->link_index(from, to))]);
  path.add(number_in(pair_capacity_[inside ? 1 : 0], site_pair(from, to)));
  if (!inside) {
    path.add(up_[at(from)]);
    path.add(down_[at(to)]);
    path.add(host_up_[at(sender.host)]);
    path.add(host_down_[at(receiver.host)]);
  }
  if (sender.site != receiver.site) {
    path.add(site_up_[at(sender.site)]);
    path.add(site_down_[at(receiver.site)]);
  }
  return path;
}

/// The rate is that of the narrowest capacity on the path. The slow start of connections
/// is left to the simulator.
MessageCost NetworkCost::computed(int from, int to) const {
  if (from == to) return {};
  const Link link = topology_->link(from, to);
  MessageCost cost{0, bits_per_byte / (link.bandwidth.value() * constants_.network_efficiency),
                   link.latency.value()};
  cost.overhead_s = message_overhead_s(constants_, topology_, from, to);
  if (const Transport* transport = topology_->transport_between(from, to)) {
    cost.overhead_s += transport->handshakes * link.latency.value();
    cost.seconds_per_byte =
        std::max(cost.seconds_per_byte, topology_->round_trip(from, to).value() / transport->window.value());
  }
  if (shared_count() > 0)
    for (const int id : shared(from, to))
      cost.seconds_per_byte = std::max(cost.seconds_per_byte, shared_seconds_per_byte(id));
  return cost;
}

}  // namespace dtfm::cost
