#include "planner/cost/iteration_time/sharded_training_time.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/plan/communication.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"

namespace dtfm::cost {
namespace {

/// Duration of a collective, and how long it occupies the channel of its kind, and the shared capacity that
/// it occupies longest.
struct CollectiveTime {
  double seconds = 0, busy_s = 0, link_s = 0, egress_usd = 0;
};

/// Message of a device in every step of a ring collective.
struct CostedHop {
  std::size_t to = 0;
  double share = 1;  // of the part that the device forwards
  MessageCost cost = {};
  SharedPath shared = {};
  double usd_per_byte = 0;
};

/// Reduce-scatters and all-gathers of n devices, which take n − 1 steps around a ring or, with sharded-ps, a
/// single exchange of each with each. If hosts have g devices each, there are g rings with 1 / g of the
/// bytes; in all but one of them the successor of a device is on its own host.
class Collectives {
 public:
  Collectives(const IterationModel& model, std::vector<int> devices)
      : model_(model), devices_(std::move(devices)), is_ring_(traits(model.sync).roles == MemberRoles::ring) {
    if (is_ring_ && devices_.size() > 1) find_hops();
  }

  CollectiveTime of(double bytes) {
    if (devices_.size() < 2) return {};
    const auto [position, is_new] = known_.try_emplace(bytes);
    if (is_new) position->second = is_ring_ ? around_rings(bytes) : direct(bytes);
    return position->second;
  }

  /// Seconds for which a collective occupies its slowest hop, per byte of its data (the sum of all parts).
  double slowest_hop_s_per_byte() const {
    double slowest = 0;
    const auto n = static_cast<double>(devices_.size());
    for (const std::vector<CostedHop>& hops : hops_)
      for (const CostedHop& hop : hops)
        slowest = std::max(slowest, hop.share * hop.cost.seconds_per_byte * (n - 1) / n);
    for (std::size_t i = 0; i < devices_.size() && !is_ring_; ++i)
      for (std::size_t k = 0; k < devices_.size(); ++k)
        if (i != k)
          slowest = std::max(slowest, model_.network.message(devices_[i], devices_[k]).seconds_per_byte / n);
    return slowest;
  }

 private:
  void find_hops() {
    hops_.resize(devices_.size());
    const auto rings = parallel_rings(model_.problem.topology, devices_);
    for (std::size_t from = 0; from < rings.size(); ++from)
      for (const RingHop& hop : rings[from]) add_hop(from, hop.to, hop.share);
  }

  void add_hop(std::size_t from, std::size_t to, double share) {
    const int sender = devices_[from], receiver = devices_[to];
    CostedHop hop{to, share, model_.network.message(sender, receiver)};
    if (model_.network.shared_count() > 0) hop.shared = model_.network.shared(sender, receiver);
    hop.usd_per_byte = model_.network.usd_per_byte(sender, receiver);
    hops_[from].push_back(hop);
  }

  CollectiveTime direct(double bytes) const {
    const ReplicaGroup group{devices_, std::vector<int>(devices_.size(), 1), bytes};
    const SyncTime time = gradient_sync_time(model_.sync, model_.problem.topology, model_.network,
                                             {&group, 1}, Collective::reduce_scatter);
    CollectiveTime result{time.seconds, time.channel_busy_s, 0, time.egress_usd};
    set_link_time(time.link_bytes, result);
    return result;
  }

  CollectiveTime around_rings(double bytes) const {
    constexpr std::size_t max_exact = 32;  // devices: the time of the recurrence grows with their square
    const auto n = static_cast<double>(devices_.size());
    const double part = bytes / n;
    std::map<int, double> link_bytes;  // in a step, by shared capacity
    CollectiveTime result;
    for (const std::vector<CostedHop>& hops : hops_)
      for (const CostedHop& hop : hops) {
        result.egress_usd += (n - 1) * part * hop.share * hop.usd_per_byte;
        for (const int id : hop.shared) link_bytes[id] += part * hop.share;
      }
    const std::vector<std::vector<HopSeconds>> times = hop_times(part, link_bytes);
    const auto [seconds, busy_s] = devices_.size() <= max_exact ? exact(times) : longest_path(times);
    result.seconds = seconds;
    result.busy_s = busy_s;
    for (auto& [id, in_step] : link_bytes) in_step *= n - 1;
    set_link_time(link_bytes, result);
    return result;
  }

  template <class BytesById>
  void set_link_time(const BytesById& bytes_by_id, CollectiveTime& result) const {
    for (const auto& [id, bytes] : bytes_by_id)
      result.link_s = std::max(result.link_s, bytes * model_.network.shared_seconds_per_byte(id));
    result.seconds = std::max(result.seconds, result.link_s);
    result.busy_s = std::max(result.busy_s, result.link_s);
  }

  /// Occupancy and latency of a message.
  struct HopSeconds {
    double occupancy_s = 0, latency_s = 0;
  };

  /// A message takes at least as long as the capacities on its path need for all messages of the step.
  std::vector<std::vector<HopSeconds>> hop_times(double part, const std::map<int, double>& link_bytes) const {
    std::vector<std::vector<HopSeconds>> times;
    for (const std::vector<CostedHop>& hops : hops_) {
      times.emplace_back();
      for (const CostedHop& hop : hops) {
        double occupancy_s = hop.cost.occupancy_s(part * hop.share);
        for (const int id : hop.shared)
          occupancy_s = std::max(occupancy_s, link_bytes.at(id) * model_.network.shared_seconds_per_byte(id));
        times.back().push_back({occupancy_s, hop.cost.latency_s});
      }
    }
    return times;
  }

  /// In every step a device sends on all of its hops, when it has received everything of the previous step
  /// and sent its last message on the same hop. Returns the end, and until when messages are sent.
  std::pair<double, double> exact(const std::vector<std::vector<HopSeconds>>& times) const {
    const std::size_t n = devices_.size();
    std::vector<std::array<double, 2>> free_s(n);
    std::vector<double> received_s(n);
    for (std::size_t step = 0; step + 1 < n; ++step) {
      std::vector<double> next_s(n);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t ring = 0; ring < hops_[i].size(); ++ring) {
          double& sent_s = free_s[i][ring];
          sent_s = std::max(sent_s, received_s[i]) + times[i][ring].occupancy_s;
          double& arrives_s = next_s[hops_[i][ring].to];
          arrives_s = std::max(arrives_s, sent_s + times[i][ring].latency_s);
        }
      received_s = std::move(next_s);
    }
    double busy_s = 0;
    for (const auto& of_device : free_s) busy_s = std::max({busy_s, of_device[0], of_device[1]});
    return {*std::max_element(received_s.begin(), received_s.end()), busy_s};
  }

  /// The longer of two paths through the steps: one stays at the slowest hop, one goes around the ring.
  std::pair<double, double> longest_path(const std::vector<std::vector<HopSeconds>>& times) const {
    const auto n = static_cast<double>(devices_.size());
    double around_s = 0, slowest_s = 0, latency_s = 0;
    for (const std::vector<HopSeconds>& hops : times) {
      double hop_s = 0;
      for (const HopSeconds& hop : hops) {
        hop_s = std::max(hop_s, hop.occupancy_s + hop.latency_s);
        slowest_s = std::max(slowest_s, hop.occupancy_s);
        latency_s = std::max(latency_s, hop.latency_s);
      }
      around_s += hop_s / n;
    }
    const double seconds = (n - 1) * std::max(slowest_s, around_s) + (slowest_s > around_s ? latency_s : 0);
    return {seconds, std::max(0.0, seconds - latency_s)};
  }

  const IterationModel& model_;
  const std::vector<int> devices_;
  const bool is_ring_;
  std::vector<std::vector<CostedHop>> hops_;  // [device]
  std::map<double, CollectiveTime> known_;    // by bytes
};

/// Devices with the same times and equally many micro-batches do the same at the same time.
struct DeviceGroup {
  int kind = 0, micro_batches = 0, recomputed = 0;
  friend auto operator<=>(const DeviceGroup&, const DeviceGroup&) = default;
};

struct GroupState {
  int micro_batches = 0;
  std::vector<double> forward_s, backward_s;  // by layer
  double update_s = 0;
  double last_s = 0, before_last_s = 0;  // ends of its last two computations
};

std::vector<int> devices_of(const Plan& plan) {
  std::vector<int> devices;
  for (const Pipeline& pipeline : plan.pipelines) devices.push_back(pipeline.stages.front().devices.front());
  return devices;
}

bool compresses_gradients(const IterationModel& model, const std::vector<int>& devices) {
  return devices.size() > 1 &&
         is_compressed(model.problem.topology, model.problem.job.execution.compression, devices);
}

/// Bytes of the data of a communication as they are sent.
double sent_bytes(const IterationModel& model, const Communication& it, bool compressed) {
  const Problem& problem = model.problem;
  const double ratio =
      compressed && it.payload == Payload::gradients ? problem.job.execution.compression.gradients : 1;
  return it.bytes * ratio / problem.constants.sync_efficiency;
}

class ShardedTraining {
 public:
  ShardedTraining(const IterationModel& model, const Plan& plan, std::span<const int> recomputed)
      : model_(model),
        communications_(partition_communications(model.stages.bytes(), plan.execution)),
        collectives_(model, devices_of(plan)) {
    const std::vector<int> devices = devices_of(plan);
    replicas_ = static_cast<double>(devices.size());
    is_compressed_ = compresses_gradients(model, devices);
    for (const Communication& it : communications_) {  // ordered by layer
      const double bytes = sent_bytes(model, it, is_compressed_);
      if (it.moment == Moment::before_pass && it.pass == Pass::forward) gathered_bytes_.push_back(bytes);
      if (it.moment == Moment::after_pass) scattered_bytes_.push_back(bytes);
    }
    std::set<DeviceGroup> groups;
    for (std::size_t i = 0; i < devices.size(); ++i)
      groups.insert({model.stages.kind_of(devices[i]), plan.pipelines[i].micro_batches, recomputed[i]});
    for (const DeviceGroup& group : groups) {
      rounds_ = std::max(rounds_, group.micro_batches);
      add_group(group);
    }
  }

  ShardedTrainingTime run() {
    std::set<int> ends;  // of ranges of micro-batches that the same devices compute
    for (const GroupState& group : groups_) ends.insert(group.micro_batches);
    int first = 0;
    for (const int end : ends) {
      run_rounds(first, end);
      first = end;
    }
    return finish();
  }

 private:
  int layers() const { return model_.stages.layers(); }

  void add_group(const DeviceGroup& group) {
    GroupState state;
    state.micro_batches = group.micro_batches;
    for (int layer = 0; layer < layers(); ++layer) {
      const ComputeTime time =
          model_.stages.compute(group.kind, {layer, layer + 1}, layer < group.recomputed ? 1 : 0);
      state.forward_s.push_back(time.forward_s);
      state.backward_s.push_back(time.backward_s);
    }
    const double overhead_s = model_.problem.constants.micro_batch_overhead_s;
    state.forward_s.front() += overhead_s;
    state.backward_s.back() += overhead_s;
    state.update_s = model_.stages.compute(group.kind, {0, layers()}).update_s / replicas_;
    groups_.push_back(std::move(state));
  }

  /// All times that the next micro-batch depends on.
  std::vector<double*> state() {
    std::vector<double*> times = {&gather_free_s_, &scatter_free_s_, &links_free_s_, &gathered_s_,
                                  &scattered_s_};
    for (GroupState& group : groups_) {
      times.push_back(&group.last_s);
      times.push_back(&group.before_last_s);
    }
    return times;
  }

  void run_rounds(int first, int end) {
    const std::vector<double*> times = state();
    std::vector<double> before(times.size());
    for (int round = first; round < end; ++round) {
      if (round - first == exact_rounds) {
        for (std::size_t i = 0; i < times.size(); ++i) *times[i] += (end - round) * (*times[i] - before[i]);
        return;
      }
      for (std::size_t i = 0; i < times.size(); ++i) before[i] = *times[i];
      run_micro_batch(round);
    }
  }

  /// The parameters of the next layer are gathered while one is computed, before its gradients are scattered.
  void run_micro_batch(int micro_batch) {
    if (micro_batch == 0) gather(0);
    for (int layer = 0; layer < layers(); ++layer) {
      compute(micro_batch, layer, true);
      gather(std::min(layer + 1, layers() - 1));
    }
    for (int layer = layers() - 1; layer >= 0; --layer) {
      compute(micro_batch, layer, false);
      if (layer > 0 || micro_batch + 1 < rounds_) gather(std::max(layer - 1, 0));
      reduce_scatter(layer);
    }
  }

  void compute(int micro_batch, int layer, bool is_forward) {
    for (GroupState& group : groups_) {
      group.before_last_s = group.last_s;
      group.last_s = std::max(group.last_s, gathered_s_);
      if (micro_batch < group.micro_batches)
        group.last_s += (is_forward ? group.forward_s : group.backward_s)[at(layer)];
    }
  }

  /// Adds a collective that starts no earlier than `ready_s`. Returns its end. Collectives of both kinds
  /// share the links, which carry one after the other.
  double add(const CollectiveTime& time, double ready_s, double& free_s) {
    const double start_s = std::max(ready_s, free_s);
    if (time.link_s == 0) {
      free_s = start_s + time.busy_s;
      return start_s + time.seconds;
    }
    links_free_s_ = std::max(links_free_s_, start_s) + time.link_s;
    free_s = std::max(start_s + time.busy_s, links_free_s_);
    return std::max(start_s + time.seconds, links_free_s_);
  }

  /// Starts when the devices begin their last computation.
  void gather(int layer) {
    if (gathered_bytes_.empty()) return;
    double ready_s = 0;
    for (const GroupState& group : groups_) ready_s = std::max(ready_s, group.before_last_s);
    gathered_s_ = add(collectives_.of(gathered_bytes_[at(layer)]), ready_s, gather_free_s_);
  }

  void reduce_scatter(int layer) {
    const double bytes = scattered_bytes_[at(layer)];
    const double compress_s = is_compressed_ ? model_.stages.gradient_compression_s(bytes) : 0;
    double ready_s = 0;
    for (GroupState& group : groups_) {
      group.last_s += compress_s * (1 + 1 / replicas_);  // and decompresses its part
      ready_s = std::max(ready_s, group.last_s);
    }
    scattered_s_ = add(collectives_.of(bytes), ready_s, scatter_free_s_);
  }

  ShardedTrainingTime finish() {
    ShardedTrainingTime result;
    for (const GroupState& group : groups_) {
      result.computed_s = std::max(result.computed_s, group.last_s);
      result.update_s = std::max(result.update_s, group.update_s);
      result.end_s = std::max(result.end_s, std::max(group.last_s, scattered_s_) + group.update_s);
    }
    for (const Communication& it : communications_) {
      const CollectiveTime time = collectives_.of(sent_bytes(model_, it, is_compressed_));
      const bool is_last = it.moment == Moment::after_update;
      result.egress_usd += (is_last ? 1 : rounds_) * time.egress_usd;
      if (is_last) result.end_s += time.seconds;
    }
    return result;
  }

  const IterationModel& model_;
  const std::vector<Communication> communications_;
  Collectives collectives_;
  // [layer]: before each pass, and after the backward one. No parameters are gathered if all hold them.
  std::vector<double> gathered_bytes_, scattered_bytes_;
  double replicas_ = 1;
  bool is_compressed_ = false;  // gradients are
  std::vector<GroupState> groups_;
  int rounds_ = 0;                                 // micro-batches of the device with the most
  double gather_free_s_ = 0, scatter_free_s_ = 0;  // when the channels of both kinds are free
  double links_free_s_ = 0;
  double gathered_s_ = 0, scattered_s_ = 0;  // ends of the last collectives of both kinds
};

}  // namespace

ShardedTrainingTime sharded_training_time(const IterationModel& model, const Plan& plan,
                                          std::span<const int> recomputed) {
  return ShardedTraining(model, plan, recomputed).run();
}

ShardedTraffic min_sharded_traffic(const IterationModel& model, const Plan& plan) {
  const std::vector<int> devices = devices_of(plan);
  const bool compressed = compresses_gradients(model, devices);
  double gradients = 0, gathered = 0, after = 0;  // bytes
  for (const Communication& it : partition_communications(model.stages.bytes(), plan.execution))
    (it.payload == Payload::gradients    ? gradients
     : it.moment == Moment::after_update ? after
                                         : gathered) += sent_bytes(model, it, compressed);
  const double s_per_byte = Collectives(model, devices).slowest_hop_s_per_byte();
  return {std::max(gradients, gathered) * s_per_byte, after * s_per_byte};
}

}  // namespace dtfm::cost
