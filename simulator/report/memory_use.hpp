// What the devices hold in memory, over time.
#pragma once

#include <functional>
#include <vector>

#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// Bytes on one device for one of its stages.
struct StageMemory {
  double state = 0;       // weights, gradients, optimizer: in every stretch in which the device has the stage
  double activation = 0;  // of a micro-batch, with its boundary buffers: from the start of its forward to the
                          // end of its backward
  double working = 0;     // while it computes, or waits for the all-reduces of what it has computed
};

using StageMemoryOf = std::function<StageMemory(int device, int stage)>;

/// From `date` on, `device` holds `bytes`.
struct MemoryStep {
  double date = 0;
  int device = 0;
  double bytes = 0;
};

/// Of one stretch: by date, then device; at one date a device has one step at most, in which what it
/// frees is free before it takes more. A device that computes nothing in the stretch has none.
std::vector<MemoryStep> memory_steps(const RunInterval& run_interval, const StageMemoryOf& memory_of);

class MemoryUse : public RunObserver {
 public:
  MemoryUse(int devices, StageMemoryOf memory_of)
      : memory_of_(std::move(memory_of)), peaks_(static_cast<std::size_t>(devices)) {}
  void on_interval(const RunInterval& run_interval) override;
  /// Every device has to hold the state of its stages, whether it ever computes or not.
  void place(const Plan& plan) override;
  /// Bytes, of each device.
  const std::vector<double>& peaks() const { return peaks_; }

 private:
  StageMemoryOf memory_of_;
  std::vector<double> peaks_;
};

}  // namespace dtfm::sim
