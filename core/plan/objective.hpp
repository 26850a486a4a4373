// What a plan minimizes. An objective is one value of the enum and one row of the table in objective.cpp
// (docs/add-an-objective.md).
#pragma once

#include <span>
#include <string_view>

#include "core/cluster/topology.hpp"
#include "core/model/model.hpp"

namespace dtfm {

enum class Objective : unsigned char {
  iteration_time,
  cost_per_token,
  device_efficiency,  // devices × time
  comm_cost,          // communication only, by the byte counts of Job::comm_cost
};

struct ObjectiveTexts {
  std::string_view unit;  // of the reported value
  std::string_view gain;  // describes a reduction of the value in summaries
};

struct ObjectiveTraits {
  Objective kind;
  std::string_view name;
  ObjectiveTexts of_tokens, of_images;  // for models of this input
  /// What a second of one device counts; infinite if that is not known, so that the device cannot be used. The
  /// value of a plan is its iteration time times the sum over its devices. Null: it is the iteration time.
  double (*device_weight)(const Topology& topology, int device) = nullptr;
  std::string_view no_weight = {};  // the error if no device has a finite weight
  bool is_money = false;            // a weight is in USD/s, and the USD of egress are added
  bool per_token = false;           // reported per million tokens (images) instead of per iteration
  bool is_of_time = true;           // otherwise of communication alone
};

/// The value of an iteration times this is reported. `tokens`: of an iteration (images, for such models).
inline double reported_unit(const ObjectiveTraits& objective, double tokens) {
  return objective.per_token ? 1e6 / tokens : 1;
}

/// A row for each value, in the order of the enum.
std::span<const ObjectiveTraits> objective_table();
const ObjectiveTraits& traits(Objective objective);
std::string_view name_of(Objective objective);
/// The texts for a model of this input.
const ObjectiveTexts& texts(Objective objective, ModelInput input);

}  // namespace dtfm
