#include "planner/cost/bounds/iteration_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/cost/bounds/load_balance_bound.hpp"
#include "planner/cost/bounds/message_bounds.hpp"

namespace dtfm::cost {
namespace {

/// Relative: the simulator rounds times to a grid, and sums are rounded.
constexpr double rounding = 1e-9;

std::vector<int> known_devices(const IterationModel& model) {
  std::vector<int> devices;
  for (int device = 0; device < model.problem.topology->size(); ++device)
    if (std::any_of(model.by_degree.begin(), model.by_degree.end(),
                    [&](const StageCosts& costs) { return costs.unknown(device).empty(); }))
      devices.push_back(device);
  return devices;
}

/// Prefix sums: element n is the sum of the first n values.
std::vector<double> prefix_sums(const std::vector<double>& values) {
  std::vector<double> sums = {0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

double divide_rounding_up(int a, int b) {
  return std::ceil(static_cast<double>(a) / b);
}

}  // namespace

IterationBounds::IterationBounds(const IterationModel& model, StopFunction stop)
    : model_(model),
      stop_(std::move(stop)),
      devices_(known_devices(model)),
      layers_(model.stages.layers()),
      tensor_(model.stages.tensor()),
      micro_batches_(micro_batch_count(model.problem.job)),
      hop_(hop_costs(model, devices_, stop_)),
      hop_busy_(hop_occupancies(model, devices_, stop_)),
      one_way_(one_way_costs(model, devices_, stop_)),
      one_way_busy_(one_way_occupancies(model, devices_, stop_)),
      message_fixed_(min_message_costs(model, devices_, stop_)),
      message_per_byte_(min_byte_costs(model, devices_, stop_)),
      traffic_(model, devices_, stop_) {
  if (static_cast<int>(devices_.size()) < model.by_degree.front().tensor())
    throw Error("", "too few devices with known layer times for a single stage");
  find_links();
  find_layers();
  find_rates();
  find_memory();
  find_sync();
  find_groups();
}

void IterationBounds::find_links() {
  for (const int from : devices_) {
    throw_if_stopped(stop_);
    for (const int to : devices_) {
      if (from == to) continue;
      const MessageCost cost = model_.network.message(from, to);
      const Line line{cost.overhead_s + cost.latency_s, cost.seconds_per_byte};
      const auto no_better = [](const Line& a, const Line& b) {
        return a.fixed_s >= b.fixed_s && a.seconds_per_byte >= b.seconds_per_byte;
      };
      if (std::any_of(best_links_.begin(), best_links_.end(),
                      [&](const Line& other) { return no_better(line, other); }))
        continue;
      std::erase_if(best_links_, [&](const Line& other) { return no_better(other, line); });
      best_links_.push_back(line);
    }
  }
}

void IterationBounds::find_layers() {
  const StageCosts& costs = model_.stages;
  gradients_before_ = {0};
  for (int layer = 0; layer < layers_; ++layer) {
    const double gradients = min_gradient_bytes({layer, layer + 1});
    gradient_bytes_ += gradients;
    gradients_before_.push_back(gradient_bytes_);
    largest_gradient_bytes_ = std::max(largest_gradient_bytes_, gradients);
    if (layer == 0) first_gradient_bytes_ = gradients;
    // With a bandwidth threshold, a hop over a fast link is not compressed.
    if (layer > 0 && !model_.problem.job.execution.compression.bandwidth_threshold)
      compression_s_ =
          layer == 1 ? costs.compression_s(layer) : std::min(compression_s_, costs.compression_s(layer));
  }
}

/// Lower bounds on the times of every layer on one kind of device: its own compute time and, with tensor
/// parallelism, the all-reduces over the best links.
DeviceKindTimes IterationBounds::times_of(const StageCosts& costs, int kind) const {
  DeviceKindTimes it;
  const bool reduces = costs.tensor() > 1;
  for (int layer = 0; layer < layers_; ++layer) {
    const std::pair<int, int> one{layer, layer + 1};
    const ComputeTime time = costs.compute(kind, one);
    const StageCosts::AllReduces there = costs.all_reduces(one, false), back = costs.all_reduces(one, true);
    it.forward_s.push_back(time.forward_s + (reduces ? message_s(there.messages, there.bytes) : 0));
    it.backward_s.push_back(time.backward_s + (reduces ? message_s(back.messages, back.bytes) : 0));
    // The increment for a stage that begins at the first layer, so that tied parameters are updated only
    // once.
    it.update_s.push_back(costs.compute(kind, {0, layer + 1}).update_s -
                          costs.compute(kind, {0, layer}).update_s);
  }
  return it;
}

/// A kind of device counts as a separate kind at every tensor degree.
void IterationBounds::find_rates() {
  std::vector<DeviceKindTimes> kinds;
  std::vector<std::vector<int>> kind_at;  // [degree][kind in StageCosts]; −1: times not known
  for (const StageCosts& costs : model_.by_degree) {
    std::vector<int>& kind_of = kind_at.emplace_back(at(costs.kinds()), -1);
    for (const int device : devices_) {
      if (!costs.unknown(device).empty()) continue;
      int& kind = kind_of[at(costs.kind_of(device))];
      if (kind < 0) {
        kind = static_cast<int>(kinds.size());
        kinds.push_back(times_of(costs, costs.kind_of(device)));
      }
      ++kinds[at(kind)].devices;
    }
  }
  layer_times_ = min_layer_times(kinds);
  balanced_ = balanced_work(kinds);
  std::vector<double> rates, shares;  // by device, at best: rate of its stage, and its own share of that
  min_rate_ = std::numeric_limits<double>::infinity();
  for (const int device : devices_) {
    double rate = 0, share = 0;
    for (std::size_t degree = 0; degree < kind_at.size(); ++degree) {
      const StageCosts& costs = model_.by_degree[degree];
      const int kind = kind_at[degree][at(costs.kind_of(device))];
      if (kind < 0) continue;
      rate = std::max(rate, balanced_.rates[at(kind)]);
      share = std::max(share, balanced_.rates[at(kind)] / costs.tensor());
      min_rate_ = std::min(min_rate_, balanced_.rates[at(kind)]);
    }
    rates.push_back(rate);
    shares.push_back(share);
  }
  rates_ = max_of_stages(rates, shares);
  rate_sums_ = prefix_sums(rates_);
  if (model_.by_degree.size() == 1) min_rate_ = rates_.back();
}

/// Upper bounds on a quantity (rate or memory) of every stage, largest first. A stage has no more than the
/// smallest value of its devices. So with one tensor degree t, the i-th best stage has no more than the (t ·
/// i)-th best device. With several degrees, it has no more than the i-th best device, and all stages together
/// have no more than the sum of the shares of all devices.
std::vector<double> IterationBounds::max_of_stages(std::vector<double> of_devices,
                                                   const std::vector<double>& of_shares) const {
  std::sort(of_devices.begin(), of_devices.end(), std::greater<>());
  const std::size_t min_degree = at(model_.by_degree.front().tensor());
  const bool is_one_degree = model_.by_degree.size() == 1;
  double rest = std::accumulate(of_shares.begin(), of_shares.end(), 0.0);
  std::vector<double> maxima;
  for (std::size_t i = 1; i * min_degree <= of_devices.size(); ++i) {
    double of_stage = of_devices[is_one_degree ? i * min_degree - 1 : i - 1];
    if (!is_one_degree && rest < of_stage) of_stage = std::max(0.0, rest);
    if (std::isfinite(rest)) rest -= of_stage;
    maxima.push_back(of_stage);
  }
  return maxima;
}

void IterationBounds::find_memory() {
  const StageCosts& costs = model_.stages;
  const StageNeeds all = costs.needs({0, layers_});
  state_ = all.state;
  per_micro_batch_ = all.per_micro_batch;
  state_before_ = {0};
  for (int layer = 0; layer < layers_; ++layer) {
    // The increment for a stage that begins at the first layer, so that tied parameters count only once.
    const double state = costs.needs({0, layer + 1}).state - costs.needs({0, layer}).state;
    state_before_.push_back(state_before_.back() + state);
    largest_layer_ = std::max(largest_layer_, state + costs.needs({layer, layer + 1}).working);
  }
  // Memory is counted per device of a stage at the largest degree, as the needs are. A stage at a smaller
  // degree has less, so the bound stays valid; each device contributes 1 ÷ the largest degree.
  std::vector<double> memory, shares;
  for (const int device : devices_) {
    const int gpu = model_.problem.topology->devices[at(device)].gpu;
    memory.push_back(gpu < 0 ? std::numeric_limits<double>::infinity()
                             : model_.problem.topology->gpus[at(gpu)].memory.value());
    shares.push_back(memory.back() / tensor_);
  }
  memory_sums_ = prefix_sums(max_of_stages(memory, shares));
}

int IterationBounds::max_stages() const {
  return std::min(static_cast<int>(rates_.size()), layers_ / model_.chunks);
}

int IterationBounds::max_replicas(int stages) const {
  return static_cast<int>(rates_.size()) / stages;
}

/// Least possible number of micro-batches of the pipeline that has the most.
int IterationBounds::micro_batches(int stages, int replicas) const {
  const int multiple = traits(model_.schedule).in_rounds ? stages : 1;
  return multiple * static_cast<int>(divide_rounding_up(micro_batches_, replicas * multiple));
}

/// Necessary conditions for fitting in memory: every pipeline holds the state of all layers; the pipeline
/// with the most micro-batches also holds the activations of those in flight (under gpipe all between two
/// flushes, otherwise at least one); and one stage holds the largest layer. If the job leaves `flush` open, a
/// plan may flush after every micro-batch.
bool IterationBounds::may_fit(int stages, int replicas) const {
  const int max_micro_batches = micro_batches(stages, replicas);
  const int max_in_round =
      model_.flush > 0 ? std::min(model_.flush, max_micro_batches) : std::min(1, max_micro_batches);
  const int in_flight =
      traits(model_.schedule).forwards_first ? max_in_round : std::min(1, max_micro_batches);
  return largest_layer_ <= memory_sums_[1] &&
         state_ + in_flight * per_micro_batch_ <= memory_sums_[at(stages)] * (1 + rounding) &&
         replicas * state_ <= memory_sums_[at(stages * replicas)] * (1 + rounding);
}

int IterationBounds::min_stages() const {
  for (int stages = 1; stages <= max_stages(); ++stages)
    for (int replicas = 1; replicas <= max_replicas(stages); ++replicas)
      if (may_fit(stages, replicas)) return stages;
  return 0;
}

/// Lower bound on the seconds per micro-batch of the slowest stage: an equal share of all work; the longest
/// of `stages` pieces of the chain; or, with several chunks, the largest layer, and as many of the smallest
/// layers as the stage with the most layers has at least. A single stage computes all layers on one device.
double IterationBounds::stage_s(const WorkBound& work_bound, double balanced, int stages) const {
  if (stages == 1) return work_bound.single_device_s;
  const double share = balanced / rate_sums_[at(stages)];
  if (model_.chunks == 1) return std::max(share, work_bound.longest_piece_s[at(stages)]);
  const auto layers = static_cast<std::size_t>(divide_rounding_up(layers_, stages));
  return std::max({share, work_bound.sorted_s.back(), work_bound.smallest_sums_s[layers]});
}

/// Communication of one micro-batch, s: it crosses all hops forward and backward.
double IterationBounds::hops_s(int stages) const {
  if (stages == 1) return 0;
  const double around = (model_.chunks - 1) * hop_.max_edge(2);
  return model_.chunks * hop_.sum(stages) + around + 4 * compression_s_ * (stages * model_.chunks - 1);
}

/// If the schedule splits the backward, only the forward of the path is counted, because weight gradients are
/// computed in parallel to it.
double IterationBounds::micro_batch_path_s(int stages, double min_hops_s) const {
  const WorkBound& work =
      traits(model_.schedule).splits_backward ? layer_times_.forward : layer_times_.forward_backward;
  return (stages == 1 ? work.single_device_s : work.sum_s) + std::max(hops_s(stages), min_hops_s);
}

/// Lower bound on the time of m micro-batches including pipeline fill. Before its first forward, stage s
/// waits for the first forwards and hops of the preceding stages, and after its last backward they still have
/// to finish theirs: h(s) for the hops, plus their compute. In between it computes its own work m times. Let
/// z be the weighted work of the preceding stages, q the rate of a stage (the most weighted work per second),
/// and c = 1 ÷ the largest q, so that work z takes at least c z. Then work x of the next stage requires m x ÷
/// q ≤ T − h − c z, so z grows by at most q (T − h − c z) ÷ m. The new z increases with the old one and with
/// q, and is largest if the larger q come first. The result is the least T for which z reaches all work, by
/// bisection.
double IterationBounds::fill_time_s(int stages, int micro_batches) const {
  // Under interleaved only the first chunk of the preceding stages must be done, which may be small.
  const double c = traits(model_.schedule).has_chunks ? 0 : 1 / rates_.front();
  const auto reached = [&](double time) {
    double work = 0;
    for (int stage = 0; stage < stages; ++stage)
      work += std::max(0.0, rates_[at(stage)] * (time - hop_.sum(stage + 1) - c * work) / micro_batches);
    return work;
  };
  double low = micro_batches * balanced_.forward_backward / rate_sums_[at(stages)];
  if (traits(model_.schedule).splits_backward) return low;  // weight gradients are computed while others wait
  double high = low + micro_batch_path_s(stages) + hop_.sum(stages) + stages * balanced_.forward_backward * c;
  if (!(reached(high) >= balanced_.forward_backward)) return low;
  for (int step = 0; step < 50; ++step) {
    const double middle = (low + high) / 2;
    (reached(middle) < balanced_.forward_backward ? low : high) = middle;
  }
  return low;
}

/// Like `fill_time_s` for all micro-batches of several pipelines, counting only the hops: until time T the
/// stages do at most Σ q (T − h) of the work. The largest q come first, and for given T the sum is its
/// maximum over all prefixes of the stages.
double IterationBounds::total_fill_s(int stages, int pipelines) const {
  double min_s = std::numeric_limits<double>::infinity(), waits = 0;
  const bool is_split = traits(model_.schedule).splits_backward;
  for (int stage = 0; stage < stages; ++stage) {
    const double rates = rate_sums_[at((stage + 1) * pipelines)];
    if (!is_split) waits += (rates - rate_sums_[at(stage * pipelines)]) * hop_.sum(stage + 1);
    min_s = std::min(min_s, (micro_batches_ * balanced_.forward_backward + waits) / rates);
  }
  return min_s;
}

/// Lower bound for one pipeline with m micro-batches in k rounds that end with a flush. If m micro-batches
/// pass a resource (stage or hop) one after another, the pipeline takes at least the latency of one
/// micro-batch plus (m − 1) times the resource's own time. Under gpipe this holds for forward followed by
/// backward; otherwise for forward or for backward. Under 1f1b the first of S stages has at most S
/// micro-batches in flight.
IterationBounds::Part IterationBounds::slowest_pipeline(int stages, int micro_batches) const {
  const double rounds = model_.flush > 0 ? divide_rounding_up(micro_batches, model_.flush) : 1;
  const double path_s = micro_batch_path_s(stages), after_first = micro_batches - rounds,
               hop = hop_busy_.max_edge(stages);
  const double forward = stage_s(layer_times_.forward, balanced_.forward, stages),
               backward = stage_s(layer_times_.backward, balanced_.backward, stages);
  std::vector<Part> parts = {
      {micro_batches * stage_s(layer_times_.forward_backward, balanced_.forward_backward, stages),
       "compute of the slowest stage"},
      {fill_time_s(stages, micro_batches), "perfectly balanced compute after the pipeline fill"},
      {rounds * path_s + after_first * hop, "latency of a micro-batch and the slowest hop"}};
  if (traits(model_.schedule).forwards_first) {
    parts.push_back({rounds * path_s + after_first * (forward + backward),
                     "latency of a micro-batch and the slowest stage"});
  } else {
    const double layer =
        std::max(layer_times_.forward.sorted_s.back(), layer_times_.backward.sorted_s.back());
    const double stage = traits(model_.schedule).splits_backward ? forward
                         : model_.chunks > 1                     ? layer
                                                                 : std::max(forward, backward);
    parts.push_back(
        {rounds * path_s + after_first * stage, "latency of a micro-batch and the slowest stage"});
  }
  if (model_.schedule == Schedule::one_f_one_b)
    parts.push_back({path_s * std::max(rounds, static_cast<double>(micro_batches) / stages),
                     "latency of a micro-batch, with as many in flight as there are stages"});
  return *std::max_element(parts.begin(), parts.end(),
                           [](const Part& a, const Part& b) { return a.value < b.value; });
}

/// Lower bound for all pipelines. At most as many of them compute as there are micro-batches, and one has at
/// least an equal share. Under gpipe every pipeline takes T ≥ latency + (m − 1) x, with x the seconds of its
/// slowest stage, forward and backward. The rates of its stages sum to at least Y ÷ x, with Y all work.
/// Summed over all R computing pipelines: (M − R) Y ≤ (T − latency) Σ q.
IterationBounds::Part IterationBounds::pipelines(int stages, int replicas) const {
  const int computing = std::max(1, std::min(replicas, micro_batches_));
  Part slowest = slowest_pipeline(stages, micro_batches(stages, computing));
  const auto take = [&](const Part& other) {
    if (other.value > slowest.value) slowest = other;
  };
  take({total_fill_s(stages, computing), "perfectly balanced compute"});
  if (traits(model_.schedule).forwards_first)
    take({micro_batch_path_s(stages) +
              (micro_batches_ - computing) * balanced_.forward_backward / rate_sums_[at(stages * computing)],
          "latency of a micro-batch and perfectly balanced compute"});
  return slowest;
}

/// Like `pipelines`, if the first stage of all pipelines ends before layer `cut`: first stages compute the
/// layers before it, the other stages the layers from it on.
double IterationBounds::cut_pipelines_s(int stages, int replicas, int cut) const {
  const int computing = std::max(1, std::min(replicas, micro_batches_));
  const int max_micro_batches = micro_batches(stages, computing);
  const double before = balanced_.forward_backward_prefix[at(cut)],
               behind = balanced_.forward_backward - before;
  const auto of_stages = [&](int pipelines) {
    const double first = before / rate_sums_[at(pipelines)];
    return stages > 1 ? std::max(first, behind / rate_sums_[at((stages - 1) * pipelines)]) : first;
  };
  if (!traits(model_.schedule).forwards_first)
    return std::max(micro_batches_ * of_stages(computing), max_micro_batches * of_stages(1));
  const double rounds = model_.flush > 0 ? divide_rounding_up(max_micro_batches, model_.flush) : 1,
               path_s = micro_batch_path_s(stages);
  return std::max(path_s + (micro_batches_ - computing) * of_stages(computing),
                  rounds * path_s + (max_micro_batches - rounds) * of_stages(1));
}

/// If all pipelines have the same first stage, its gradients are synchronized after all of them have
/// computed. The fewer layers it has, the more remain for the other stages. Returns the minimum over all
/// cuts.
IterationBounds::Part IterationBounds::partition_and_sync_bound(int stages, int replicas,
                                                                double computed_s) const {
  double min_s = std::numeric_limits<double>::infinity();
  for (int cut = stages == 1 ? layers_ : 1; cut <= layers_ - (stages - 1); ++cut)
    min_s = std::min(min_s, std::max(computed_s, cut_pipelines_s(stages, replicas, cut)) +
                                compressed_sync_s(replicas, min_gradient_bytes({0, cut})));
  return {min_s + layer_times_.first_update_s,
          "then gradient synchronization of the first stage over the best links"};
}

/// Every device computes, synchronizes its gradients where that cannot overlap with compute (with common cuts
/// each device takes part in one synchronization), and updates its layers. T Σ q is at least all of this work
/// in weighted terms; synchronization is weighted by the device's own rate, which is at least the smallest
/// one.
IterationBounds::Part IterationBounds::work_part(int stages, int replicas, Cuts cuts) const {
  double work = micro_batches_ * balanced_.forward_backward + replicas * balanced_.update;
  const double rates = rate_sums_[at(stages * replicas)];
  if (cuts == Cuts::any || replicas < 2)
    return {work / rates, "perfectly balanced compute and optimizer updates"};
  work += replicas * min_rate_ * sync_s_per_byte(replicas) * gradient_bytes_;
  return {work / rates, "perfectly balanced compute, gradient synchronization and optimizer updates"};
}

/// The gradients of the first layer become available last: they are synchronized after all pipelines have
/// computed, and then the layer is updated. If the backward is split, other stages may compute weight
/// gradients after that, so they are synchronized only after the path of a micro-batch. The gradients of the
/// largest layer, or of the largest range between the cuts of all pipelines, are synchronized after at least
/// one forward pass.
IterationBound IterationBounds::for_shape(int stages, int replicas, Cuts cuts) const {
  DTFM_ASSERT(stages > 0 && replicas > 0 && stages <= max_stages() && replicas <= max_replicas(stages));
  const double overhead = model_.problem.constants.iteration_overhead_s;
  const bool overlaps = model_.problem.job.execution.overlap || model_.chunks > 1;
  const Part computed = pipelines(stages, replicas);
  const bool is_split = traits(model_.schedule).splits_backward;
  const double first_ready_s = is_split ? micro_batch_path_s(stages) : computed.value;
  IterationBound bound{std::max(computed.value, first_ready_s + layer_times_.first_update_s), computed.method,
                       may_fit(stages, replicas)};
  const auto take = [&](const Part& part) {
    if (!(part.value > bound.value)) return;
    bound.value = part.value;
    bound.method = part.method;
  };
  if (replicas > 1) {
    bound.value = std::max(computed.value, first_ready_s + layer_times_.first_update_s +
                                               compressed_sync_s(replicas, first_gradient_bytes_));
    bound.method += ", then gradient synchronization of the first layer over the best links";
    const int pieces = (cuts == Cuts::common ? 1 : replicas) * (stages * model_.chunks - 1) + 1;
    const bool by_layer = model_.problem.job.execution.overlap;
    const double bytes = std::max(largest_gradient_bytes_, by_layer ? 0 : gradient_bytes_ / pieces);
    take({layer_times_.forward.sum_s + compressed_sync_s(replicas, bytes),
          "one forward pass, then gradient synchronization of one stage over the best links"});
    if (cuts == Cuts::common && !overlaps && !is_split) {
      const Part cut = partition_and_sync_bound(stages, replicas, computed.value);
      if (cut.value > bound.value)
        bound = {cut.value, computed.method + (", " + std::string(cut.method)), bound.fits};
    }
  }
  take(work_part(stages, replicas, overlaps ? Cuts::any : cuts));
  bound.value = (bound.value + overhead) * (1 - rounding);
  if (overhead > 0) bound.method += ", plus the iteration overhead";
  return bound;
}

}  // namespace dtfm::cost
