#include "simulator/iteration/pipeline_graph.hpp"

#include <array>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/host_channels.hpp"
#include "core/plan/communication.hpp"
#include "core/schedule/messaging.hpp"
#include "core/schedule/schedule.hpp"
#include "core/plan/shards.hpp"

namespace dtfm::sim {
namespace {

using Kind = Operation::Kind;

struct BoundaryMessage {
  Channel channel;
  double bytes = 0;  // uncompressed
};

/// The messages of one direction between neighbouring stages: activations or their gradients.
struct Direction {
  Activity activity;
  std::vector<std::vector<BoundaryMessage>> messages = {};  // [sending stage][part]
  // [receiving stage][micro-batch · parts + part]: task of the message.
  std::vector<std::vector<int>> arrived = {};
  // As `arrived`: the task after which the sender need not wait any more. Unused if receives are posted
  // ahead.
  std::vector<std::vector<int>> sent = {};
  // [receiving stage][micro-batch]: the tasks, by rank, after which the message is sent, and after which it
  // is received; empty: not yet. Unused if receives are posted ahead.
  std::vector<std::vector<std::vector<int>>> issued = {}, posted = {};
};

/// Layers that are computed by one task: all those of a stage, or a single one.
struct Part {
  std::pair<int, int> layers;
  double seconds = 0;
  double hidden_s = 0;   // at its end, during which keys and values may arrive
  int layer = no_index;  // of the label, if the part is a single layer
};

/// Messages of one payload between the devices of a stage.
struct StageExchange {
  Activity activity;
  std::vector<Communication> of_group;  // those of the first group
  /// A message of any group: its size ÷ that of a message of the first group, its sender and its receiver.
  struct Message {
    Channel channel;
    int rank = 0, peer = no_index;  // no peer: the next device of the ring
    double share = 1;
  };
  std::vector<Message> messages = {};
};

/// Gloo sends ready notifications and messages one after another over one connection.
Channel announced_channel(GraphBuilder& builder, int from, int to) {
  Channel channel = builder.channel(from, to, Activity::send_activations);
  channel.is_announced = true;
  return channel;
}

class PipelineGraph {
 public:
  PipelineGraph(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan, int number);
  PipelineEndTasks build();

 private:
  int stages() const { return static_cast<int>(pipeline_.stages.size()); }
  int stage_of(const Operation& operation, int device) const { return operation.chunk * devices_ + device; }
  int receiver_of(int stage, Kind kind) const { return kind == Kind::forward ? stage + 1 : stage - 1; }
  bool has_stage(int stage) const { return stage >= 0 && stage < stages(); }
  int device_of(int stage, int rank) const { return pipeline_.stages[at(stage)].devices[at(rank)]; }
  int degree(int stage) const { return static_cast<int>(pipeline_.stages[at(stage)].devices.size()); }
  Direction& direction(Kind kind) { return kind == Kind::forward ? forward_ : backward_; }
  std::span<int> of_micro_batch(std::vector<int>& of_parts, const Operation& operation) const;
  std::span<int> arrived(int stage, const Operation& operation) {
    return of_micro_batch(direction(operation.kind).arrived[at(stage)], operation);
  }
  std::span<int> sent(int stage, const Operation& operation) {
    return of_micro_batch(direction(operation.kind).sent[at(stage)], operation);
  }

  bool run_action(int device, const Action& action);
  void begin_message(int sender, const Operation& operation);
  void wait_for(int device, std::span<const int> tasks, const TaskLabel& label);
  std::vector<int> compressed_by_rank(int stage, const Operation& operation);
  void add_messages(int stage, const Operation& operation, const std::vector<int>& ready,
                    const std::vector<int>& posted);
  void add_starts(int stage);
  bool can_run(int stage, const Operation& operation);
  void run(int stage, const Operation& operation);
  int receive(int stage, const Operation& operation);
  void find_communications();
  void find_exchanges(const std::vector<Communication>& all, int stage);
  void add_exchange_messages(const std::vector<int>& stage, const Communication& it, StageExchange& exchange);
  int add_exchange(int stage, const StageExchange& exchange, std::pair<int, int> layers, Pass pass,
                   TaskLabel label);
  void compute(int stage, const Operation& operation, int received);
  void add_computations(int stage, const Operation& operation, double seconds, int layer, int phase,
                        int received, std::vector<int>& last);
  void send(int stage, const Operation& operation);
  std::vector<int> sent_by_rank(int stage, const Operation& operation, std::span<const int> messages);
  std::vector<Part> parts(int stage, Kind kind) const;
  /// The kind of the operation that computes gradients of parameters.
  Kind gradient_kind() const { return splits_backward_ ? Kind::weight_gradient : Kind::backward; }
  /// Whether an operation of this kind, which is being added, completes the gradients of the stage.
  bool completes_gradients(int stage, Kind kind) const {
    return kind == gradient_kind() && gradients_left_[at(stage)] == 0;
  }
  double seconds(int stage, Kind kind) const;
  double hidden_seconds(int stage, Kind kind) const;
  double gradient_seconds(const Stage& stage, int layer) const;
  /// Sets the tasks, by rank, after which the gradients of `layers` can be synchronized.
  void set_gradients(std::pair<int, int> layers, const std::vector<int>& tasks);
  double compressed_bytes(int stage, int other, int rank, bool sends) const;
  int add_compression(int stage, int rank, const Operation& operation, double bytes, int phase,
                      std::span<const int> after);
  TaskLabel label(Activity activity, int stage, const Operation& operation, int rank) const;

  GraphBuilder& builder_;
  const LoadModel& model_;
  const Plan& plan_;
  const Pipeline& pipeline_;
  const int number_;
  const bool adds_compression_;  // compressing messages takes time
  const bool splits_backward_;   // into gradients of activations and of parameters
  const bool is_blocking_;       // a device does not compute while it sends
  const bool posts_receives_;    // messages wait for them
  const bool divides_messages_;  // between the devices of a stage
  int devices_ = 1;              // number of devices of each rank; stage s is on device s % devices_
  std::vector<StageLoad> loads_;
  std::vector<std::vector<StageExchange>> exchanges_;  // [stage]: in their order after each pass
  Direction forward_{Activity::send_activations}, backward_{Activity::send_gradients};
  std::vector<int> gradients_left_;     // [stage]: micro-batches without gradients of parameters
  std::vector<std::vector<int>> last_;  // [device][rank]: its last task, for which its next one waits
  PipelineEndTasks ends_;
};

/// Number of stages before the first device is used again. Only interleaved schedules define an order among
/// the stages of one device; under other schedules every stage counts as a device of its own, and a device
/// with several stages computes whatever is ready first.
int count_devices(const Pipeline& pipeline, Schedule schedule) {
  if (!traits(schedule).has_chunks) return static_cast<int>(pipeline.stages.size());
  std::set<int> seen;
  for (const Stage& stage : pipeline.stages)
    if (!seen.insert(stage.devices.front()).second) break;
  const auto count = seen.size();
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage)
    if (pipeline.stages.size() % count != 0 ||
        pipeline.stages[stage].devices != pipeline.stages[stage % count].devices)
      throw Error("",
                  "schedule interleaved requires every chunk of a pipeline to use the same devices in the "
                  "same order");
  return static_cast<int>(count);
}

PipelineGraph::PipelineGraph(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                             int number)
    : builder_(builder),
      model_(model),
      plan_(plan),
      pipeline_(plan.pipelines[at(number)]),
      number_(number),
      adds_compression_(model.activation_compression_s(1) > 0),
      splits_backward_(traits(plan.execution.schedule).splits_backward),
      is_blocking_(traits(plan.execution.schedule).is_blocking || plan.execution.blocking_sends),
      posts_receives_(traits(plan.execution.messaging).posts_receives),
      divides_messages_(divides_messages(job.parallelism)),
      devices_(count_devices(pipeline_, plan.execution.schedule)) {
  for (const Stage& stage : pipeline_.stages) loads_.push_back(model.of(stage));
  find_communications();
  gradients_left_.assign(pipeline_.stages.size(), pipeline_.micro_batches);
  for (int device = 0; device < devices_; ++device) {
    last_.emplace_back(at(degree(device)), no_index);
    if (!plan.execution.iteration_barrier) add_starts(device);
  }
  ends_.gradients.resize(at(model.layers()));
  // A pipeline without micro-batches has its gradients at once.
  for (int stage = 0; stage < stages(); ++stage)
    set_gradients(pipeline_.stages[at(stage)].layers, last_[at(stage % devices_)]);
}

void PipelineGraph::find_communications() {
  const std::vector<Communication> all =
      pipeline_communications(builder_.topology(), model_.bytes(), plan_, number_);
  exchanges_.resize(pipeline_.stages.size());
  for (int stage = 0; stage < stages(); ++stage) find_exchanges(all, stage);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    Direction& direction = pass == Pass::forward ? forward_ : backward_;
    direction.messages.resize(pipeline_.stages.size());
    direction.arrived.resize(pipeline_.stages.size());
    for (const Communication& it : all) {
      if (it.payload != Payload::activations || it.pass != pass) continue;
      const int from = it.devices[0], to = it.devices[1];
      const Channel channel = posts_receives_ && builder_.announces(from, to)
                                  ? announced_channel(builder_, from, to)
                                  : builder_.channel(from, to, direction.activity);
      direction.messages[at(it.stages[0])].push_back({channel, it.bytes});
      direction.arrived[at(it.stages[1])].assign(at(pipeline_.micro_batches) * at(it.parts), no_index);
    }
  }
}

/// Adds the messages of one group: an all-reduce goes around a ring on all channels between hosts, keys and
/// values directly from each device to the next, all-to-alls from each to all others. Groups may be spread
/// over hosts differently.
void PipelineGraph::add_exchange_messages(const std::vector<int>& stage, const Communication& it,
                                          StageExchange& exchange) {
  const std::vector<int>& devices = it.devices;
  const auto rank_of = [&](int device) {
    return static_cast<int>(std::find(stage.begin(), stage.end(), device) - stage.begin());
  };
  const HostChannels hosts(builder_.topology(), devices);
  const auto bytes_to_peer = [](const Communication& of) {
    return of.bytes / static_cast<double>(of.devices.size());
  };
  const double size = bytes_to_peer(it) / bytes_to_peer(exchange.of_group.front());
  const auto channel_to = [&](int from, int to) {
    Channel channel = builder_.channel(from, to, exchange.activity);
    channel.both_ends_send = devices.size() == 2 || it.collective == Collective::all_to_all;
    return channel;
  };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int from = devices[i];
    if (it.payload == Payload::partial_sums) {
      const auto parts = hosts.next_in_ring(i);
      for (const auto& [sender, receiver] : parts)
        exchange.messages.push_back(
            {channel_to(sender, receiver), rank_of(from), no_index, 1 / static_cast<double>(parts.size())});
      continue;
    }
    for (std::size_t k = 1; k < (it.collective == Collective::all_gather ? 2 : devices.size()); ++k) {
      const int to = devices[(i + k) % devices.size()];
      exchange.messages.push_back({channel_to(from, to), rank_of(from), rank_of(to), size});
    }
  }
}

/// Groups whose layer times contain the exchange, or of a single device, send nothing.
void PipelineGraph::find_exchanges(const std::vector<Communication>& all, int stage) {
  const std::vector<int>& devices = pipeline_.stages[at(stage)].devices;
  for (const auto& [payload, activity] : {std::pair(Payload::keys_values, Activity::pass_keys),
                                          std::pair(Payload::partial_sums, Activity::all_reduce),
                                          std::pair(Payload::expert_tokens, Activity::all_to_all),
                                          std::pair(Payload::host_tokens, Activity::all_to_all)}) {
    StageExchange exchange{activity, {}};
    std::set<int> known;  // first devices of groups
    int first_group = no_index;
    for (const Communication& it : all) {
      if (it.payload != payload || it.stages.front() != stage) continue;
      const bool reduces = payload == Payload::partial_sums;
      if (reduces && !model_.has_all_reduces(it.devices, devices.size())) continue;
      if (known.empty() || first_group == it.devices.front()) exchange.of_group.push_back(it);
      if (known.empty()) first_group = it.devices.front();
      if (known.insert(it.devices.front()).second) add_exchange_messages(devices, it, exchange);
    }
    if (!exchange.messages.empty()) exchanges_[at(stage)].push_back(std::move(exchange));
  }
}

/// Lets the devices of a stage wait before their first computation.
void PipelineGraph::add_starts(int stage) {
  TaskLabel label;
  label.pipeline = number_;
  label.stage = stage;
  label.phase = 8;
  for (int rank = 0; rank < degree(stage); ++rank) {
    label.rank = rank;
    last_[at(stage)][at(rank)] = builder_.start(device_of(stage, rank), label);
  }
}

std::span<int> PipelineGraph::of_micro_batch(std::vector<int>& of_parts, const Operation& operation) const {
  const std::size_t parts = of_parts.size() / at(pipeline_.micro_batches);
  return {&of_parts[at(operation.micro_batch) * parts], parts};
}

/// Repeatedly lets every device do as much of its list as it can, so that tasks are added in topological
/// order.
PipelineEndTasks PipelineGraph::build() {
  if (posts_receives_)
    for (Direction* it : {&forward_, &backward_}) {
      it->sent = it->arrived;
      it->issued = it->posted =
          std::vector(pipeline_.stages.size(), std::vector<std::vector<int>>(at(pipeline_.micro_batches)));
    }
  const std::vector<std::vector<Action>> lists =
      device_actions(plan_.execution.messaging, plan_.execution.schedule,
                     {devices_, stages() / devices_, pipeline_.micro_batches,
                      planned_orders(pipeline_, plan_.execution.schedule)},
                     plan_.execution.flush.value_or(0));
  std::vector<std::size_t> next(lists.size());
  for (bool all = false; !all;) {
    bool progressed = false;
    all = true;
    for (int device = 0; device < devices_; ++device) {
      const std::vector<Action>& list = lists[at(device)];
      for (std::size_t& i = next[at(device)]; i < list.size() && run_action(device, list[i]); ++i)
        progressed = true;
      all = all && next[at(device)] == list.size();
    }
    DTFM_ASSERT(progressed || all);  // otherwise the schedule is deadlocked
  }
  // A device that posts receives has waited for all it has sent.
  for (int stage = 0; posts_receives_ && !plan_.execution.overlap && stage < stages(); ++stage)
    set_gradients(pipeline_.stages[at(stage)].layers, last_[at(stage % devices_)]);
  ends_.last = std::move(last_);
  return std::move(ends_);
}

/// False if the action waits for a message that has not begun.
bool PipelineGraph::run_action(int device, const Action& action) {
  const Operation& operation = action.operation;
  const int stage = stage_of(operation, device);
  switch (action.kind) {
    case Action::Kind::compute:
      if (!can_run(stage, operation)) return false;
      run(stage, operation);
      return true;
    case Action::Kind::send:
      if (!posts_receives_) {
        send(stage, operation);
        return true;
      }
      direction(operation.kind).issued[at(receiver_of(stage, operation.kind))][at(operation.micro_batch)] =
          compressed_by_rank(stage, operation);
      begin_message(stage, operation);
      return true;
    case Action::Kind::receive:
      direction(operation.kind).posted[at(stage)][at(operation.micro_batch)] = last_[at(device)];
      begin_message(operation.kind == Kind::forward ? stage - 1 : stage + 1, operation);
      return true;
    case Action::Kind::wait_send: {
      const std::span<const int> ends = sent(receiver_of(stage, operation.kind), operation);
      if (ends.front() == no_index) return false;
      TaskLabel of = label(Activity::wait, stage, operation, no_index);
      of.phase = operation.kind == Kind::forward ? 7 : 6;
      wait_for(device, ends, of);
      return true;
    }
    case Action::Kind::wait_receive:
      break;
  }
  const std::span<const int> received = arrived(stage, operation);
  if (received.front() == no_index) return false;
  TaskLabel of = label(Activity::wait, stage, operation, no_index);
  of.phase = operation.kind == Kind::forward ? 9 : 10;
  wait_for(device, received, of);
  return true;
}

/// Lets each device of a stage wait for its messages, which are as many for each.
void PipelineGraph::wait_for(int device, std::span<const int> tasks, const TaskLabel& label) {
  std::vector<int>& last = last_[at(device)];
  const std::size_t of_rank = tasks.size() / last.size();
  for (std::size_t rank = 0; rank < last.size(); ++rank) {
    const std::span<const int> own = tasks.subspan(rank * of_rank, of_rank);
    std::vector<int> all(own.begin(), own.end());
    all.push_back(last[rank]);
    TaskLabel of = label;
    of.rank = static_cast<int>(rank);
    last[rank] = builder_.join(all, of);
  }
}

/// Adds the message if it has been sent and its receive has been posted.
void PipelineGraph::begin_message(int sender, const Operation& operation) {
  const Direction& to = direction(operation.kind);
  const int receiver = receiver_of(sender, operation.kind);
  const std::vector<int>&issued = to.issued[at(receiver)][at(operation.micro_batch)],
        &posted = to.posted[at(receiver)][at(operation.micro_batch)];
  if (!issued.empty() && !posted.empty()) add_messages(sender, operation, issued, posted);
}

bool PipelineGraph::can_run(int stage, const Operation& operation) {
  if (operation.kind == Kind::weight_gradient) return true;  // follows `backward` on the same device
  const int sender = operation.kind == Kind::forward ? stage - 1 : stage + 1;
  return !has_stage(sender) || arrived(stage, operation).front() != no_index;
}

void PipelineGraph::run(int stage, const Operation& operation) {
  if (operation.kind == gradient_kind()) --gradients_left_[at(stage)];
  if (operation.kind == Kind::weight_gradient) return compute(stage, operation, no_index);
  compute(stage, operation, receive(stage, operation));
}

TaskLabel PipelineGraph::label(Activity activity, int stage, const Operation& operation, int rank) const {
  TaskLabel label;
  label.activity = activity;
  label.pipeline = number_;
  label.stage = stage;
  label.micro_batch = operation.micro_batch;
  if (degree(stage) > 1) label.rank = rank;
  return label;
}

/// Uncompressed bytes of those parts that the device of `rank` in `stage` sends to stage `other` (or receives
/// from it, unless `sends`) in compressed form.
double PipelineGraph::compressed_bytes(int stage, int other, int rank, bool sends) const {
  const std::vector<int>&here = pipeline_.stages[at(stage)].devices,
        &there = pipeline_.stages[at(other)].devices;
  const int parts = parts_between(here, there), of_rank = parts / degree(stage);
  int compressed = 0;
  for (int part = rank * of_rank; part < (rank + 1) * of_rank; ++part) {
    const int own = device_of(stage, rank), peer = device_of_part(there, part, parts);
    if (sends ? model_.is_compressed(own, peer) : model_.is_compressed(peer, own)) ++compressed;
  }
  // A device that sends the whole boundary to several peers compresses it once, for part of them in part.
  const double copies = divides_messages_ ? 1 : of_rank;
  return compressed * forward_.messages[at(std::min(stage, other))].front().bytes / copies;
}

/// Compresses or decompresses the activations (or their gradients) of a message. Phases 0 and 1 decompress, 2
/// and 3 compress; the even ones forward, the odd ones backward.
int PipelineGraph::add_compression(int stage, int rank, const Operation& operation, double bytes, int phase,
                                   std::span<const int> after) {
  TaskLabel of = label(Activity::compress, stage, operation, rank);
  of.phase = phase;
  return builder_.compute(device_of(stage, rank), model_.activation_compression_s(bytes), after, of);
}

/// Returns the task for which a stage's computations wait in addition to its previous ones: every device
/// needs all parts of the message.
int PipelineGraph::receive(int stage, const Operation& operation) {
  const bool forward = operation.kind == Kind::forward;
  const int sender = forward ? stage - 1 : stage + 1;
  if (!has_stage(sender)) return no_index;
  TaskLabel all = label(Activity::wait, stage, operation, no_index);
  all.phase = forward ? 4 : 5;
  const int received = builder_.join(arrived(stage, operation), all);
  if (!adds_compression_) return received;
  std::vector<int>& last = last_[at(stage % devices_)];
  bool is_waited_for = true;
  for (int rank = 0; rank < degree(stage); ++rank) {
    const double bytes = compressed_bytes(stage, sender, rank, false);
    is_waited_for = is_waited_for && bytes > 0;
    if (bytes > 0)
      last[at(rank)] = add_compression(stage, rank, operation, bytes, forward ? 0 : 1,
                                       std::array{last[at(rank)], received});
  }
  return is_waited_for ? no_index : received;
}

Activity activity_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return Activity::forward;
    case Kind::backward:
      return Activity::backward;
    case Kind::weight_gradient:
      break;
  }
  return Activity::weight_gradient;
}

/// With several devices per stage, a part is complete only after its exchanges, of which the computation of
/// weight gradients has none. Keys and values are exchanged during the last of its computations.
void PipelineGraph::compute(int stage, const Operation& operation, int received) {
  const bool exchanges = operation.kind != Kind::weight_gradient;
  const Pass pass = operation.kind == Kind::forward ? Pass::forward : Pass::backward;
  std::vector<int>& last = last_[at(stage % devices_)];
  for (const Part& part : parts(stage, operation.kind)) {
    add_computations(stage, operation, part.seconds - part.hidden_s, part.layer, no_index, received, last);
    received = no_index;
    for (const StageExchange& exchange : exchanges_[at(stage)]) {
      if (!exchanges || part.layers.first == part.layers.second) break;
      TaskLabel of = label(Activity::wait, stage, operation, no_index);
      of.layer = part.layer;
      const int end = add_exchange(stage, exchange, part.layers, pass, of);
      if (end == no_index) continue;
      if (exchange.activity == Activity::pass_keys)
        add_computations(stage, operation, part.hidden_s, part.layer, 0, no_index, last);
      for (int rank = 0; rank < degree(stage); ++rank) {
        of.rank = rank;
        of.phase = pass == Pass::backward ? 26 : 25;
        last[at(rank)] = exchange.activity == Activity::pass_keys
                             ? builder_.join(std::array{last[at(rank)], end}, of)
                             : end;
      }
    }
    if (completes_gradients(stage, operation.kind)) set_gradients(part.layers, last);
  }
}

/// Adds a computation on each device of the stage, after `received` and the last task of the device.
void PipelineGraph::add_computations(int stage, const Operation& operation, double seconds, int layer,
                                     int phase, int received, std::vector<int>& last) {
  for (int rank = 0; rank < degree(stage); ++rank) {
    TaskLabel of = label(activity_of(operation.kind), stage, operation, rank);
    of.layer = layer;
    of.phase = phase;
    last[at(rank)] =
        builder_.compute(device_of(stage, rank), seconds, std::array{last[at(rank)], received}, of);
  }
}

/// The messages of all layers are merged into one transfer per device and peer, which takes latency and
/// overhead of every message: n all-reduces of S bytes among t devices, over links of B bytes per second,
/// take 2 n (t − 1) (latency + overhead + S / (t B)); keys and values half as long as so many all-reduces; n
/// all-to-alls of S bytes among e devices, all of whose
/// messages leave at once, n (latency + overhead + S / (e B)) if no link is shared. They begin when all
/// devices have computed. Returns the task that ends when all have the results; no_index if the layers send
/// nothing.
int PipelineGraph::add_exchange(int stage, const StageExchange& exchange, std::pair<int, int> layers,
                                Pass pass, TaskLabel label) {
  DTFM_ASSERT(tensor_all_reduce == GradientSync::ring);
  double bytes = 0, messages = 0;  // of each device to one peer
  for (const Communication& it : exchange.of_group) {
    if (it.pass != pass || it.layers.first < layers.first || it.layers.second > layers.second) continue;
    const double members = static_cast<double>(it.devices.size()),
                 steps = it.collective == Collective::all_to_all   ? 1
                         : it.collective == Collective::all_gather ? members - 1
                                                                   : 2 * (members - 1);
    bytes += it.count * steps * it.bytes / members;
    messages += it.count * steps;
  }
  if (messages == 0) return no_index;
  label.phase = pass == Pass::backward ? 1 : 0;
  const Payload payload = exchange.of_group.front().payload;
  if (payload == Payload::expert_tokens) label.phase += 17;  // other waits have 0 to 16
  if (payload == Payload::keys_values) label.phase += 21;
  if (payload == Payload::host_tokens) label.phase += 27;
  const std::array ready{builder_.join(last_[at(stage % devices_)], label)};
  label.activity = exchange.activity;
  std::vector<int> arrived;
  for (const StageExchange::Message& it : exchange.messages) {
    label.rank = it.rank;
    TaskLabel of = label;
    if (it.peer != no_index) of.phase = 2 * it.peer + (pass == Pass::backward ? 1 : 0);
    arrived.push_back(builder_.send_sequentially(it.channel, bytes * it.share, messages, ready, of));
  }
  label.rank = no_index;
  label.activity = Activity::wait;
  label.phase += 2;
  return builder_.join(arrived, label);
}

/// Compresses the output of an operation where that is needed. Returns the last tasks by rank.
std::vector<int> PipelineGraph::compressed_by_rank(int stage, const Operation& operation) {
  const int receiver = receiver_of(stage, operation.kind);
  std::vector<int>& last = last_[at(stage % devices_)];
  for (int rank = 0; adds_compression_ && rank < degree(stage); ++rank) {
    int& own = last[at(rank)];
    if (const double bytes = compressed_bytes(stage, receiver, rank, true); bytes > 0)
      own = add_compression(stage, rank, operation, bytes, operation.kind == Kind::forward ? 2 : 3,
                            std::array{own});
  }
  return last;
}

/// Adds all parts of the output of an operation, which leave after the tasks of the ranks of the sender
/// (`ready`) and of the receiver (`posted`; empty: at once).
void PipelineGraph::add_messages(int stage, const Operation& operation, const std::vector<int>& ready,
                                 const std::vector<int>& posted) {
  const int receiver = receiver_of(stage, operation.kind);
  Direction& to = direction(operation.kind);
  const std::vector<int>& others = pipeline_.stages[at(receiver)].devices;
  const int parts = static_cast<int>(to.messages[at(stage)].size());
  const std::span<int> messages = arrived(receiver, operation);
  for (int part = 0; part < parts; ++part) {
    TaskLabel of = label(to.activity, stage, operation, no_index);
    if (parts > 1) of.rank = part;
    const int rank = rank_of_part(part, parts, degree(stage));
    const bool compressed = model_.is_compressed(device_of(stage, rank), device_of_part(others, part, parts));
    const auto& [channel, whole] = to.messages[at(stage)][at(part)];
    int is_posted = no_index;
    if (!posted.empty()) {
      is_posted = posted[at(rank_of_part(part, parts, degree(receiver)))];
      if (channel.is_announced) {
        TaskLabel announced = label(Activity::wait, receiver, operation, part);
        announced.phase = operation.kind == Kind::forward ? 11 : 12;
        is_posted = builder_.send(announced_channel(builder_, channel.to, channel.from), 0,
                                  std::array{is_posted}, announced);
        // A sender without a ready notification tells the receiver that it waits.
        announced = label(Activity::wait, stage, operation, part);
        announced.phase = operation.kind == Kind::forward ? 15 : 16;
        builder_.send(channel, 0, std::array{ready[at(rank)]}, announced);
      }
    }
    const double bytes = compressed ? model_.compressed_activations(whole) : whole;
    const std::array begins{ready[at(rank)], is_posted};
    messages[at(part)] = builder_.send(channel, bytes, begins, of);
    if (posted.empty()) continue;
    int& ends = sent(receiver, operation)[at(part)];
    ends = messages[at(part)];
    if (builder_.is_buffered(channel, bytes)) {
      TaskLabel buffered = label(Activity::wait, stage, operation, part);
      buffered.phase = operation.kind == Kind::forward ? 13 : 14;
      ends = builder_.wait(0, begins, buffered);
    }
  }
}

void PipelineGraph::send(int stage, const Operation& operation) {
  const int receiver = receiver_of(stage, operation.kind);
  add_messages(stage, operation, compressed_by_rank(stage, operation), {});
  const bool is_last = completes_gradients(stage, operation.kind) && !plan_.execution.overlap;
  if (!is_last && !is_blocking_) return;
  const std::vector<int> sent = sent_by_rank(stage, operation, arrived(receiver, operation));
  if (is_last) set_gradients(pipeline_.stages[at(stage)].layers, sent);
  if (is_blocking_) last_[at(stage % devices_)] = sent;
}

/// Returns, by rank, the task after which a device has sent all its parts.
std::vector<int> PipelineGraph::sent_by_rank(int stage, const Operation& operation,
                                             std::span<const int> messages) {
  const std::size_t ranks = at(degree(stage)), parts_of_rank = messages.size() / ranks;
  std::vector<int> sent;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    TaskLabel all = label(Activity::wait, stage, operation, static_cast<int>(rank));
    all.phase = operation.kind == Kind::forward ? 7 : 6;
    sent.push_back(builder_.join(messages.subspan(rank * parts_of_rank, parts_of_rank), all));
  }
  return sent;
}

void PipelineGraph::set_gradients(std::pair<int, int> layers, const std::vector<int>& tasks) {
  for (int layer = layers.first; layer < layers.second; ++layer) ends_.gradients[at(layer)] = tasks;
}

double PipelineGraph::seconds(int stage, Kind kind) const {
  const StageLoad& load = loads_[at(stage)];
  if (kind == Kind::forward) return load.forward_s;
  if (kind == Kind::weight_gradient) return load.weight_gradient_s;
  return splits_backward_ ? load.backward_s - load.weight_gradient_s : load.backward_s;
}

double PipelineGraph::hidden_seconds(int stage, Kind kind) const {
  const StageLoad& load = loads_[at(stage)];
  if (kind == Kind::weight_gradient) return 0;
  return kind == Kind::forward ? load.hidden_forward_s : load.hidden_backward_s;
}

/// Seconds of one layer in the operation that computes gradients of parameters.
double PipelineGraph::gradient_seconds(const Stage& stage, int layer) const {
  return splits_backward_ ? model_.weight_gradient_s(stage, layer) : model_.backward_s(stage, layer);
}

/// One part for the whole stage, except for the operation that completes its gradients with `overlap`, which
/// is computed layer by layer so that each layer's gradients can be synchronized as soon as possible.
std::vector<Part> PipelineGraph::parts(int stage, Kind kind) const {
  const auto [begin, end] = pipeline_.stages[at(stage)].layers;
  if (!completes_gradients(stage, kind) || !plan_.execution.overlap || begin == end)
    return {{{begin, end}, seconds(stage, kind), hidden_seconds(stage, kind)}};
  std::vector<Part> parts;
  for (int layer = end - 1; layer >= begin; --layer) {
    const double layer_s = gradient_seconds(pipeline_.stages[at(stage)], layer);
    const double hidden_s =
        splits_backward_ ? 0 : model_.hidden_backward_s(pipeline_.stages[at(stage)], layer);
    parts.push_back({{layer, layer + 1}, layer_s, std::min(hidden_s, layer_s), layer});
  }
  if (!splits_backward_) parts.front().seconds += loads_[at(stage)].overhead_s;
  return parts;
}

}  // namespace

PipelineEndTasks add_pipeline(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                              int number) {
  return PipelineGraph(builder, model, job, plan, number).build();
}

}  // namespace dtfm::sim
