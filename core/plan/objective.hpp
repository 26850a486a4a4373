// What a plan minimizes.
#pragma once

#include <span>
#include <string_view>

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
};

/// A row for each value, in the order of the enum.
std::span<const ObjectiveTraits> objective_table();
const ObjectiveTraits& traits(Objective objective);
std::string_view name_of(Objective objective);
/// The texts for a model of this input.
const ObjectiveTexts& texts(Objective objective, ModelInput input);

}  // namespace dtfm
