// What has to move before one plan can go on where another one stopped, and how long that takes.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::cost {

/// In the plan that runs: a device that is gone. As a source: a checkpoint.
inline constexpr int no_device = -1;
/// As a source, where there is no network to choose it by: one of those that hold it.
inline constexpr int unspecified_source = -2;

/// Layers of which device `to` lacks something, and where it gets that from.
struct MigratedPart {
  int to = 0, from = no_device;
  std::pair<int, int> layers;
  double bytes = 0;

  friend bool operator==(const MigratedPart&, const MigratedPart&) = default;
};

/// What moving takes.
struct MigrationEstimate {
  double seconds = 0;
  double usd = 0;  // for what is sent over links with a price
};

struct Migration {
  std::vector<MigratedPart> parts;  // in the order of the plan's devices
  double bytes = 0;                 // from device to device
  double checkpoint_bytes = 0;      // that no device holds any more; not in what is spent
  double seconds = 0, usd = 0;      // spent
};

/// The state that the devices hold when the plan `before` stops: what a trainer needs to go on with the same
/// weights.
///
/// Of a parameter that is what the optimizer's preset saves (`parameter_bytes(…).saved`): weights in full
/// precision and the optimizer's state. Gradients begin anew with an iteration, and weights in 16 bits are
/// rounded from the full ones, so they do not move. A device of a stage with t tensor-parallel devices holds
/// the t-th of every layer that stands at its place. The matrix that tied layers share is held once by
/// whoever has one of them.
///
/// A device fetches what it lacks from the one that would send it that fastest if nothing competed; of
/// equally fast ones, pipelines take them in turn.
class MigrationCost {
 public:
  /// `before` stands on devices of the problem's topology, or on `no_device`; its pipelines need not be
  /// alike, and it may be for another tensor degree. `chunks`: stages of a device, under schedule
  /// interleaved. `problem` must outlive this only during the call. Without a network, what moves is known,
  /// but neither from whom nor in what time. Throws Error for layers that cannot be cut into so many chunks.
  MigrationCost(const Problem& problem, std::shared_ptr<const NetworkCost> network, const Plan& before,
                int chunks);

  Migration of(const Plan& plan, int chunks) const;
  /// How often a holder is looked at, at most, to find sources for a plan on so many devices: a device that
  /// lacks everything asks for every share of every piece, of all that hold the piece.
  double max_steps(int devices) const;
  /// Bytes that the devices of a stage with these layers lack.
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
  /// What is held and moved as a whole, but for shares: layers that the same devices hold, or what tied
  /// layers have in common.
  struct Piece {
    Layers layers;
    double bytes = 0;
    bool is_tied = false;
  };

  static Share share_of(const Stage& stage, std::size_t rank);
  static bool holds(const HeldLayers& held_layers, const Piece& piece);
  /// The first layer of those that shares the tied matrix; `layers.second` where there is none.
  int first_tied(Layers layers) const;
  int next_boundary(int layer) const;
  /// The last boundary that is not after `layer`.
  std::size_t boundary_at(int layer) const;
  std::span<const HeldLayers> holders(const Piece& piece) const;
  void add_holder(const HeldLayers& held_layers, std::vector<HeldLayers>& holders) const;
  /// What a device lacks of `layers`.
  void add_parts(const Receiver& to, const std::vector<Layers>& layers,
                 std::vector<MigratedPart>& parts) const;
  void add_piece(const Receiver& to, const Piece& piece, std::vector<MigratedPart>& parts) const;
  void add_share(const Receiver& to, Share share, const Piece& piece, std::vector<MigratedPart>& parts) const;
  const HeldLayers* fastest(const Receiver& to, double at_share, const Piece& piece, double bytes) const;

  std::shared_ptr<const NetworkCost> network_;
  std::vector<HeldLayers> held_layers_;                              // what devices hold, device by device
  std::vector<std::pair<std::size_t, std::size_t>> held_layers_of_;  // of each device: first, last + 1
  std::vector<int> boundaries_;                   // layers at which runs begin or end, ascending
  std::vector<std::vector<HeldLayers>> holders_;  // from each boundary to the next
  std::vector<HeldLayers> tied_holders_;
  std::vector<double> before_bytes_;  // of the layers before each, without what is tied
  std::vector<int> tied_layers_;      // ascending, the first layer among them
  double tied_bytes_ = 0;
};

/// Seconds of moving to a plan that changes step by step: stages that are as they were cost nothing to look
/// at.
///
/// The messages of a device to another go as one. All begin at once; a message takes its overhead, the time
/// of its bytes at its own rate, or of all bytes that pass the narrowest shared capacity on its way, if that
/// is longer, and its latency. The slowest counts. Where nothing competes that is exact; where messages
/// share, it is what the busiest capacity needs at least, and capacities on one way that are busy one after
/// the other make it longer: at most by as many times as there are of them. It leaves out the checkpoint,
/// reading and writing memory, and that layers could come from several holders at once.
class MigrationTimer {
 public:
  /// `cost` must outlive this.
  MigrationTimer(const MigrationCost& cost, int chunks) : cost_(cost), chunks_(chunks) {}

  MigrationEstimate estimate(const Plan& plan);
  double seconds(const Plan& plan) { return estimate(plan).seconds; }

 private:
  struct Message {
    int from = 0, to = 0;
    double bytes = 0;
  };
  struct StageMessages {  // of a stage
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
  std::vector<double> load_;                       // bytes over shared capacities
};

}  // namespace dtfm::cost
