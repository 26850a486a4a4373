// What of a machine is not in its data sheet: few numbers, fitted once to measured runs
// (configs/simulator.yaml).
#pragma once

namespace dtfm {

struct SimConstants {
  double compute_efficiency =
      1;  // FLOP/s of a layer ÷ the peak of the GPU; a job's own efficiency replaces it
  double message_overhead_s = 0;    // of every message between hosts, before its first byte
  double network_efficiency = 1;    // bytes of tensors ÷ bytes that the link could carry
  double iteration_overhead_s = 0;  // of every iteration, once: the optimizer's step, the loader, barriers
};

}  // namespace dtfm
