#include "planner/cost/iteration_time/gradient_sync_time.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

/// Messages from one node to another. A node is a replica, or a class of interchangeable replicas.
struct Message {
  int from = 0, to = 0;
  /// Number of messages that it represents: per sender, per receiver, and in total.
  double per_sender = 1, per_receiver = 1, in_all = 1;
  int ring = no_index;
  /// Its concurrent parts, in NodeCollective::message_parts; none if it is sent as a whole.
  std::size_t first_part = 0, last_part = 0;
};

/// Concurrent messages. A sender starts when it has received its messages of all previous phases. Messages of
/// one ring are in the order of the ring; each is sent once per round.
struct Phase {
  double bytes = 0;  // of a message
  double rounds = 1;
  std::vector<Message> messages = {};
  bool is_blocking = false;  // senders wait until their messages have arrived
};

/// The messages of a collective between nodes.
struct NodeCollective {
  std::vector<int> devices;                    // by node; of a class: the first of its devices
  std::vector<std::vector<int>> members = {};  // by node, if nodes are classes: all devices
  std::vector<bool> are_on_one_host = {};      // by node: its devices, of which there are several
  std::vector<int> parts;                      // by node: parts that a device holds
  bool repeats_channels = false;  // messages of different phases may have the same sender and receiver
  int passes = 1;                 // through all phases
  bool is_coarse = false;         // classes of different replicas: messages cost as much as the worst ones
  std::vector<int> node_of;       // by device of the group
  HostChannels::IndexPairs message_parts = {};  // nodes: their senders and receivers
  std::vector<Phase> phases;
};

/// Every replica is a node.
NodeCollective each_replica(const ReplicaGroup& group) {
  NodeCollective collective;
  collective.devices = group.devices;
  collective.parts = group.parts;
  collective.node_of.resize(group.devices.size());
  std::iota(collective.node_of.begin(), collective.node_of.end(), 0);
  return collective;
}

/// The replicas of a node, by index in the group.
using Classes = std::vector<std::vector<std::size_t>>;

/// Classes of replicas of the same kind. The replicas of a class either have hosts of their own or are all on
/// one host.
Classes classes_by(const std::vector<int>& kinds, const Topology& topology, const ReplicaGroup& group) {
  using Key = std::array<int, 3>;  // kind, parts, host or no_index
  const auto host_of = [&](int device) { return topology.devices[at(device)].host; };
  std::vector<int> hosts;
  for (const int device : group.devices) hosts.push_back(host_of(device));
  std::sort(hosts.begin(), hosts.end());
  const bool are_all_alone = std::adjacent_find(hosts.begin(), hosts.end()) == hosts.end();
  std::vector<std::pair<Key, std::size_t>> keys;
  keys.reserve(group.devices.size());
  for (std::size_t i = 0; i < group.devices.size(); ++i) {
    const int host = host_of(group.devices[i]);
    bool is_alone = are_all_alone;
    if (!is_alone) {
      const auto [first, last] = std::equal_range(hosts.begin(), hosts.end(), host);
      is_alone = last - first == 1;
    }
    keys.push_back({{kinds[i], group.parts[i], is_alone ? no_index : host}, i});
  }
  std::sort(keys.begin(), keys.end());
  Classes classes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i].first != keys[i - 1].first) classes.emplace_back();
    classes.back().push_back(keys[i].second);
  }
  return classes;
}

/// Every class of interchangeable replicas is a node. If there are too many classes, those that differ only
/// in measured links are merged, and get the slowest of these links.
NodeCollective each_class(const Topology& topology, const NetworkCost& network, const ReplicaGroup& group) {
  NodeCollective collective;
  std::vector<int> kinds;
  for (const int device : group.devices) kinds.push_back(network.kind(device));
  Classes classes = classes_by(kinds, topology, group);
  collective.is_coarse = classes.size() > max_sync_classes && network.has_coarse_kinds();
  if (collective.is_coarse) {
    std::transform(group.devices.begin(), group.devices.end(), kinds.begin(),
                   [&](int device) { return network.coarse_kind(device); });
    classes = classes_by(kinds, topology, group);
  }
  collective.node_of.resize(group.devices.size());
  for (const std::vector<std::size_t>& members : classes) {
    for (const std::size_t member : members)
      collective.node_of[member] = static_cast<int>(collective.devices.size());
    collective.devices.push_back(group.devices[members.front()]);
    std::vector<int>& devices = collective.members.emplace_back();
    for (const std::size_t member : members) devices.push_back(group.devices[member]);
    collective.are_on_one_host.push_back(devices.size() > 1 && topology.devices[at(devices[0])].host ==
                                                                   topology.devices[at(devices[1])].host);
    collective.parts.push_back(group.parts[members.front()]);
  }
  return collective;
}

/// Every replica sends to every other one the shard that this one sums, and then the sum of its own shard.
NodeCollective sharded_ps(const Topology& topology, const NetworkCost& network, const ReplicaGroup& group,
                          Collective part) {
  NodeCollective collective = each_class(topology, network, group);
  Phase all{group.bytes / static_cast<double>(group.devices.size())};
  const std::vector<std::vector<int>>& members = collective.members;
  for (std::size_t from = 0; from < members.size(); ++from)
    for (std::size_t to = 0; to < members.size(); ++to) {
      const auto senders = static_cast<double>(members[from].size());
      const double own = from == to ? 1 : 0;
      const double per_sender = static_cast<double>(members[to].size()) - own;
      if (per_sender > 0)
        all.messages.push_back(
            {static_cast<int>(from), static_cast<int>(to), per_sender, senders - own, senders * per_sender});
    }
  collective.phases = {std::move(all)};
  collective.passes = part == Collective::all_reduce ? 2 : 1;
  collective.repeats_channels = true;
  return collective;
}

/// Adds the parts of a message between these members of the channels, if there are several. `nodes`: of the
/// collective, by member.
void add_parts(const HostChannels& channels, std::size_t from, std::size_t to, std::span<const int> nodes,
               Message& message, NodeCollective& collective) {
  HostChannels::IndexPairs& all = collective.message_parts;
  message.first_part = message.last_part = all.size();
  channels.add_between(from, to, all);
  if (all.size() == message.first_part + 1) return all.pop_back();
  for (std::size_t i = message.first_part; i < all.size(); ++i)
    all[i] = {at(nodes[all[i].first]), at(nodes[all[i].second])};
  message.last_part = all.size();
}

/// Reduce-scatter and all-gather: in each of 2 (n − 1) rounds every replica forwards what it received in the
/// previous one, 1 / n of the bytes. Messages between hosts are sent on all channels.
NodeCollective ring(const Topology& topology, const NetworkCost&, const ReplicaGroup& group,
                    Collective part) {
  NodeCollective collective = each_replica(group);
  const HostChannels channels(topology, group.devices);
  const std::size_t n = group.devices.size();
  const double halves = part == Collective::all_reduce ? 2 : 1;
  Phase rounds{group.bytes / static_cast<double>(n), halves * static_cast<double>(n - 1)};
  rounds.messages.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = channels.order()[i], to = channels.order()[(i + 1) % n];
    Message& message =
        rounds.messages.emplace_back(Message{static_cast<int>(from), static_cast<int>(to), 1, 1, 1, 0});
    add_parts(channels, from, to, collective.node_of, message, collective);
  }
  collective.phases.push_back(std::move(rounds));
  return collective;
}

/// Inside every site, k replicas sum one shard each (reduce-scatter), k being the size of the smallest site.
/// The owners of the same shard form a ring across sites (all-reduce). Then every owner sends its shard to
/// its whole site (all-gather).
NodeCollective hierarchical(const Topology& topology, const NetworkCost& network, const ReplicaGroup& group,
                            Collective part) {
  NodeCollective collective = each_class(topology, network, group);
  std::map<int, std::size_t> number_of;  // by site
  std::vector<std::vector<int>> sites;   // classes of the replicas of each site, in their order
  for (std::size_t i = 0; i < group.devices.size(); ++i) {
    const auto [position, is_new] =
        number_of.emplace(topology.devices[at(group.devices[i])].site, sites.size());
    if (is_new) sites.emplace_back();
    sites[position->second].push_back(collective.node_of[i]);
  }
  std::size_t shards = group.devices.size();
  for (const std::vector<int>& members : sites) shards = std::min(shards, members.size());
  if (group.site_shards > 0) shards = std::min(shards, at(group.site_shards));
  const double shard = group.bytes / static_cast<double>(shards);
  std::map<std::vector<int>, double> rings;  // by the classes of the owners
  std::map<int, double> owned;               // shards by class of their owners
  for (std::size_t k = 0; k < shards; ++k) {
    std::vector<int> owners;
    for (const std::vector<int>& members : sites) owners.push_back(members[k]);
    for (const int owner : owners) ++owned[owner];
    ++rings[owners];
  }
  Phase gather{shard}, scatter{shard};
  for (const std::vector<int>& members : sites) {
    std::map<int, double> sizes;  // by class
    for (const int member : members) ++sizes[member];
    for (const auto& [sender, senders] : sizes)
      for (const auto& [owner, _] : sizes) {
        const auto found = owned.find(owner);
        if (found == owned.end()) continue;
        // An owner keeps its shard.
        const double own = sender == owner ? 1 : 0, owners = found->second;
        const double most = senders > owners ? owners : owners - own, in_all = owners * (senders - own);
        if (in_all == 0) continue;
        gather.messages.push_back({sender, owner, most, senders - own, in_all});
        scatter.messages.push_back({owner, sender, senders - own, most, in_all});
      }
  }
  const int n = static_cast<int>(sites.size());
  Phase all_reduce{shard / n, 2.0 * (n - 1)};
  int number = 0;
  for (const auto& [owners, count] : rings) {
    for (int i = 0; i < n && n > 1; ++i) {
      const int from = owners[at(i)], to = owners[at((i + 1) % n)];
      all_reduce.messages.push_back({from, to, count / owned[from], count / owned[to], count, number});
    }
    ++number;
  }
  if (part != Collective::all_gather) collective.phases = {std::move(gather), std::move(all_reduce)};
  if (part != Collective::reduce_scatter) collective.phases.push_back(std::move(scatter));
  collective.repeats_channels = true;
  return collective;
}

/// Every instance of k replicas reduce-scatters around its ring, in k − 1 rounds with 1 / k of the bytes. The
/// owners of the same shard all-reduce it around a ring through all instances. Then each instance
/// all-gathers.
NodeCollective hierarchical_ring(const Topology& topology, const NetworkCost&, const ReplicaGroup& group,
                                 Collective part) {
  NodeCollective collective = each_replica(group);
  std::vector<CollectiveMember> members;
  for (const int device : group.devices)
    members.push_back({topology.devices[at(device)].host, topology.devices[at(device)].site});
  const auto instances = optimizer_instances(members, group.site_shards);
  const std::size_t k = instances.front().size(), t = instances.size();
  const double shard = group.bytes / static_cast<double>(k);
  Phase inside{shard, static_cast<double>(k - 1)},
      across{shard / static_cast<double>(t), 2 * static_cast<double>(t - 1)};
  const auto add_ring = [&](const std::vector<int>& order, std::size_t number, Phase& phase) {
    if (order.size() < 2) return;
    const std::vector<int> ring = grouped(order, [&](int member) { return members[at(member)].host; });
    std::vector<int> devices;
    for (const int node : ring) devices.push_back(group.devices[at(node)]);
    const HostChannels channels(topology, devices);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::size_t next = (i + 1) % ring.size();
      Message& message =
          phase.messages.emplace_back(Message{ring[i], ring[next], 1, 1, 1, static_cast<int>(number)});
      add_parts(channels, i, next, ring, message, collective);
    }
  };
  for (std::size_t i = 0; i < t; ++i) add_ring(instances[i], i, inside);
  for (std::size_t i = 0; i < k; ++i) {
    std::vector<int> owners;
    for (const std::vector<int>& instance : instances) owners.push_back(instance[i]);
    add_ring(owners, i, across);
  }
  if (part == Collective::all_reduce && t == 1) {  // a single ring: its all-reduce is 2 (k − 1) equal rounds
    inside.rounds *= 2;
    collective.phases = {std::move(inside)};
    return collective;
  }
  collective.repeats_channels = part == Collective::all_reduce;  // inside
  if (part != Collective::all_gather) collective.phases = {inside, std::move(across)};
  if (part != Collective::reduce_scatter) collective.phases.push_back(std::move(inside));
  return collective;
}

bool repeats_channels(const NodeCollective& collective) {
  std::vector<std::pair<int, int>> channels;
  for (const Phase& phase : collective.phases)
    for (const Message& it : phase.messages) channels.emplace_back(it.from, it.to);
  std::sort(channels.begin(), channels.end());
  return std::adjacent_find(channels.begin(), channels.end()) != channels.end();
}

/// The messages as core/collectives lists them, for collectives without a shorter description.
NodeCollective as_listed(GradientSync sync, const Topology& topology, const ReplicaGroup& group,
                         Collective part) {
  NodeCollective collective = each_replica(group);
  std::vector<CollectiveMember> members;
  for (const int device : group.devices)
    members.push_back({topology.devices[at(device)].host, topology.devices[at(device)].site});
  const CollectiveMessages list = collective_messages(sync, members, {part, group.site_shards});
  std::optional<HostChannels> channels;
  if (traits(sync).uses_channels) channels.emplace(topology, group.devices);
  int number = no_index;
  for (const CollectivePhase& phase : list.phases)
    for (const CollectiveMessage& it : phase.messages) {
      const double bytes = group.bytes / list.shards / (it.chunk == no_index ? 1 : list.chunks);
      std::vector<Phase>& phases = collective.phases;
      if (std::exchange(number, phase.number) != phase.number || bytes != phases.back().bytes) {
        phases.push_back({bytes});
        phases.back().is_blocking = phase.is_blocking;
      }
      Message& message = phases.back().messages.emplace_back(Message{it.from, it.to});
      if (channels && it.chunk != no_index)
        add_parts(*channels, at(it.from), at(it.to), collective.node_of, message, collective);
    }
  collective.repeats_channels = repeats_channels(collective);
  return collective;
}

double ring_messages(int n) {
  return 2.0 * (n - 1);
}

/// Replica 2^depth − 1 is at this depth.
double tree_messages(int n) {
  return 2.0 * (std::bit_width(static_cast<unsigned>(n)) - 1);
}

/// Time without bytes of an all-reduce over NCCL's trees divided by that of a ring, at most 1. A tree
/// connects the hosts of one site, those of each host are in a chain, and data go to the root and back: 2 ((m
/// - 1) a + d b), with up to m devices on each of h hosts, depth d = ceil(log2 h), and latency plus overhead
/// of a message a inside hosts and b between them. A ring has 2 (n - 1) hops of their mean. (NCCL 2.2x,
/// src/graph/tuning.cc and trees.cc.)
double tree_share(const Topology& topology, const NetworkCost& network, const ReplicaGroup& group) {
  const std::vector<int>& devices = group.devices;
  std::map<int, int> on_host;
  for (const int device : devices) {
    const Device& it = topology.devices[at(device)];
    if (it.site != topology.devices[at(devices.front())].site ||
        topology.transport_between(devices.front(), device))
      return 1;
    ++on_host[it.host];
  }
  if (on_host.size() < 2) return 1;
  const HostChannels channels(topology, devices);
  double inside_s = 0, between_s = 0, around_s = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int from = devices[channels.order()[i]], to = devices[channels.order()[(i + 1) % devices.size()]];
    const MessageCost message = network.message(from, to);
    const double hop_s = message.latency_s + message.overhead_s;
    const bool is_inside = topology.devices[at(from)].host == topology.devices[at(to)].host;
    double& longest_s = is_inside ? inside_s : between_s;
    longest_s = std::max(longest_s, hop_s);
    around_s += hop_s;
  }
  const auto n = static_cast<double>(devices.size());
  const int most = std::ranges::max_element(on_host, {}, [](const auto& it) { return it.second; })->second,
            depth = static_cast<int>(std::bit_width(on_host.size() - 1));
  const double ring_s = (n - 1) * around_s / n, tree_s = (most - 1) * inside_s + depth * between_s;
  return ring_s > tree_s ? tree_s / ring_s : 1;
}

struct SyncFormula {
  GradientSync sync;
  /// Null: all messages are listed.
  NodeCollective (*collective)(const Topology&, const NetworkCost&, const ReplicaGroup&, Collective part);
  SyncPattern pattern = {};
};

/// Collectives without a row are timed by their messages, and have the bounds of any collective.
constexpr SyncFormula formulas[] = {
    {GradientSync::sharded_ps, sharded_ps, {.traffic = SyncPattern::Traffic::to_each, .returns = true}},
    {GradientSync::central_ps, nullptr, {.sends_all = true, .returns = true}},
    {GradientSync::ring, ring, {.traffic = SyncPattern::Traffic::around_ring, .messages = ring_messages}},
    {GradientSync::tree, nullptr, {.sends_all = true, .messages = tree_messages, .returns = true}},
    {GradientSync::hierarchical, hierarchical},
    {GradientSync::hierarchical_ring, hierarchical_ring},
};

SyncFormula formula_of(GradientSync sync) {
  for (const SyncFormula& it : formulas)
    if (it.sync == sync) return it;
  return {sync, nullptr};
}

NodeCollective describe(GradientSync sync, const Topology& topology, const NetworkCost& network,
                        const ReplicaGroup& group, Collective part) {
  if (const SyncFormula formula = formula_of(sync); formula.collective)
    return formula.collective(topology, network, group, part);
  if (!traits(sync).messages)
    throw Error("", fmt::format("gradient_sync {} has no time formula", name_of(sync)));
  return as_listed(sync, topology, group, part);
}

/// Use of a shared capacity.
struct LinkUse {
  int id = 0;
  double round_bytes = 0, phase_bytes = 0;  // of a round of the current phase, and of the whole phase
  double bytes = 0;                         // of all phases
  double first_s = infinity, busy_s = 0;    // first message of the current phase; end of all messages so far
};

/// Occupancy of the sender and latency of a message.
struct MessageTime {
  double occupancy_s = 0, latency_s = 0;
  double total_s() const { return occupancy_s + latency_s; }
};

/// Times at which the members of a ring, ready at `ready_s`, have completed all rounds. In every round, a
/// member sends its message when it has sent the previous one and received that of its predecessor.
///
/// Large rings use the longest of three paths through the rounds: one stays at the slowest member; one goes
/// around the ring in all rounds; one goes around once and stays at the slowest member in the other rounds.
std::vector<double> ring_ends_s(std::span<const MessageTime> hops, std::vector<double> ready_s,
                                double rounds) {
  constexpr std::size_t max_exact = 32;  // members: the time of the exact recurrence grows with their square
  const std::size_t n = hops.size();
  if (n <= max_exact) {
    std::vector<double> free_s(n), received_s(n);
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
      for (std::size_t i = 0; i < n; ++i) {
        free_s[i] = std::max(free_s[i], ready_s[i]) + hops[i].occupancy_s;
        received_s[(i + 1) % n] = free_s[i] + hops[i].latency_s;
      }
      std::swap(ready_s, received_s);
    }
    return ready_s;
  }
  // The longest path around the ring has as many hops as rounds: it leaves out the cheapest hops of its last
  // turn.
  const std::size_t skipped = (n - static_cast<std::size_t>(rounds) % n) % n;
  const double turns = std::ceil(rounds / static_cast<double>(n));
  double all_s = 0, slowest_s = 0, waiting_s = 0, skipped_s = infinity;
  for (std::size_t i = 0; i < n; ++i) {
    all_s += hops[i].total_s();
    slowest_s = std::max(slowest_s, hops[i].occupancy_s);
    waiting_s = std::max(waiting_s, rounds * hops[i].occupancy_s + hops[i].latency_s);
    double next_s = 0;
    for (std::size_t k = 0; k < skipped; ++k) next_s += hops[(i + k) % n].total_s();
    skipped_s = std::min(skipped_s, next_s);
  }
  const double once_s =  // once around, then the remaining rounds at the slowest member
      rounds < static_cast<double>(n) ? 0 : all_s + (rounds - static_cast<double>(n)) * slowest_s;
  const double around_s = std::max(turns * all_s - skipped_s, once_s);
  return std::vector(n, *std::max_element(ready_s.begin(), ready_s.end()) + std::max(waiting_s, around_s));
}

/// Number of messages that one message of the list stands for on a shared capacity of its devices.
struct LinkShare {
  int link = 0;  // id of the capacity; after number_links its index in links_
  double messages = 0;
};

/// Cost of a message without contention, and its range in shares_.
struct Route {
  MessageCost cost;
  double usd_per_byte = 0;
  std::size_t first_share = 0, last_share = 0;
  std::size_t first_part = 0, last_part = 0;  // in part_costs_; none if it is sent as a whole
};

/// One of the concurrent collectives.
struct RunningCollective {
  NodeCollective collective;
  double count = 1;
  double latencies = 1;            // how often a message takes its latency and overhead
  std::vector<double> ready_s;     // by node: when it has received everything so far
  std::vector<double> channels_s;  // [sender][receiver]: end of the last message, if channels are repeated
  std::vector<std::vector<Route>> routes = {};  // by phase and message
};

class SyncTimer {
 public:
  SyncTimer(const NetworkCost& network, std::vector<RunningCollective> all)
      : network_(network), all_(std::move(all)) {
    for (RunningCollective& running : all_) find_routes(running);
    number_links();
  }

  SyncTime run() {
    const NodeCollective& first = all_.front().collective;
    for (int pass = 0; pass < first.passes; ++pass)
      for (std::size_t number = 0; number < first.phases.size(); ++number) {
        if (!links_.empty() || network_.is_priced()) use_links(number);
        slowest_s_ = 0;
        for (RunningCollective& running : all_) advance(running, number);
        const double phase_s = first.phases[number].rounds * slowest_s_;
        result_.channel_busy_s = first.repeats_channels ? result_.channel_busy_s + phase_s
                                                        : std::max(result_.channel_busy_s, phase_s);
      }
    for (const int node : first.node_of) result_.ends_s.push_back(all_.front().ready_s[at(node)]);
    for (const RunningCollective& running : all_)
      for (const double ready_s : running.ready_s) result_.seconds = std::max(result_.seconds, ready_s);
    add_link_bytes();
    return std::move(result_);
  }

 private:
  void find_routes(RunningCollective& running) {
    const NodeCollective& collective = running.collective;
    for (const Phase& phase : collective.phases) {
      std::vector<Route>& routes = running.routes.emplace_back();
      routes.reserve(phase.messages.size());
      for (const Message& it : phase.messages) {
        if (it.first_part < it.last_part) {
          routes.push_back(route_of_parts(it, running));
          continue;
        }
        const int from = collective.devices[at(it.from)],
                  to = it.from == it.to ? collective.members[at(it.from)][1] : collective.devices[at(it.to)];
        const std::size_t first_share = shares_.size();
        if (network_.shared_count() > 0) {
          add_shares(it, running, network_.shared(from, to), it.from != it.to, true);
          // Within a class, count what its first device receives, over that device's own capacities.
          if (it.from == it.to) add_shares(it, running, network_.shared(to, from), true, false);
          add_class_capacities(collective, it.from, from, to, true);
          add_class_capacities(collective, it.to, it.from == it.to ? from : to, it.from == it.to ? to : from,
                               false);
        }
        routes.push_back(
            {collective.is_coarse ? network_.coarse_message(from, to) : network_.message(from, to),
             network_.usd_per_byte(from, to), first_share, shares_.size()});
      }
    }
  }

  /// The route of a message between replicas that is sent in concurrent parts.
  Route route_of_parts(const Message& message, const RunningCollective& running) {
    const std::vector<int>& devices = running.collective.devices;
    const double part = 1 / static_cast<double>(message.last_part - message.first_part);
    Route route;
    route.first_share = shares_.size();
    route.first_part = part_costs_.size();
    for (std::size_t i = message.first_part; i < message.last_part; ++i) {
      const auto& [sending, receiving] = running.collective.message_parts[i];
      const int from = static_cast<int>(sending), to = static_cast<int>(receiving);
      const int sender = devices[at(from)], receiver = devices[at(to)];
      part_costs_.push_back(network_.message(sender, receiver));
      route.usd_per_byte += part * network_.usd_per_byte(sender, receiver);
      if (network_.shared_count() > 0)
        add_shares({from, to, part, part, part}, running, network_.shared(sender, receiver), true, true);
    }
    route.last_share = shares_.size();
    route.last_part = part_costs_.size();
    return route;
  }

  void add_shares(const Message& it, const RunningCollective& running, const SharedPath& path,
                  bool of_receiver, bool of_others) {
    for (const int id : path) {
      const CapacityOwner owner = network_.owner(id);
      const bool is_of_receiver = owner == CapacityOwner::receiver || owner == CapacityOwner::receiver_host;
      if (is_of_receiver ? of_receiver : of_others)
        shares_.push_back({id, messages_over(owner, it, running)});
    }
  }

  /// Records which capacities of the other members of a class correspond to those of its first device,
  /// `device`, for messages to or from `peer`.
  void add_class_capacities(const NodeCollective& collective, int node, int device, int peer,
                            bool is_sender) {
    if (collective.members.empty() || collective.members[at(node)].size() == 1) return;
    const std::vector<int> own = private_ids(device, peer, is_sender);
    if (own.empty()) return;
    for (const int member : collective.members[at(node)]) {
      if (member == device) continue;
      const std::vector<int> ids = private_ids(member, member == peer ? device : peer, is_sender);
      for (std::size_t i = 0; i < std::min(own.size(), ids.size()); ++i)
        if (own[i] != ids[i]) class_capacities_.emplace_back(own[i], ids[i]);
    }
  }

  std::vector<int> private_ids(int device, int peer, bool is_sender) const {
    std::vector<int> ids;
    for (const int id : is_sender ? network_.shared(device, peer) : network_.shared(peer, device)) {
      const CapacityOwner owner = network_.owner(id);
      if (is_sender ? owner == CapacityOwner::sender || owner == CapacityOwner::sender_host
                    : owner == CapacityOwner::receiver || owner == CapacityOwner::receiver_host)
        ids.push_back(id);
    }
    return ids;
  }

  void add_link_bytes() {
    std::sort(class_capacities_.begin(), class_capacities_.end());
    class_capacities_.erase(std::unique(class_capacities_.begin(), class_capacities_.end()),
                            class_capacities_.end());
    std::vector<std::pair<int, double>>& all = result_.link_bytes;
    for (const LinkUse& link : links_) {
      all.emplace_back(link.id, link.bytes);
      for (auto it =
               std::lower_bound(class_capacities_.begin(), class_capacities_.end(), std::pair(link.id, 0));
           it != class_capacities_.end() && it->first == link.id; ++it)
        all.emplace_back(it->second, link.bytes);
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t count = 0;  // merged: one entry for each capacity
    for (const auto& it : all)
      if (count > 0 && all[count - 1].first == it.first)
        all[count - 1].second += it.second;
      else
        all[count++] = it;
    all.resize(count);
  }

  /// Number of messages over a capacity, of all shards together.
  static double messages_over(CapacityOwner owner, const Message& it, const RunningCollective& running) {
    const auto parts_of = [&](int node) {
      return std::min(running.count, static_cast<double>(running.collective.parts[at(node)]));
    };
    const auto of_host = [&](int node, double of_device) {
      const std::vector<bool>& on_one_host = running.collective.are_on_one_host;
      return running.count * (!on_one_host.empty() && on_one_host[at(node)] ? it.in_all : of_device);
    };
    switch (owner) {
      case CapacityOwner::sender:
        return it.per_sender * parts_of(it.from);
      case CapacityOwner::sender_host:
        return of_host(it.from, it.per_sender);
      case CapacityOwner::receiver:
        return it.per_receiver * parts_of(it.to);
      case CapacityOwner::receiver_host:
        return of_host(it.to, it.per_receiver);
      case CapacityOwner::many:
        break;
    }
    return it.in_all * running.count;
  }

  void number_links() {
    if (shares_.empty()) return;
    std::vector<int> number(at(network_.shared_count()), no_index);  // by id of the capacity
    for (const LinkShare& it : shares_) number[at(it.link)] = 0;
    for (int id = 0; at(id) < number.size(); ++id)
      if (number[at(id)] != no_index) {
        number[at(id)] = static_cast<int>(links_.size());
        links_.push_back({id});
      }
    for (LinkShare& it : shares_) it.link = number[at(it.link)];
  }

  /// Adds phase `number` to the use of all links. A link carries one phase after the other.
  void use_links(std::size_t number) {
    for (LinkUse& link : links_) {
      link.round_bytes = link.phase_bytes = 0;
      link.first_s = infinity;
    }
    for (const RunningCollective& running : all_) {
      const Phase& phase = running.collective.phases[number];
      for (std::size_t i = 0; i < phase.messages.size(); ++i) {
        const Message& message = phase.messages[i];
        const Route& route = running.routes[number][i];
        result_.egress_usd +=
            phase.rounds * message.in_all * running.count * phase.bytes * route.usd_per_byte;
        for (std::size_t share = route.first_share; share < route.last_share; ++share) {
          LinkUse& link = links_[at(shares_[share].link)];
          const double bytes = shares_[share].messages * phase.bytes;
          link.round_bytes += bytes;
          link.phase_bytes += phase.rounds * bytes;
          link.first_s = std::min(link.first_s, running.ready_s[at(message.from)]);
        }
      }
    }
    for (LinkUse& link : links_) {
      if (link.phase_bytes == 0) continue;
      link.bytes += link.phase_bytes;
      link.busy_s =
          std::max(link.busy_s, link.first_s) + link.phase_bytes * network_.shared_seconds_per_byte(link.id);
    }
  }

  MessageTime message_time(const RunningCollective& running, std::size_t number, std::size_t i,
                           double& busy_s) {
    const Phase& phase = running.collective.phases[number];
    const Message& message = phase.messages[i];
    const Route& route = running.routes[number][i];
    const std::vector<int>& parts = running.collective.parts;
    const int count = std::min(parts[at(message.from)], parts[at(message.to)]);
    double shared_s = 0;
    for (std::size_t share = route.first_share; share < route.last_share; ++share) {
      const LinkUse& link = links_[at(shares_[share].link)];
      shared_s = std::max(shared_s, link.round_bytes * network_.shared_seconds_per_byte(link.id));
      busy_s = std::max(busy_s, link.busy_s);
    }
    const double latencies = running.latencies;
    const auto time_of = [&](const MessageCost& cost, double bytes) {
      return MessageTime{
          count * latencies * cost.overhead_s + std::max(count * bytes * cost.seconds_per_byte, shared_s),
          latencies * cost.latency_s};
    };
    MessageTime time;
    const std::size_t part_count = route.last_part - route.first_part;
    if (part_count == 0) time = time_of(route.cost, phase.bytes);
    double total_s = time.total_s();
    for (std::size_t part = route.first_part; part < route.last_part; ++part) {
      const MessageTime of_part = time_of(part_costs_[part], phase.bytes / static_cast<double>(part_count));
      time.occupancy_s = std::max(time.occupancy_s, of_part.occupancy_s);
      total_s = std::max(total_s, of_part.total_s());
    }
    time.latency_s = total_s - time.occupancy_s;
    slowest_s_ = std::max(slowest_s_, time.occupancy_s);
    return time;
  }

  void advance(RunningCollective& running, std::size_t number) {
    const Phase& phase = running.collective.phases[number];
    const std::vector<double> before_s = running.ready_s;
    for (std::size_t i = 0; i < phase.messages.size();) {
      if (phase.messages[i].ring == no_index)
        send(running, number, i++, before_s);
      else
        i = advance_ring(running, number, i, before_s);
    }
  }

  void send(RunningCollective& running, std::size_t number, std::size_t i,
            const std::vector<double>& before_s) {
    const Phase& phase = running.collective.phases[number];
    const Message& message = phase.messages[i];
    double busy_s = 0;
    const MessageTime time = message_time(running, number, i, busy_s);
    const double begin_s = before_s[at(message.from)];
    double& ready_s = running.ready_s[at(message.to)];
    if (!running.collective.repeats_channels) {
      const double end_s = std::max(begin_s + time.occupancy_s, busy_s) + time.latency_s;
      ready_s = std::max(ready_s, end_s);
      if (phase.is_blocking) running.ready_s[at(message.from)] = end_s;
      return;
    }
    double& channel_s = running.channels_s[at(message.from) * running.ready_s.size() + at(message.to)];
    channel_s = std::max(std::max(begin_s, channel_s) + time.occupancy_s, busy_s);
    ready_s = std::max(ready_s, channel_s + time.latency_s);
  }

  /// Returns the index of the first message that does not belong to the ring.
  std::size_t advance_ring(RunningCollective& running, std::size_t number, std::size_t first,
                           const std::vector<double>& before_s) {
    const Phase& phase = running.collective.phases[number];
    std::vector<MessageTime> times;
    std::vector<double> ready_s;
    double busy_s = 0;
    std::size_t end = first;
    for (; end < phase.messages.size() && phase.messages[end].ring == phase.messages[first].ring; ++end) {
      times.push_back(message_time(running, number, end, busy_s));
      ready_s.push_back(before_s[at(phase.messages[end].from)]);
    }
    const std::vector<double> ends_s = ring_ends_s(times, std::move(ready_s), phase.rounds);
    for (std::size_t i = first; i < end; ++i) {
      double& now_s = running.ready_s[at(phase.messages[i].from)];
      now_s = std::max({now_s, ends_s[i - first], busy_s});
    }
    return end;
  }

  const NetworkCost& network_;
  std::vector<RunningCollective> all_;
  std::vector<LinkShare> shares_;
  std::vector<MessageCost> part_costs_;  // of messages that are sent in parts
  // Capacities of the first device of a class, each with the corresponding one of another device.
  std::vector<std::pair<int, int>> class_capacities_;
  std::vector<LinkUse> links_;  // that messages cross
  double slowest_s_ = 0;        // longest message of the current phase
  SyncTime result_;
};

}  // namespace

SyncPattern sync_pattern(GradientSync sync) {
  return formula_of(sync).pattern;
}

SyncTime gradient_sync_time(GradientSync sync, const Topology& topology, const NetworkCost& network,
                            std::span<const ReplicaGroup> groups, Collective part) {
  DTFM_ASSERT(part == Collective::all_reduce || traits(sync).has_halves);
  std::vector<RunningCollective> all;
  for (const ReplicaGroup& group : groups) {
    DTFM_ASSERT(group.devices.size() > 1);
    NodeCollective collective = describe(sync, topology, network, group, part);
    std::vector<double> ready_s(collective.devices.size());
    std::vector<double> channels_s;
    if (collective.repeats_channels) channels_s.resize(ready_s.size() * ready_s.size());
    double latencies = group.pieces > 0 ? group.pieces : 1;
    if (group.pieces > 0 && part == Collective::all_reduce && traits(sync).may_use_trees)
      latencies *= tree_share(topology, network, group);
    all.push_back({std::move(collective),
                   static_cast<double>(group.count),
                   latencies,
                   std::move(ready_s),
                   std::move(channels_s),
                   {}});
  }
  return SyncTimer(network, std::move(all)).run();
}

}  // namespace dtfm::cost
