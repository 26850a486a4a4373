#include "planner/cost/iteration_time/network_cost.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/core/index.hpp"

namespace dtfm::cost {
namespace {

constexpr int max_devices_in_table = 1500;  // 54 MB

std::size_t entry_count(const Topology& topology) {
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  return rules ? rules->links.size() : 0;
}

int number_in(const std::vector<int>& numbers, std::size_t index) {
  return numbers.empty() ? -1 : numbers[index];
}

}  // namespace

NetworkCost::NetworkCost(Shared<Topology> topology, const Calibration& calibration)
    : topology_(std::move(topology)),
      efficiency_(calibration.network_efficiency),
      overhead_s_(calibration.message_overhead_s) {
  if (const auto* rules = std::get_if<RuleLinks>(&topology_->links))
    is_priced_ = std::any_of(rules->links.begin(), rules->links.end(),
                             [](const Link& link) { return link.egress.value() > 0; });
  number_senders();
  number_site_pairs();
  number_ends();
  const int devices = topology_->size();
  kind_.resize(at(devices));
  std::iota(kind_.begin(), kind_.end(), 0);
  if (devices > max_devices_in_table) return;
  std::vector<MessageCost> pairs(at(devices) * at(devices));
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to) pairs[pair(from, to)] = computed(from, to);
  pairs_ = std::move(pairs);
  number_kinds();
}

bool NetworkCost::are_interchangeable(int from, int to, int other_from, int other_to) const {
  return message(from, to) == message(other_from, other_to) &&
         (shared_count() == 0 || shared(from, to) == shared(other_from, other_to)) &&
         usd_per_byte(from, to) == usd_per_byte(other_from, other_to);
}

/// True if messages to every third device, and between the two, cost the same and cross the same capacities.
/// This relation is transitive: if the first and second device are interchangeable, and the second and third,
/// then messages between any two of them equal those between any other two.
bool NetworkCost::are_interchangeable(int device, int other) const {
  if (!are_interchangeable(device, other, other, device)) return false;
  for (int third = 0; third < topology_->size(); ++third)
    if (third != device && third != other &&
        !(are_interchangeable(device, third, other, third) &&
          are_interchangeable(third, device, third, other)))
      return false;
  return true;
}

void NetworkCost::number_kinds() {
  std::vector<int> first;  // device of each kind
  for (int device = 0; device < topology_->size(); ++device) {
    const auto same = std::find_if(first.begin(), first.end(),
                                   [&](int other) { return are_interchangeable(device, other); });
    kind_[at(device)] = static_cast<int>(same - first.begin());
    if (same == first.end()) first.push_back(device);
  }
}

int NetworkCost::capacity_id(BitsPerSecond capacity) {
  if (!(capacity < unlimited)) return -1;
  seconds_per_byte_.push_back(bits_per_byte / (capacity.value() * efficiency_));
  return static_cast<int>(seconds_per_byte_.size()) - 1;
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
        number = capacity_id(link.bandwidth);
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
      pair_capacity_[inside].push_back(capacity_id(capacity));
  }
}

void NetworkCost::number_ends() {
  int hosts = 0;
  for (const Device& device : topology_->devices) hosts = std::max(hosts, device.host + 1);
  host_up_.assign(at(hosts), -1);
  host_down_.assign(at(hosts), -1);
  std::vector<bool> seen(at(hosts));
  for (const Device& device : topology_->devices) {
    up_.push_back(capacity_id(device.uplink));
    down_.push_back(capacity_id(device.downlink));
    if (seen[at(device.host)]) continue;
    seen[at(device.host)] = true;
    host_up_[at(device.host)] = capacity_id(device.host_uplink);
    host_down_[at(device.host)] = capacity_id(device.host_downlink);
  }
  for (const Site& site : topology_->sites) {
    site_up_.push_back(capacity_id(site.uplink));
    site_down_.push_back(capacity_id(site.downlink));
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

/// The rate is that of the narrowest capacity on the path.
MessageCost NetworkCost::computed(int from, int to) const {
  if (from == to) return {};
  const Link link = topology_->link(from, to);
  MessageCost cost{0, bits_per_byte / (link.bandwidth.value() * efficiency_), link.latency.value()};
  if (topology_->devices[at(from)].host != topology_->devices[at(to)].host) cost.overhead_s = overhead_s_;
  if (shared_count() > 0)
    for (const int id : shared(from, to))
      cost.seconds_per_byte = std::max(cost.seconds_per_byte, shared_seconds_per_byte(id));
  return cost;
}

}  // namespace dtfm::cost
