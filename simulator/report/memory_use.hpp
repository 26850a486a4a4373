// Memory use of the devices over time.
#pragma once

#include <functional>
#include <vector>

#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// Bytes on one device for one of its stages.
struct StageMemory {
  /// Weights, gradients and optimizer state, held in every interval in which the device has the stage.
  double state = 0;
  /// Activations and boundary buffers of a micro-batch, held from the start of its forward pass to the end of
  /// its backward pass, of both parts if the schedule splits it.
  double activation = 0;
  /// Working memory, held while the device computes or waits for the all-reduces of a computation.
  double working = 0;
};

using StageMemoryOf = std::function<StageMemory(int device, int stage)>;

/// From time `date` (s) on, `device` holds `bytes`.
struct MemoryStep {
  double date = 0;
  int device = 0;
  double bytes = 0;
};

/// The memory steps of one interval, ordered by time, then device. A device has at most one step per time, to
/// the net result of what it frees and allocates then. A device that neither computes nor holds a micro-batch
/// in the interval has no steps. Throws WorkStopped.
std::vector<MemoryStep> memory_steps(const RunInterval& run_interval, const StageMemoryOf& memory_of);

class MemoryUse : public RunObserver {
 public:
  MemoryUse(int devices, StageMemoryOf memory_of)
      : memory_of_(std::move(memory_of)), peaks_(static_cast<std::size_t>(devices)) {}
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  /// Counts the state of the stages of every device, which it must hold even if it never computes.
  void place(const Plan& plan) override;
  /// The peak memory use of each device in bytes.
  const std::vector<double>& peaks() const { return peaks_; }

 private:
  StageMemoryOf memory_of_;
  std::vector<double> peaks_;
};

}  // namespace dtfm::sim
