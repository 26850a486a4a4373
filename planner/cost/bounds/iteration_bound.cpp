#include "planner/cost/bounds/iteration_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/cost/bounds/load_balance_bound.hpp"
#include "planner/cost/bounds/message_bounds.hpp"

namespace dtfm::cost {
namespace {

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
      collective_messages_(model, stop_),
      message_fixed_(collective_messages_.min_message_costs(devices_, stop_)),
      message_per_byte_(collective_messages_.min_byte_costs(devices_, stop_)),
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
      const MessageCost cost = collective_messages_.fastest(from, to);
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
    if (layer == 0) first_gradient_bytes_ = gradients;
    // With a bandwidth threshold, a hop over a fast link is not compressed.
    if (layer > 0 && !model_.problem.job.execution.compression.bandwidth_threshold)
      compression_s_ =
          layer == 1 ? costs.compression_s(layer) : std::min(compression_s_, costs.compression_s(layer));
  }
}

/// Lower bounds on the times of every layer on one kind of device: its own compute time and, with tensor
/// parallelism, the all-reduces over the best links, unless the compute time contains them.
DeviceKindTimes IterationBounds::times_of(const StageCosts& costs, int kind) const {
  DeviceKindTimes it;
  const bool reduces = costs.tensor() > 1 && !costs.includes_all_reduces(kind);
  for (int layer = 0; layer < layers_; ++layer) {
    const std::pair<int, int> one{layer, layer + 1};
    const ComputeTime time = costs.compute(kind, one);
    const StageCosts::AllReduces there = costs.all_reduces(one, false), back = costs.all_reduces(one, true);
    it.forward_s.push_back(time.forward_s + (reduces ? message_s(there.messages, there.bytes) : 0));
    it.backward_s.push_back(time.backward_s + (reduces ? message_s(back.messages, back.bytes) : 0));
    // The increment for a stage that begins at the first layer, so that tied parameters are updated only
    // once.
    it.update_s.push_back(
        (costs.compute(kind, {0, layer + 1}).update_s - costs.compute(kind, {0, layer}).update_s) /
        (model_.sharding.optimizer ? max_replicas() : 1));
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
  const int most = max_replicas();  // with which a device needs least
  // Every device needs this whatever it holds, so it is subtracted from its memory.
  const double process = model_.problem.constants.process_memory_bytes;
  state_ = costs.needs({0, layers_}, most).state;
  // Per device of a stage at the largest degree. A stage at the smallest degree holds the fewest copies of
  // what tensor parallelism replicates.
  const StageCosts& fewest = model_.by_degree.front();
  per_micro_batch_ = fewest.needs({0, layers_}, most).per_micro_batch * model_.smallest_degree_share();
  state_before_ = {0};
  for (int layer = 0; layer < layers_; ++layer) {
    // The increment for a stage that begins at the first layer, so that tied parameters count only once.
    const double state = costs.needs({0, layer + 1}, most).state - costs.needs({0, layer}, most).state;
    state_before_.push_back(state_before_.back() + state);
    const double working = fewest.needs({layer, layer + 1}, most).working - process;
    largest_layer_ = std::max(largest_layer_, state + working * model_.smallest_degree_share());
  }
  // Memory is counted per device of a stage at the largest degree, as the needs are. A stage at a smaller
  // degree has less, so the bound stays valid; each device contributes 1 ÷ the largest degree.
  std::vector<double> memory, shares;
  for (const int device : devices_) {
    const int gpu = model_.problem.topology->devices[at(device)].gpu;
    memory.push_back(gpu < 0
                         ? std::numeric_limits<double>::infinity()
                         : std::max(0.0, model_.problem.topology->gpus[at(gpu)].memory.value() - process));
    shares.push_back(memory.back() / tensor_);
  }
  memory_sums_ = prefix_sums(max_of_stages(memory, shares));
}

int IterationBounds::max_stages() const {
  if (model_.sharding.gradients) return 1;
  return std::min(static_cast<int>(rates_.size()), layers_ / model_.chunks);
}

/// Largest possible number of replicas of a layer.
int IterationBounds::max_replicas() const {
  return std::max(1, static_cast<int>(devices_.size()) / model_.by_degree.front().tensor());
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
  const int in_flight = traits(model_.schedule).forwards_first && !model_.sharding.gradients
                            ? max_in_round
                            : std::min(1, max_micro_batches);
  return largest_layer_ <= memory_sums_[1] &&
         state_ + in_flight * per_micro_batch_ <= memory_sums_[at(stages)] * (1 + bisection_precision) &&
         replicas * state_ <= memory_sums_[at(stages * replicas)] * (1 + bisection_precision);
}

int IterationBounds::min_stages() const {
  for (int stages = 1; stages <= max_stages(); ++stages)
    for (int replicas = 1; replicas * stages <= static_cast<int>(rates_.size()); ++replicas)
      if (may_fit(stages, replicas)) return stages;
  return 0;
}

/// Lower bound on the seconds per micro-batch of the slowest device, which has several chunks: an equal share
/// of all work.
double IterationBounds::slowest_device_s(int devices) const {
  return balanced_.forward_backward / rate_sums_[at(devices)];
}

/// Lower bound on the time of one micro-batch: it passes all stages and hops, forward and backward. If the
/// schedule splits the backward, only the forward of the path is counted, because weight gradients are
/// computed in parallel to it. The hops take at least `min_hops_s`.
double IterationBounds::micro_batch_path_s(int stages, double min_hops_s) const {
  const WorkBound& work =
      traits(model_.schedule).splits_backward ? layer_times_.forward : layer_times_.forward_backward;
  return work.sum_s + std::max(hop_.sum(stages) + 4 * compression_s_ * (stages - 1), min_hops_s);
}

}  // namespace dtfm::cost
