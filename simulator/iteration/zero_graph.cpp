#include "simulator/iteration/zero_graph.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/plan/communication.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {
namespace {

/// The devices of a collective, which are numbered as the pipelines, and what they send around their rings.
struct CollectiveGroup {
  std::vector<std::size_t> members;
  std::vector<std::vector<RingHop>> hops = {};  // [position in members]; RingHop::to is a position, too
};

/// The groups of devices that partition states: one group of all devices, or groups of `share` devices of one
/// site. Pipelines of a site need not be consecutive.
std::vector<CollectiveGroup> sharing_groups(const Topology& topology, const std::vector<int>& devices,
                                            std::size_t share) {
  std::map<int, std::vector<std::size_t>> by_site;
  const bool is_one = share == devices.size();
  for (std::size_t i = 0; i < devices.size(); ++i)
    by_site[is_one ? 0 : topology.devices[at(devices[i])].site].push_back(i);
  std::vector<CollectiveGroup> groups;
  for (const auto& [site, members] : by_site)
    for (std::size_t first = 0; first < members.size(); first += share) {
      if (members.size() % share != 0)
        throw Error("",
                    "zero3 with gradient_sync hierarchical requires that the replicas of every site are a "
                    "multiple of those of the smallest");
      const auto begin = members.begin() + static_cast<std::ptrdiff_t>(first);
      groups.push_back({{begin, begin + static_cast<std::ptrdiff_t>(share)}});
    }
  return groups;
}

/// The devices with the same part of the states, one of each group.
std::vector<CollectiveGroup> copies_of_parts(const std::vector<CollectiveGroup>& groups) {
  std::vector<CollectiveGroup> copies(groups.front().members.size());
  for (const CollectiveGroup& group : groups)
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].members.push_back(group.members[i]);
  return copies;
}

void add_hops(const Topology& topology, const std::vector<int>& devices,
              std::vector<CollectiveGroup>& groups) {
  for (CollectiveGroup& group : groups) {
    std::vector<int> own;
    for (const std::size_t i : group.members) own.push_back(devices[i]);
    group.hops = parallel_rings(topology, own);
  }
}

std::vector<int> devices_of(const Plan& plan) {
  std::vector<int> devices;
  for (const Pipeline& pipeline : plan.pipelines) devices.push_back(pipeline.stages.front().devices.front());
  return devices;
}

/// All groups of a plan: those that partition the states, and those with copies of a part.
struct Groups {
  std::vector<CollectiveGroup> sharing, copies;
};

Groups groups_of(const Topology& topology, const Plan& plan) {
  const std::vector<int> devices = devices_of(plan);
  Groups groups;
  groups.sharing = sharing_groups(topology, devices, at(sharing_replicas(topology, plan)));
  groups.copies = copies_of_parts(groups.sharing);
  add_hops(topology, devices, groups.sharing);
  add_hops(topology, devices, groups.copies);
  return groups;
}

double rounds_of(const Plan& plan) {
  int rounds = 0;
  for (const Pipeline& pipeline : plan.pipelines) rounds = std::max(rounds, pipeline.micro_batches);
  return rounds;
}

/// Messages of a reduce-scatter or an all-gather in each of the groups.
double messages_in(const std::vector<CollectiveGroup>& groups, bool sends_directly) {
  double messages = 0;
  for (const CollectiveGroup& group : groups) {
    const auto devices = static_cast<double>(group.members.size());
    messages +=
        devices * (devices - 1) * (sends_directly ? 1 : static_cast<double>(group.hops.front().size()));
  }
  return messages;
}

/// Whether the members send directly instead of around rings.
bool is_direct(const Communication& it) {
  return traits(it.algorithm).roles == MemberRoles::equal;
}

double message_count(const Plan& plan, const std::vector<Communication>& communications,
                     const Groups& groups) {
  double messages = 0;
  for (const Communication& it : communications)
    messages += (it.moment == Moment::after_update ? 1 : rounds_of(plan)) *
                (messages_in(groups.sharing, is_direct(it)) +
                 (it.payload == Payload::gradients ? 2 * messages_in(groups.copies, false) : 0));
  return messages;
}

class ZeroGraph {
 public:
  ZeroGraph(const Problem& problem, const Plan& plan, const StopFunction& stop)
      : plan_(plan),
        model_(problem, plan),
        communications_(replica_communications(model_.bytes(), plan)),
        of_layer_(at(model_.layers())),
        builder_(problem.topology, problem.constants),
        overhead_s_(problem.constants.iteration_overhead_s),
        efficiency_(problem.constants.sync_efficiency) {
    builder_.set_stop(stop);
    devices_ = devices_of(plan);
    rounds_ = static_cast<int>(rounds_of(plan));
    for (const Communication& it : communications_)
      if (it.moment != Moment::after_update) of_layer_[at(it.layers.first)].push_back(&it);
    groups_ = groups_of(problem.topology, plan);
    are_compressed_ = model_.is_compressed(devices_);
    last_ = before_last_ = reduce_scattered_ = std::vector<int>(devices_.size(), no_index);
  }

  LabelledGraph build() {
    check_size();
    for (micro_batch_ = 0; micro_batch_ < rounds_; ++micro_batch_) {
      for (int layer = 0; layer < model_.layers(); ++layer) compute(layer, Pass::forward);
      for (int layer = model_.layers() - 1; layer >= 0; --layer) compute(layer, Pass::backward);
    }
    micro_batch_ = no_index;
    TaskLabel step;
    step.activity = Activity::step;
    builder_.wait(overhead_s_, add_updates(), step);
    return builder_.take();
  }

 private:
  bool has_micro_batch(std::size_t device) const {
    return micro_batch_ < plan_.pipelines[device].micro_batches;
  }

  /// Rejects graphs that would exceed the memory: every message takes about 200 bytes.
  void check_size() const {
    constexpr double max_messages = 2e7;
    if (const double messages = message_count(plan_, communications_, groups_); messages > max_messages)
      throw Error("", fmt::format("{} devices send parts of {} layers in {:.3g} messages per iteration, more "
                                  "than the limit of {:.3g}; use fewer devices or micro-batches",
                                  devices_.size(), model_.layers(), messages, max_messages));
  }

  TaskLabel label(Activity activity, int layer) const {
    TaskLabel label;
    label.activity = activity;
    label.micro_batch = micro_batch_;
    label.layer = layer;
    return label;
  }

  void compute(int layer, Pass pass) {
    const Activity activity = pass == Pass::forward ? Activity::forward : Activity::backward;
    std::vector<int> needed(devices_.size(), no_index);
    for (const Communication* it : of_layer_[at(layer)])
      if (it->moment == Moment::before_pass && it->pass == pass && sharing_count() > 1) needed = gather(*it);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      before_last_[i] = last_[i];
      if (!has_micro_batch(i)) {
        last_[i] = needed[i] == no_index ? last_[i] : needed[i];
        continue;
      }
      const Stage& stage = plan_.pipelines[i].stages.front();
      double seconds =
          pass == Pass::forward ? model_.forward_s(stage, layer) : model_.backward_s(stage, layer);
      const int first = pass == Pass::forward ? 0 : model_.layers() - 1;
      if (layer == first) seconds += model_.of(stage).overhead_s;
      TaskLabel of = label(activity, layer);
      of.pipeline = static_cast<int>(i);
      of.stage = 0;
      last_[i] = builder_.compute(devices_[i], seconds, std::array{last_[i], needed[i]}, of);
    }
    for (const Communication* it : of_layer_[at(layer)])
      if (it->moment == Moment::after_pass && it->pass == pass) reduce_scatter(*it);
  }

  /// Returns, by device, the task after which it has the parameters of the layer. The gather starts when the
  /// device starts to compute the previous layer (prefetching).
  std::vector<int> gather(const Communication& it) {
    TaskLabel of = label(Activity::all_gather, it.layers.first);
    of.phase = it.pass == Pass::forward ? 0 : sharing_count() - 1;
    return collective(it, before_last_, it.bytes, of);
  }

  /// Compressing the gradients, and decompressing a device's own part, are computed before the collective.
  /// Devices with copies of a part then all-reduce it (PyTorch's HYBRID_SHARD).
  void reduce_scatter(const Communication& it) {
    const int layer = it.layers.first;
    const double bytes = it.bytes * (are_compressed_ ? plan_.execution.compression.gradients : 1),
                 compress_s =
                     devices_.size() > 1 && are_compressed_ ? model_.gradient_compression_s(bytes) : 0;
    for (std::size_t i = 0; compress_s > 0 && i < devices_.size(); ++i) {
      TaskLabel of = label(Activity::compress, layer);
      of.pipeline = static_cast<int>(i);
      const double expand_s = compress_s / sharing_count();
      last_[i] = builder_.compute(devices_[i], compress_s + expand_s, std::array{last_[i]}, of);
    }
    TaskLabel of = label(Activity::gradient_sync, layer);
    reduce_scattered_ = collective(it, last_, bytes, of);
    for (of.phase = sharing_count() - 1; of.phase < sharing_count() + 2 * copy_count() - 3;
         of.phase += copy_count() - 1)
      reduce_scattered_ = in_rings(groups_.copies, reduce_scattered_, bytes / sharing_count(), of);
  }

  int sharing_count() const { return static_cast<int>(groups_.copies.size()); }
  int copy_count() const { return static_cast<int>(groups_.sharing.size()); }

  /// `ready`: by device, the task after which it takes part. Returns, by device, the task after which it has
  /// received everything.
  std::vector<int> collective(const Communication& it, const std::vector<int>& ready, double bytes,
                              const TaskLabel& of) {
    return is_direct(it) ? direct_collective(ready, bytes, of) : in_rings(groups_.sharing, ready, bytes, of);
  }

  std::vector<int> in_rings(const std::vector<CollectiveGroup>& groups, const std::vector<int>& ready,
                            double bytes, const TaskLabel& of) {
    std::vector<int> ends = ready;
    for (const CollectiveGroup& group : groups) ring_collective(group, ready, bytes, of, ends);
    return ends;
  }

  /// Every device sends one of G parts of `bytes` to every other one, all at once.
  std::vector<int> direct_collective(const std::vector<int>& ready, double bytes, TaskLabel of) {
    const std::size_t count = devices_.size();
    std::vector<std::vector<int>> received(count);
    of.phase = std::max(of.phase, 0);
    for (std::size_t from = 0; from < count; ++from)
      for (std::size_t step = 1; step < count; ++step) {
        const std::size_t to = (from + step) % count;
        Channel channel = builder_.channel(devices_[from], devices_[to], of.activity);
        channel.both_ends_send = true;
        received[to].push_back(builder_.send(channel, bytes / static_cast<double>(count) / efficiency_,
                                             std::array{ready[from], ready[to]}, of));
      }
    std::vector<int> ends = ready;
    of.rank = of.activity == Activity::all_gather ? 0 : 1;
    of.activity = Activity::wait;
    for (std::size_t i = 0; i < count && count > 1; ++i) {
      of.pipeline = static_cast<int>(i);
      ends[i] = builder_.join(received[i], of);
    }
    return ends;
  }

  /// Adds G − 1 steps for the G devices of a group. In each, every device sends one of G parts of `bytes`
  /// around the rings as soon as it has received it. `ready`: by device, the task after which it takes part.
  /// Phases of labels count from that of `of`. Sets the ends of the members to the tasks after which they
  /// have received their last part. A group of one device leaves `ends` unchanged.
  void ring_collective(const CollectiveGroup& group, const std::vector<int>& ready, double bytes,
                       TaskLabel of, std::vector<int>& ends) {
    const std::vector<std::size_t>& members = group.members;
    const std::size_t count = members.size();
    if (count < 2) return;
    std::vector<std::array<int, 2>> received(count, {no_index, no_index});
    of.phase = std::max(of.phase, 0);
    for (std::size_t step = 0; step + 1 < count; ++step, ++of.phase) {
      std::vector<std::array<int, 2>> next(count, {no_index, no_index});
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t ring = 0; ring < group.hops[i].size(); ++ring) {
          const auto [to, share] = group.hops[i][ring];
          const std::size_t sender = members[i], receiver = members[to];
          next[to][ring] =
              builder_.send(builder_.channel(devices_[sender], devices_[receiver], of.activity),
                            bytes * share / static_cast<double>(count) / efficiency_,
                            std::array{ready[sender], ready[receiver], received[i][0], received[i][1]}, of);
        }
      received = std::move(next);
    }
    of.rank = of.activity == Activity::all_gather ? 0 : 1;
    of.activity = Activity::wait;
    for (std::size_t i = 0; i < count; ++i) {
      of.pipeline = static_cast<int>(members[i]);
      ends[members[i]] = received[i][1] == no_index ? received[i][0] : builder_.join(received[i], of);
    }
  }

  /// Adds the optimizer steps and, if replicas hold all parameters, the all-gather after them. Returns the
  /// tasks for which the end of the iteration waits. Waiting for the last reduce-scatter suffices, because
  /// those of a device are sent in order on their channels.
  std::vector<int> add_updates() {
    const double share = 1.0 / sharing_count();
    std::vector<int> ends;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const double seconds = model_.of(plan_.pipelines[i].stages.front()).update_s * share;
      const std::array done{last_[i], reduce_scattered_[i]};
      TaskLabel of = label(seconds > 0 ? Activity::update : Activity::wait, no_index);
      of.device = devices_[i];
      ends.push_back(seconds > 0 ? builder_.compute(devices_[i], seconds, done, of)
                                 : builder_.wait(0, done, of));
    }
    const Communication& last = communications_.back();
    if (last.moment != Moment::after_update) return ends;
    std::vector<int> received = collective(last, ends, last.bytes, label(Activity::all_gather, no_index));
    received.insert(received.end(), ends.begin(), ends.end());
    return received;
  }

  const Plan& plan_;
  const LoadModel model_;
  const std::vector<Communication> communications_;
  std::vector<std::vector<const Communication*>> of_layer_;  // [layer]: before and after its passes
  GraphBuilder builder_;
  const double overhead_s_, efficiency_;
  std::vector<int> devices_;  // [pipeline]
  Groups groups_;
  bool are_compressed_ = false;  // gradients are sent compressed
  int rounds_ = 0, micro_batch_ = 0;
  // [pipeline]: its last two computations, and the task after which it has its part of the last gradients.
  std::vector<int> last_, before_last_, reduce_scattered_;
};

}  // namespace

double zero_graph_messages(const Problem& problem, const Plan& plan) {
  return message_count(plan, replica_communications(LayerBytes(problem.job, plan.execution), plan),
                       groups_of(problem.topology, plan));
}

LabelledGraph zero_graph(const Problem& problem, const Plan& plan, const StopFunction& stop) {
  check_optimizer_sharding(plan);
  DTFM_ASSERT(traits(plan.execution.optimizer_sharding).gradients);
  return ZeroGraph(problem, plan, stop).build();
}

}  // namespace dtfm::sim
