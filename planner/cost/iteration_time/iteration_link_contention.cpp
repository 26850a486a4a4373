// Egress and contention of messages within pipelines.
#include <algorithm>
#include <tuple>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {
namespace {

bool passes(const SharedPath& path, int id) {
  return std::find(path.begin(), path.end(), id) != path.end();
}

/// Index among the ids; a new id is appended.
int number_of(std::vector<int>& ids, int id) {
  const auto it = std::find(ids.begin(), ids.end(), id);
  if (it != ids.end()) return static_cast<int>(it - ids.begin());
  ids.push_back(id);
  return static_cast<int>(ids.size()) - 1;
}

}  // namespace

/// For every micro-batch, activations are sent to the next stage and their gradients back; within a stage,
/// all-reduces go around the ring of its devices.
void IterationTimer::refresh_egress(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  double usd = 0;  // per micro-batch
  const auto send = [&](int from, int to, double bytes) {
    if (from != to) usd += bytes * model_.network.usd_per_byte(from, to);
  };
  for (std::size_t i = 0; i < pipeline_state.layers.size(); ++i) {
    const std::vector<int>& here = devices_of(pipeline, static_cast<int>(i));
    const StageCosts& costs = model_.stages_of(here.size());
    const double reduced = here.size() < 2 ? 0
                                           : costs.all_reduces(pipeline_state.layers[i], false).bytes +
                                                 costs.all_reduces(pipeline_state.layers[i], true).bytes;
    for (std::size_t rank = 0; rank < here.size(); ++rank)
      send(here[rank], here[(rank + 1) % here.size()], reduced);
    if (i + 1 == pipeline_state.layers.size()) continue;
    const std::vector<int>& there = devices_of(pipeline, static_cast<int>(i) + 1);
    const int parts = parts_between(here, there);
    const int layer = pipeline_state.layers[i].second;
    for (int part = 0; part < parts; ++part) {
      const int from = device_of_part(here, part, parts), to = device_of_part(there, part, parts);
      send(from, to, model_.boundary_bytes(from, to, parts, layer));
      send(to, from, model_.boundary_bytes(to, from, parts, layer));
    }
  }
  pipeline_state.egress_usd = usd * pipeline_state.work.micro_batches;
}

/// Which shared capacities the messages of a pipeline cross, with the bytes of all its micro-batches.
void IterationTimer::refresh_load(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  pipeline_state.load.clear();
  pipeline_state.paths.clear();
  pipeline_state.path_bytes.clear();
  pipeline_state.first_path.clear();
  const auto add = [&](int from, int to, double forward, double backward) {
    pipeline_state.paths.push_back(from == to ? SharedPath() : model_.network.shared(from, to));
    pipeline_state.path_bytes.push_back(forward + backward);
    for (const int id : pipeline_state.paths.back()) {
      auto it = std::find_if(pipeline_state.load.begin(), pipeline_state.load.end(),
                             [&](const Load& other) { return other.id == id; });
      if (it == pipeline_state.load.end()) it = pipeline_state.load.insert(it, {id});
      it->forward += forward;
      it->backward += backward;
    }
  };
  for (std::size_t i = 0; i + 1 < pipeline_state.layers.size(); ++i) {
    const std::vector<int>&here = devices_of(pipeline, static_cast<int>(i)),
          &next = devices_of(pipeline, static_cast<int>(i) + 1);
    const int parts = parts_between(here, next);
    const auto bytes = [&](int from, int to) {
      return model_.boundary_bytes(from, to, parts, pipeline_state.layers[i].second) *
             pipeline_state.work.micro_batches;
    };
    pipeline_state.first_path.push_back(pipeline_state.paths.size());
    for (int part = 0; part < parts; ++part) {
      const int a = device_of_part(here, part, parts), b = device_of_part(next, part, parts);
      add(a, b, bytes(a, b), 0);
      add(b, a, 0, bytes(b, a));
    }
  }
  pipeline_state.first_path.push_back(pipeline_state.paths.size());
  if (!traits(model_.schedule).forwards_first) refresh_opposite_direction(pipeline);
  refresh_contentions(pipeline_state);
  refresh_first_messages(pipeline_state);
}

/// Messages of both directions contend where they leave or enter a device, except under gpipe, where one
/// direction follows the other.
void IterationTimer::refresh_opposite_direction(int pipeline) {
  PipelineWork& work = pipeline_states_[at(pipeline)].work;
  const int computed = static_cast<int>(work.forward_s.size()), stages = computed / work.chunks;
  const auto exists = [&](int from, int to) {  // between neighbouring stages; with chunks they form a ring
    return work.chunks > 1 ? stages > 1 : from >= 0 && to >= 0 && from < stages && to < stages;
  };
  const auto slower = [&](int from, int to, int layer, int other_from, int other_to) {
    if (!exists(other_from, other_to)) return 0.0;
    return contended_occupancy_s(devices_of(pipeline, from), devices_of(pipeline, to), layer,
                                 (other_from + stages) % stages, (other_to + stages) % stages, pipeline);
  };
  for (int i = 0; i + 1 < computed; ++i) {
    const int here = i % stages, next = (i + 1) % stages;
    const int layer = pipeline_states_[at(pipeline)].layers[at(i)].second;
    HopTime &there = work.forward_hops[at(i)], &back = work.backward_hops[at(i)];
    there.occupancy_while_sending_s = slower(here, next, layer, here, here - 1);
    there.occupancy_while_receiving_s = slower(here, next, layer, next + 1, next);
    back.occupancy_while_sending_s = slower(next, here, layer, next, next + 1);
    back.occupancy_while_receiving_s = slower(next, here, layer, here - 1, here);
  }
}

/// Occupancy of a message while one between two other stages of the pipeline is sent: on a common capacity it
/// gets half of the rate, or what the other leaves; 0 if it is as fast as alone.
double IterationTimer::contended_occupancy_s(const std::vector<int>& from, const std::vector<int>& to,
                                             int layer, int other_from, int other_to, int pipeline) const {
  const NetworkCost& network = model_.network;
  const std::vector<int>&sender = devices_of(pipeline, other_from),
        &receiver = devices_of(pipeline, other_to);
  const int parts = parts_between(from, to), other_parts = parts_between(sender, receiver);
  const int count = std::max(parts, other_parts);
  double slowest = 0;
  for (int i = 0; i < count; ++i) {
    const int part = rank_of_part(i, count, parts), other_part = rank_of_part(i, count, other_parts);
    const int here = device_of_part(from, part, parts), there = device_of_part(to, part, parts);
    const int other_here = device_of_part(sender, other_part, other_parts),
              other_there = device_of_part(receiver, other_part, other_parts);
    if (here == there || other_here == other_there) continue;
    const MessageCost cost = network.message(here, there), other = network.message(other_here, other_there);
    const SharedPath others = network.shared(other_here, other_there);
    const double bytes = model_.boundary_bytes(here, there, parts, layer);
    for (const int id : network.shared(here, there)) {
      if (!passes(others, id)) continue;
      const double alone = network.shared_seconds_per_byte(id);
      const double share = std::max(0.5, 1 - alone / other.seconds_per_byte);
      if (alone / share > cost.seconds_per_byte)
        slowest = std::max(slowest, cost.overhead_s + bytes * alone / share);
    }
  }
  return slowest;
}

/// Pipelines whose contention has changed have to be timed again.
void IterationTimer::share_links() {
  std::fill(forward_load_.begin(), forward_load_.end(), 0);
  std::fill(backward_load_.begin(), backward_load_.end(), 0);
  std::fill(concurrent_messages_.begin(), concurrent_messages_.end(), 0);
  for (const PipelineState& pipeline_state : pipeline_states_) {
    const int micro_batches_in_flight = in_flight(pipeline_state);
    for (const Load& load : pipeline_state.load) {
      concurrent_messages_[at(load.id)] += std::min(load.messages, micro_batches_in_flight);
      forward_load_[at(load.id)] += load.forward;
      backward_load_[at(load.id)] += load.backward;
    }
  }
  apply_synchronized_contention();
  for (int pipeline = 0; pipeline < static_cast<int>(pipeline_states_.size()); ++pipeline)
    share_links_of(pipeline);
}

/// Only under gpipe are forward and backward separate phases.
void IterationTimer::share_links_of(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  PipelineWork& work = pipeline_state.work;
  if (work.micro_batches == 0 || pipeline_state.layers.size() < 2) return;
  const bool phases = traits(model_.schedule).forwards_first;
  link_numbers_.clear();  // numbered by first crossing, so that equal pipelines have equal numbers
  for (std::size_t i = 0; i + 1 < pipeline_state.layers.size(); ++i)
    for (const bool forward : {true, false}) {
      double shared = 0;
      int link = -1;
      for (std::size_t path = pipeline_state.first_path[i] + (forward ? 0 : 1);
           path < pipeline_state.first_path[i + 1]; path += 2)
        for (const int id : pipeline_state.paths[path]) {
          const double there = forward_load_[at(id)], back = backward_load_[at(id)];
          const double seconds = model_.network.shared_seconds_per_byte(id) / work.micro_batches;
          const double all = seconds * (phases ? (forward ? there : back) : there + back);
          if (all > shared) link = id;
          shared = std::max(shared, all);
        }
      HopTime& hop = (forward ? work.forward_hops : work.backward_hops)[i];
      if (link >= 0) link = number_of(link_numbers_, link);
      if (hop.shared_s != shared || hop.shared_link != link) pipeline_state.is_timed = false;
      hop.shared_s = shared;
      hop.shared_link = link;
    }
  if (!phases) apply_random_contention(pipeline_state);
}

/// Selects, of all links on the path, the one on which contention with random traffic makes a message
/// slowest, assuming that a micro-batch takes no longer than on the busiest device or link.
void IterationTimer::apply_random_contention(PipelineState& pipeline_state) const {
  PipelineWork& work = pipeline_state.work;
  const double min_steady_s = busiest_s(work);
  for (std::size_t i = 0; i + 1 < pipeline_state.layers.size(); ++i)
    for (const bool forward : {true, false}) {
      HopTime& hop = (forward ? work.forward_hops : work.backward_hops)[i];
      double longest = 0, others = 0, among = 0, concurrent_messages = 1;
      for (const LinkContention& it : pipeline_state.contentions[2 * i + (forward ? 0 : 1)]) {
        const double all = forward_load_[at(it.id)] + backward_load_[at(it.id)];
        const double rest = all - it.own_pipeline_bytes - it.synchronized_pipeline_bytes;
        if (rest <= 1e-9 * all) continue;  // rounding errors
        const double seconds = model_.network.shared_seconds_per_byte(it.id) / work.micro_batches;
        HopTime contended;
        contended.background_s = seconds * rest;
        contended.link_demand_s = hop.overhead_s + seconds * (it.own + it.synchronized_bytes);
        contended.concurrent_messages =
            std::max(1.0, concurrent_messages_[at(it.id)] * it.own / (it.own + it.synchronized_bytes));
        const double takes = contended_message_s(contended, min_steady_s);
        if (takes <= longest) continue;
        longest = takes;
        others = contended.background_s;
        among = contended.link_demand_s;
        concurrent_messages = contended.concurrent_messages;
      }
      if (std::tie(hop.background_s, hop.link_demand_s, hop.concurrent_messages) ==
          std::tie(others, among, concurrent_messages))
        continue;
      std::tie(hop.background_s, hop.link_demand_s, hop.concurrent_messages) =
          std::tie(others, among, concurrent_messages);
      pipeline_state.is_timed = false;
    }
}

/// Number of micro-batches between the two ends of a pipeline; with chunks, of its stages.
int IterationTimer::in_flight(const PipelineState& pipeline_state) const {
  const PipelineWork& work = pipeline_state.work;
  return max_in_flight(model_.schedule, static_cast<int>(work.forward_s.size()), 0, work.chunks,
                       micro_batches_per_flush(work.flush, work.micro_batches));
}

/// Traffic of its own pipeline with which a message always contends: messages before and after it on its
/// channel, including other chunks, and those of the opposite direction at both ends. Of n micro-batches in
/// flight, a message sees the other n − 1 (arrival theorem of closed queueing networks: Reiser and Lavenberg,
/// Mean-value analysis of closed multichain queuing networks, 1980).
void IterationTimer::refresh_contentions(PipelineState& pipeline_state) const {
  const std::size_t boundaries = pipeline_state.layers.size() - 1;
  const double micro_batches_in_flight = std::max(1, in_flight(pipeline_state));
  pipeline_state.contentions.assign(2 * boundaries, {});
  const auto own_of = [&](std::size_t boundary, bool forward, int id) {
    double bytes = 0;
    for (std::size_t path = pipeline_state.first_path[boundary] + (forward ? 0 : 1);
         path < pipeline_state.first_path[boundary + 1]; path += 2)
      if (passes(pipeline_state.paths[path], id)) bytes += pipeline_state.path_bytes[path];
    return bytes;
  };
  const std::size_t devices = pipeline_state.layers.size() / at(pipeline_state.work.chunks);
  const auto channel_of = [&](std::size_t boundary, bool forward, int id) {  // including other chunks
    double bytes = 0;
    for (std::size_t i = boundary % devices; i < boundaries; i += devices) bytes += own_of(i, forward, id);
    return bytes;
  };
  const bool phases = traits(model_.schedule).forwards_first;
  for (std::size_t i = 0; i < boundaries; ++i)
    for (const bool forward : {true, false}) {
      std::vector<LinkContention>& contentions = pipeline_state.contentions[2 * i + (forward ? 0 : 1)];
      for (Load& load : pipeline_state.load) {
        const double own = own_of(i, forward, load.id);
        if (own == 0) continue;
        ++load.messages;
        if (phases) {  // only the steady state counts
          contentions.push_back({load.id, own});
          continue;
        }
        const double all = load.forward + load.backward;
        double own_pipeline_bytes =
            channel_of(i, forward, load.id) + channel_of(i + devices - 1, !forward, load.id);
        if (devices > 2) own_pipeline_bytes += channel_of(i + 1, !forward, load.id);
        contentions.push_back(
            {load.id, own, own_pipeline_bytes + (all - own_pipeline_bytes) / micro_batches_in_flight});
      }
    }
}

}  // namespace dtfm::cost
