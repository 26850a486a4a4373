// Contributions of a stage or a hop to the time of pipelines, for any layers: the terms of best_layer_split.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "planner/cost/iteration_time/in_flight.hpp"
#include "planner/cost/iteration_time/layer_split.hpp"

namespace dtfm::cost {

/// Time of several resources: k Σ, (m − k) max forward, (m − k) max backward, as in best_layer_split. Under
/// schedules other than gpipe, `forward` covers both directions.
struct ResourceTime {
  double sum = 0, forward = 0, backward = 0;

  double total() const { return sum + forward + backward; }
  bool dominates(const ResourceTime& other) const {
    return sum <= other.sum && forward <= other.forward && backward <= other.backward;
  }
};

class LayerSplitCosts {
 public:
  LayerSplitCosts(const IterationModel& model, const std::vector<StageChain>& pipelines, int replicas);

  int stages() const { return static_cast<int>(stage_resources_.size()); }
  int layers() const { return model_.stages.layers(); }
  /// Minimum number of layers of a stage.
  int min_layers() const { return chunks_; }

  ResourceTime stage(int stage, std::pair<int, int> layers) const;
  /// The hop after a stage that ends before layer `end`; zero after the last stage.
  ResourceTime hop(int stage, int end) const { return hops_[at_hop(stage, end)]; }
  /// Adds a stage, which takes `own`, and the hop after it to the time.
  void append(ResourceTime& time, const ResourceTime& own, int stage, int end) const;
  void append(ResourceTime& time, int stage, std::pair<int, int> layers) const {
    append(time, this->stage(stage, layers), stage, layers.second);
  }
  /// Steady state as the mean of all stages, whose `ResourceTime::sum` is `sum`.
  double mean_of_all(double sum) const { return sum * mean_weight_ / stages(); }
  /// A stage with more layers takes less than one with fewer by at most this, because compression time
  /// differs between boundaries.
  double compression_slack() const { return compression_slack_; }

  /// Memory needed / capacity of the device where that is highest. Above 1, the stage does not fit.
  double memory_utilization(int stage, std::pair<int, int> layers);

 private:
  struct Weights {  // k and m − k
    double rounds = 0, steady = 0;
    friend bool operator==(const Weights&, const Weights&) = default;
  };
  struct CompressedShares {  // fractions of a boundary's messages that take compression or decompression
    double forward = 0, backward = 0;
    friend bool operator==(const CompressedShares&, const CompressedShares&) = default;
  };
  struct StageResource {  // of one pipeline, or of several equal ones
    Weights weights;
    std::size_t degree = 1;
    std::vector<int> kinds;
    std::array<std::vector<ExchangeLimit>, exchange_kinds.size()> limits;  // by kind
    CompressedShares before, behind;
    friend bool operator==(const StageResource&, const StageResource&) = default;
  };
  struct Limit {
    std::size_t degree = 1;
    InFlightMicroBatches held;
    double capacity = 0;
  };
  struct HopKind {  // all of them take equally long
    Weights weights;
    int parts = 1;
    std::vector<std::array<int, 3>> ends;  // kinds of sender and receiver, and whether they are on one host
    friend bool operator==(const HopKind&, const HopKind&) = default;
  };
  std::size_t at_hop(int stage, int end) const;
  void add_stage(int stage, const Weights& weights, const StageChain& chain);
  void add_limit(const IterationModel& model, int stage, int micro_batches, const std::vector<int>& devices);
  void add_hop(int stage, const Weights& weights, const std::vector<int>& from, const std::vector<int>& to);
  ResourceTime resource_time(const Weights& weights, double forward_s, double backward_s) const;
  std::vector<std::pair<int, int>> chunks_of(std::pair<int, int> layers) const;
  std::vector<StageNeeds> needs_of(const StageCosts& costs, std::pair<int, int> layers, int recomputed) const;
  /// Number of recomputed layers of every chunk of a stage: with Recomputation::as_needed or offload, the
  /// fewest with which all pipelines fit.
  int recomputed_of(int stage, std::pair<int, int> layers) const;

  const IterationModel& model_;
  const Schedule schedule_;
  const int chunks_;
  const int replicas_;  // that partition the state of every layer
  double mean_weight_ = 0, compression_slack_ = 0;
  std::vector<std::vector<StageResource>> stage_resources_;  // by stage
  std::vector<std::vector<Limit>> limits_;                   // by stage
  InFlightByDevice held_;
  std::vector<std::vector<HopKind>> hop_kinds_;  // by stage
  std::vector<ResourceTime> hops_;               // [stage][end]
  // Cache of the memory of stages that begin with layer `row_`, by tensor degree, end and chunk.
  int row_ = -1;
  using NeedsByDegree = std::vector<std::vector<std::vector<StageNeeds>>>;
  NeedsByDegree needs_, needs_of_none_;  // the latter if no layer is recomputed
};

}  // namespace dtfm::cost
