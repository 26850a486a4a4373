#include "planner/cost/bounds/message_bounds.hpp"

#include <algorithm>
#include <optional>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

/// Costs of messages over the stage boundary with the fewest bytes.
class SmallestMessages {
 public:
  explicit SmallestMessages(const IterationModel& model) : model_(model) {}
  double total_s(int from, int to) const { return model_.network.message(from, to).total_s(bytes(from, to)); }
  double occupancy_s(int from, int to) const {
    return model_.network.message(from, to).occupancy_s(bytes(from, to));
  }

 private:
  double min_bytes(bool compressed) const {
    const StageCosts& costs = model_.stages;
    double result = costs.layers() > 1 ? costs.boundary_bytes(1, compressed) : 0;
    for (int i = 2; i < costs.layers(); ++i) result = std::min(result, costs.boundary_bytes(i, compressed));
    return result;
  }
  double bytes(int from, int to) const { return model_.is_compressed(from, to) ? compressed_ : whole_; }

  const IterationModel& model_;
  const double whole_ = min_bytes(false), compressed_ = min_bytes(true);
};

template <class Cost>
SpanningTreeBound spanning(const std::vector<int>& devices, const StopFunction& stop, const Cost& cost) {
  return SpanningTreeBound(
      static_cast<int>(devices.size()), [&](int a, int b) { return cost(devices[at(a)], devices[at(b)]); },
      stop);
}

/// Messages of collectives between pairs of devices, in as many parts as their hosts allow.
class HostMessages {
 public:
  HostMessages(const IterationModel& model, const StopFunction& stop);
  MessageCost fastest(int from, int to) const;
  int max_parts() const { return max_parts_; }

 private:
  const IterationModel& model_;
  std::vector<int> host_sizes_;
  int max_parts_ = 1;
  /// If the devices of some host have different links: minimum over all messages between hosts.
  std::optional<MessageCost> least_;
};

HostMessages::HostMessages(const IterationModel& model, const StopFunction& stop) : model_(model) {
  if (!traits(model.sync).uses_channels && model.stages.devices() == 1) return;
  const std::vector<Device>& devices = model.problem.topology->devices;
  std::vector<int> first;  // device of each host
  bool has_uniform_hosts = true;
  for (int device = 0; device < model.problem.topology->size(); ++device) {
    const std::size_t host = at(devices[at(device)].host);
    if (host >= host_sizes_.size()) host_sizes_.resize(host + 1), first.resize(host + 1, device);
    if (++host_sizes_[host] == 1) first[host] = device;
    has_uniform_hosts = has_uniform_hosts && model.network.kind(device) == model.network.kind(first[host]);
  }
  std::vector<int> largest = host_sizes_;
  std::sort(largest.rbegin(), largest.rend());
  if (largest.size() > 1) max_parts_ = largest[1];
  if (max_parts_ == 1 || has_uniform_hosts) return;
  least_ = MessageCost{infinity, infinity, infinity};
  for (int from = 0; from < model.problem.topology->size(); ++from) {
    throw_if_stopped(stop);
    for (int to = 0; to < model.problem.topology->size(); ++to) {
      if (devices[at(from)].host == devices[at(to)].host) continue;
      const MessageCost cost = model.network.message(from, to);
      *least_ = {std::min(least_->overhead_s, cost.overhead_s),
                 std::min(least_->seconds_per_byte, cost.seconds_per_byte / max_parts_),
                 std::min(least_->latency_s, cost.latency_s)};
    }
  }
}

MessageCost HostMessages::fastest(int from, int to) const {
  const std::vector<Device>& devices = model_.problem.topology->devices;
  const int host = devices[at(from)].host, other = devices[at(to)].host;
  MessageCost cost = model_.network.message(from, to);
  if (max_parts_ == 1 || host == other) return cost;
  if (least_) return *least_;
  const double parts = std::min(host_sizes_[at(host)], host_sizes_[at(other)]);
  cost.seconds_per_byte =
      std::max(cost.seconds_per_byte / parts, model_.network.joint_seconds_per_byte(from, to));
  return cost;
}

std::vector<MessageLine> best_links(const HostMessages& messages, const std::vector<int>& devices,
                                    const StopFunction& stop) {
  const auto no_better = [](const MessageLine& a, const MessageLine& b) {
    return a.fixed_s >= b.fixed_s && a.seconds_per_byte >= b.seconds_per_byte;
  };
  std::vector<MessageLine> best;
  for (const int from : devices) {
    throw_if_stopped(stop);
    for (const int to : devices) {
      if (from == to) continue;
      const MessageCost cost = messages.fastest(from, to);
      const MessageLine line{cost.overhead_s + cost.latency_s, cost.seconds_per_byte};
      if (std::any_of(best.begin(), best.end(), [&](const auto& other) { return no_better(line, other); }))
        continue;
      std::erase_if(best, [&](const auto& other) { return no_better(other, line); });
      best.push_back(line);
    }
  }
  return best;
}

}  // namespace

HopBounds hop_bounds(const IterationModel& model, const std::vector<int>& devices, const StopFunction& stop) {
  const SmallestMessages it(model);
  return {
      spanning(devices, stop, [&](int a, int b) { return it.total_s(a, b) + it.total_s(b, a); }),
      spanning(devices, stop,
               [&](int a, int b) { return std::max(it.occupancy_s(a, b), it.occupancy_s(b, a)); }),
      spanning(devices, stop, [&](int a, int b) { return std::min(it.total_s(a, b), it.total_s(b, a)); }),
      spanning(devices, stop,
               [&](int a, int b) { return std::min(it.occupancy_s(a, b), it.occupancy_s(b, a)); }),
  };
}

double MessageBounds::min_s(double messages, double bytes) const {
  double min_s = best_links.empty() ? 0 : infinity;
  for (const MessageLine& line : best_links)
    min_s = std::min(min_s, messages * line.fixed_s + bytes * line.seconds_per_byte);
  return min_s;
}

MessageBounds message_bounds(const IterationModel& model, const std::vector<int>& devices,
                             const StopFunction& stop) {
  const HostMessages it(model, stop);
  return {it.max_parts(), best_links(it, devices, stop),
          spanning(devices, stop,
                   [&](int a, int b) {
                     return std::min(it.fastest(a, b).total_s(0), it.fastest(b, a).total_s(0));
                   }),
          spanning(devices, stop, [&](int a, int b) {
            return std::min(it.fastest(a, b).seconds_per_byte, it.fastest(b, a).seconds_per_byte);
          })};
}

HopBound min_hop_between(const IterationModel& model, const std::vector<std::vector<int>>& groups) {
  const SmallestMessages messages(model);
  HopBound hop{infinity, infinity};
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      for (const int a : groups[i])
        for (const int b : groups[j]) {
          hop.total_s = std::min(hop.total_s, messages.total_s(a, b) + messages.total_s(b, a));
          hop.busy_s = std::min({hop.busy_s, messages.occupancy_s(a, b), messages.occupancy_s(b, a)});
        }
  return hop;
}

}  // namespace dtfm::cost
