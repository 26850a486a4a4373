// Calibration constants: properties of machines and trainers that no data sheet gives. The defaults are
// neutral; others are fitted to measured runs, of publications (configs/calibrations) or of a user
// (dtfm-calibrate).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dtfm {

struct Calibration {
  double compute_scale = 1;             // actual time of a layer ÷ its profiled or estimated time
  double message_overhead_s = 0;        // per message between hosts, before its first byte
  double network_efficiency = 1;        // payload bytes ÷ bytes that the link could carry in that time
  double iteration_overhead_s = 0;      // once per iteration: optimizer step, data loader, barriers
  double micro_batch_overhead_s = 0;    // per forward and per backward of a micro-batch on a stage
  double sync_efficiency = 1;           // gradient bytes ÷ bytes that gradient synchronization sends
  double launch_scale = 1;              // actual time to launch a layer's kernels ÷ its estimate
  double local_message_overhead_s = 0;  // per message inside a host
  /// Memory that each process uses on its device, regardless of its layers: CUDA context, communication
  /// buffers, framework. No time depends on it.
  double process_memory_bytes = 0;

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// A constant that times depend on: its name in files, its member and its range. All code that handles these
/// constants one by one goes through the table below.
struct CalibrationConstant {
  enum class Kind { factor, share, seconds };  // > 0; in (0, 1]; ≥ 0

  std::string_view name;
  double Calibration::*value;
  Kind kind;
};
inline constexpr std::array calibration_constants = {
    CalibrationConstant{"compute_scale", &Calibration::compute_scale, CalibrationConstant::Kind::factor},
    CalibrationConstant{"message_overhead", &Calibration::message_overhead_s,
                        CalibrationConstant::Kind::seconds},
    CalibrationConstant{"network_efficiency", &Calibration::network_efficiency,
                        CalibrationConstant::Kind::share},
    CalibrationConstant{"iteration_overhead", &Calibration::iteration_overhead_s,
                        CalibrationConstant::Kind::seconds},
    CalibrationConstant{"micro_batch_overhead", &Calibration::micro_batch_overhead_s,
                        CalibrationConstant::Kind::seconds},
    CalibrationConstant{"sync_efficiency", &Calibration::sync_efficiency, CalibrationConstant::Kind::share},
    CalibrationConstant{"launch_scale", &Calibration::launch_scale, CalibrationConstant::Kind::factor},
    CalibrationConstant{"local_message_overhead", &Calibration::local_message_overhead_s,
                        CalibrationConstant::Kind::seconds}};

/// Uncertainty of fitted constants.
struct CalibrationUncertainty {
  static constexpr std::size_t size = calibration_constants.size();

  double residual = 0;            // standard deviation of the logarithm of measured ÷ simulated seconds
  double degrees_of_freedom = 1;  // of Student's t
  std::array<std::array<double, size>, size> covariance = {};  // of the constants, in the order of the table
  double longest_latency_s = 0;  // between two sites of a run that the constants are fitted to

  friend bool operator==(const CalibrationUncertainty&, const CalibrationUncertainty&) = default;
};

struct FittedCalibration {
  Calibration constants;
  std::optional<CalibrationUncertainty> spread = {};  // empty if unknown
  std::string name = {};                              // of a shipped calibration, else empty
};

/// Interval in which the mean time of measured iterations should lie.
struct PredictionInterval {
  double low_s = 0, high_s = 0, level = 0;  // level: probability, in (0, 1)
  std::string source = {};                  // origin of the errors: `calibration` or a kind of published runs
};

}  // namespace dtfm
