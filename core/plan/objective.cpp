#include "core/plan/objective.hpp"

#include <limits>

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr ObjectiveTexts time_texts = {"s", "less time"};
constexpr ObjectiveTexts device_time_texts = {"device-seconds", "less devices × time"};

double usd_per_s(const Topology& topology, int device) {
  const auto price = price_of(topology, device);
  return price ? price->value() / seconds_per_hour : std::numeric_limits<double>::infinity();
}

double one_device(const Topology&, int) {
  return 1;
}

constexpr auto objectives = std::to_array<ObjectiveTraits>({
    {.kind = Objective::iteration_time,
     .name = "iteration-time",
     .of_tokens = time_texts,
     .of_images = time_texts},
    {.kind = Objective::cost_per_token,
     .name = "cost-per-token",
     .of_tokens = {"USD per million tokens", "cheaper per token"},
     .of_images = {"USD per million images", "cheaper per image"},
     .device_weight = usd_per_s,
     .no_weight = "no device has a price, which cost-per-token needs; add prices to the topology, "
                  "for example `price: 1.2 USD/h`",
     .is_money = true,
     .per_token = true},
    {.kind = Objective::device_efficiency,
     .name = "device-efficiency",
     .of_tokens = device_time_texts,
     .of_images = device_time_texts,
     .device_weight = one_device},
    {.kind = Objective::comm_cost,
     .name = "comm-cost",
     .of_tokens = time_texts,
     .of_images = time_texts,
     .is_of_time = false},
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
