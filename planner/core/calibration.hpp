// What of a machine is not in its data sheet: few numbers, fitted once to measured runs
// (configs/calibration.yaml), or to a user's own (dtfm-calibrate).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace dtfm {

struct Calibration {
  double compute_scale = 1;           // time of a layer ÷ that of its profile or estimate
  double message_overhead_s = 0;      // of every message between hosts, before its first byte
  double network_efficiency = 1;      // bytes of tensors ÷ bytes that the link could carry
  double iteration_overhead_s = 0;    // of every iteration, once: the optimizer's step, the loader, barriers
  double micro_batch_overhead_s = 0;  // of every forward and every backward of a micro-batch on a stage
  double sync_efficiency = 1;         // bytes of gradients ÷ bytes that their exchange sends

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// What the constants are called in files, and which they are. Everything that treats them one by one goes
/// through this table.
struct CalibrationConstant {
  enum class Kind { factor, share, seconds };  // above 0; in (0, 1]; ≥ 0

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
    CalibrationConstant{"sync_efficiency", &Calibration::sync_efficiency, CalibrationConstant::Kind::share}};

/// How well fitted constants are known.
struct CalibrationUncertainty {
  static constexpr std::size_t size = calibration_constants.size();

  double residual = 0;  // standard deviation of the logarithm of measured ÷ simulated seconds
  double degrees_of_freedom = 1;   // of freedom, of Student's t
  std::array<std::array<double, size>, size> covariance = {};  // of the constants in the table's order

  friend bool operator==(const CalibrationUncertainty&, const CalibrationUncertainty&) = default;
};

struct FittedCalibration {
  Calibration constants;
  std::optional<CalibrationUncertainty> spread = {};  // nothing: nobody says
};

/// Where the mean of iterations that somebody measures should lie.
struct PredictionInterval {
  double low_s = 0, high_s = 0, level = 0;  // level: the chance that it does
};

}  // namespace dtfm
