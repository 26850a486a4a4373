#include "planner/cost/iteration_time/iteration_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/core/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

std::vector<StageCosts> costs_by_degree(const Problem& problem, const std::vector<int>& tensors) {
  std::vector<StageCosts> costs;
  costs.reserve(tensors.size());
  for (const int tensor : tensors) costs.emplace_back(problem, tensor);
  return costs;
}

std::vector<std::size_t> numbers_of(const std::vector<int>& tensors) {
  DTFM_ASSERT(!tensors.empty());
  std::vector<std::size_t> numbers(at(tensors.back()) + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) numbers[at(tensors[i])] = i;
  return numbers;
}

}  // namespace

IterationModel::IterationModel(const Problem& of, int tensor)
    : IterationModel(of, std::vector{tensor},
                     std::make_shared<const NetworkCost>(of.topology, of.constants)) {}

IterationModel::IterationModel(const Problem& of, const std::vector<int>& tensors,
                               std::shared_ptr<const NetworkCost> its_network)
    : problem(of),
      by_degree(costs_by_degree(of, tensors)),
      number_of_degree(numbers_of(tensors)),
      stages(by_degree.back()),
      shared_network(std::move(its_network)),
      network(*shared_network),
      schedule(of.job.execution.schedule),
      sync(of.job.execution.gradient_sync),
      chunks(stage_chunks(of.job)),
      flush(of.job.execution.flush.value_or(0)) {}

std::size_t IterationModel::degree_below(std::size_t degree) const {
  const std::size_t number = number_of_degree[degree];
  return number > 0 ? static_cast<std::size_t>(by_degree[number - 1].tensor()) : 0;
}

bool IterationModel::has_degree(std::size_t degree) const {
  return degree < number_of_degree.size() && static_cast<std::size_t>(stages_of(degree).tensor()) == degree;
}

const std::string& IterationModel::unknown(int device) const {
  for (const StageCosts& costs : by_degree)
    if (!costs.unknown(device).empty()) return costs.unknown(device);
  return stages.unknown(device);
}

double IterationModel::compressed_share(const std::vector<int>& own, const std::vector<int>& other,
                                        Direction direction) const {
  const int parts = parts_between(own, other), of_rank = parts / static_cast<int>(own.size());
  int most = 0, compressed = 0;
  for (int part = 0; part < parts; ++part) {
    if (part % of_rank == 0) compressed = 0;
    const int device = device_of_part(own, part, parts), peer = device_of_part(other, part, parts);
    if (direction == Direction::sent ? is_compressed(device, peer) : is_compressed(peer, device))
      ++compressed;
    most = std::max(most, compressed);
  }
  return static_cast<double>(most) / of_rank;
}

IterationTimer::IterationTimer(const IterationModel& model, Plan plan)
    : model_(model),
      plan_(std::move(plan)),
      pipeline_states_(plan_.pipelines.size()),
      held_(model.schedule, model.chunks),
      channels_(plan_.pipelines.size()),
      forward_load_(at(model.network.shared_count())),
      backward_load_(forward_load_.size()),
      concurrent_messages_(forward_load_.size()),
      busy_s_(forward_load_.size()),
      sync_time_(model.problem.topology, model.network) {
  DTFM_ASSERT(!plan_.pipelines.empty());
  if (model.chunks > 1)
    for (const Pipeline& it : plan_.pipelines) kept_stages_ = std::max(kept_stages_, it.stages.size());
  if (model.by_degree.size() > 1) check_tensor_degrees(plan_);
}

void IterationTimer::set_devices(int pipeline, int stage, const std::vector<int>& devices) {
  std::vector<int>& now = plan_.pipelines[at(pipeline)].stages[at(stage)].devices;
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  // Tensor degree changes the memory.
  if (now.size() != devices.size()) pipeline_state.are_layers_fresh = false;
  now = devices;
  pipeline_state.is_fresh = is_fresh_ = false;
  const int stages = static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
  for (GradientBucket& bucket : buckets_)
    if (bucket.stage[at(pipeline)] % stages == stage) bucket.is_fresh = false;
}

void IterationTimer::set_layers(int pipeline, int stage, std::pair<int, int> layers) {
  plan_.pipelines[at(pipeline)].stages[at(stage)].layers = layers;
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  pipeline_state.is_fresh = pipeline_state.are_layers_fresh = is_fresh_ = are_buckets_known_ = false;
}

void IterationTimer::set_micro_batches(int pipeline, int micro_batches) {
  plan_.pipelines[at(pipeline)].micro_batches = micro_batches;
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  pipeline_state.is_fresh = pipeline_state.are_layers_fresh = is_fresh_ = false;
}

void IterationTimer::set_flush(int micro_batches) {
  if (flush() == micro_batches) return;
  plan_.execution.flush = micro_batches > 0 ? std::optional(micro_batches) : std::nullopt;
  for (PipelineState& pipeline_state : pipeline_states_)
    pipeline_state.is_fresh = pipeline_state.are_layers_fresh = false;
  is_fresh_ = false;
}

int IterationTimer::max_fitting_flush() {
  refresh();
  if (!traits(model_.schedule).forwards_first) return 0;
  double least = std::numeric_limits<double>::max();
  for (const Pipeline& pipeline : plan_.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const StageNeeds needs = costs_of(stage.devices).needs(stage.layers);
      for (const int device : stage.devices) {
        const int gpu = model_.problem.topology->devices[at(device)].gpu;
        if (gpu < 0 || needs.per_micro_batch <= 0) continue;
        const double room =
            model_.problem.topology->gpus[at(gpu)].memory.value() - needs.state - needs.working;
        least = std::min(least, std::floor(room / needs.per_micro_batch));
      }
    }
  return least < 1 ? 0 : static_cast<int>(std::min(least, 1e9));
}

double IterationTimer::iteration_s() {
  refresh();
  return estimate_.iteration_s;
}

double IterationTimer::computed_s(const PipelineState& pipeline_state) {
  double end = 0;
  for (std::size_t stage = 0; stage < pipeline_state.layers.size(); ++stage)
    end = std::max(end, pipeline_state.time.backward_s[stage] + pipeline_state.sync_delays_s[stage]);
  return end;
}

double IterationTimer::mean_end_s() {
  refresh();
  return mean_end_s_;
}

IterationEstimate IterationTimer::estimate() {
  refresh();
  IterationEstimate estimate = estimate_;
  for (const PipelineState& pipeline_state : pipeline_states_) {
    estimate.pipeline_s.push_back(computed_s(pipeline_state));
    estimate.steady_s.push_back(pipeline_state.time.steady_s);
  }
  return estimate;
}

const PipelineTime& IterationTimer::pipeline(int pipeline) {
  refresh();
  return pipeline_states_[at(pipeline)].time;
}

const PipelineWork& IterationTimer::work(int pipeline) {
  refresh();
  return pipeline_states_[at(pipeline)].work;
}

double IterationTimer::egress_usd() {
  refresh();
  double sum = 0;
  for (const PipelineState& pipeline_state : pipeline_states_) sum += pipeline_state.egress_usd;
  for (const GradientBucket& bucket : buckets_) sum += bucket.egress_usd;
  return sum;
}

double IterationTimer::deficit_bytes() {
  refresh();
  double sum = 0;
  for (const PipelineState& pipeline_state : pipeline_states_) sum += pipeline_state.deficit_bytes;
  return sum;
}

const std::vector<int>& IterationTimer::devices_of(int pipeline, int virtual_stage) const {
  const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
  return stages[at(virtual_stage) % stages.size()].devices;
}

void IterationTimer::refresh() {
  if (is_fresh_) return;
  for (int i = 0; i < static_cast<int>(pipeline_states_.size()); ++i) {
    PipelineState& pipeline_state = pipeline_states_[at(i)];
    if (pipeline_state.is_fresh) continue;
    if (!pipeline_state.are_layers_fresh) refresh_layers(i);
    refresh_work(i);
    refresh_updates(i);
    refresh_memory(i);
    if (is_shared()) refresh_load(i);
    if (model_.network.is_priced()) refresh_egress(i);
    pipeline_state.is_fresh = true;
    pipeline_state.is_timed = false;
  }
  if (is_shared()) share_links();
  time_pipelines();
  if (!are_buckets_known_) find_buckets();
  refresh_syncs();
  finish();
  is_fresh_ = true;
}

/// Pipelines with the same work share one result.
void IterationTimer::time_pipelines() {
  const auto is_less = [](const PipelineState* a, const PipelineState* b) { return a->work < b->work; };
  std::set<const PipelineState*, decltype(is_less)> known(is_less);
  for (PipelineState& pipeline_state : pipeline_states_) {
    if (pipeline_state.is_timed) continue;
    const auto [equal, is_new] = known.insert(&pipeline_state);
    pipeline_state.time = is_new ? pipeline_time(model_.schedule, pipeline_state.work) : (*equal)->time;
    pipeline_state.is_timed = true;
  }
}

void IterationTimer::refresh_layers(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  pipeline_state.layers = virtual_stage_layers(plan_.pipelines[at(pipeline)], model_.chunks);
  pipeline_state.sync_delays_s.assign(pipeline_state.layers.size(), 0);
  pipeline_state.are_layers_fresh = true;
  refresh_needs(pipeline);
}

/// Memory of a device: state of all its chunks, and activations of micro-batches in flight.
void IterationTimer::refresh_needs(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  const int devices = static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
  const int between = micro_batches_per_flush(flush(), plan_.pipelines[at(pipeline)].micro_batches);
  pipeline_state.needed.resize(at(devices));
  std::vector<StageNeeds> chunks(at(model_.chunks));
  for (int stage = 0; stage < devices; ++stage) {
    const StageCosts& costs = costs_of(devices_of(pipeline, stage));
    for (int chunk = 0; chunk < model_.chunks; ++chunk)
      chunks[at(chunk)] = costs.needs(pipeline_state.layers[at(stage + chunk * devices)]);
    pipeline_state.needed[at(stage)] = held_.of(devices, stage, between).max_bytes(chunks);
  }
}

/// Bytes of the largest part of a message at the boundary before `layer`.
double IterationTimer::largest_part(const std::vector<int>& from, const std::vector<int>& to,
                                    int layer) const {
  const int parts = parts_between(from, to);
  double most = 0;
  for (int part = 0; part < parts; ++part)
    most = std::max(most, model_.boundary_bytes(device_of_part(from, part, parts),
                                                device_of_part(to, part, parts), parts, layer));
  return most;
}

/// All parts of a message are sent concurrently; a capacity that several of them cross carries them all.
HopTime IterationTimer::hop(const std::vector<int>& from, const std::vector<int>& to, int layer) const {
  HopTime slowest;
  const int parts = parts_between(from, to);
  const double concurrent_s = parts > 1 && is_shared() ? concurrent_parts_s(from, to, layer) : 0;
  for (int part = 0; part < parts; ++part) {
    const int sender = device_of_part(from, part, parts), receiver = device_of_part(to, part, parts);
    const MessageCost cost = model_.network.message(sender, receiver);
    const double bytes = model_.boundary_bytes(sender, receiver, parts, layer);
    const double occupancy = std::max(cost.occupancy_s(bytes), cost.overhead_s + concurrent_s);
    slowest.occupancy_s = std::max(slowest.occupancy_s, occupancy);
    slowest.overhead_s = std::max(slowest.overhead_s, cost.overhead_s);
    slowest.latency_s = std::max(slowest.latency_s, cost.latency_s);
  }
  return slowest;
}

/// Seconds of all parts of a message on the shared capacity that they occupy longest.
double IterationTimer::concurrent_parts_s(const std::vector<int>& from, const std::vector<int>& to,
                                          int layer) const {
  const int parts = parts_between(from, to);
  std::map<int, double> seconds;  // by capacity id
  double most = 0;
  for (int part = 0; part < parts; ++part) {
    const int sender = device_of_part(from, part, parts), receiver = device_of_part(to, part, parts);
    if (sender == receiver) continue;
    const double bytes = model_.boundary_bytes(sender, receiver, parts, layer);
    for (const int id : model_.network.shared(sender, receiver))
      most = std::max(most, seconds[id] += bytes * model_.network.shared_seconds_per_byte(id));
  }
  return most;
}

double IterationTimer::all_reduce_s(const std::vector<int>& devices, std::pair<int, int> layers,
                                    bool backward) const {
  if (devices.size() < 2 || layers.first == layers.second) return 0;
  const auto [messages, bytes] = costs_of(devices).all_reduces(layers, backward);
  double slowest = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const MessageCost cost = model_.network.message(devices[i], devices[(i + 1) % devices.size()]);
    slowest =
        std::max(slowest, messages * (cost.overhead_s + cost.latency_s) + bytes * cost.seconds_per_byte);
  }
  return slowest;
}

void IterationTimer::refresh_work(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  PipelineWork& work = pipeline_state.work;
  const std::size_t stages = pipeline_state.layers.size();
  work.micro_batches = plan_.pipelines[at(pipeline)].micro_batches;
  work.flush = flush();
  work.chunks = model_.chunks;
  work.forward_s.resize(stages);
  work.backward_s.resize(stages);
  work.weight_gradient_s.resize(stages);
  pipeline_state.compressing_sent_s.assign(stages, 0);
  work.forward_hops.resize(stages - 1);
  work.backward_hops.resize(stages - 1);
  for (std::size_t i = 0; i < stages; ++i) {
    const auto layers = pipeline_state.layers[i];
    const std::vector<int>& devices = devices_of(pipeline, static_cast<int>(i));
    const StageCosts& costs = costs_of(devices);
    ComputeTime slowest;
    for (const int device : devices) {
      const ComputeTime time = costs.compute(costs.kind_of(device), layers);
      slowest.forward_s = std::max(slowest.forward_s, time.forward_s);
      slowest.backward_s = std::max(slowest.backward_s, time.backward_s);
      slowest.weight_gradient_s = std::max(slowest.weight_gradient_s, time.weight_gradient_s);
    }
    const double overhead = model_.problem.constants.micro_batch_overhead_s;
    work.forward_s[i] = slowest.forward_s + overhead + all_reduce_s(devices, layers, false);
    work.weight_gradient_s[i] = slowest.weight_gradient_s;
    work.backward_s[i] = slowest.backward_s + overhead + all_reduce_s(devices, layers, true);
    // Devices compress and decompress activations, and their gradients, as part of their computation.
    using Direction = IterationModel::Direction;
    if (i > 0) {
      const std::vector<int>& before = devices_of(pipeline, static_cast<int>(i) - 1);
      const double compression_s = costs.compression_s(layers.first);
      work.forward_s[i] += compression_s * model_.compressed_share(devices, before, Direction::received);
      pipeline_state.compressing_sent_s[i] =
          compression_s * model_.compressed_share(devices, before, Direction::sent);
      work.backward_s[i] += pipeline_state.compressing_sent_s[i];
    }
    if (i + 1 == stages) break;
    const std::vector<int>& next = devices_of(pipeline, static_cast<int>(i) + 1);
    const double compression_s = costs.compression_s(layers.second);
    work.forward_s[i] += compression_s * model_.compressed_share(devices, next, Direction::sent);
    work.backward_s[i] += compression_s * model_.compressed_share(devices, next, Direction::received);
    work.forward_hops[i] = hop(devices, next, layers.second);
    work.backward_hops[i] = hop(next, devices, layers.second);
  }
}

/// Optimizer step of the slowest device of a stage, over all chunks of the device.
void IterationTimer::refresh_updates(int pipeline) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  const std::size_t devices = plan_.pipelines[at(pipeline)].stages.size();
  pipeline_state.update_s.assign(pipeline_state.layers.size(), 0);
  for (std::size_t stage = 0; stage < devices; ++stage) {
    double most = 0;
    const std::vector<int>& ranks = devices_of(pipeline, static_cast<int>(stage));
    const StageCosts& costs = costs_of(ranks);
    for (const int device : ranks) {
      double sum = 0;
      for (std::size_t i = stage; i < pipeline_state.layers.size(); i += devices)
        sum += costs.compute(costs.kind_of(device), pipeline_state.layers[i]).update_s;
      most = std::max(most, sum);
    }
    for (std::size_t i = stage; i < pipeline_state.layers.size(); i += devices)
      pipeline_state.update_s[i] = most;
  }
}

void IterationTimer::refresh_memory(int pipeline) {
  const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
  const Topology& topology = model_.problem.topology;
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  pipeline_state.deficit_bytes = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (const int device : stages[stage].devices) {
      const int gpu = topology.devices[at(device)].gpu;
      if (gpu >= 0)
        pipeline_state.deficit_bytes +=
            std::max(0.0, pipeline_state.needed[stage] - topology.gpus[at(gpu)].memory.value());
    }
}

std::vector<DeviceMemory> IterationTimer::memory() {
  refresh();
  const Topology& topology = model_.problem.topology;
  std::vector<DeviceMemory> result;
  for (std::size_t pipeline = 0; pipeline < pipeline_states_.size(); ++pipeline) {
    const std::vector<Stage>& stages = plan_.pipelines[pipeline].stages;
    for (std::size_t stage = 0; stage < stages.size(); ++stage)
      for (const int device : stages[stage].devices) {
        const int gpu = topology.devices[at(device)].gpu;
        if (gpu < 0) continue;
        const double needed = pipeline_states_[pipeline].needed[stage],
                     capacity = topology.gpus[at(gpu)].memory.value();
        result.push_back({device, needed, capacity});
      }
  }
  return result;
}

void IterationTimer::finish() {
  estimate_ = {};
  double end = 0, ends = 0;
  for (const PipelineState& pipeline_state : pipeline_states_) {
    ends += pipeline_state.time.end_s;
    estimate_.pipelines_s = std::max(estimate_.pipelines_s, computed_s(pipeline_state));
    for (std::size_t stage = 0; stage < pipeline_state.layers.size(); ++stage)
      end = std::max(end, pipeline_state.time.backward_s[stage] + pipeline_state.sync_delays_s[stage] +
                              pipeline_state.update_s[stage]);
  }
  for (const GradientBucket& bucket : buckets_) {
    double last = bucket.end_s;
    for (std::size_t i = 0; i < pipeline_states_.size(); ++i) {
      // Contention may have delayed the end since decompression was scheduled.
      const double own =
          std::max(bucket.decompressed_s[i], sync_end_s(bucket, static_cast<int>(i)) + bucket.compression_s);
      last = std::max(last, own);
      end = std::max(end, own + pipeline_states_[i].update_s[at(bucket.stage[i])]);
    }
    estimate_.gradient_sync_end_s = std::max(estimate_.gradient_sync_end_s, last);
    ends += last;
  }
  mean_end_s_ = ends / static_cast<double>(pipeline_states_.size() + buckets_.size());
  estimate_.update_s = end - std::max(estimate_.pipelines_s, estimate_.gradient_sync_end_s);
  estimate_.overhead_s = model_.problem.constants.iteration_overhead_s;
  estimate_.iteration_s = end + estimate_.overhead_s;
}

IterationEstimate estimate_iteration(const IterationModel& model, const Plan& plan) {
  return IterationTimer(model, plan).estimate();
}

}  // namespace dtfm::cost
