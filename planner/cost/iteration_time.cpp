#include "planner/cost/iteration_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {

std::vector<std::pair<int, int>> computed_layers(const Pipeline& pipeline, int chunks) {
  std::vector<std::pair<int, int>> computed;
  int next = pipeline.stages.front().layers.first;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const Stage& stage : pipeline.stages) {
      const auto [begin, end] = stage.layers;
      if (chunks > 1 && end - begin < chunks)
        throw Error("",
                    fmt::format("schedule interleaved: {} layers of a device cannot be cut into {} chunks",
                                end - begin, chunks));
      const auto part = even_split(end - begin, chunks, chunk);
      computed.emplace_back(next, next + part.second - part.first);
      next = computed.back().second;
    }
  return computed;
}

IterationModel::IterationModel(const Problem& of, int tensor)
    : IterationModel(of, tensor, std::make_shared<const NetworkCost>(of.topology, of.constants)) {}

IterationModel::IterationModel(const Problem& of, int tensor, std::shared_ptr<const NetworkCost> its_network)
    : problem(of),
      stages(of, tensor),
      shared_network(std::move(its_network)),
      network(*shared_network),
      schedule(pipeline_schedule(of.job.parallelism.schedule)),
      sync(gradient_sync(of.job.parallelism.gradient_sync)),
      chunks(schedule == PipelineSchedule::interleaved ? of.job.parallelism.chunks.value_or(1) : 1),
      flush(of.job.parallelism.flush.value_or(0)) {}

IterationTimer::IterationTimer(const IterationModel& model, Plan plan)
    : model_(model),
      plan_(std::move(plan)),
      flush_(model.flush),
      lanes_(plan_.pipelines.size()),
      forward_load_(at(model.network.shared_count())),
      backward_load_(at(model.network.shared_count())),
      exchange_(model.problem.topology, model.network) {
  DTFM_ASSERT(!plan_.pipelines.empty());
}

void IterationTimer::set_devices(int pipeline, int stage, const std::vector<int>& devices) {
  plan_.pipelines[at(pipeline)].stages[at(stage)].devices = devices;
  lanes_[at(pipeline)].is_fresh = is_fresh_ = false;
  const int stages = static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
  for (Segment& segment : segments_)
    if (segment.stage[at(pipeline)] % stages == stage) segment.is_fresh = false;
}

void IterationTimer::set_layers(int pipeline, int stage, std::pair<int, int> layers) {
  plan_.pipelines[at(pipeline)].stages[at(stage)].layers = layers;
  lanes_[at(pipeline)].is_fresh = is_fresh_ = are_segments_known_ = false;
}

void IterationTimer::set_micro_batches(int pipeline, int micro_batches) {
  plan_.pipelines[at(pipeline)].micro_batches = micro_batches;
  lanes_[at(pipeline)].is_fresh = is_fresh_ = false;
}

void IterationTimer::set_flush(int micro_batches) {
  if (flush_ == micro_batches) return;
  flush_ = micro_batches;
  for (Lane& lane : lanes_) lane.is_fresh = false;
  is_fresh_ = false;
}

int IterationTimer::fitting_flush() {
  refresh();
  if (model_.schedule != PipelineSchedule::gpipe) return 0;
  double least = std::numeric_limits<double>::max();
  for (const Pipeline& pipeline : plan_.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const StageNeeds needs = model_.stages.needs(stage.layers);
      for (const int device : stage.devices) {
        const int gpu = model_.problem.topology.devices[at(device)].gpu;
        if (gpu < 0 || needs.of_micro_batch <= 0) continue;
        const double room = model_.problem.topology.gpus[at(gpu)].memory.value() - needs.total(0);
        least = std::min(least, std::floor(room / needs.of_micro_batch));
      }
    }
  return least < 1 ? 0 : static_cast<int>(std::min(least, 1e9));
}

double IterationTimer::iteration_s() {
  refresh();
  return estimate_.iteration_s;
}

double IterationTimer::mean_end_s() {
  refresh();
  return mean_end_s_;
}

IterationEstimate IterationTimer::estimate() {
  refresh();
  return estimate_;
}

const PipelineTime& IterationTimer::pipeline(int pipeline) {
  refresh();
  return lanes_[at(pipeline)].time;
}

const PipelineWork& IterationTimer::work(int pipeline) {
  refresh();
  return lanes_[at(pipeline)].work;
}

double IterationTimer::lacking_bytes() {
  refresh();
  double sum = 0;
  for (const Lane& lane : lanes_) sum += lane.lacking;
  return sum;
}

const std::vector<int>& IterationTimer::devices_of(int pipeline, int computed_stage) const {
  const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
  return stages[at(computed_stage) % stages.size()].devices;
}

void IterationTimer::refresh() {
  if (is_fresh_) return;
  bool layers_changed = !are_segments_known_;
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i) {
    if (lanes_[at(i)].is_fresh && model_.network.shared_count() == 0) continue;
    if (layers_changed || lanes_[at(i)].layers.empty()) refresh_layers(i);
    refresh_work(i);
    refresh_memory(i);
  }
  if (model_.network.shared_count() > 0) share_links();
  for (Lane& lane : lanes_)
    if (!lane.is_fresh || model_.network.shared_count() > 0) {
      lane.time = pipeline_time(model_.schedule, lane.work);
      lane.is_fresh = true;
    }
  if (layers_changed) find_segments();
  refresh_exchanges();
  finish();
  is_fresh_ = true;
}

void IterationTimer::refresh_layers(int pipeline) {
  lanes_[at(pipeline)].layers = computed_layers(plan_.pipelines[at(pipeline)], model_.chunks);
}

HopTime IterationTimer::hop(const std::vector<int>& from, const std::vector<int>& to, double bytes) const {
  HopTime slowest;
  for (std::size_t rank = 0; rank < from.size(); ++rank) {
    const MessageCost cost = model_.network.message(from[rank], to[rank]);
    slowest.occupancy_s = std::max(slowest.occupancy_s, cost.occupancy_s(bytes));
    slowest.latency_s = std::max(slowest.latency_s, cost.latency_s);
  }
  return slowest;
}

double IterationTimer::all_reduce_s(const std::vector<int>& devices, std::pair<int, int> layers,
                                    bool backward) const {
  if (devices.size() < 2 || layers.first == layers.second) return 0;
  const auto [messages, bytes] = model_.stages.all_reduces(layers, backward);
  double slowest = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const MessageCost cost = model_.network.message(devices[i], devices[(i + 1) % devices.size()]);
    slowest =
        std::max(slowest, messages * (cost.overhead_s + cost.latency_s) + bytes * cost.seconds_per_byte);
  }
  return slowest;
}

void IterationTimer::refresh_work(int pipeline) {
  const StageCosts& costs = model_.stages;
  Lane& lane = lanes_[at(pipeline)];
  PipelineWork& work = lane.work;
  const std::size_t stages = lane.layers.size();
  work.micro_batches = plan_.pipelines[at(pipeline)].micro_batches;
  work.flush = flush_;
  work.chunks = model_.chunks;
  work.forward_s.resize(stages);
  work.backward_s.resize(stages);
  work.forward_hops.resize(stages - 1);
  work.backward_hops.resize(stages - 1);
  for (std::size_t i = 0; i < stages; ++i) {
    const auto layers = lane.layers[i];
    const std::vector<int>& devices = devices_of(pipeline, static_cast<int>(i));
    ComputeTime slowest;
    for (const int device : devices) {
      const ComputeTime time = costs.compute(costs.kind_of(device), layers);
      slowest.forward_s = std::max(slowest.forward_s, time.forward_s);
      slowest.backward_s = std::max(slowest.backward_s, time.backward_s);
    }
    // Activations are expanded and compressed on the device that computes, and so are their gradients.
    const double recode =
        (i > 0 ? costs.recode_s(layers.first) : 0) + (i + 1 < stages ? costs.recode_s(layers.second) : 0);
    work.forward_s[i] = slowest.forward_s + recode + all_reduce_s(devices, layers, false);
    work.backward_s[i] = slowest.backward_s + recode + all_reduce_s(devices, layers, true);
    if (i + 1 == stages) break;
    const std::vector<int>& next = devices_of(pipeline, static_cast<int>(i) + 1);
    const double bytes = costs.boundary_bytes(layers.second);
    work.forward_hops[i] = hop(devices, next, bytes);
    work.backward_hops[i] = hop(next, devices, bytes);
  }
}

void IterationTimer::refresh_memory(int pipeline) {
  const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
  Lane& lane = lanes_[at(pipeline)];
  lane.lacking = 0;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) {
    const double needed = needed_bytes(lane.layers, pipeline, stage);
    for (const int device : stages[at(stage)].devices) {
      const int gpu = model_.problem.topology.devices[at(device)].gpu;
      if (gpu < 0) continue;
      lane.lacking += std::max(0.0, needed - model_.problem.topology.gpus[at(gpu)].memory.value());
    }
  }
}

/// Of a device: the states of all its computed stages, and the micro-batches in flight, taken to be of the
/// one that holds most.
double IterationTimer::needed_bytes(const std::vector<std::pair<int, int>>& computed, int pipeline,
                                    int device_stage) const {
  const int devices = static_cast<int>(plan_.pipelines[at(pipeline)].stages.size());
  const int micro_batches = plan_.pipelines[at(pipeline)].micro_batches;
  const int between = flush_ > 0 ? std::min(flush_, micro_batches) : micro_batches;
  StageNeeds all;
  for (int i = device_stage; i < static_cast<int>(computed.size()); i += devices) {
    const StageNeeds needs = model_.stages.needs(computed[at(i)]);
    all.state += needs.state;
    all.of_micro_batch = std::max(all.of_micro_batch, needs.of_micro_batch);
    all.working = std::max(all.working, needs.working);
  }
  return all.total(most_in_flight(model_.schedule, static_cast<int>(computed.size()), device_stage,
                                  model_.chunks, between));
}

std::vector<DeviceMemory> IterationTimer::memory() {
  refresh();
  std::vector<DeviceMemory> result;
  for (int pipeline = 0; pipeline < static_cast<int>(lanes_.size()); ++pipeline) {
    const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
    for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage)
      for (const int device : stages[at(stage)].devices) {
        const int gpu = model_.problem.topology.devices[at(device)].gpu;
        if (gpu < 0) continue;
        const double needed = needed_bytes(lanes_[at(pipeline)].layers, pipeline, stage);
        const double capacity = model_.problem.topology.gpus[at(gpu)].memory.value();
        result.push_back({device, needed, capacity});
      }
  }
  return result;
}

/// Of all micro-batches of a pipeline.
void IterationTimer::add_load(int pipeline) {
  const Lane& lane = lanes_[at(pipeline)];
  for (std::size_t i = 0; i + 1 < lane.layers.size(); ++i) {
    const double bytes = model_.stages.boundary_bytes(lane.layers[i].second) * lane.work.micro_batches;
    const std::vector<int>&here = devices_of(pipeline, static_cast<int>(i)),
          &next = devices_of(pipeline, static_cast<int>(i) + 1);
    for (std::size_t rank = 0; rank < here.size(); ++rank) {
      if (here[rank] == next[rank]) continue;
      for (const int id : model_.network.shared(here[rank], next[rank]).ids()) forward_load_[at(id)] += bytes;
      for (const int id : model_.network.shared(next[rank], here[rank]).ids())
        backward_load_[at(id)] += bytes;
    }
  }
}

/// Forward and backward are phases of their own under gpipe alone.
void IterationTimer::share_links() {
  std::fill(forward_load_.begin(), forward_load_.end(), 0);
  std::fill(backward_load_.begin(), backward_load_.end(), 0);
  const int pipelines = static_cast<int>(lanes_.size());
  for (int pipeline = 0; pipeline < pipelines; ++pipeline) add_load(pipeline);
  const bool phases = model_.schedule == PipelineSchedule::gpipe;
  const auto seconds = [&](int from, int to, bool forward) {
    double most = 0;
    if (from == to) return most;
    for (const int id : model_.network.shared(from, to).ids()) {
      const double bytes = phases ? (forward ? forward_load_ : backward_load_)[at(id)]
                                  : forward_load_[at(id)] + backward_load_[at(id)];
      most = std::max(most, bytes * model_.network.shared_seconds_per_byte(id));
    }
    return most;
  };
  for (int pipeline = 0; pipeline < pipelines; ++pipeline) {
    PipelineWork& work = lanes_[at(pipeline)].work;
    for (std::size_t i = 0; i + 1 < lanes_[at(pipeline)].layers.size(); ++i) {
      const std::vector<int>&here = devices_of(pipeline, static_cast<int>(i)),
            &next = devices_of(pipeline, static_cast<int>(i) + 1);
      HopTime &there = work.forward_hops[i], &back = work.backward_hops[i];
      there.shared_s = back.shared_s = 0;
      for (std::size_t rank = 0; work.micro_batches > 0 && rank < here.size(); ++rank) {
        there.shared_s = std::max(there.shared_s, seconds(here[rank], next[rank], true) / work.micro_batches);
        back.shared_s = std::max(back.shared_s, seconds(next[rank], here[rank], false) / work.micro_batches);
      }
    }
  }
}

/// Layers between two neighbouring boundaries of any pipeline; with overlap, every layer.
void IterationTimer::find_segments() {
  segments_.clear();
  are_segments_known_ = true;
  if (lanes_.size() < 2) return;
  std::vector<int> next(lanes_.size());  // computed stages that hold the layer
  const auto skip_ended = [&](int layer) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      while (lanes_[i].layers[at(next[i])].second <= layer) ++next[i];
  };
  for (int layer = 0; layer < model_.stages.layers();) {
    skip_ended(layer);
    int end = model_.problem.job.parallelism.overlap ? layer + 1 : model_.stages.layers();
    for (std::size_t i = 0; i < lanes_.size(); ++i) end = std::min(end, lanes_[i].layers[at(next[i])].second);
    Segment segment;
    segment.layers = {layer, end};
    segment.stage = next;
    segments_.push_back(std::move(segment));
    layer = end;
  }
  are_apart_ = are_segments_apart();
}

/// No two segments are exchanged between the same devices, because every one is a stage of all pipelines.
bool IterationTimer::are_segments_apart() const {
  if (model_.chunks > 1) return false;
  for (std::size_t i = 1; i < segments_.size(); ++i)
    for (std::size_t pipeline = 0; pipeline < lanes_.size(); ++pipeline)
      if (segments_[i].stage[pipeline] == segments_[i - 1].stage[pipeline]) return false;
  return true;
}

void IterationTimer::refresh_exchanges() {
  for (Segment& segment : segments_) {
    if (!segment.is_fresh) refresh_exchange(segment);
    start_exchange(segment);
  }
  if (!are_apart_) put_in_turn();
  if (model_.network.shared_count() > 0) share_links_of_exchanges();
}

/// Its seconds, from whenever it starts.
void IterationTimer::refresh_exchange(Segment& segment) {
  segment.is_fresh = true;
  segment.ends_s.assign(lanes_.size(), 0);
  segment.transfer_s = 0;
  segment.load.clear();
  bool with_first = true;  // all of its devices have the first layer too
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    with_first = with_first &&
                 &devices_of(static_cast<int>(i), segment.stage[i]) == &devices_of(static_cast<int>(i), 0);
  const double bytes = model_.stages.gradient_bytes(segment.layers, with_first);
  std::vector<int> devices(lanes_.size());
  for (int rank = 0; rank < model_.stages.tensor(); ++rank) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      devices[i] = devices_of(static_cast<int>(i), segment.stage[i])[at(rank)];
    const std::vector<double> ends = exchange_.ends(model_.sync, devices, bytes);
    for (const int id : exchange_.used()) segment.load.emplace_back(id, exchange_.load()[at(id)]);
    for (std::size_t i = 0; i < ends.size(); ++i) segment.ends_s[i] = std::max(segment.ends_s[i], ends[i]);
    if (are_apart_) continue;
    const std::vector<double> empty = exchange_.ends(model_.sync, devices, 0);
    segment.transfer_s = std::max(segment.transfer_s, *std::max_element(ends.begin(), ends.end()) -
                                                          *std::max_element(empty.begin(), empty.end()));
  }
}

/// When a device has the gradients of `layer`: with overlap as soon as it has computed that layer's.
double IterationTimer::ready_s(int pipeline, int stage, int layer) const {
  const Lane& lane = lanes_[at(pipeline)];
  if (!model_.problem.job.parallelism.overlap) return lane.time.gradients_s[at(stage)];
  const std::vector<int>& devices = devices_of(pipeline, stage);
  const std::pair<int, int> later = {lane.layers[at(stage)].first, layer};
  double rest = 0;
  for (const int device : devices)
    rest = std::max(rest, model_.stages.compute(model_.stages.kind_of(device), later).backward_s);
  return lane.time.backward_s[at(stage)] - rest - all_reduce_s(devices, later, true);
}

void IterationTimer::start_exchange(Segment& segment) {
  segment.start_s = 0;
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i)
    segment.start_s = std::max(segment.start_s, ready_s(i, segment.stage[at(i)], segment.layers.first));
  const double recode = model_.stages.gradient_recode_s(model_.stages.gradient_bytes(segment.layers, false));
  segment.start_s += recode;
  segment.end_s = segment.start_s + *std::max_element(segment.ends_s.begin(), segment.ends_s.end()) + recode;
}

/// Exchanges over the same channels: the bytes of one move after those of the other.
void IterationTimer::put_in_turn() {
  std::map<std::pair<int, int>, double> busy;  // until when, from one device to another
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    double before = 0;
    std::vector<std::pair<int, int>> channels;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const std::size_t next = (i + 1) % lanes_.size();
      channels.emplace_back(devices_of(static_cast<int>(i), segment->stage[i]).front(),
                            devices_of(static_cast<int>(next), segment->stage[next]).front());
    }
    for (const auto& channel : channels)
      if (const auto found = busy.find(channel); found != busy.end())
        before = std::max(before, found->second);
    segment->end_s = std::max(segment->end_s, before + segment->transfer_s);
    for (const auto& channel : channels) busy[channel] = segment->end_s;
  }
}

/// A shared capacity carries what comes first, then the rest; the last of all that pass it cannot end before.
void IterationTimer::share_links_of_exchanges() {
  std::vector<std::size_t> order(segments_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return segments_[a].start_s < segments_[b].start_s; });
  std::vector<double> busy(at(model_.network.shared_count()));
  for (const std::size_t i : order) {
    Segment& segment = segments_[i];
    for (const auto& [id, bytes] : segment.load) {
      busy[at(id)] =
          std::max(busy[at(id)], segment.start_s) + bytes * model_.network.shared_seconds_per_byte(id);
      segment.end_s = std::max(segment.end_s, busy[at(id)]);
    }
  }
}

void IterationTimer::finish() {
  estimate_ = {};
  const auto update_s = [&](int pipeline, int stage) {
    double most = 0;
    const std::size_t devices = plan_.pipelines[at(pipeline)].stages.size();
    for (const int device : devices_of(pipeline, stage)) {
      double sum = 0;
      for (std::size_t i = at(stage) % devices; i < lanes_[at(pipeline)].layers.size(); i += devices)
        sum += model_.stages.compute(model_.stages.kind_of(device), lanes_[at(pipeline)].layers[i]).update_s;
      most = std::max(most, sum);
    }
    return most;
  };
  double end = 0, ends = 0;
  for (int pipeline = 0; pipeline < static_cast<int>(lanes_.size()); ++pipeline) {
    const PipelineTime& time = lanes_[at(pipeline)].time;
    estimate_.pipeline_s.push_back(time.end_s);
    ends += time.end_s;
    estimate_.steady_s.push_back(time.steady_s);
    estimate_.pipelines_s = std::max(estimate_.pipelines_s, time.end_s);
    for (int stage = 0; stage < static_cast<int>(time.backward_s.size()); ++stage)
      end = std::max(end, time.backward_s[at(stage)] + update_s(pipeline, stage));
  }
  for (const Segment& segment : segments_) {
    estimate_.exchanges_s = std::max(estimate_.exchanges_s, segment.end_s);
    ends += segment.end_s;
    const double most = *std::max_element(segment.ends_s.begin(), segment.ends_s.end());
    for (int pipeline = 0; pipeline < static_cast<int>(lanes_.size()); ++pipeline)
      end = std::max(end, segment.end_s - most + segment.ends_s[at(pipeline)] +
                              update_s(pipeline, segment.stage[at(pipeline)]));
  }
  mean_end_s_ = ends / static_cast<double>(lanes_.size() + segments_.size());
  estimate_.update_s = end - std::max(estimate_.pipelines_s, estimate_.exchanges_s);
  estimate_.overhead_s = model_.problem.constants.iteration_overhead_s;
  estimate_.iteration_s = end + estimate_.overhead_s;
}

IterationEstimate iteration_estimate(const IterationModel& model, const Plan& plan) {
  return IterationTimer(model, plan).estimate();
}

}  // namespace dtfm
