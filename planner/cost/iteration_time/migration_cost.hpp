// State that must migrate before another plan can resume training, and how long that takes.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::cost {

/// In the running plan: a device that is gone. As a source: a checkpoint.
inline constexpr int no_device = -1;
/// As a source, without a network to choose one by: any device that holds the state.
inline constexpr int unspecified_source = -2;

/// State of some layers that device `to` must fetch, and its source.
struct MigratedPart {
  int to = 0, from = no_device;
  std::pair<int, int> layers;
  double bytes = 0;

  friend bool operator==(const MigratedPart&, const MigratedPart&) = default;
};

/// Duration and cost of a migration.
struct MigrationEstimate {
  double seconds = 0;
  double usd = 0;  // egress
};

struct Migration {
  std::vector<MigratedPart> parts;  // in the order of the plan's devices
  double bytes = 0;                 // between devices
  double checkpoint_bytes = 0;      // that no device holds any more; not included in seconds and usd
  double seconds = 0, usd = 0;      // of the bytes between devices
};

/// State that the devices hold when the plan `before` stops, of what a trainer needs to resume with the same
/// weights.
///
/// Per parameter, that is what the optimizer preset saves (`parameter_bytes(…).checkpointed`): weights in
/// full precision and optimizer state. Gradients start anew in every iteration, and 16-bit weights are
/// rounded from the full ones, so neither migrates. Of a stage with t tensor-parallel devices, the device at
/// rank r holds the r-th of t shares of every layer. The matrix that tied layers share is held once by every
/// device that has one of them.
///
/// A device fetches missing state from the device that would send it fastest without contention; pipelines
/// take turns among equally fast ones.
class MigrationCost {
 public:
  /// `before` uses devices of the problem's topology or `no_device`. Its pipelines may be heterogeneous, and
  /// its tensor degree may differ from that of later plans. `chunks`: stages per device, under schedule
  /// interleaved. `problem` need only live during the call. Without a network, the bytes that migrate are
  /// known, but neither their sources nor the time. Throws Error for layers that cannot be split into so many
  /// chunks.
  MigrationCost(const Problem& problem, std::shared_ptr<const NetworkCost> network, const Plan& before,
                int chunks);

  Migration of(const Plan& plan, int chunks) const;
  /// Upper bound on the holders that are examined to find sources for a plan with `devices` devices: a device
  /// without any state asks all holders of every piece for every share of it.
  double max_steps(int devices) const;
  /// Bytes that the devices of a stage with these layers must fetch.
  double missing_bytes(const std::vector<int>& devices, const std::vector<std::pair<int, int>>& layers) const;

 private:
  friend class MigrationTimer;
  using Layers = std::pair<int, int>;
  struct Share {
    double begin = 0, end = 1;  // of every layer
  };
  struct Receiver {
    int device = 0, pipeline = 0;
    Share share;
  };
  struct HeldLayers {
    int device = 0;
    Layers layers;
    Share share;
    bool has_tied = false;
  };
  /// What is held and migrated as a whole, apart from shares: layers that the same devices hold, or the
  /// matrix of the tied layers.
  struct Piece {
    Layers layers;
    double bytes = 0;
    bool is_tied = false;
  };

  static Share share_of(const Stage& stage, std::size_t rank);
  static bool holds(const HeldLayers& held_layers, const Piece& piece);
  /// The first of these layers that shares the tied matrix; `layers.second` if none does.
  int first_tied(Layers layers) const;
  int next_boundary(int layer) const;
  /// Index of the last boundary that is not after `layer`.
  std::size_t boundary_at(int layer) const;
  std::span<const HeldLayers> holders(const Piece& piece) const;
  void add_holder(const HeldLayers& held_layers, std::vector<HeldLayers>& holders) const;
  /// Adds the parts of `layers` that a device must fetch.
  void add_parts(const Receiver& to, const std::vector<Layers>& layers,
                 std::vector<MigratedPart>& parts) const;
  void add_piece(const Receiver& to, const Piece& piece, std::vector<MigratedPart>& parts) const;
  void add_share(const Receiver& to, Share share, const Piece& piece, std::vector<MigratedPart>& parts) const;
  const HeldLayers* fastest(const Receiver& to, double at_share, const Piece& piece, double bytes) const;

  std::shared_ptr<const NetworkCost> network_;
  std::vector<HeldLayers> held_layers_;  // device by device
  // By device: first, last + 1 in held_layers_.
  std::vector<std::pair<std::size_t, std::size_t>> held_layers_of_;
  std::vector<int> boundaries_;                   // layers at which held ranges begin or end, ascending
  std::vector<std::vector<HeldLayers>> holders_;  // by boundary: of the layers up to the next one
  std::vector<HeldLayers> tied_holders_;
  std::vector<double> before_bytes_;  // prefix sums over layers, without the tied matrix
  std::vector<int> tied_layers_;      // ascending, starting with the first layer
  double tied_bytes_ = 0;
};

/// Migration time to a plan that changes step by step; unchanged stages are cached.
///
/// All messages from one device to another are sent as one, and all start together. A message takes its
/// overhead, the time of its bytes at its own rate, or of all bytes that cross the narrowest shared capacity
/// on its path if that is longer, and its latency. The slowest message counts. This is exact without
/// contention. With contention, it is a lower bound given by the busiest capacity; capacities on one path
/// that are busy one after the other make the migration longer, at most by a factor of their number. The
/// checkpoint, reading and writing memory, and fetching layers from several holders in parallel are not
/// modelled.
class MigrationTimer {
 public:
  /// `cost` must outlive this and must have a network.
  MigrationTimer(const MigrationCost& cost, int chunks) : cost_(cost), chunks_(chunks) {}

  MigrationEstimate estimate(const Plan& plan);
  double seconds(const Plan& plan) { return estimate(plan).seconds; }

 private:
  struct Message {
    int from = 0, to = 0;
    double bytes = 0;
  };
  struct StageMessages {
    std::vector<int> devices;
    std::vector<std::pair<int, int>> layers;
    std::vector<Message> messages;
  };
  void refresh(const Plan& plan);
  void find_messages(const Stage& stage, int pipeline, StageMessages& known);
  double migration_s(const Message& message) const;

  const MigrationCost& cost_;
  int chunks_;
  std::vector<std::vector<StageMessages>> known_;  // [pipeline][stage]
  std::vector<double> load_;                       // bytes by capacity id
};

}  // namespace dtfm::cost
