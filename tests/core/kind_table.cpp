#include "core/base/kind_table.hpp"

#include <set>
#include <string_view>

#include "core/plan/compression_preset.hpp"
#include "core/collectives/collective.hpp"
#include "core/plan/objective.hpp"
#include "core/model/optimizer.hpp"
#include "core/model/precision.hpp"
#include "core/model/recomputation.hpp"
#include "core/schedule/schedule.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

enum class Color { red, green };
struct ColorTraits {
  Color kind;
  std::string_view name;
};
constexpr auto colors = std::to_array<ColorTraits>({{Color::red, "red"}, {Color::green, "green"}});

static_assert(has_row_for_each(colors, Color::green));
static_assert(!has_row_for_each(colors, Color::red), "a row too many");
static_assert(!has_row_for_each(std::to_array<ColorTraits>({{Color::red, "red"}}), Color::green));
static_assert(!has_row_for_each(std::to_array<ColorTraits>({{Color::green, "green"}, {Color::red, "red"}}),
                                Color::green));

template <class Row>
void check_table(std::span<const Row> table) {
  std::set<std::string_view> names;
  for (const Row& row : table) {
    CAPTURE(std::string(row.name));
    CHECK_FALSE(row.name.empty());
    CHECK(names.insert(row.name).second);
    CHECK(&traits(row.kind) == &row);
    if constexpr (requires { name_of(row.kind); }) CHECK(name_of(row.kind) == row.name);
    CHECK(kind_named(table, row.name) == row.kind);
  }
  CHECK_FALSE(kind_named(table, "no such kind"));
}

}  // namespace

TEST_CASE("rows of a table are found by kind and by name") {
  CHECK(row_of(colors, Color::green).name == "green");
  CHECK(kind_named(std::span<const ColorTraits>(colors), "green") == Color::green);
}

TEST_CASE("each value of a kind has one row and one name") {
  check_table(schedule_table());
  check_table(gradient_sync_table());
  check_table(precision_table());
  check_table(optimizer_table());
  check_table(recomputation_table());
  check_table(compression_table());
  check_table(objective_table());
}

TEST_CASE("the planner tries only what a job may name") {
  for (const ScheduleTraits& schedule : schedule_table()) CHECK((schedule.in_jobs || !schedule.is_candidate));
  for (const GradientSyncTraits& sync : gradient_sync_table()) CHECK((sync.in_jobs || !sync.is_candidate));
}

// The numbers in the names of optimizers are bytes per parameter.
TEST_CASE("optimizers hold as many bytes per parameter as their names say") {
  CHECK(traits(Optimizer::adam_16).resident == 16);
  CHECK(traits(Optimizer::adam_18).resident == 18);
  CHECK(traits(Optimizer::adam_20).resident == 20);
  CHECK(traits(Optimizer::sgd_12).resident == 12);
  CHECK(traits(Optimizer::sgd_8).resident == 8);
}

TEST_CASE("more recomputation keeps less and repeats more") {
  Layer layer;
  layer.forward = Flops(10);
  layer.attention = Flops(2);
  layer.head = Flops(1);
  layer.activation_memory = Bytes(100);
  layer.attention_memory = Bytes(30);
  layer.mlps = Flops(4);
  layer.mlp_memory = Bytes(50);
  layer.expert_outputs_memory = Bytes(9);
  const auto kept = [&](Recomputation it) { return traits(it).kept(layer, Bytes(8)).value(); };
  const auto working = [&](Recomputation it) { return traits(it).working(layer).value(); };
  const auto repeated = [&](Recomputation it) { return traits(it).repeated_share(layer); };
  CHECK(kept(Recomputation::none) == 100);
  CHECK(kept(Recomputation::moe_act) == 91);
  CHECK(kept(Recomputation::selective) == 70);
  CHECK(kept(Recomputation::mlp) == 50);
  CHECK(kept(Recomputation::full) == 8);
  CHECK(kept(Recomputation::as_needed) == 8);
  CHECK(working(Recomputation::none) == 0);
  CHECK(working(Recomputation::moe_act) == 9);
  CHECK(working(Recomputation::selective) == 30);
  CHECK(working(Recomputation::mlp) == 50);
  CHECK(working(Recomputation::full) == 100);
  CHECK(working(Recomputation::as_needed) == 100);
  CHECK(repeated(Recomputation::none) == 0);
  CHECK(repeated(Recomputation::moe_act) == 0);
  CHECK(repeated(Recomputation::selective) == 0.2);
  CHECK(repeated(Recomputation::mlp) == 0.4);
  CHECK(repeated(Recomputation::full) == 0.9);
  CHECK(repeated(Recomputation::as_needed) == 0.9);
}

TEST_CASE("objectives are described in what the model is trained on") {
  CHECK(texts(Objective::cost_per_token, ModelInput::tokens).unit == "USD per million tokens");
  CHECK(texts(Objective::cost_per_token, ModelInput::tokens).gain == "cheaper per token");
  CHECK(texts(Objective::cost_per_token, ModelInput::images).unit == "USD per million images");
  CHECK(texts(Objective::cost_per_token, ModelInput::images).gain == "cheaper per image");
  CHECK(texts(Objective::iteration_time, ModelInput::images).unit == "s");
  CHECK(name_of(model_input(Transformer())) == "tokens");
}
