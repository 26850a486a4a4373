// When gradients are synchronized, and how that delays pipelines that still compute.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// A bucket consists of the layers between two neighbouring stage boundaries of any pipeline; with overlap,
/// of a single layer. Buckets that existed before keep their results.
void IterationTimer::find_buckets() {
  const std::vector<GradientBucket> before = std::move(buckets_);
  buckets_.clear();
  are_buckets_known_ = true;
  if (pipeline_states_.size() < 2) return;
  std::vector<int> next(pipeline_states_.size());  // virtual stages that hold the layer
  const auto skip_ended = [&](int layer) {
    for (std::size_t i = 0; i < pipeline_states_.size(); ++i)
      while (pipeline_states_[i].layers[at(next[i])].second <= layer) ++next[i];
  };
  const bool overlap = model_.problem.job.execution.overlap;
  for (int layer = 0; layer < model_.stages.layers();) {
    skip_ended(layer);
    int end = overlap ? layer + 1 : model_.stages.layers();
    for (std::size_t i = 0; i < pipeline_states_.size(); ++i)
      end = std::min(end, pipeline_states_[i].layers[at(next[i])].second);
    if (!overlap && !buckets_.empty() && have_same_devices(buckets_.back().stage, next)) {
      buckets_.back().layers.second = end;
    } else {
      buckets_.emplace_back();
      buckets_.back().layers = {layer, end};
      buckets_.back().stage = next;
    }
    layer = end;
  }
  auto old = before.begin();
  for (GradientBucket& bucket : buckets_) {
    while (old != before.end() && old->layers.first < bucket.layers.first) ++old;
    if (old != before.end() && old->layers == bucket.layers && old->stage == bucket.stage) bucket = *old;
  }
  are_buckets_disjoint_ = are_buckets_disjoint();
  const GradientSyncTime::TransferDetail transfers = needed_transfers();
  if (transfers == sync_time_.recorded_transfers()) return;
  sync_time_.record_transfers(transfers);
  for (GradientBucket& bucket : buckets_) bucket.is_fresh = false;
}

/// Transfers are needed where messages of different buckets, or of parts of one bucket with mixed tensor
/// degrees, may use the same channel. If all pipelines have the same layers, all buckets of a stage have the
/// same devices, so the slowest transfer suffices.
GradientSyncTime::TransferDetail IterationTimer::needed_transfers() const {
  if (model_.by_degree.size() > 1) return GradientSyncTime::TransferDetail::all;
  if (are_buckets_disjoint_) return GradientSyncTime::TransferDetail::none;
  const bool are_uniform =
      std::all_of(pipeline_states_.begin(), pipeline_states_.end(), [&](const PipelineState& pipeline_state) {
        return pipeline_state.layers == pipeline_states_.front().layers;
      });
  return are_uniform ? GradientSyncTime::TransferDetail::slowest : GradientSyncTime::TransferDetail::all;
}

/// True if in every pipeline both are chunks of the same stage.
bool IterationTimer::have_same_devices(const std::vector<int>& stages, const std::vector<int>& others) const {
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i)
    if ((stages[i] - others[i]) % static_cast<int>(plan_.pipelines[i].stages.size()) != 0) return false;
  return true;
}

/// True if no two buckets are synchronized between the same devices, because every bucket is a whole stage of
/// all pipelines.
bool IterationTimer::are_buckets_disjoint() const {
  if (model_.chunks > 1) return false;
  for (std::size_t i = 1; i < buckets_.size(); ++i)
    for (std::size_t pipeline = 0; pipeline < pipeline_states_.size(); ++pipeline)
      if (buckets_[i].stage[pipeline] == buckets_[i - 1].stage[pipeline]) return false;
  return true;
}

/// In order of readiness: from the last layers to the first.
void IterationTimer::refresh_syncs() {
  // Synchronization delays pipelines if stages compute while gradients are being sent or compressed.
  const bool has_compression_time = model_.stages.has_gradient_compression_time();
  const bool delays_pipelines =
      (model_.problem.job.execution.overlap || model_.chunks > 1) && (is_shared() || has_compression_time);
  ++sync_round_;
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i) {
    if (delays_pipelines)
      std::fill(pipeline_states_[i].sync_delays_s.begin(), pipeline_states_[i].sync_delays_s.end(), 0);
    if (has_compression_time) reset_codecs(pipeline_states_[i], plan_.pipelines[i].stages.size());
  }
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    if (!buckets_[i].is_fresh) refresh_sync(buckets_[i]);
    start_sync(i);
    if (!are_buckets_disjoint_) serialize_transfers(buckets_[i]);
    if (delays_pipelines) delay_by_sync(i);
  }
  if (is_shared()) share_links_of_syncs();
  if (has_compression_time) decompress_remaining();
}

/// Computes the duration of a bucket's synchronization, which does not depend on its start.
void IterationTimer::refresh_sync(GradientBucket& bucket) {
  bucket.is_fresh = true;
  bucket.ends_s.assign(pipeline_states_.size(), 0);
  bucket.load.clear();
  bucket.first.clear();
  bucket.transfers.clear();
  bucket.egress_usd = bucket.compression_s = 0;
  bucket.compress_s.assign(pipeline_states_.size(), 0);
  bucket.decompressed_s.assign(pipeline_states_.size(), 0);
  count_parts(bucket);
  if (bucket.max_parts_per_device > 1)
    part_busy_s_.assign(pipeline_states_.size() * pipeline_states_.size() * at(bucket.parts), 0);
  bool with_first = true;  // all of its devices also hold the first layer
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i)
    with_first = with_first &&
                 &devices_of(static_cast<int>(i), bucket.stage[i]) == &devices_of(static_cast<int>(i), 0);
  part_bytes_.clear();
  part_compressed_.clear();
  for (int part = 0; part < bucket.parts; ++part) sync_part(bucket, part, with_first);
  if (bucket.parts > 1 && is_shared()) share_links_of_parts(bucket);
  bucket.last_s = *std::max_element(bucket.ends_s.begin(), bucket.ends_s.end());
  if (bucket.compression_s > 0) count_compressed(bucket);
}

/// A bucket has as many parts as its largest stage has devices. If devices of two pipelines hold several
/// parts, their messages are sent one after the other.
void IterationTimer::count_parts(GradientBucket& bucket) {
  std::size_t most = 1, least = devices_of(0, bucket.stage.front()).size();
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i) {
    const std::size_t degree = devices_of(static_cast<int>(i), bucket.stage[i]).size();
    most = std::max(most, degree);
    least = std::min(least, degree);
  }
  bucket.parts = static_cast<int>(most);
  bucket.max_parts_per_device = static_cast<int>(most / least);
}

/// The device that holds the part, for each pipeline.
std::vector<int> IterationTimer::holders(const GradientBucket& bucket, int part) const {
  std::vector<int> devices;
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i)
    devices.push_back(device_of_part(devices_of(static_cast<int>(i), bucket.stage[i]), part, bucket.parts));
  return devices;
}

void IterationTimer::sync_part(GradientBucket& bucket, int part, bool with_first) {
  const std::vector<int> devices = holders(bucket, part);
  const Problem& problem = model_.problem;
  const StageCosts& costs = model_.parts_of(bucket.parts);
  const bool compressed = is_compressed(problem.topology, problem.job.execution.compression, devices);
  part_compressed_.push_back(compressed);
  part_bytes_.push_back(costs.gradient_bytes(bucket.layers, with_first, compressed));
  if (compressed) bucket.compression_s = costs.gradient_compression_s(part_bytes_.back());
  const std::vector<double> completion_times =
      sync_time_.completion_times(model_.sync, devices, part_bytes_.back());
  for (const int id : sync_time_.used()) bucket.load.emplace_back(id, sync_time_.load()[at(id)]);
  for (const auto& first : sync_time_.first_messages()) bucket.first.push_back(first);
  bucket.egress_usd += sync_time_.usd();
  const double delay = bucket.max_parts_per_device > 1 ? part_delay_s(bucket, part) : 0;
  for (std::size_t i = 0; i < completion_times.size(); ++i)
    bucket.ends_s[i] = std::max(bucket.ends_s[i], completion_times[i] + delay);
  for (const GradientSyncTime::Transfer& transfer : sync_time_.transfers())
    bucket.transfers.push_back({transfer, channel_of(bucket, transfer, part)});
}

/// A channel carries the parts of two devices one after the other. Messages of a synchronization that start
/// together are a phase. If one of them ends later than its phase would, the whole synchronization ends later
/// by the difference.
double IterationTimer::part_delay_s(const GradientBucket& bucket, int part) {
  part_phases_.clear();
  const auto phase_end_s = [&](double begin) -> double& {
    for (auto it = part_phases_.rbegin(); it != part_phases_.rend(); ++it)
      if (it->first == begin) return it->second;
    return part_phases_.emplace_back(begin, begin).second;
  };
  for (const GradientSyncTime::Transfer& transfer : sync_time_.transfers()) {
    double& end = phase_end_s(transfer.begin_s);
    end = std::max(end, transfer.begin_s + transfer.occupancy_s);
  }
  double delay = 0;
  for (const GradientSyncTime::Transfer& transfer : sync_time_.transfers()) {
    const std::size_t pair = at(transfer.from) * pipeline_states_.size() + at(transfer.to);
    double& busy = part_busy_s_[pair * at(bucket.parts) + at(channel_of(bucket, transfer, part))];
    busy = std::max(busy, transfer.begin_s) + transfer.occupancy_s;
    delay = std::max(delay, busy - phase_end_s(transfer.begin_s));
  }
  return delay;
}

/// Channel between two stages that a part takes.
int IterationTimer::channel_of(const GradientBucket& bucket, const GradientSyncTime::Transfer& transfer,
                               int part) const {
  return rank_of_part(part, bucket.parts,
                      parts_between(devices_of(transfer.from, bucket.stage[at(transfer.from)]),
                                    devices_of(transfer.to, bucket.stage[at(transfer.to)])));
}

/// All parts are synchronized concurrently on the same hosts, so they contend for the links.
void IterationTimer::share_links_of_parts(GradientBucket& bucket) {
  std::vector<int> concurrent_messages(at(model_.network.shared_count()));
  for (const auto& [id, load] : bucket.load) ++concurrent_messages[at(id)];
  sync_time_.set_concurrent_syncs(std::move(concurrent_messages));
  for (int part = 0; part < bucket.parts; ++part) {
    const std::vector<double> completion_times =
        sync_time_.completion_times(model_.sync, holders(bucket, part), part_bytes_[at(part)]);
    for (std::size_t i = 0; i < completion_times.size(); ++i)
      bucket.ends_s[i] = std::max(bucket.ends_s[i], completion_times[i]);
  }
  sync_time_.set_concurrent_syncs({});
}

/// Time at which a device has the gradients of `layer`: with overlap, as soon as it has computed the layer's
/// backward.
double IterationTimer::ready_s(int pipeline, int stage, int layer) const {
  const PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  if (!model_.problem.job.execution.overlap)
    return pipeline_state.time.gradients_s[at(stage)] + pipeline_state.sync_delays_s[at(stage)];
  const std::vector<int>& devices = devices_of(pipeline, stage);
  const std::pair<int, int> later = {pipeline_state.layers[at(stage)].first, layer};
  const bool is_split = traits(model_.schedule).splits_backward;
  double rest = 0;
  for (const int device : devices) {
    const ComputeTime time = costs_of(devices).compute(costs_of(devices).kind_of(device), later);
    rest = std::max(rest, is_split ? time.weight_gradient_s : time.backward_s);
  }
  if (is_split)
    return pipeline_state.time.backward_s[at(stage)] + pipeline_state.sync_delays_s[at(stage)] - rest;
  return pipeline_state.time.backward_s[at(stage)] + pipeline_state.sync_delays_s[at(stage)] - rest -
         all_reduce_s(devices, later, true) - pipeline_state.compressing_sent_s[at(stage)];
}

/// A bucket starts when the slowest pipeline has its gradients ready and compressed.
void IterationTimer::start_sync(std::size_t number) {
  GradientBucket& bucket = buckets_[number];
  const bool has_compression_time = model_.stages.has_gradient_compression_time();
  bucket.start_s = 0;
  for (int i = 0; i < static_cast<int>(pipeline_states_.size()); ++i) {
    const double start_s =
        has_compression_time ? compressed_s(i, number) : ready_s(i, bucket.stage[at(i)], bucket.layers.first);
    bucket.start_s = std::max(bucket.start_s, start_s);
  }
  bucket.end_s = bucket.start_s + bucket.last_s;
}

/// End of the bucket's synchronization on the devices of a pipeline.
double IterationTimer::sync_end_s(const GradientBucket& bucket, int pipeline) const {
  return bucket.end_s - bucket.last_s + bucket.ends_s[at(pipeline)];
}

/// The stage of a pipeline that holds the bucket.
int IterationTimer::stage_of(const GradientBucket& bucket, int pipeline) const {
  return bucket.stage[at(pipeline)] % static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
}

/// Every channel carries the messages of one synchronization after those of the previous one, and a message
/// that starts later ends later by the same time. The slowest channel determines the delay of the whole
/// bucket.
void IterationTimer::serialize_transfers(GradientBucket& bucket) {
  double delay = 0;
  for (const ChannelTransfer& transfer : bucket.transfers) {
    const Channel& it = channel(bucket, transfer);
    if (it.stage == stage_of(bucket, transfer.base.to))
      delay = std::max(delay, it.busy_s - bucket.start_s - transfer.base.begin_s);
  }
  for (const ChannelTransfer& transfer : bucket.transfers) {
    Channel& it = channel(bucket, transfer);
    const int stage = stage_of(bucket, transfer.base.to);
    const double begin = bucket.start_s + transfer.base.begin_s;
    it = {stage, sync_round_,
          (it.stage == stage ? std::max(begin, it.busy_s) : begin) + transfer.base.occupancy_s};
  }
  bucket.end_s += delay;
}

IterationTimer::Channel& IterationTimer::channel(const GradientBucket& bucket,
                                                 const ChannelTransfer& transfer) {
  const int from = transfer.base.from, to = transfer.base.to;
  const std::size_t stages = plan_.pipelines[at(from)].stages.size(), channels = at(model_.stages.tensor());
  std::vector<Channel>& of_sender = channels_[at(from)];
  const std::size_t pairs = stages * pipeline_states_.size() * kept_stages_;
  if (of_sender.empty()) of_sender.resize(pairs * channels);
  const std::size_t receivers = at(bucket.stage[at(from)]) % stages * pipeline_states_.size() + at(to);
  const std::size_t pair = receivers * kept_stages_ + at(stage_of(bucket, to)) % kept_stages_;
  Channel& it = of_sender[pair * channels + at(transfer.channel)];
  if (it.sync_round != sync_round_) it = {-1, sync_round_, 0};
  return it;
}

/// Applies to stages whose first layers are the bucket. The last gradients that they send to the previous
/// stage compete with the stage's own synchronization, and leave later if the bucket is compressed first. The
/// previous stage ends later, unless it has enough work left to hide the delay, and also if its devices have
/// compressed gradients of other chunks. A split backward has sent them before it completes the stage's own
/// gradients.
void IterationTimer::delay_by_sync(std::size_t number) {
  if (traits(model_.schedule).splits_backward) return;
  const GradientBucket& bucket = buckets_[number];
  for (int pipeline = 0; pipeline < static_cast<int>(pipeline_states_.size()); ++pipeline) {
    PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
    const std::size_t stage = at(bucket.stage[at(pipeline)]);
    if (stage == 0 || pipeline_state.layers[stage].first != bucket.layers.first ||
        pipeline_state.work.micro_batches == 0)
      continue;
    const double slack = pipeline_state.time.backward_s[stage - 1] -
                         pipeline_state.work.backward_s[stage - 1] - pipeline_state.time.gradients_s[stage];
    const double sent_s =
        pipeline_state.time.gradients_s[stage] - pipeline_state.work.backward_hops[stage - 1].latency_s;
    const double sync_delays_s = pipeline_state.time.backward_s[stage] + pipeline_state.sync_delays_s[stage] +
                                 remaining_send_s(pipeline_state, stage) - sent_s;
    const double held_s = is_shared() ? sync_delay_s(pipeline, number) : 0;
    pipeline_state.sync_delays_s[stage - 1] = std::max(deferred_s(pipeline, static_cast<int>(stage) - 1),
                                                       sync_delays_s + held_s - std::max(0.0, slack));
  }
}

/// Seconds for which gradients wait or are sent after the last backward of a stage; the later it ends, the
/// fewer are left.
double IterationTimer::remaining_send_s(const PipelineState& pipeline_state, std::size_t stage) {
  const HopTime& hop = pipeline_state.work.backward_hops[stage - 1];
  const double left =
      pipeline_state.time.gradients_s[stage] - hop.latency_s - pipeline_state.time.backward_s[stage];
  return std::max(hop.occupancy_s, left - pipeline_state.sync_delays_s[stage]);
}

/// Delay by synchronizations of the device whose stage begins with bucket `first`, and of the previous
/// device. The messages that still wait when the last backward ends, and with chunks those of earlier
/// backwards of the same turn, get an equal share of the link with the messages of one synchronization at a
/// time, until either side has finished.
double IterationTimer::sync_delay_s(int pipeline, std::size_t first) const {
  const PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  const std::size_t stage = at(buckets_[first].stage[at(pipeline)]);
  const std::size_t stages = plan_.pipelines[at(pipeline)].stages.size();
  const HopTime& hop = pipeline_state.work.backward_hops[stage - 1];
  if (hop.occupancy_s == 0) return 0;
  const double done_s = pipeline_state.time.backward_s[stage] + pipeline_state.sync_delays_s[stage];
  const double left_s = remaining_send_s(pipeline_state, stage);
  const int here = static_cast<int>(stage);
  const double bytes_per_s = largest_part(devices_of(pipeline, here), devices_of(pipeline, here - 1),
                                          pipeline_state.layers[stage].first) /
                             hop.occupancy_s;
  const double between_s = std::max(pipeline_state.work.backward_s[stage], hop.occupancy_s);
  // Messages that were delayed before are spread out enough not to add up.
  const double max_earlier =
      model_.chunks > 1 && pipeline_state.sync_delays_s[stage] == 0 ? static_cast<double>(stages - 1) : 0;
  double most = 0;
  for (std::size_t path = pipeline_state.first_path[stage - 1] + 1; path < pipeline_state.first_path[stage];
       path += 2)
    for (const int id : pipeline_state.paths[path]) {
      double concurrent_messages = 0, total_bytes = 0,
             contending_s = 0;  // messages; bytes; seconds' worth of waiting messages
      for (std::size_t i = first; i < buckets_.size(); ++i) {
        const GradientBucket& bucket = buckets_[i];
        const std::size_t after = (at(bucket.stage[at(pipeline)]) - stage) % stages;
        if (after != 0 && after != stages - 1) continue;  // of another device
        if (bucket.start_s > done_s + left_s || bucket.end_s < done_s) continue;
        const double earlier = std::floor(std::max(0.0, done_s - bucket.start_s) / between_s);
        contending_s = std::max(contending_s, std::min(left_s, done_s + left_s - bucket.start_s) +
                                                  std::min(earlier, max_earlier) * hop.occupancy_s);
        for (const auto& [used, messages] : bucket.first)
          if (used == id) concurrent_messages = std::max(concurrent_messages, messages);
        for (const auto& [used, load] : bucket.load)
          if (used == id) total_bytes += load;
      }
      const double alone = model_.network.shared_seconds_per_byte(id);
      const double slower =
          std::max(0.0, (concurrent_messages + 1) * alone * bytes_per_s - 1);  // than its own rate
      most = std::max(most, std::min(slower * contending_s, total_bytes * alone));
    }
  return most;
}

/// A shared capacity carries synchronizations in the order of their starts. None can end before the capacity
/// has carried it.
void IterationTimer::share_links_of_syncs() {
  order_.resize(buckets_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(buckets_[a].start_s, a) < std::pair(buckets_[b].start_s, b);
  });
  std::fill(busy_s_.begin(), busy_s_.end(), 0);
  for (const std::size_t i : order_) {
    GradientBucket& bucket = buckets_[i];
    for (const auto& [id, bytes] : bucket.load) {
      busy_s_[at(id)] =
          std::max(busy_s_[at(id)], bucket.start_s) + bytes * model_.network.shared_seconds_per_byte(id);
      bucket.end_s = std::max(bucket.end_s, busy_s_[at(id)]);
    }
  }
}

}  // namespace dtfm::cost
