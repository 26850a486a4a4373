#include "planner/cost/iteration_time/gradient_sync_time.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm::cost {

std::vector<double> GradientSyncTime::completion_times(GradientSync sync, const std::vector<int>& devices,
                                                       double bytes) {
  begin(devices);
  switch (sync) {
    case GradientSync::sharded_ps:
      return sharded_ps(bytes);
    case GradientSync::central_ps:
      return central_ps(bytes);
    case GradientSync::tree:
      return tree(bytes);
    case GradientSync::hierarchical:
      return hierarchical(bytes);
    case GradientSync::ring:
      break;
    default:
      throw Error("", fmt::format("gradient_sync {} has no time formula", name_of(sync)));
  }
  std::vector<int> members(devices.size());
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i);
  std::vector<double> ready(devices.size());
  ring_all_reduce(members, ready, bytes);
  return ready;
}

void GradientSyncTime::begin(const std::vector<int>& devices) {
  DTFM_ASSERT(devices.size() > 1);
  devices_ = devices;
  phase_.resize(load_.size());
  for (const int id : used_) load_[at(id)] = 0;
  used_.clear();
  first_messages_.clear();
  transfers_.clear();
  usd_ = 0;
}

void GradientSyncTime::transfer(int from, int to, double begin_s, double seconds, double times) {
  if (recorded_detail_ != TransferDetail::none)
    transfers_.push_back({from, to, begin_s, times * (seconds - latency_s(from, to))});
}

void GradientSyncTime::count(const std::vector<Message>& messages, double bytes, double times) {
  if (network_.is_priced())
    for (const Message& it : messages)
      usd_ += times * it.count * bytes * network_.usd_per_byte(devices_[at(it.from)], devices_[at(it.to)]);
  if (network_.shared_count() == 0) return;
  for (const int id : used_in_phase_) phase_[at(id)] = 0;
  used_in_phase_.clear();
  paths_.clear();
  for (const Message& message : messages) {
    paths_.push_back(network_.shared(devices_[at(message.from)], devices_[at(message.to)]));
    for (const int id : paths_.back()) {
      if (phase_[at(id)] == 0) used_in_phase_.push_back(id);
      phase_[at(id)] += message.count * bytes;
    }
  }
  if (first_messages_.empty() && bytes > 0)
    for (const int id : used_in_phase_) first_messages_.emplace_back(id, phase_[at(id)] / bytes);
  for (const int id : used_in_phase_) {
    if (load_[at(id)] == 0) used_.push_back(id);
    load_[at(id)] += phase_[at(id)] * times;
  }
}

double GradientSyncTime::seconds(int from, int to, double bytes) const {
  const int a = devices_[at(from)], b = devices_[at(to)];
  const MessageCost cost = network_.message(a, b);
  if (network_.shared_count() == 0) return cost.total_s(bytes);
  return occupancy_s(cost, network_.shared(a, b), bytes) + cost.latency_s;
}

double GradientSyncTime::occupancy_s(const MessageCost& cost, const SharedPath& path, double bytes) const {
  double transfer_s = bytes * cost.seconds_per_byte;
  for (const int id : path) {
    const double bytes_of_all =
        concurrent_messages_.empty() ? phase_[at(id)] : phase_[at(id)] * concurrent_messages_[at(id)];
    transfer_s = std::max(transfer_s, bytes_of_all * network_.shared_seconds_per_byte(id));
  }
  return cost.overhead_s + transfer_s;
}

double GradientSyncTime::latency_s(int from, int to) const {
  return network_.message(devices_[at(from)], devices_[at(to)]).latency_s;
}

/// Devices of one kind share a group, because their messages cost the same. With TransferDetail::all, every
/// device is a group of its own, since the caller wants every message.
void GradientSyncTime::find_groups() {
  const auto group_of = [&](int device) -> int& {
    return group_of_kind_[at(recorded_detail_ == TransferDetail::all ? device : network_.kind(device))];
  };
  groups_.clear();
  group_.clear();
  group_of_kind_.resize(topology_.devices.size(), -1);
  for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
    int& number = group_of(devices_[at(i)]);
    if (number < 0) {
      number = static_cast<int>(groups_.size());
      groups_.push_back({i, -1, 0});
    }
    Group& group = groups_[at(number)];
    if (++group.count == 2) group.second = i;
    group_.push_back(number);
  }
  for (const int device : devices_) group_of(device) = -1;
}

/// Lists one message per ordered pair of groups, with the number of messages that it stands for.
void GradientSyncTime::list_messages() {
  const int groups = static_cast<int>(groups_.size());
  all_.clear();
  for (int from = 0; from < groups; ++from)
    for (int to = 0; to < groups; ++to) {
      const Group &a = groups_[at(from)], &b = groups_[at(to)];
      if (from != to)
        all_.push_back({a.first, b.first, 1.0 * a.count * b.count});
      else if (a.count > 1)
        all_.push_back({a.first, a.second, 1.0 * a.count * (a.count - 1)});
    }
}

/// Computes the times of a message between each pair of groups without contention.
void GradientSyncTime::time_alone(double bytes) {
  const std::size_t groups = groups_.size();
  all_sent_s_.resize(groups * groups);
  all_s_.resize(groups * groups);
  const auto put = [&](std::size_t cell, int from, int to) {
    const MessageCost cost = network_.message(devices_[at(from)], devices_[at(to)]);
    all_sent_s_[cell] = cost.occupancy_s(bytes);
    all_s_[cell] = cost.total_s(bytes);
  };
  for (std::size_t from = 0; from < groups; ++from) {
    const Group& sender = groups_[from];
    for (std::size_t to = 0; to < groups; ++to) put(from * groups + to, sender.first, groups_[to].first);
    // A device alone in its group: 0 s.
    if (sender.count > 1) put(from * groups + from, sender.first, sender.second);
  }
}

/// Every device sends one shard to every other device, then the sum of its own shard, as soon as the earlier
/// message on the same path has left. One message per pair of groups is evaluated.
std::vector<double> GradientSyncTime::sharded_ps(double bytes) {
  find_groups();
  const std::size_t groups = groups_.size();
  const double shard = bytes / static_cast<double>(devices_.size());
  time_alone(shard);
  if (network_.shared_count() > 0 || network_.is_priced() || recorded_detail_ == TransferDetail::all) {
    list_messages();
    count(all_, shard, 2);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const auto& [from, to, _] = all_[i];
      const std::size_t cell = at(group_[at(from)]) * groups + at(group_[at(to)]);
      if (network_.shared_count() > 0) {
        const MessageCost cost = network_.message(devices_[at(from)], devices_[at(to)]);
        all_sent_s_[cell] = occupancy_s(cost, paths_[i], shard);
        all_s_[cell] = all_sent_s_[cell] + cost.latency_s;
      }
      if (recorded_detail_ == TransferDetail::all) transfer(from, to, 0, all_s_[cell], 2);
    }
  }
  if (recorded_detail_ == TransferDetail::slowest)
    transfers_.push_back({0, 0, 0, 2 * *std::max_element(all_sent_s_.begin(), all_sent_s_.end())});
  std::vector<double> summed(groups);
  for (std::size_t from = 0; from < groups; ++from)
    for (std::size_t to = 0; to < groups; ++to) summed[to] = std::max(summed[to], all_s_[from * groups + to]);
  std::vector<double> ends_of_groups = summed, completion_times;
  for (std::size_t from = 0; from < groups; ++from)
    for (std::size_t to = 0; to < groups; ++to) {
      const std::size_t cell = from * groups + to;
      ends_of_groups[to] =
          std::max(ends_of_groups[to], std::max(summed[from], all_sent_s_[cell]) + all_s_[cell]);
    }
  for (const int group : group_) completion_times.push_back(ends_of_groups[at(group)]);
  return completion_times;
}

/// All devices send to the first one, which returns the sum.
std::vector<double> GradientSyncTime::central_ps(double bytes) {
  const int n = static_cast<int>(devices_.size());
  std::vector<Message> there, back;
  for (int i = 1; i < n; ++i) {
    there.push_back({i, 0});
    back.push_back({0, i});
  }
  double summed = 0;
  count(there, bytes);
  for (int i = 1; i < n; ++i) {
    const double end = seconds(i, 0, bytes);
    transfer(i, 0, 0, end);
    summed = std::max(summed, end);
  }
  std::vector<double> completion_times(at(n), summed);
  count(back, bytes);
  for (int i = 1; i < n; ++i) {
    completion_times[at(i)] += seconds(0, i, bytes);
    transfer(0, i, summed, completion_times[at(i)] - summed);
  }
  return completion_times;
}

/// Ring all-reduce among `members` (indices into the devices), each of which starts when it is ready: 2 (n −
/// 1) rounds, in each of which every member forwards what it received in the previous one, 1 / n of the
/// bytes. A member finishes sending one message before it sends the next.
void GradientSyncTime::ring_all_reduce(const std::vector<int>& members, std::vector<double>& ready,
                                       double bytes) {
  const std::size_t n = members.size();
  if (n < 2) return;
  const double part = bytes / static_cast<double>(n), rounds = 2.0 * static_cast<double>(n - 1);
  std::vector<Message> messages;
  for (std::size_t i = 0; i < n; ++i) messages.push_back({members[i], members[(i + 1) % n]});
  count(messages, part, rounds);
  std::vector<double> latency(n), occupancy(n), free(n);
  for (std::size_t i = 0; i < n; ++i) {
    latency[i] = latency_s(messages[i].from, messages[i].to);
    occupancy[i] = seconds(messages[i].from, messages[i].to, part) - latency[i];
    transfer(messages[i].from, messages[i].to, ready[i], occupancy[i] + latency[i], rounds);
  }
  for (std::size_t round = 0; round < 2 * (n - 1); ++round) {
    std::vector<double> received(n);
    for (std::size_t i = 0; i < n; ++i) {
      free[i] = std::max(free[i], ready[i]) + occupancy[i];
      received[(i + 1) % n] = free[i] + latency[i];
    }
    ready = std::move(received);
  }
}

/// Binomial tree: in round k, devices whose index is an odd multiple of 2^k send to the one 2^k before them.
/// The sum returns in the opposite order, one message after the other.
std::vector<double> GradientSyncTime::tree(double bytes) {
  const int n = static_cast<int>(devices_.size());
  std::vector<double> alone(at(n));  // by sender: seconds of its message under the contention of its round
  int reach = 1;
  for (; reach < n; reach *= 2) {
    std::vector<Message> messages;
    for (int i = reach; i < n; i += 2 * reach) messages.push_back({i, i - reach});
    count(messages, bytes);
    for (const Message& it : messages) alone[at(it.from)] = seconds(it.from, it.to, bytes);
  }
  std::vector<double> ready(at(n));
  for (int to = n - 1; to >= 0; --to) {  // senders have higher indices than the receiver
    std::vector<int> senders;
    for (int i = 1; to % (2 * i) == 0 && to + i < n; i *= 2) senders.push_back(to + i);
    ready[at(to)] = gather_at(to, senders, ready, alone, bytes);
  }
  for (reach /= 2; reach > 0; reach /= 2) {
    std::vector<Message> messages;
    for (int i = 0; i + reach < n; i += 2 * reach) messages.push_back({i, i + reach});
    count(messages, bytes);
    for (const Message& it : messages) {
      const double end = seconds(it.from, it.to, bytes);
      transfer(it.from, it.to, ready[at(it.from)], end);
      ready[at(it.from)] = ready[at(it.to)] = ready[at(it.from)] + end;
    }
  }
  return ready;
}

/// Time at which the messages of all `senders` have arrived. Each sends as soon as it is ready, even before
/// its round: a shared capacity serves messages in the order in which they start and is never idle while one
/// is waiting.
double GradientSyncTime::gather_at(int to, std::vector<int> senders, const std::vector<double>& ready,
                                   const std::vector<double>& alone, double bytes) {
  std::stable_sort(senders.begin(), senders.end(), [&](int a, int b) { return ready[at(a)] < ready[at(b)]; });
  std::vector<std::pair<int, double>> busy;  // capacity, busy until
  double end = 0;
  for (const int from : senders) {
    end = std::max(end, ready[at(from)] + alone[at(from)]);
    transfer(from, to, ready[at(from)], alone[at(from)]);
    if (network_.shared_count() == 0) continue;
    const int a = devices_[at(from)], b = devices_[at(to)];
    const MessageCost cost = network_.message(a, b);
    for (const int id : network_.shared(a, b)) {
      auto it = std::find_if(busy.begin(), busy.end(), [&](const auto& other) { return other.first == id; });
      if (it == busy.end()) it = busy.insert(it, {id, 0});
      it->second = std::max(it->second, ready[at(from)] + cost.overhead_s) +
                   bytes * network_.shared_seconds_per_byte(id);
      end = std::max(end, it->second + cost.latency_s);
    }
  }
  return end;
}

/// Inside every site, k devices sum one shard each (reduce-scatter), k being the size of the smallest site.
/// The owners of the same shard form a ring across sites (all-reduce). Then every owner sends its shard to
/// its whole site (all-gather).
std::vector<double> GradientSyncTime::hierarchical(double bytes) {
  std::vector<std::vector<int>> sites;  // indices into the devices
  for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
    const int site = topology_.devices[at(devices_[at(i)])].site;
    const auto same = std::find_if(sites.begin(), sites.end(), [&](const std::vector<int>& members) {
      return topology_.devices[at(devices_[at(members.front())])].site == site;
    });
    if (same == sites.end())
      sites.push_back({i});
    else
      same->push_back(i);
  }
  std::size_t shards = devices_.size();
  for (const auto& members : sites) shards = std::min(shards, members.size());
  const double shard = bytes / static_cast<double>(shards);
  std::vector<Message> gather, scatter;
  for (const auto& members : sites)
    for (std::size_t k = 0; k < shards; ++k)
      for (const int member : members)
        if (member != members[k]) {
          gather.push_back({member, members[k]});
          scatter.push_back({members[k], member});
        }
  count(gather, shard);
  std::vector<std::vector<double>> sums(shards, std::vector<double>(sites.size())),
      sent(devices_.size(), std::vector<double>(devices_.size()));
  for (std::size_t t = 0; t < sites.size(); ++t)
    for (std::size_t k = 0; k < shards; ++k)
      for (const int member : sites[t])
        if (member != sites[t][k]) {
          const double end = seconds(member, sites[t][k], shard);
          transfer(member, sites[t][k], 0, end);
          sums[k][t] = std::max(sums[k][t], end);
          sent[at(member)][at(sites[t][k])] = end - latency_s(member, sites[t][k]);
        }
  for (std::size_t k = 0; k < shards; ++k) {
    std::vector<int> owners;
    for (const auto& members : sites) owners.push_back(members[k]);
    ring_all_reduce(owners, sums[k], shard);
  }
  count(scatter, shard);
  std::vector<double> completion_times(devices_.size());
  for (std::size_t t = 0; t < sites.size(); ++t)
    for (const int member : sites[t])
      for (std::size_t k = 0; k < shards; ++k) {
        double end = sums[k][t];
        // If the receiver owns a shard, the message follows the one sent to it in the reduce-scatter.
        if (member != sites[t][k]) {
          const double begin = std::max(end, sent[at(sites[t][k])][at(member)]);
          end = begin + seconds(sites[t][k], member, shard);
          transfer(sites[t][k], member, begin, end - begin);
        }
        completion_times[at(member)] = std::max(completion_times[at(member)], end);
      }
  return completion_times;
}

}  // namespace dtfm::cost
