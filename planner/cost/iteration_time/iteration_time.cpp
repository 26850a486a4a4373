#include "planner/cost/iteration_time/iteration_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/gradient_pieces.hpp"
#include "core/plan/scalar_reductions.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/fewest_recomputed.hpp"

namespace dtfm::cost {
namespace {

/// The members of a communication, whose devices it takes. They send `ratio` of its bytes.
ReplicaGroup replica_group(const IterationModel& model, const Plan& plan, Communication& it, double ratio) {
  ReplicaGroup group{{}, {}, it.bytes * ratio / model.problem.constants.sync_efficiency};
  group.parts.reserve(it.devices.size());
  for (std::size_t i = 0; i < it.devices.size(); ++i) {
    const std::size_t devices = stage_devices(plan, it, i).size();
    const int shards = it.payload == Payload::tied_gradients  // every device sends its own copy
                           ? static_cast<int>(devices)
                           : model.stages_of(devices).mesh().shards(it.experts);
    group.parts.push_back(it.parts / shards);
  }
  if (it.payload == Payload::gradients && synchronizes_pieces(model.problem.job.execution, it.algorithm))
    group.pieces = gradient_pieces(it.bytes);
  group.devices = std::move(it.devices);
  return group;
}

/// The replicas of the parts of a bucket, whose devices it takes. Parts whose devices are interchangeable
/// form one group.
std::vector<ReplicaGroup> replica_groups(const IterationModel& model, const Plan& plan,
                                         std::span<Communication> parts) {
  const Problem& problem = model.problem;
  const Compression& compression = problem.job.execution.compression;
  // By the kinds and hosts of the devices, and compression.
  std::map<std::pair<std::vector<int>, bool>, std::size_t> known;
  std::vector<ReplicaGroup> groups;
  groups.reserve(parts.size());
  for (Communication& it : parts) {
    const bool compressed = is_compressed(problem.topology, compression, it.devices);
    if (parts.size() > 1) {
      std::vector<int> kinds;
      kinds.reserve(2 * it.devices.size());
      for (const int device : it.devices) {
        kinds.push_back(model.network.kind(device));
        kinds.push_back(problem.topology->devices[at(device)].host);
      }
      const auto [position, is_new] = known.emplace(std::pair(std::move(kinds), compressed), groups.size());
      if (!is_new) {
        ++groups[position->second].count;
        continue;
      }
    }
    groups.push_back(replica_group(model, plan, it, compressed ? compression.gradients : 1));
  }
  return groups;
}

/// Time at which a stage has the gradients of `layer`: with overlap, as soon as it has computed the layer's
/// backward.
double gradients_ready_s(const IterationModel& model, const Pipeline& pipeline, const PipelineCost& cost,
                         const PipelineTime& time, int virtual_stage, int layer) {
  if (!model.problem.job.execution.overlap) return time.gradients_s[at(virtual_stage)];
  const std::vector<int>& devices = devices_of(pipeline, at(virtual_stage));
  const auto [first, last] = cost.layers[at(virtual_stage)];
  const std::pair<int, int> rest = {first, layer};
  const int all_recomputed = cost.work.recomputed[at(virtual_stage)],
            recomputed = std::min(all_recomputed, rest.second - rest.first);
  ComputeTime rest_time = slowest_compute(model, devices, rest, recomputed);
  if (traits(model.problem.job.execution.recomputation).offloads) {  // what waits for the host comes last
    const int of_done = std::clamp(all_recomputed - (layer - first), 0, last - layer);
    rest_time.backward_s = slowest_compute(model, devices, {first, last}, all_recomputed).backward_s -
                           slowest_compute(model, devices, {layer, last}, of_done).backward_s;
  }
  const double rest_s = traits(model.schedule).splits_backward
                            ? rest_time.weight_gradient_s
                            : rest_time.backward_s + exchange_s(model, devices, rest, true, recomputed);
  return time.backward_s[at(virtual_stage)] - rest_s;
}

/// Equal for pipelines that cost the same because their devices are interchangeable. May differ for other
/// pipelines of the same cost. What a device exchanges with another one depends on both classes, and on
/// whether they share a host. It begins with a hash of the rest, so that comparisons of different keys end
/// early.
void set_interchange_key(const IterationModel& model, const Pipeline& pipeline, int replicas, int flush,
                         std::vector<int>& key) {
  std::vector<int> hosts;  // in the order of their first devices
  key.assign({0, replicas, flush, pipeline.micro_batches});
  for (const Stage& stage : pipeline.stages) {
    key.insert(key.end(),
               {stage.layers.first, stage.layers.second, stage.warm_up.value_or(no_index),
                stage.recompute_layers.value_or(no_index), static_cast<int>(stage.virtual_layers.size()),
                static_cast<int>(stage.passes.size()), static_cast<int>(stage.devices.size())});
    key.insert(key.end(), stage.virtual_layers.begin(), stage.virtual_layers.end());
    for (const Operation::Kind kind : stage.passes) key.push_back(static_cast<int>(kind));
    for (const int device : stage.devices) {
      const auto [network_kind, compute_kind, gpu] = model.class_of(device);
      const int host = model.problem.topology->devices[at(device)].host;
      // Most devices are on the host of the device before.
      auto known = std::find(hosts.rbegin(), hosts.rend(), host);
      const int number =
          static_cast<int>(known == hosts.rend() ? std::ssize(hosts) : hosts.rend() - known - 1);
      if (known == hosts.rend()) hosts.push_back(host);
      key.insert(key.end(), {network_kind, compute_kind, gpu, number});
    }
  }
  std::uint32_t hash = 2166136261;  // FNV-1a, by numbers instead of bytes
  for (const int it : key) hash = (hash ^ static_cast<std::uint32_t>(it)) * 16777619;
  key.front() = static_cast<int>(hash);
}

/// The time of one synchronization after the other.
void add_time(const SyncTime& next, SyncTime& sum) {
  sum.seconds += next.seconds;
  sum.channel_busy_s += next.channel_busy_s;
  sum.egress_usd += next.egress_usd;
  if (sum.link_bytes.empty()) return void(sum.link_bytes = next.link_bytes);
  std::map<int, double> bytes(sum.link_bytes.begin(), sum.link_bytes.end());
  for (const auto& [id, of_link] : next.link_bytes) bytes[id] += of_link;
  sum.link_bytes.assign(bytes.begin(), bytes.end());
}

double scalar_route_s(const IterationModel& model, const ScalarRoute& route) {
  const Problem& problem = model.problem;
  double seconds = 0;
  for (std::size_t i = 1; i < route.size(); ++i)
    seconds += model.network.message(route[i - 1], route[i]).latency_s +
               message_overhead_s(problem.constants, problem.topology, route[i - 1], route[i]);
  return seconds;
}

/// Seconds of all reductions of scalars, each of which all devices begin together.
double scalar_reductions_s(const IterationModel& model, const Plan& plan) {
  const ScalarReductions reductions = scalar_reductions(model.problem.job, plan);
  if (reductions.loss.empty()) return 0;
  double seconds = scalar_route_s(model, reductions.loss), sent_s = 0;
  for (const ScalarReduction& norm : reductions.norms) {
    double longest_s = 0;
    for (const ScalarRoute& route : norm.routes)
      longest_s = std::max(longest_s, scalar_route_s(model, route));
    seconds += norm.count * longest_s;
  }
  for (const Pipeline& pipeline : plan.pipelines) {
    const int from = pipeline.stages.back().devices.front(), to = pipeline.stages.front().devices.front();
    sent_s = std::max(sent_s, model.network.message(from, to).total_s(0));
  }
  return seconds + sent_s;
}

/// Returns the entry that matches and true, or else the older one to be replaced and false, and makes it the
/// last one used.
template <class Versions, class Matches>
auto select_version(Versions& versions, const Matches& matches) {
  using Entry = decltype(versions.entries.front());
  if (matches(versions.entries[versions.last]))
    return std::pair<Entry&, bool>(versions.entries[versions.last], true);
  versions.last = 1 - versions.last;
  Entry& entry = versions.entries[versions.last];
  return std::pair<Entry&, bool>(entry, matches(entry));
}

}  // namespace

IterationEstimator::IterationEstimator(const IterationModel& model)
    : model_(model),
      in_flight_(model.schedule, model.chunks),
      contention_(model.schedule, model.network),
      link_busy_s_(at(model.network.shared_count())) {}

std::shared_ptr<const PipelineCost> IterationEstimator::known_cost(const Pipeline& pipeline, int replicas,
                                                                   int flush) {
  constexpr std::size_t max_known = 1000;  // a few MB
  const auto computed = [&] {
    return std::make_shared<const PipelineCost>(pipeline_cost(model_, pipeline, replicas, flush, in_flight_));
  };
  if (model_.network.shared_count() > 0) return computed();
  set_interchange_key(model_, pipeline, replicas, flush, key_);
  if (const auto known = known_costs_.find(key_); known != known_costs_.end()) return known->second;
  if (known_costs_.size() >= max_known) known_costs_.clear();
  return known_costs_.emplace(key_, computed()).first->second;
}

const PipelineCost& IterationEstimator::cost_of(std::size_t number, const Pipeline& pipeline, int replicas,
                                                int flush) {
  const auto has_same_setting = [&](const PipelineEntry& it) {
    return it.flush == flush && it.replicas == replicas;
  };
  const auto matches = [&](const PipelineEntry& it) {
    return has_same_setting(it) && it.pipeline == pipeline;
  };
  const auto [entry, is_known] = select_version(pipelines_[number], matches);
  if (!is_known) {
    entry.flush = -1;  // in case the computation throws
    entry.cost = known_cost(pipeline, replicas, flush);
    entry.pipeline = pipeline;
    entry.replicas = replicas;
    entry.flush = flush;
  }
  return *entry.cost;
}

/// Adds the synchronization of all parts of the experts, or of the other parameters.
void IterationEstimator::add_syncs(const Plan& plan, std::span<Communication> parts, bool holds_first,
                                   SyncEntry& entry) const {
  if (parts.front().devices.size() < 2) return;
  const Communication first = parts.front();
  const int copies = model_.stages.mesh().copies(first.experts);
  const int sharing = model_.sharding.optimizer ? replicas_ * copies : 0;
  std::vector<ReplicaGroup> groups = replica_groups(model_, plan, parts);
  for (ReplicaGroup& group : groups) group.site_shards = sharing;
  const Problem& problem = model_.problem;
  const SyncTime time =
      gradient_sync_time(model_.sync, problem.topology, model_.network, groups, first.collective);
  if (!first.experts)
    for (std::size_t i = 0; i < first.pipelines.size(); ++i) {
      double& ends_s = entry.ends_s[at(first.pipelines[i])];
      ends_s = std::max(ends_s, time.ends_s[i]);
    }
  add_time(time, entry.time);
  double compression_s = 0;
  for (const ReplicaGroup& group : groups)
    if (is_compressed(problem.topology, problem.job.execution.compression, group.devices))
      compression_s = std::max(compression_s, *std::max_element(group.parts.begin(), group.parts.end()) *
                                                  model_.stages.gradient_compression_s(group.bytes));
  entry.compression_s += compression_s;
  entry.decompression_s += compression_s / std::max(1, sharing);
  if (!model_.sharding.optimizer) return;
  const Communication gather = parameter_gather(model_.stages.bytes(), first, holds_first);
  for (ReplicaGroup& group : groups) {
    group.bytes = gather.bytes / problem.constants.sync_efficiency;
    group.pieces = 0;
  }
  add_time(gradient_sync_time(model_.sync, problem.topology, model_.network, groups, gather.collective),
           entry.gather);
}

const IterationEstimator::SyncEntry& IterationEstimator::sync_of(std::size_t number, const Plan& plan,
                                                                 const GradientBucket& bucket) {
  key_.assign({bucket.layers.first, bucket.layers.second});
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    const std::vector<int>& devices = devices_of(plan.pipelines[i], at(bucket.stages[i]));
    key_.insert(key_.end(), devices.begin(), devices.end());
    key_.push_back(no_index);
  }
  key_.push_back(bucket.holds_first ? 1 : 0);
  key_.push_back(replicas_);
  const auto matches = [&](const SyncEntry& it) { return it.key == key_; };
  const auto [entry, is_known] = select_version(syncs_[number], matches);
  if (is_known) return entry;
  entry.time = entry.gather = {};
  entry.compression_s = entry.decompression_s = 0;
  entry.ends_s.assign(plan.pipelines.size(), 0);
  std::vector<Communication> parts = gradient_syncs(model_.stages.bytes(), plan, bucket);
  const auto experts = std::find_if(parts.begin(), parts.end(), [](const auto& it) { return it.experts; });
  for (const auto& of_kind : {std::span(parts.begin(), experts), std::span(experts, parts.end())})
    if (!of_kind.empty()) add_syncs(plan, of_kind, bucket.holds_first, entry);
  entry.key = key_;
  return entry;
}

/// No synchronization ends before all stages of its bucket have the gradients.
void IterationEstimator::find_buckets(const Plan& plan) {
  ready_s_.clear();
  sync_ends_s_.clear();
  layers_.clear();
  for (const PipelineCost* cost : costs_) layers_.push_back(&cost->layers);
  const StageMesh& mesh = model_.stages.mesh();
  if (costs_.size() < 2 && mesh.copies(false) < 2 && mesh.copies(true) < 2) {
    buckets_.clear();
    return;
  }
  find_gradient_buckets(plan, layers_, model_.stages.layers(), buckets_);
  for (const GradientBucket& bucket : buckets_) {
    double latest_s = 0;
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      ready_s_.push_back(gradients_ready_s(model_, plan.pipelines[i], *costs_[i], *times_[i],
                                           bucket.stages[i], bucket.layers.first));
      latest_s = std::max(latest_s, ready_s_.back());
      end_s_ = std::max(end_s_, ready_s_.back() + costs_[i]->update_s[at(bucket.stages[i])]);
    }
    sync_ends_s_.push_back(latest_s);
    sum_of_ends_s_ += latest_s;
  }
}

/// The totals of what has been estimated so far: lower bounds, until everything is.
void IterationEstimator::set_totals() {
  estimate_.mean_end_s = sum_of_ends_s_ / static_cast<double>(costs_.size() + buckets_.size());
  estimate_.iteration_s = end_s_ + estimate_.overhead_s;
}

/// End of messages that start at `start_s`, on links that carry one synchronization after the other.
double IterationEstimator::use_links(const SyncTime& time, double start_s) {
  double end_s = start_s + time.seconds;
  for (const auto& [capacity, bytes] : time.link_bytes) {
    double& busy = link_busy_s_[at(capacity)];
    if (busy == 0) busy_links_.push_back(capacity);
    busy = std::max(busy, start_s) + bytes * model_.network.shared_seconds_per_byte(capacity);
    end_s = std::max(end_s, busy);
  }
  return end_s;
}

/// A device compresses, decompresses and computes one thing at a time. A channel (a sender and a receiver) or
/// a link carries one bucket after the other; in pieces, each begins when the one before has ended.
void IterationEstimator::synchronize_bucket(std::size_t number, const Plan& plan) {
  const GradientBucket& bucket = buckets_[number];
  const SyncEntry& sync = sync_of(number, plan, bucket);
  const auto stage_of = [&](std::size_t i) -> StageBusy& {
    return stages_[i][at(bucket.stages[i]) % stages_[i].size()];
  };
  // Two synchronizations use the same channels only if two of their stages are the same.
  double start_s = 0, latest_s = 0, second_latest_s = 0;
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    StageBusy& stage = stage_of(i);
    stage.compression_s += sync.compression_s;  // which also delays what the device has yet to compute
    stage.decompression_s += sync.decompression_s;
    stage.compressed_s = ready_s_[number * costs_.size() + i] + stage.compression_s;
    start_s = std::max(start_s, stage.compressed_s);
    second_latest_s = std::max(second_latest_s, std::min(latest_s, stage.channels_s));
    latest_s = std::max(latest_s, stage.channels_s);
  }
  start_s = std::max(start_s, second_latest_s);
  const bool in_pieces = synchronizes_pieces(model_.problem.job.execution, model_.sync);
  const double end_s = use_links(sync.time, start_s);
  const double ready_s = sync_ends_s_[number];
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    StageBusy& stage = stage_of(i);
    stage.channels_s =
        std::max(stage.channels_s, start_s + (in_pieces ? sync.time.seconds : sync.time.channel_busy_s));
    stage.decompressed_s = std::max(std::max(stage.decompressed_s, end_s) + sync.decompression_s,
                                    stage.compressed_s + stage.decompression_s);
    sync_ends_s_[number] = std::max(sync_ends_s_[number], stage.decompressed_s);
    synchronized_s_[number * costs_.size() + i] = start_s + sync.ends_s[i] + sync.decompression_s;
  }
  sum_of_ends_s_ += sync_ends_s_[number] - ready_s;
  for (std::size_t i = 0; i < costs_.size(); ++i)
    end_s_ = std::max(end_s_, sync_ends_s_[number] + costs_[i]->update_s[at(bucket.stages[i])]);
  estimate_.gradient_sync_end_s = std::max(estimate_.gradient_sync_end_s, sync_ends_s_[number]);
  estimate_.egress_usd += sync.time.egress_usd;
}

/// Buckets become ready from the last layers to the first. Returns false if the plan was pruned.
bool IterationEstimator::synchronize(const Plan& plan, const ShouldPrune& should_prune) {
  find_buckets(plan);
  if (syncs_.size() < buckets_.size()) syncs_.resize(buckets_.size());
  synchronized_s_.assign(buckets_.size() * costs_.size(), 0);
  stages_.resize(pipelines_.size());
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i)
    stages_[i].assign(plan.pipelines[i].stages.size(), {});
  for (const int id : busy_links_) link_busy_s_[at(id)] = 0;
  busy_links_.clear();
  const auto must_prune = [&] {
    set_totals();
    return should_prune && should_prune({estimate_.iteration_s, estimate_.mean_end_s, estimate_.egress_usd,
                                         estimate_.deficit_bytes});
  };
  for (std::size_t number = buckets_.size(); number-- > 0;) {
    if (must_prune()) return false;
    synchronize_bucket(number, plan);
  }
  if (model_.problem.job.execution.tied_embedding_sync) synchronize_tied(plan);
  if (model_.sharding.optimizer) gather_parameters(plan);
  return !must_prune();
}

/// When a stage has the gradients of a layer of all replicas.
double IterationEstimator::synchronized_s(const Plan& plan, std::size_t pipeline, int virtual_stage,
                                          int layer) const {
  for (std::size_t number = 0; number < buckets_.size(); ++number)
    if (buckets_[number].layers.first <= layer && layer < buckets_[number].layers.second)
      return synchronized_s_[number * costs_.size() + pipeline];
  return gradients_ready_s(model_, plan.pipelines[pipeline], *costs_[pipeline], *times_[pipeline],
                           virtual_stage, layer);
}

/// Every pipeline synchronizes its copies when both of its stages are ready. A link carries one pipeline
/// after the other.
void IterationEstimator::synchronize_tied(const Plan& plan) {
  std::vector<Communication> syncs = tied_syncs(model_.stages.bytes(), plan, layers_, replicas_);
  for (std::size_t first = 0; first < syncs.size(); first += at(syncs[first].parts)) {
    Communication& it = syncs[first];  // and its other parts
    const std::size_t i = at(it.pipelines.front());
    const double start_s = std::max(synchronized_s(plan, i, it.stages[0], 0),
                                    synchronized_s(plan, i, it.stages[1], it.layers.first));
    const double end_s = start_s + tied_sync_s(plan, {&it, at(it.parts)}, start_s);
    estimate_.gradient_sync_end_s = std::max(estimate_.gradient_sync_end_s, end_s);
    for (const int stage : it.stages) {
      end_s_ = std::max(end_s_, end_s + costs_[i]->update_s[at(stage)]);
      StageBusy& busy = stages_[i][at(stage) % stages_[i].size()];
      busy.decompressed_s = std::max(busy.decompressed_s, end_s);
    }
  }
}

/// Duration of an all-reduce between the stages of a pipeline that share parameters, in `parts`.
double IterationEstimator::tied_sync_s(const Plan& plan, std::span<Communication> parts, double start_s) {
  std::vector<ReplicaGroup> groups;
  groups.reserve(parts.size());
  for (Communication& it : parts) groups.push_back(replica_group(model_, plan, it, 1));
  const SyncTime time =
      gradient_sync_time(parts.front().algorithm, model_.problem.topology, model_.network, groups);
  estimate_.egress_usd += time.egress_usd;
  return use_links(time, start_s) - start_s;
}

const PipelineWork& IterationEstimator::work(int pipeline) const {
  DTFM_ASSERT(times_.size() == costs_.size());
  const PipelineCost& cost = *costs_[at(pipeline)];
  return times_[at(pipeline)] == &cost.time ? cost.work : contention_.work(pipeline);
}

void IterationEstimator::find_costs(const Plan& plan) {
  DTFM_ASSERT(!plan.pipelines.empty());
  if (model_.by_degree.size() > 1) check_tensor_degrees(plan);
  if (model_.sharding.optimizer) {
    check_optimizer_sharding(plan.execution);
    check_optimizer_sharding(plan);
  }
  if (pipelines_.size() < plan.pipelines.size()) pipelines_.resize(plan.pipelines.size());
  const int flush = plan.execution.flush.value_or(0);
  replicas_ = model_.replicas_of(plan);
  estimate_.deficit_bytes = estimate_.egress_usd = 0;
  costs_.clear();
  times_.clear();
  for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
    costs_.push_back(&cost_of(i, plan.pipelines[i], replicas_, flush));
    estimate_.deficit_bytes += costs_.back()->deficit_bytes;
    estimate_.egress_usd += costs_.back()->egress_usd;
  }
}

void IterationEstimator::find_times() {
  times_ = contention_.times(costs_);
  estimate_.pipelines_s = 0;
  estimate_.pipeline_s.clear();
  estimate_.steady_s.clear();
  for (const PipelineTime* time : times_) {
    estimate_.pipeline_s.push_back(time->end_s);
    estimate_.steady_s.push_back(time->steady_s);
    estimate_.pipelines_s = std::max(estimate_.pipelines_s, time->end_s);
  }
}

const IterationEstimate& IterationEstimator::estimate_pipelines(const Plan& plan) {
  find_costs(plan);
  find_times();
  return estimate_;
}

double IterationEstimator::deficit_bytes(const Plan& plan) {
  find_costs(plan);
  return estimate_.deficit_bytes;
}

/// No synchronization ends before every pipeline has its first gradients, so the mean end of everything is no
/// earlier than that or than the mean end of the pipelines.
EstimateBounds IterationEstimator::bounds_of_pipelines() const {
  double last_s = 0, sum_s = 0, gradients_s = 0;
  for (const PipelineCost* cost : costs_) {
    last_s = std::max(last_s, cost->earliest.end_s);
    sum_s += cost->earliest.end_s;
    gradients_s = std::max(gradients_s, cost->earliest.first_gradients_s);
  }
  const double mean_s = std::min(sum_s / static_cast<double>(costs_.size()), gradients_s);
  return {last_s + estimate_.overhead_s, mean_s, estimate_.egress_usd, estimate_.deficit_bytes};
}

const IterationEstimate* IterationEstimator::estimate_or_prune(const Plan& plan,
                                                               const ShouldPrune& should_prune) {
  find_costs(plan);
  estimate_.overhead_s = model_.problem.constants.iteration_overhead_s + scalar_reductions_s(model_, plan);
  if (should_prune && should_prune(bounds_of_pipelines())) return nullptr;
  find_times();
  end_s_ = estimate_.pipelines_s;
  sum_of_ends_s_ = estimate_.gradient_sync_end_s = 0;
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    const PipelineTime& time = *times_[i];
    sum_of_ends_s_ += time.end_s;
    for (std::size_t stage = 0; stage < time.backward_s.size(); ++stage)
      end_s_ = std::max(end_s_, time.backward_s[stage] + costs_[i]->update_s[stage]);
  }
  if (model_.sharding.gradients) {
    estimate_partitioned_gradients(plan);
    if (should_prune && should_prune({estimate_.iteration_s, estimate_.mean_end_s, estimate_.egress_usd,
                                      estimate_.deficit_bytes}))
      return nullptr;
  } else if (!synchronize(plan, should_prune)) {
    return nullptr;
  }
  estimate_.update_s = end_s_ - std::max(estimate_.pipelines_s, estimate_.gradient_sync_end_s);
  return &estimate_;
}

const IterationEstimate& IterationEstimator::estimate(const Plan& plan) {
  return *estimate_or_prune(plan, nullptr);
}

IterationEstimate estimate_iteration(const IterationModel& model, const Plan& plan) {
  return IterationEstimator(model).estimate(plan);
}

namespace {

struct MemoryVerdictTraits {
  MemoryVerdict kind;
  std::string_view name;  // in plan files
};

constexpr auto memory_verdicts =
    std::to_array<MemoryVerdictTraits>({{MemoryVerdict::fits, "fits"},
                                        {MemoryVerdict::near_limit, "near-limit"},
                                        {MemoryVerdict::exceeds, "exceeds"}});
static_assert(has_row_for_each(memory_verdicts, MemoryVerdict::exceeds));

/// Bytes of weights, gradients and optimizer state on a device of the stage, of all its chunks.
double state_bytes(const IterationModel& model, const Pipeline& pipeline, const PipelineCost& cost,
                   std::size_t stage, int replicas) {
  const StageCosts& costs = model.stages_of(pipeline.stages[stage].devices.size());
  double sum = 0;
  for (std::size_t i = stage; i < cost.layers.size(); i += pipeline.stages.size())
    sum += costs.needs(cost.layers[i], replicas).state;
  return sum;
}

}  // namespace

std::string_view name_of(MemoryVerdict verdict) {
  return row_of(memory_verdicts, verdict).name;
}

MemoryVerdict DeviceMemory::verdict() const {
  if (needed > capacity * (1 + memory_error)) return MemoryVerdict::exceeds;
  return needed * (1 + memory_error) > capacity ? MemoryVerdict::near_limit : MemoryVerdict::fits;
}

std::vector<DeviceMemory> device_memory(const IterationModel& model, const Plan& plan) {
  const Topology& topology = model.problem.topology;
  InFlightByDevice in_flight(model.schedule, model.chunks);
  std::vector<DeviceMemory> result;
  const int replicas = model.replicas_of(plan);
  for (const Pipeline& pipeline : plan.pipelines) {
    const PipelineCost cost =
        pipeline_cost(model, pipeline, replicas, plan.execution.flush.value_or(0), in_flight);
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      const double state = state_bytes(model, pipeline, cost, stage, replicas);
      for (const int device : pipeline.stages[stage].devices)
        if (const int gpu = topology.devices[at(device)].gpu; gpu >= 0)
          result.push_back({device, cost.memory_bytes[stage], topology.gpus[at(gpu)].memory.value(), state,
                            model.problem.constants.process_memory_bytes});
    }
  }
  return result;
}

int max_fitting_flush(const IterationModel& model, const Plan& plan) {
  if (!traits(model.schedule).forwards_first || model.sharding.gradients) return 0;
  const Topology& topology = model.problem.topology;
  const int replicas = model.replicas_of(plan);
  double least = std::numeric_limits<int>::max();
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const ExecutionConfig& execution = model.problem.job.execution;
      const int count = recomputed_layers(execution, stage, stage.layers.second - stage.layers.first);
      const double capacity = least_memory(topology, stage.devices);
      const auto fitting = [&](int recomputed) {
        const StageNeeds needs =
            model.stages_of(stage.devices.size()).needs(stage.layers, replicas, recomputed);
        if (!std::isfinite(capacity) || needs.per_micro_batch <= 0) return least;
        return std::floor((capacity - needs.state - needs.working) / needs.per_micro_batch);
      };
      double most = fitting(count);
      if (traits(execution.recomputation).offloads && !stage.recompute_layers)
        most = std::max(most, fitting(0));  // a single micro-batch needs more if it is offloaded
      least = std::min(least, most);
    }
  return least < 1 ? 0 : static_cast<int>(least);
}

}  // namespace dtfm::cost
