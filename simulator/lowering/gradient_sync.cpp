#include "simulator/lowering/gradient_sync.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/cluster/host_channels.hpp"
#include "simulator/lowering/host_tree.hpp"

namespace dtfm::sim {
namespace {

/// What a member has received of a shard. If it stands for several devices, `is_twin` says that another one
/// receives it from the sender, so that it receives as much from a device like the sender.
struct Arrival {
  int member = 0, shard = 0, task = 0;
  bool adds = false, is_twin = false;

  auto key() const { return std::pair(member, shard); }
};

class CollectiveLowering {
 public:
  CollectiveLowering(GraphBuilder& builder, GradientSync sync, const SyncGroup& group)
      : builder_(builder), group_(group) {
    std::vector<CollectiveMember> members;
    for (const int device : group.devices) {
      const Device& it = builder.topology().devices[at(device)];
      members.push_back({it.host, it.site, builder.symmetry().blocks_of(device)});
    }
    list_ = collective_messages(sync, members, group.options);
    uses_channels_ = traits(sync).uses_channels;
    if (group.pieces == 0) return;
    const bool may_use_trees =
        traits(sync).may_use_trees && group.options.collective == Collective::all_reduce;
    latencies_ = group.pieces *
                 (may_use_trees ? tree_share(builder.topology(), builder.constants(), group.devices) : 1);
  }

  std::vector<int> add() {
    find_last_phases();
    for (const int task : group_.ready) own_.insert(own_.end(), at(shards_), task);
    last_ = own_;
    ends_ = group_.ready;
    from_twins_.resize(ends_.size());
    std::vector<Arrival> arrivals;
    for (std::size_t i = 0; i < list_.phases.size(); ++i) {
      const CollectivePhase& phase = list_.phases[i];
      arrivals.clear();
      find_channels(phase);
      for (const CollectiveMessage& message : phase.messages) send(phase, message, arrivals);
      std::stable_sort(arrivals.begin(), arrivals.end(),
                       [](const Arrival& a, const Arrival& b) { return a.key() < b.key(); });
      receive(phase, arrivals);
      int ended = no_index;
      for (const Arrival& it : arrivals)
        if (last_phase_[at(it.member)] == i && std::exchange(ended, it.member) != it.member)
          add_end(phase, it.member);
    }
    return std::move(ends_);
  }

 private:
  /// Finds the channels of the ring that the senders of the phase form.
  void find_channels(const CollectivePhase& phase) {
    if (!uses_channels_) return;
    std::vector<int> devices;
    for (const CollectiveMessage& it : phase.messages) devices.push_back(group_.devices[at(it.from)]);
    if (devices == ring_) return;
    channels_.emplace(builder_.topology(), devices);
    ring_ = std::move(devices);
  }

  /// The number of shards that messages carry may be smaller than that of the list, because members may stand
  /// for several devices.
  void find_last_phases() {
    last_phase_.resize(group_.devices.size());
    for (std::size_t i = 0; i < list_.phases.size(); ++i)
      for (const CollectiveMessage& it : list_.phases[i].messages) {
        last_phase_[at(it.to)] = i;
        if (list_.phases[i].is_blocking) last_phase_[at(it.from)] = i;
        shards_ = std::max(shards_, it.shard + 1);
      }
  }

  std::size_t place(int member, int shard) const { return at(member) * at(shards_) + at(shard); }

  TaskLabel label(Activity activity, int phase) const {
    TaskLabel label;
    label.activity = activity;
    label.layer = group_.layer;
    label.rank = group_.part;
    label.phase = phase;
    return label;
  }

  int join(const std::vector<int>& tasks, int member, int phase) {
    TaskLabel of = label(Activity::wait, phase);
    of.device = group_.devices[at(member)];
    return builder_.join(tasks, of);
  }

  int send(const CollectivePhase& phase, int from, int to, double bytes, std::span<const int> after,
           bool overlaps) {
    const Activity activity =
        group_.options.collective == Collective::all_gather ? Activity::all_gather : Activity::gradient_sync;
    Channel channel = builder_.channel(from, to, activity);
    channel.both_ends_send = phase.both_ends_send || overlaps;
    channel.latencies = latencies_;
    return builder_.send(channel, bytes / builder_.constants().sync_efficiency, after,
                         label(activity, phase.number));
  }

  void send(const CollectivePhase& phase, const CollectiveMessage& message, std::vector<Arrival>& arrivals) {
    const int from = group_.devices[at(message.from)], to = group_.devices[at(message.to)];
    const std::size_t sent = place(message.from, message.shard);
    const double bytes = group_.bytes / list_.shards;
    const bool is_whole = message.chunk == no_index;
    if (!is_whole || channels_) {
      const int task = send_parts(phase, from, to, bytes, is_whole ? 1 : list_.chunks,
                                  std::array{own_[sent], last_[sent]}, message.to);
      arrivals.push_back({message.to, message.shard, task, is_whole && phase.adds});
      return;
    }
    for (const int receiver : builder_.symmetry().receivers(from, to)) {
      if (receiver == no_index) continue;
      const int task = send(phase, from, receiver, bytes, std::array{last_[sent]}, group_.overlaps);
      arrivals.push_back({message.to, message.shard, task, phase.adds, receiver != to});
      if (phase.is_blocking) arrivals.push_back({message.from, message.shard, task});
    }
  }

  /// Sends one of the `chunks` chunks into which `bytes` are divided, on all channels between two hosts.
  int send_parts(const CollectivePhase& phase, int from, int to, double bytes, int chunks,
                 std::span<const int> after, int member) {
    auto parts = std::vector{std::pair(from, to)};
    if (channels_) parts = channels_->between(from, to);
    std::vector<int> sent;
    for (const auto& [sender, receiver] : parts)
      sent.push_back(send(phase, sender, receiver, bytes / static_cast<double>(at(chunks) * parts.size()),
                          after, false));
    return join(sent, member, phase.number);
  }

  /// `arrivals` are ordered by receiver and shard.
  void receive(const CollectivePhase& phase, const std::vector<Arrival>& arrivals) {
    std::vector<int> sum;
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const Arrival& it = arrivals[i];
      const std::size_t received = place(it.member, it.shard);
      if (!it.adds) {
        if (it.is_twin)
          from_twins_[at(it.member)].push_back(it.task);
        else
          last_[received] = it.task;
        continue;
      }
      if (sum.empty()) sum.push_back(last_[received]);
      sum.push_back(it.task);
      if (i + 1 < arrivals.size() && arrivals[i + 1].key() == it.key()) continue;
      own_[received] = last_[received] = join(sum, it.member, phase.number);
      sum.clear();
    }
  }

  /// After the last message to the member. Of a reduce-scatter it has only the shards that it has received.
  void add_end(const CollectivePhase& phase, int member) {
    const int ready = group_.ready[at(member)];
    std::vector<int> tasks = std::move(from_twins_[at(member)]);
    for (int shard = 0; shard < shards_; ++shard)
      if (const int task = last_[place(member, shard)];
          task != ready || group_.options.collective != Collective::reduce_scatter)
        tasks.push_back(task);
    ends_[at(member)] = join(tasks, member, phase.number);
  }

  GraphBuilder& builder_;
  const SyncGroup& group_;
  CollectiveMessages list_;
  bool uses_channels_ = false;
  double latencies_ = 1;                  // that a message takes
  std::vector<int> ring_;                 // devices in the order of the current phase
  std::optional<HostChannels> channels_;  // of ring_
  int shards_ = 1;                        // that messages carry
  std::vector<std::size_t> last_phase_;   // [member]: that sends to it
  // [member][shard]: the task after which its own data are ready, and the one that it has received last.
  std::vector<int> own_, last_;
  std::vector<std::vector<int>> from_twins_;  // [member]: results that devices like their senders send to it
  std::vector<int> ends_;                     // [member]
};

}  // namespace

std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group) {
  return CollectiveLowering(builder, sync, group).add();
}

}  // namespace dtfm::sim
