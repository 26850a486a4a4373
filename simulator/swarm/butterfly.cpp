#include "simulator/swarm/butterfly.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

/// The smallest time T per byte, T ÷ V. With bandwidths in descending order, the first k peers have shards if
/// 1 + (G − 2) w_i = T b_i ÷ V and Σ w = 1 give none of them a negative one:
/// T ÷ V = (G − 2 + k) ÷ (b_1 + … + b_k) and b_k T ÷ V ≥ 1.
double min_time_per_byte(std::vector<double> bandwidths) {
  std::sort(bandwidths.rbegin(), bandwidths.rend());
  const double others = static_cast<double>(bandwidths.size()) - 2;
  double sum = 0, time = 0;
  for (std::size_t k = 0; k < bandwidths.size(); ++k) {
    if (k > 0 && bandwidths[k] * time < 1) break;
    sum += bandwidths[k];
    time = (others + static_cast<double>(k + 1)) / sum;
  }
  // A peer without a shard still sends its gradients.
  return std::max(time, 1 / bandwidths.back());
}

/// Stands for unlimited bandwidth, so that shards stay finite.
constexpr double max_bits_per_s = 1e24;

/// Sums of the bandwidths (bit/s) between one member and the others.
struct PairSums {
  double out = 0, in = 0;
};

PairSums pair_sums(const Topology& topology, std::span<const int> members, int member) {
  PairSums sums;
  std::set<int> shared;  // link entries counted so far
  for (const int other : members) {
    if (other == member) continue;
    const Link link = topology.link(member, other);
    if (!link.shared_by_sender || shared.insert(topology.link_index(member, other)).second)
      sums.out += link.bandwidth.value();
    sums.in += topology.link(other, member).bandwidth.value();
  }
  return sums;
}

}  // namespace

Butterfly butterfly(double bytes, std::span<const double> bytes_per_s) {
  const std::size_t peers = bytes_per_s.size();
  Butterfly result;
  result.shards.assign(peers, peers == 0 ? 0 : 1 / static_cast<double>(peers));
  if (peers < 2) return result;
  for (const double bandwidth : bytes_per_s) DTFM_ASSERT(bandwidth > 0);
  const double time = min_time_per_byte({bytes_per_s.begin(), bytes_per_s.end()});
  result.seconds = bytes * time;
  if (peers == 2) return result;  // the time does not depend on the shards
  for (std::size_t i = 0; i < peers; ++i)
    result.shards[i] = std::max(0.0, (bytes_per_s[i] * time - 1) / static_cast<double>(peers - 2));
  // The sum exceeds 1 if the slowest peer determines the time; then the other peers have slack.
  const double sum = std::accumulate(result.shards.begin(), result.shards.end(), 0.0);
  for (double& shard : result.shards) shard /= sum;
  return result;
}

std::vector<double> all_reduce_rates(const Problem& problem, std::span<const int> members) {
  const Topology& topology = problem.topology;
  std::map<int, double> on_host, on_site;
  for (const int member : members) {
    const Device& it = topology.devices[at(member)];
    ++on_host[it.host];
    ++on_site[it.site];
  }
  std::vector<double> rates;
  for (const int member : members) {
    const Device& it = topology.devices[at(member)];
    const auto [out, in] = pair_sums(topology, members, member);
    double rate = std::min({out, in, it.uplink.value(), it.downlink.value(), max_bits_per_s});
    if (on_host.size() > 1)
      rate = std::min(
          {rate, it.host_uplink.value() / on_host[it.host], it.host_downlink.value() / on_host[it.host]});
    if (on_site.size() > 1) {
      const Site& site = topology.sites[at(it.site)];
      rate =
          std::min({rate, site.uplink.value() / on_site[it.site], site.downlink.value() / on_site[it.site]});
    }
    rates.push_back(rate / bits_per_byte * problem.constants.network_efficiency);
  }
  return rates;
}

double slowest_pair_s(const Problem& problem, std::span<const int> members, double bytes,
                      std::span<const double> shards) {
  double slowest = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::map<int, double> on_entry;
    for (std::size_t j = 0; j < members.size(); ++j) {
      if (i == j) continue;
      const Link link = problem.topology->link(members[i], members[j]);
      double sent = bytes * (shards[i] + shards[j]);
      if (link.shared_by_sender)
        sent = on_entry[problem.topology->link_index(members[i], members[j])] += sent;
      slowest = std::max(slowest, sent * bits_per_byte / link.bandwidth.value());
    }
  }
  return slowest / problem.constants.network_efficiency;
}

StageAllReduce::StageAllReduce(const Problem& problem, std::vector<int> its_members, double its_bytes,
                               double compression_s)
    : members(std::move(its_members)),
      bytes(its_bytes),
      site_shards_(problem.topology->sites.size()),
      site_members_(site_shards_.size()) {
  if (members.size() < 2) return;
  const Topology& topology = problem.topology;
  const Butterfly all_reduce = butterfly(bytes, all_reduce_rates(problem, members));
  double longest = 0;
  for (const int from : members)
    for (const int to : members)
      if (from != to)
        longest = std::max(longest, topology.link(from, to).latency.value() +
                                        message_overhead_s(problem.constants, topology, from, to));
  const double pairs_s = slowest_pair_s(problem, members, bytes, all_reduce.shards);
  seconds = std::max(all_reduce.seconds, pairs_s) + 2 * longest + 2 * compression_s;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t site = at(topology.devices[at(members[i])].site);
    site_shards_[site] += all_reduce.shards[i];
    ++site_members_[site];
  }
}

void StageAllReduce::for_each_site_pair(
    const std::function<void(int from, int to, double bytes)>& use) const {
  const int sites = static_cast<int>(site_members_.size());
  for (int from = 0; from < sites; ++from)
    for (int to = 0; to < sites; ++to) {
      const double here = site_members_[at(from)], there = site_members_[at(to)];
      if (here == 0 || there == 0 || (from == to && here < 2)) continue;
      const double shares = from == to ? 2 * (here - 1) * site_shards_[at(from)]
                                       : there * site_shards_[at(from)] + here * site_shards_[at(to)];
      use(from, to, bytes * shares);
    }
}

}  // namespace dtfm::sim
