// What the messages of pipelines cost and share.
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

/// Its place among the ids, at the end if it is new.
int number_of(std::vector<int>& ids, int id) {
  const auto it = std::find(ids.begin(), ids.end(), id);
  if (it != ids.end()) return static_cast<int>(it - ids.begin());
  ids.push_back(id);
  return static_cast<int>(ids.size()) - 1;
}

}  // namespace

/// Every micro-batch's activations go to the next stage and their gradients come back; inside a stage the
/// all-reduces go around its devices.
void IterationTimer::refresh_egress(int pipeline) {
  Lane& lane = lanes_[at(pipeline)];
  double usd = 0;  // of a micro-batch
  const auto send = [&](int from, int to, double bytes) {
    if (from != to) usd += bytes * model_.network.usd_per_byte(from, to);
  };
  for (std::size_t i = 0; i < lane.layers.size(); ++i) {
    const std::vector<int>& here = devices_of(pipeline, static_cast<int>(i));
    const StageCosts& costs = model_.stages_of(here.size());
    const double reduced = here.size() < 2 ? 0
                                           : costs.all_reduces(lane.layers[i], false).bytes +
                                                 costs.all_reduces(lane.layers[i], true).bytes;
    for (std::size_t rank = 0; rank < here.size(); ++rank)
      send(here[rank], here[(rank + 1) % here.size()], reduced);
    if (i + 1 == lane.layers.size()) continue;
    const std::vector<int>& there = devices_of(pipeline, static_cast<int>(i) + 1);
    const int parts = parts_between(here, there);
    const int layer = lane.layers[i].second;
    for (int part = 0; part < parts; ++part) {
      const int from = device_of_part(here, part, parts), to = device_of_part(there, part, parts);
      send(from, to, model_.boundary_bytes(from, to, parts, layer));
      send(to, from, model_.boundary_bytes(to, from, parts, layer));
    }
  }
  lane.egress_usd = usd * lane.work.micro_batches;
}

/// Which capacities the messages of a pipeline pass, and how many bytes of all its micro-batches.
void IterationTimer::refresh_load(int pipeline) {
  Lane& lane = lanes_[at(pipeline)];
  lane.load.clear();
  lane.paths.clear();
  lane.path_bytes.clear();
  lane.first_path.clear();
  const auto add = [&](int from, int to, double forward, double backward) {
    lane.paths.push_back(from == to ? SharedPath() : model_.network.shared(from, to));
    lane.path_bytes.push_back(forward + backward);
    for (const int id : lane.paths.back()) {
      auto it =
          std::find_if(lane.load.begin(), lane.load.end(), [&](const Load& other) { return other.id == id; });
      if (it == lane.load.end()) it = lane.load.insert(it, {id});
      it->forward += forward;
      it->backward += backward;
    }
  };
  for (std::size_t i = 0; i + 1 < lane.layers.size(); ++i) {
    const std::vector<int>&here = devices_of(pipeline, static_cast<int>(i)),
          &next = devices_of(pipeline, static_cast<int>(i) + 1);
    const int parts = parts_between(here, next);
    const auto bytes = [&](int from, int to) {
      return model_.boundary_bytes(from, to, parts, lane.layers[i].second) * lane.work.micro_batches;
    };
    lane.first_path.push_back(lane.paths.size());
    for (int part = 0; part < parts; ++part) {
      const int a = device_of_part(here, part, parts), b = device_of_part(next, part, parts);
      add(a, b, bytes(a, b), 0);
      add(b, a, 0, bytes(b, a));
    }
  }
  lane.first_path.push_back(lane.paths.size());
  if (model_.schedule != PipelineSchedule::gpipe) refresh_company(pipeline);
  refresh_meetings(lane);
  refresh_departures(lane);
}

/// Messages of both directions meet where they leave or enter a device (never under gpipe, where one
/// direction comes after the other).
void IterationTimer::refresh_company(int pipeline) {
  PipelineWork& work = lanes_[at(pipeline)].work;
  const int computed = static_cast<int>(work.forward_s.size()), stages = computed / work.chunks;
  const auto exists = [&](int from, int to) {  // between neighbouring stages; chunks go around
    return work.chunks > 1 ? stages > 1 : from >= 0 && to >= 0 && from < stages && to < stages;
  };
  const auto slower = [&](int from, int to, int layer, int other_from, int other_to) {
    if (!exists(other_from, other_to)) return 0.0;
    return beside_s(devices_of(pipeline, from), devices_of(pipeline, to), layer,
                    (other_from + stages) % stages, (other_to + stages) % stages, pipeline);
  };
  for (int i = 0; i + 1 < computed; ++i) {
    const int here = i % stages, next = (i + 1) % stages;
    const int layer = lanes_[at(pipeline)].layers[at(i)].second;
    HopTime &there = work.forward_hops[at(i)], &back = work.backward_hops[at(i)];
    there.beside_sent_s = slower(here, next, layer, here, here - 1);
    there.beside_received_s = slower(here, next, layer, next + 1, next);
    back.beside_sent_s = slower(next, here, layer, next, next + 1);
    back.beside_received_s = slower(next, here, layer, here - 1, here);
  }
}

/// Of a message while one between two other stages of the pipeline moves: on what they share each has half,
/// or what the other leaves; 0 where it is as fast as alone.
double IterationTimer::beside_s(const std::vector<int>& from, const std::vector<int>& to, int layer,
                                int other_from, int other_to, int pipeline) const {
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

/// Pipelines whose messages have more or less company than before are to be timed again.
void IterationTimer::share_links() {
  std::fill(forward_load_.begin(), forward_load_.end(), 0);
  std::fill(backward_load_.begin(), backward_load_.end(), 0);
  std::fill(at_once_.begin(), at_once_.end(), 0);
  for (const Lane& lane : lanes_) {
    const int moving = in_flight(lane);
    for (const Load& load : lane.load) {
      at_once_[at(load.id)] += std::min(load.messages, moving);
      forward_load_[at(load.id)] += load.forward;
      backward_load_[at(load.id)] += load.backward;
    }
  }
  meet_in_step();
  for (int pipeline = 0; pipeline < static_cast<int>(lanes_.size()); ++pipeline) share_links_of(pipeline);
}

/// Forward and backward are phases of their own under gpipe alone.
void IterationTimer::share_links_of(int pipeline) {
  Lane& lane = lanes_[at(pipeline)];
  PipelineWork& work = lane.work;
  if (work.micro_batches == 0 || lane.layers.size() < 2) return;
  const bool phases = model_.schedule == PipelineSchedule::gpipe;
  link_numbers_.clear();  // by first passage: those of pipelines that are alike are so too
  for (std::size_t i = 0; i + 1 < lane.layers.size(); ++i)
    for (const bool forward : {true, false}) {
      double shared = 0;
      int link = -1;
      for (std::size_t path = lane.first_path[i] + (forward ? 0 : 1); path < lane.first_path[i + 1];
           path += 2)
        for (const int id : lane.paths[path]) {
          const double there = forward_load_[at(id)], back = backward_load_[at(id)];
          const double seconds = model_.network.shared_seconds_per_byte(id) / work.micro_batches;
          const double all = seconds * (phases ? (forward ? there : back) : there + back);
          if (all > shared) link = id;
          shared = std::max(shared, all);
        }
      HopTime& hop = (forward ? work.forward_hops : work.backward_hops)[i];
      if (link >= 0) link = number_of(link_numbers_, link);
      if (hop.shared_s != shared || hop.shared_link != link) lane.is_timed = false;
      hop.shared_s = shared;
      hop.shared_link = link;
    }
  if (!phases) meet_others(lane);
}

/// Of all links on its way the one on which a message takes longest among what else comes there, if a
/// micro-batch takes no longer than the busiest device or link does.
void IterationTimer::meet_others(Lane& lane) const {
  PipelineWork& work = lane.work;
  const double least_s = busiest_s(work);
  for (std::size_t i = 0; i + 1 < lane.layers.size(); ++i)
    for (const bool forward : {true, false}) {
      HopTime& hop = (forward ? work.forward_hops : work.backward_hops)[i];
      double longest = 0, others = 0, among = 0, at_once = 1;
      for (const Meeting& it : lane.meetings[2 * i + (forward ? 0 : 1)]) {
        const double all = forward_load_[at(it.id)] + backward_load_[at(it.id)];
        const double rest = all - it.company - it.in_step_company;
        if (rest <= 1e-9 * all) continue;  // what rounding leaves
        const double seconds = model_.network.shared_seconds_per_byte(it.id) / work.micro_batches;
        HopTime met;
        met.others_s = seconds * rest;
        met.among_s = hop.overhead_s + seconds * (it.own + it.in_step);
        met.at_once = std::max(1.0, at_once_[at(it.id)] * it.own / (it.own + it.in_step));
        const double takes = among_others_s(met, least_s);
        if (takes <= longest) continue;
        longest = takes;
        others = met.others_s;
        among = met.among_s;
        at_once = met.at_once;
      }
      if (std::tie(hop.others_s, hop.among_s, hop.at_once) == std::tie(others, among, at_once)) continue;
      std::tie(hop.others_s, hop.among_s, hop.at_once) = std::tie(others, among, at_once);
      lane.is_timed = false;
    }
}

/// Micro-batches between a pipeline's ends, or with chunks between those of its stages.
int IterationTimer::in_flight(const Lane& lane) const {
  const PipelineWork& work = lane.work;
  return most_in_flight(model_.schedule, static_cast<int>(work.forward_s.size()), 0, work.chunks,
                        drained_at_once(work.flush, work.micro_batches));
}

/// What each message meets of its own pipeline not by chance: those before and after it on its channel, with
/// those of other chunks, and those beside it. Of n micro-batches in flight one meets the other n − 1 (the
/// arrival theorem of closed networks: Reiser and Lavenberg, Mean-value analysis of closed multichain queuing
/// networks, 1980).
void IterationTimer::refresh_meetings(Lane& lane) const {
  const std::size_t boundaries = lane.layers.size() - 1;
  const double moving = std::max(1, in_flight(lane));
  lane.meetings.assign(2 * boundaries, {});
  const auto own_of = [&](std::size_t boundary, bool forward, int id) {
    double bytes = 0;
    for (std::size_t path = lane.first_path[boundary] + (forward ? 0 : 1);
         path < lane.first_path[boundary + 1]; path += 2)
      if (passes(lane.paths[path], id)) bytes += lane.path_bytes[path];
    return bytes;
  };
  const std::size_t devices = lane.layers.size() / at(lane.work.chunks);
  const auto channel_of = [&](std::size_t boundary, bool forward, int id) {  // with those of other chunks
    double bytes = 0;
    for (std::size_t i = boundary % devices; i < boundaries; i += devices) bytes += own_of(i, forward, id);
    return bytes;
  };
  for (std::size_t i = 0; i < boundaries; ++i)
    for (const bool forward : {true, false}) {
      std::vector<Meeting>& meetings = lane.meetings[2 * i + (forward ? 0 : 1)];
      for (Load& load : lane.load) {
        const double own = own_of(i, forward, load.id);
        if (own == 0) continue;
        ++load.messages;
        if (model_.schedule == PipelineSchedule::gpipe) {  // by the steady state alone
          meetings.push_back({load.id, own});
          continue;
        }
        const double all = load.forward + load.backward;
        double company = channel_of(i, forward, load.id) + channel_of(i + devices - 1, !forward, load.id);
        if (devices > 2) company += channel_of(i + 1, !forward, load.id);
        meetings.push_back({load.id, own, company + (all - company) / moving});
      }
    }
}

}  // namespace dtfm::cost
