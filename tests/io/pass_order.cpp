#include <algorithm>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "core/io/text/pass_order.hpp"
#include "core/schedule/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;

namespace {

using Kind = Operation::Kind;

PassOrder passes(std::string_view text) {
  return io::parse_passes(text, 1000);
}

bool can_complete(const std::vector<PassOrder>& stages) {
  std::vector<const PassOrder*> all;
  for (const PassOrder& it : stages) all.push_back(&it);
  return dtfm::can_complete(all);
}

/// The order of a device for another number of micro-batches.
PassOrder adapted(const PassOrder& order, int micro_batches) {
  PassOrder result;
  for (const Operation& it : zero_bubble_greedy_order({1, 0, 1, micro_batches, {.passes = order}}))
    result.push_back(it.kind);
  return result;
}

/// Lets random stages that can compute do so, so that they end in a random order that completes.
std::vector<PassOrder> random_orders(Rng& rng, int stages, int micro_batches) {
  std::vector<PassOrder> orders(at(stages));
  std::vector<std::array<int, 3>> done(at(stages), {0, 0, 0});
  const auto count = [&](int stage, Kind kind) -> int& {
    return done[at(stage)][static_cast<std::size_t>(kind)];
  };
  const auto can_do = [&](int stage, Kind kind) {
    const int own = count(stage, kind);
    if (kind == Kind::forward) return own < (stage > 0 ? count(stage - 1, kind) : micro_batches);
    if (kind == Kind::weight_gradient) return own < count(stage, Kind::backward);
    return own < count(stage, Kind::forward) && (stage + 1 == stages || own < count(stage + 1, kind));
  };
  for (int left = 3 * stages * micro_batches; left > 0;) {
    const int stage = static_cast<int>(rng.below(static_cast<std::uint32_t>(stages)));
    const auto kind = static_cast<Kind>(rng.below(3));
    if (!can_do(stage, kind)) continue;
    ++count(stage, kind);
    orders[at(stage)].push_back(kind);
    --left;
  }
  return orders;
}

}  // namespace

TEST_CASE("passes are written with repeated letters and groups, and read back") {
  CHECK(io::format_passes(passes("FFFFIWFIWFIWIIWW")) == "F*4 (IWF)*2 I W I*2 W*2");
  CHECK(io::format_passes(passes("FIW")) == "F I W");
  CHECK(io::format_passes({}) == "");
  CHECK(passes("F*2 (FIW)*2") == passes("F F FIWFIW"));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(1, seed);
    PassOrder order;
    for (std::uint32_t i = rng.below(60); i > 0; --i) order.push_back(static_cast<Kind>(rng.below(3)));
    CHECK(passes(io::format_passes(order)) == order);
  }
}

TEST_CASE("malformed passes are errors at a character") {
  const auto message = [](std::string_view text) { return error_message([&] { passes(text); }); };
  CHECK(message("FXI") == "character 2: expected F, I, W or a group such as `(FIW)*2`");
  CHECK(message("(FI") == "character 4: expected F, I, W or a group such as `(FIW)*2`");
  CHECK(message("()") == "character 2: expected F, I, W or a group such as `(FIW)*2`");
  CHECK(message("F*0") == "character 3: expected a positive number after `*`");
  CHECK(message("F*") == "character 3: expected a positive number after `*`");
  CHECK(message("F*99999999999999999999") == "character 3: expected a positive number after `*`");
  CHECK(passes("F*1000").size() == 1000);
  CHECK(message("F*1001") == "character 7: more than 1000 passes");
  CHECK(message("F*2 (FIW)*333") == "character 14: more than 1000 passes");
}

TEST_CASE("stages that wait for each other forever are recognized") {
  CHECK(can_complete({passes("FFIWIW"), passes("FIWFIW")}));
  CHECK_FALSE(
      can_complete({passes("FIWFIW"), passes("FFIWIW")}));  // the second forward needs the first gradient
  CHECK_FALSE(can_complete({passes("FWI")}));
  CHECK_FALSE(can_complete({passes("IFW"), passes("FIW")}));
}

TEST_CASE("orders for other numbers of micro-batches complete, and hold no more") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(2, seed);
    const int stages = 1 + static_cast<int>(rng.below(5)),
              micro_batches = 1 + static_cast<int>(rng.below(12));
    const std::vector<PassOrder> orders = random_orders(rng, stages, micro_batches);
    REQUIRE(can_complete(orders));
    for (int other = 1; other < 2 * micro_batches + 5; ++other) {
      CAPTURE(other);
      std::vector<PassOrder> all;
      for (const PassOrder& it : orders) {
        const PassOrder& order = all.emplace_back(adapted(it, other));
        for (const Kind kind : {Kind::forward, Kind::backward, Kind::weight_gradient})
          CHECK(std::count(order.begin(), order.end(), kind) == other);
        CHECK(max_in_flight(order) <= max_in_flight(it));
      }
      CHECK(can_complete(all));
      if (other == micro_batches) CHECK(all == orders);
    }
  }
}
