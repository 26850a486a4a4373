// What of a machine is not in its data sheet: few numbers, fitted once to measured runs
// (configs/calibration.yaml).
#pragma once

namespace dtfm {

struct Calibration {
  double compute_scale = 1;         // time of a layer ÷ that of its profile or estimate
  double message_overhead_s = 0;    // of every message between hosts, before its first byte
  double network_efficiency = 1;    // bytes of tensors ÷ bytes that the link could carry
  double iteration_overhead_s = 0;  // of every iteration, once: the optimizer's step, the loader, barriers
};

}  // namespace dtfm
