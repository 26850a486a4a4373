// The tables of precisions, optimizers and recomputation.
#include <set>

#include "planner/core/kind_table.hpp"
#include "planner/core/optimizer.hpp"
#include "planner/core/precision.hpp"
#include "planner/core/recomputation.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

template <class Row>
void check_table(std::span<const Row> table, decltype(Row::kind) last) {
  REQUIRE(table.size() == static_cast<std::size_t>(last) + 1);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Row& row = table[i];
    INFO(row.name);
    CHECK(static_cast<std::size_t>(row.kind) == i);
    CHECK(&traits(row.kind) == &row);
    CHECK(name_of(row.kind) == row.name);
    CHECK(kind_named(table, row.name) == row.kind);
    CHECK(names.insert(row.name).second);
  }
  CHECK_FALSE(kind_named(table, ""));
}

}  // namespace

TEST_CASE("tables of kinds have one row for each value in the order of the enum and unique names") {
  check_table(precision_table(), Precision::fp32);
  check_table(optimizer_table(), Optimizer::host_offload);
  check_table(recomputation_table(), Recomputation::full);
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
  const auto kept = [&](Recomputation it) { return traits(it).kept(layer, Bytes(8)).value(); };
  const auto working = [&](Recomputation it) { return traits(it).working(layer).value(); };
  const auto repeated = [&](Recomputation it) { return traits(it).repeated_share(layer); };
  CHECK(kept(Recomputation::none) == 100);
  CHECK(kept(Recomputation::selective) == 70);
  CHECK(kept(Recomputation::full) == 8);
  CHECK(working(Recomputation::none) == 0);
  CHECK(working(Recomputation::selective) == 30);
  CHECK(working(Recomputation::full) == 100);
  CHECK(repeated(Recomputation::none) == 0);
  CHECK(repeated(Recomputation::selective) == 0.2);
  CHECK(repeated(Recomputation::full) == 0.9);
}
