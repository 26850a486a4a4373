#include "simulator/swarm/swarm_costs.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {
SwarmCosts::SwarmCosts(const Problem& problem, int stages)
    : samples_(problem.job.execution.micro_batch), traffic_(swarm_traffic(problem.job, stages)) {
  ExecutionConfig execution = problem.job.execution;
  execution.recomputation = Recomputation::full;
  const Plan of_single_devices{1, execution, {{0, {{{0, layer_count(problem.job.model)}, {0}}}}}};
  const LoadModel model(problem, of_single_devices);
  std::map<std::pair<int, double>, int> kinds;  // keyed by GPU and speed
  for (int device = 0; device < problem.topology->size(); ++device) {
    const Device& it = problem.topology->devices[dtfm::at(device)];
    const auto [kind, is_new] = kinds.emplace(std::pair(it.gpu, it.speed), static_cast<int>(kinds.size()));
    kind_.push_back(kind->second);
    if (!is_new) continue;
    std::vector<Times>& times = kind_times_.emplace_back();
    for (int stage = 0; stage < stages; ++stage) {
      const auto layers = even_split(model.layers(), stages, stage);
      const StageLoad load = model.of({layers, {device}});
      const auto compression_s = [&](int last) {  // of the activations after the first `last` layers
        return model.activation_compression_s(model.of({{0, last}, {device}}).output_bytes);
      };
      // Inputs and losses are not compressed.
      const double in = stage == 0 ? 0 : compression_s(layers.first),
                   out = stage == stages - 1 ? 0 : compression_s(layers.second);
      // A backward pass receives its input again and the gradient of its output, and sends that of its input.
      times.push_back({load.forward_s + in + out, load.backward_s + 2 * in + out, load.update_s});
      if (kind_.size() > 1) continue;
      stage_costs_.push_back({layers, load.gradient_bytes / problem.constants.sync_efficiency,
                              load.weight_bytes, model.gradient_compression_s(load.gradient_bytes)});
    }
  }
}

namespace {

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

}  // namespace dtfm::sim
