#include "core/plan/objective.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr ObjectiveTexts time_texts = {"s", "less time"};
constexpr ObjectiveTexts device_time_texts = {"device-seconds", "less devices × time"};

constexpr auto objectives = std::to_array<ObjectiveTraits>({
    {Objective::iteration_time, "iteration-time", time_texts, time_texts},
    {Objective::cost_per_token,
     "cost-per-token",
     {"USD per million tokens", "cheaper per token"},
     {"USD per million images", "cheaper per image"}},
    {Objective::device_efficiency, "device-efficiency", device_time_texts, device_time_texts},
    {Objective::comm_cost, "comm-cost", time_texts, time_texts},
});
static_assert(has_row_for_each(objectives, Objective::comm_cost));

}  // namespace

std::span<const ObjectiveTraits> objective_table() {
  return objectives;
}

const ObjectiveTraits& traits(Objective objective) {
  return row_of(objectives, objective);
}

std::string_view name_of(Objective objective) {
  return traits(objective).name;
}

const ObjectiveTexts& texts(Objective objective, ModelInput input) {
  const ObjectiveTraits& row = traits(objective);
  return input == ModelInput::images ? row.of_images : row.of_tokens;
}

}  // namespace dtfm
