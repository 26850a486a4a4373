// When gradients are exchanged, and what that does to pipelines which still compute.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Layers between two neighbouring boundaries of any pipeline; with overlap, every layer. Those that were
/// there before keep what is known of them.
void IterationTimer::find_segments() {
  const std::vector<Segment> before = std::move(segments_);
  segments_.clear();
  are_segments_known_ = true;
  if (lanes_.size() < 2) return;
  std::vector<int> next(lanes_.size());  // computed stages that hold the layer
  const auto skip_ended = [&](int layer) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      while (lanes_[i].layers[at(next[i])].second <= layer) ++next[i];
  };
  const bool overlap = model_.problem.job.parallelism.overlap;
  for (int layer = 0; layer < model_.stages.layers();) {
    skip_ended(layer);
    int end = overlap ? layer + 1 : model_.stages.layers();
    for (std::size_t i = 0; i < lanes_.size(); ++i) end = std::min(end, lanes_[i].layers[at(next[i])].second);
    if (!overlap && !segments_.empty() && have_same_devices(segments_.back().stage, next)) {
      segments_.back().layers.second = end;
    } else {
      segments_.emplace_back();
      segments_.back().layers = {layer, end};
      segments_.back().stage = next;
    }
    layer = end;
  }
  auto old = before.begin();
  for (Segment& segment : segments_) {
    while (old != before.end() && old->layers.first < segment.layers.first) ++old;
    if (old != before.end() && old->layers == segment.layers && old->stage == segment.stage) segment = *old;
  }
  are_apart_ = are_segments_apart();
  const ExchangeTime::Uses uses = needed_uses();
  if (uses == exchange_.uses_asked()) return;
  exchange_.ask_for_uses(uses);
  for (Segment& segment : segments_) segment.is_fresh = false;
}

/// Parts of a segment may meet where degrees are unlike; segments, where they are not apart. Where all
/// pipelines have the same layers, the segments of a stage have the same devices.
ExchangeTime::Uses IterationTimer::needed_uses() const {
  if (model_.by_degree.size() > 1) return ExchangeTime::Uses::all;
  if (are_apart_) return ExchangeTime::Uses::none;
  const bool are_alike = std::all_of(lanes_.begin(), lanes_.end(),
                                     [&](const Lane& lane) { return lane.layers == lanes_.front().layers; });
  return are_alike ? ExchangeTime::Uses::slowest : ExchangeTime::Uses::all;
}

/// Chunks of one stage, in every pipeline.
bool IterationTimer::have_same_devices(const std::vector<int>& stages, const std::vector<int>& others) const {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if ((stages[i] - others[i]) % static_cast<int>(plan_.pipelines[i].stages.size()) != 0) return false;
  return true;
}

/// No two segments are exchanged between the same devices, because every one is a stage of all pipelines.
bool IterationTimer::are_segments_apart() const {
  if (model_.chunks > 1) return false;
  for (std::size_t i = 1; i < segments_.size(); ++i)
    for (std::size_t pipeline = 0; pipeline < lanes_.size(); ++pipeline)
      if (segments_[i].stage[pipeline] == segments_[i - 1].stage[pipeline]) return false;
  return true;
}

/// From the last layers, which have their gradients first, to the first.
void IterationTimer::refresh_exchanges() {
  // Where stages compute while gradients of others, or of their own, are on their way.
  const bool recodes = model_.stages.recodes_gradients();
  const bool holds_up =
      (model_.problem.job.parallelism.overlap || model_.chunks > 1) && (is_shared() || recodes);
  ++turn_;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (holds_up) std::fill(lanes_[i].late_s.begin(), lanes_[i].late_s.end(), 0);
    if (recodes) reset_recoders(lanes_[i], plan_.pipelines[i].stages.size());
  }
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (!segments_[i].is_fresh) refresh_exchange(segments_[i]);
    start_exchange(i);
    if (!are_apart_) put_in_turn(segments_[i]);
    if (holds_up) hold_up(i);
  }
  if (is_shared()) share_links_of_exchanges();
  if (recodes) expand_the_rest();
}

/// Its seconds, from whenever it starts.
void IterationTimer::refresh_exchange(Segment& segment) {
  segment.is_fresh = true;
  segment.ends_s.assign(lanes_.size(), 0);
  segment.load.clear();
  segment.first.clear();
  segment.uses.clear();
  segment.egress_usd = segment.recode_s = 0;
  segment.compress_s.assign(lanes_.size(), 0);
  segment.expanded_s.assign(lanes_.size(), 0);
  count_parts(segment);
  if (segment.most_held > 1) part_busy_s_.assign(lanes_.size() * lanes_.size() * at(segment.parts), 0);
  bool with_first = true;  // all of its devices have the first layer too
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    with_first = with_first &&
                 &devices_of(static_cast<int>(i), segment.stage[i]) == &devices_of(static_cast<int>(i), 0);
  part_bytes_.clear();
  part_compressed_.clear();
  for (int part = 0; part < segment.parts; ++part) exchange_part(segment, part, with_first);
  if (segment.parts > 1 && is_shared()) share_links_of_parts(segment);
  segment.last_s = *std::max_element(segment.ends_s.begin(), segment.ends_s.end());
  if (segment.recode_s > 0) count_compressed(segment);
}

/// As many as the largest of its stages has devices. Where devices of two pipelines hold several, the
/// messages of these go one after the other.
void IterationTimer::count_parts(Segment& segment) {
  std::size_t most = 1, least = devices_of(0, segment.stage.front()).size();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const std::size_t degree = devices_of(static_cast<int>(i), segment.stage[i]).size();
    most = std::max(most, degree);
    least = std::min(least, degree);
  }
  segment.parts = static_cast<int>(most);
  segment.most_held = static_cast<int>(most / least);
}

/// In each pipeline.
std::vector<int> IterationTimer::holders(const Segment& segment, int part) const {
  std::vector<int> devices;
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    devices.push_back(device_of_part(devices_of(static_cast<int>(i), segment.stage[i]), part, segment.parts));
  return devices;
}

void IterationTimer::exchange_part(Segment& segment, int part, bool with_first) {
  const std::vector<int> devices = holders(segment, part);
  const Problem& problem = model_.problem;
  const StageCosts& costs = model_.parts_of(segment.parts);
  const bool compressed = is_compressed(problem.topology, problem.job.compression, devices);
  part_compressed_.push_back(compressed);
  part_bytes_.push_back(costs.gradient_bytes(segment.layers, with_first, compressed));
  if (compressed) segment.recode_s = costs.gradient_recode_s(part_bytes_.back());
  const std::vector<double> ends = exchange_.ends(model_.sync, devices, part_bytes_.back());
  for (const int id : exchange_.used()) segment.load.emplace_back(id, exchange_.load()[at(id)]);
  for (const auto& first : exchange_.first_messages()) segment.first.push_back(first);
  segment.egress_usd += exchange_.usd();
  const double late = segment.most_held > 1 ? late_part_s(segment, part) : 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
    segment.ends_s[i] = std::max(segment.ends_s[i], ends[i] + late);
  for (const ExchangeTime::Use& use : exchange_.uses())
    segment.uses.push_back({use, channel_of(segment, use, part)});
}

/// A channel carries the parts of two devices one after the other. The messages of an exchange that begin
/// together are a phase of it: what one of them is there later than the phase would end, the whole ends
/// later.
double IterationTimer::late_part_s(const Segment& segment, int part) {
  part_phases_.clear();
  const auto phase_end_s = [&](double begin) -> double& {
    for (auto it = part_phases_.rbegin(); it != part_phases_.rend(); ++it)
      if (it->first == begin) return it->second;
    return part_phases_.emplace_back(begin, begin).second;
  };
  for (const ExchangeTime::Use& use : exchange_.uses()) {
    double& end = phase_end_s(use.begin_s);
    end = std::max(end, use.begin_s + use.occupancy_s);
  }
  double late = 0;
  for (const ExchangeTime::Use& use : exchange_.uses()) {
    const std::size_t pair = at(use.from) * lanes_.size() + at(use.to);
    double& busy = part_busy_s_[pair * at(segment.parts) + at(channel_of(segment, use, part))];
    busy = std::max(busy, use.begin_s) + use.occupancy_s;
    late = std::max(late, busy - phase_end_s(use.begin_s));
  }
  return late;
}

/// Of those between two stages, the one that a part takes.
int IterationTimer::channel_of(const Segment& segment, const ExchangeTime::Use& use, int part) const {
  return rank_of_part(part, segment.parts,
                      parts_between(devices_of(use.from, segment.stage[at(use.from)]),
                                    devices_of(use.to, segment.stage[at(use.to)])));
}

/// All parts are exchanged at the same time, on the same hosts.
void IterationTimer::share_links_of_parts(Segment& segment) {
  std::vector<int> at_once(at(model_.network.shared_count()));
  for (const auto& [id, load] : segment.load) ++at_once[at(id)];
  exchange_.set_at_once(std::move(at_once));
  for (int part = 0; part < segment.parts; ++part) {
    const std::vector<double> ends =
        exchange_.ends(model_.sync, holders(segment, part), part_bytes_[at(part)]);
    for (std::size_t i = 0; i < ends.size(); ++i) segment.ends_s[i] = std::max(segment.ends_s[i], ends[i]);
  }
  exchange_.set_at_once({});
}

/// When a device has the gradients of `layer`: with overlap as soon as it has computed that layer's.
double IterationTimer::ready_s(int pipeline, int stage, int layer) const {
  const Lane& lane = lanes_[at(pipeline)];
  if (!model_.problem.job.parallelism.overlap)
    return lane.time.gradients_s[at(stage)] + lane.late_s[at(stage)];
  const std::vector<int>& devices = devices_of(pipeline, stage);
  const std::pair<int, int> later = {lane.layers[at(stage)].first, layer};
  double rest = 0;
  for (const int device : devices)
    rest = std::max(rest, costs_of(devices).compute(costs_of(devices).kind_of(device), later).backward_s);
  return lane.time.backward_s[at(stage)] + lane.late_s[at(stage)] - rest -
         all_reduce_s(devices, later, true) - lane.compressing_sent_s[at(stage)];
}

/// When the slowest has compressed what it sends.
void IterationTimer::start_exchange(std::size_t number) {
  Segment& segment = segments_[number];
  const bool recodes = model_.stages.recodes_gradients();
  segment.start_s = 0;
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i) {
    const double start_s =
        recodes ? compressed_s(i, number) : ready_s(i, segment.stage[at(i)], segment.layers.first);
    segment.start_s = std::max(segment.start_s, start_s);
  }
  segment.end_s = segment.start_s + segment.last_s;
}

/// Of a pipeline's devices.
double IterationTimer::exchanged_s(const Segment& segment, int pipeline) const {
  return segment.end_s - segment.last_s + segment.ends_s[at(pipeline)];
}

/// Of a pipeline, that has the segment.
int IterationTimer::stage_of(const Segment& segment, int pipeline) const {
  return segment.stage[at(pipeline)] % static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
}

/// Every channel carries the messages of one exchange after those of the one before, and what begins later
/// ends so much later. Slow channels decide, and the ends with them.
void IterationTimer::put_in_turn(Segment& segment) {
  double late = 0;
  for (const PartUse& use : segment.uses) {
    const Channel& it = channel(segment, use);
    if (it.stage == stage_of(segment, use.of.to))
      late = std::max(late, it.busy_s - segment.start_s - use.of.begin_s);
  }
  for (const PartUse& use : segment.uses) {
    Channel& it = channel(segment, use);
    const int stage = stage_of(segment, use.of.to);
    const double begin = segment.start_s + use.of.begin_s;
    it = {stage, turn_, (it.stage == stage ? std::max(begin, it.busy_s) : begin) + use.of.occupancy_s};
  }
  segment.end_s += late;
}

IterationTimer::Channel& IterationTimer::channel(const Segment& segment, const PartUse& use) {
  const int from = use.of.from, to = use.of.to;
  const std::size_t stages = plan_.pipelines[at(from)].stages.size(), channels = at(model_.stages.tensor());
  std::vector<Channel>& of_sender = channels_[at(from)];
  const std::size_t pairs = stages * lanes_.size() * kept_stages_;
  if (of_sender.empty()) of_sender.resize(pairs * channels);
  const std::size_t receivers = at(segment.stage[at(from)]) % stages * lanes_.size() + at(to);
  const std::size_t pair = receivers * kept_stages_ + at(stage_of(segment, to)) % kept_stages_;
  Channel& it = of_sender[pair * channels + at(use.channel)];
  if (it.turn != turn_) it = {-1, turn_, 0};
  return it;
}

/// Of stages that begin with a segment: the last gradients that they send to the stage before leave while the
/// stage exchanges its own, and later where it has compressed these. The stage before ends later, unless it
/// has work left for so long; and where its devices have compressed those of other chunks.
void IterationTimer::hold_up(std::size_t number) {
  const Segment& segment = segments_[number];
  for (int pipeline = 0; pipeline < static_cast<int>(lanes_.size()); ++pipeline) {
    Lane& lane = lanes_[at(pipeline)];
    const std::size_t stage = at(segment.stage[at(pipeline)]);
    if (stage == 0 || lane.layers[stage].first != segment.layers.first || lane.work.micro_batches == 0)
      continue;
    const double slack =
        lane.time.backward_s[stage - 1] - lane.work.backward_s[stage - 1] - lane.time.gradients_s[stage];
    const double sent_s = lane.time.gradients_s[stage] - lane.work.backward_hops[stage - 1].latency_s;
    const double late_s =
        lane.time.backward_s[stage] + lane.late_s[stage] + left_to_send_s(lane, stage) - sent_s;
    const double held_s = is_shared() ? held_up_s(pipeline, number) : 0;
    lane.late_s[stage - 1] =
        std::max(put_off_s(pipeline, static_cast<int>(stage) - 1), late_s + held_s - std::max(0.0, slack));
  }
}

/// Seconds in which the gradients leave that wait when the last backward of a stage is done; the later it is,
/// the fewer are left.
double IterationTimer::left_to_send_s(const Lane& lane, std::size_t stage) {
  const HopTime& hop = lane.work.backward_hops[stage - 1];
  const double left = lane.time.gradients_s[stage] - hop.latency_s - lane.time.backward_s[stage];
  return std::max(hop.occupancy_s, left - lane.late_s[stage]);
}

/// By exchanges of the device whose stage begins with segment `first`, and of the one before: the messages
/// that still wait when the last backward is done, and with chunks those of earlier backwards of this turn,
/// have an equal share among those of one exchange at a time, until they are through or the exchanges are.
double IterationTimer::held_up_s(int pipeline, std::size_t first) const {
  const Lane& lane = lanes_[at(pipeline)];
  const std::size_t stage = at(segments_[first].stage[at(pipeline)]);
  const std::size_t stages = plan_.pipelines[at(pipeline)].stages.size();
  const HopTime& hop = lane.work.backward_hops[stage - 1];
  if (hop.occupancy_s == 0) return 0;
  const double done_s = lane.time.backward_s[stage] + lane.late_s[stage];
  const double left_s = left_to_send_s(lane, stage);
  const int here = static_cast<int>(stage);
  const double bytes_per_s =
      largest_part(devices_of(pipeline, here), devices_of(pipeline, here - 1), lane.layers[stage].first) /
      hop.occupancy_s;
  const double between_s = std::max(lane.work.backward_s[stage], hop.occupancy_s);
  // What was held up before does not come closer together than it can go on.
  const double most_earlier =
      model_.chunks > 1 && lane.late_s[stage] == 0 ? static_cast<double>(stages - 1) : 0;
  double most = 0;
  for (std::size_t path = lane.first_path[stage - 1] + 1; path < lane.first_path[stage]; path += 2)
    for (const int id : lane.paths[path]) {
      double at_once = 0, in_all = 0, met_s = 0;  // messages; bytes; seconds' worth of messages that wait
      for (std::size_t i = first; i < segments_.size(); ++i) {
        const Segment& segment = segments_[i];
        const std::size_t after = (at(segment.stage[at(pipeline)]) - stage) % stages;
        if (after != 0 && after != stages - 1) continue;  // of another device
        if (segment.start_s > done_s + left_s || segment.end_s < done_s) continue;
        const double earlier = std::floor(std::max(0.0, done_s - segment.start_s) / between_s);
        met_s = std::max(met_s, std::min(left_s, done_s + left_s - segment.start_s) +
                                    std::min(earlier, most_earlier) * hop.occupancy_s);
        for (const auto& [used, messages] : segment.first)
          if (used == id) at_once = std::max(at_once, messages);
        for (const auto& [used, load] : segment.load)
          if (used == id) in_all += load;
      }
      const double alone = model_.network.shared_seconds_per_byte(id);
      const double slower = std::max(0.0, (at_once + 1) * alone * bytes_per_s - 1);  // than its own rate
      most = std::max(most, std::min(slower * met_s, in_all * alone));
    }
  return most;
}

/// A shared capacity carries what comes first, then the rest; the last of all that pass it cannot end before.
void IterationTimer::share_links_of_exchanges() {
  order_.resize(segments_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(segments_[a].start_s, a) < std::pair(segments_[b].start_s, b);
  });
  std::fill(busy_s_.begin(), busy_s_.end(), 0);
  for (const std::size_t i : order_) {
    Segment& segment = segments_[i];
    for (const auto& [id, bytes] : segment.load) {
      busy_s_[at(id)] =
          std::max(busy_s_[at(id)], segment.start_s) + bytes * model_.network.shared_seconds_per_byte(id);
      segment.end_s = std::max(segment.end_s, busy_s_[at(id)]);
    }
  }
}

}  // namespace dtfm::cost
