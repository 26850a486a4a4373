#include "core/model/layer_profile.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;

namespace {

ProfileRow row(const std::string& kind, int micro_batch, int tensor, double forward_s) {
  return {kind, micro_batch, tensor, {forward_s}, {2 * forward_s}, Timing{0.5}, {}, {}};
}

LayerProfile profile() {
  LayerProfile profile;
  profile.gpu = "one";
  profile.rows = {row("block", 1, 1, 3), row("block", 2, 1, 4), row("block", 8, 1, 10), row("block", 1, 2, 2),
                  row("head", 2, 1, 6)};
  return profile;
}

}  // namespace

TEST_CASE("times between measured micro-batches are interpolated linearly") {
  CHECK(profiled_time(profile(), "block", 2, 1).forward_s == 4);
  CHECK(profiled_time(profile(), "block", 5, 1).forward_s == Approx(7));
  CHECK(profiled_time(profile(), "block", 5, 1).backward_s == Approx(14));
  CHECK(profiled_time(profile(), "block", 5, 1).update_s == 0.5);
  CHECK_FALSE(profiled_time(profile(), "block", 8, 1).extrapolated);
}

TEST_CASE("times outside the measured range are marked as extrapolated") {
  // From 4 s at 2 and 10 s at 8: one second per additional sequence.
  CHECK(profiled_time(profile(), "block", 10, 1).forward_s == Approx(12));
  CHECK(profiled_time(profile(), "block", 10, 1).extrapolated);
  // A single measured size is scaled in proportion.
  CHECK(profiled_time(profile(), "head", 4, 1).forward_s == 12);
  CHECK(profiled_time(profile(), "head", 4, 1).extrapolated);
  CHECK(profiled_time(profile(), "head", 1, 1).backward_s == 6);
  CHECK(profiled_time(profile(), "head", 1, 1).scaled_from);
  CHECK_FALSE(profiled_time(profile(), "head", 2, 1).scaled_from);
  CHECK_FALSE(profiled_time(profile(), "block", 10, 1).scaled_from);
  // So are times below the smallest of several sizes: the line through 1 s at 4 and 3 s at 8 would be
  // negative there.
  LayerProfile large = profile();
  large.rows = {row("block", 4, 1, 1), row("block", 8, 1, 3)};
  CHECK(profiled_time(large, "block", 1, 1).forward_s == 0.25);
  CHECK(profiled_time(large, "block", 1, 1).extrapolated);
  // Degree 2 was measured at micro-batch 1 only, degree 4 not at all: half the time of degree 2.
  CHECK(profiled_time(profile(), "block", 2, 2).forward_s == 4);
  CHECK(profiled_time(profile(), "block", 2, 4).forward_s == 2);
  CHECK(profiled_time(profile(), "block", 2, 4).update_s == 0.25);
  CHECK(profiled_time(profile(), "block", 2, 4).extrapolated);
}

TEST_CASE("a layer that is missing in the profile is an error") {
  CHECK(error_message([] { profiled_time(profile(), "blok", 1, 1); }) ==
        "the profile of GPU one has no layer `blok` for a tensor degree up to 1; it has block, block at "
        "degree 2, "
        "head");
}

TEST_CASE("a timing is the median and the distance between the 10th and 90th percentiles") {
  CHECK(timing_of({3}) == Timing{3, 0});
  // 0, 1, … 10: percentiles 1 and 9.
  CHECK(timing_of({10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5}) == Timing{5, 8});
  // With two values, the median lies halfway, and the percentiles at 10 % and 90 % of the way between them.
  CHECK(timing_of({1, 2}).median_s == 1.5);
  CHECK(timing_of({1, 2}).spread_s == Approx(0.8));
}
