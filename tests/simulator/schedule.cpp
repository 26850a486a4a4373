#include "core/schedule/schedule.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "core/base/index.hpp"
#include "core/schedule/messaging.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = Operation::Kind;

struct Shape {
  Schedule schedule;
  int devices, chunks, micro_batches;
};

std::vector<std::vector<Operation>> orders_of(const Shape& shape, int flush = 0) {
  std::vector<std::vector<Operation>> orders;
  for (int device = 0; device < shape.devices; ++device)
    orders.push_back(
        operation_order(shape.schedule, {shape.devices, device, shape.chunks, shape.micro_batches}, flush));
  return orders;
}

/// Number of kinds of operations.
int kinds_of(Schedule schedule) {
  return traits(schedule).splits_backward ? 3 : 2;
}

/// Whether all operations can be computed in each device's order, if a forward pass needs that of the
/// previous stage, a backward pass that of the next stage or, in the last stage, its own forward pass, and
/// weight gradients their backward pass.
bool runs(const Shape& shape, const std::vector<std::vector<Operation>>& orders) {
  const int stages = shape.devices * shape.chunks;
  std::set<std::tuple<Kind, int, int>> done;  // kind, stage, micro-batch
  std::vector<std::size_t> next(orders.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t device = 0; device < orders.size(); ++device) {
      if (next[device] == orders[device].size()) continue;
      const Operation op = orders[device][next[device]];
      const int stage = op.chunk * shape.devices + static_cast<int>(device);
      const auto is_done = [&](Kind kind, int where) {
        return done.count({kind, where, op.micro_batch}) > 0;
      };
      const bool ready =
          op.kind == Kind::forward ? stage == 0 || is_done(Kind::forward, stage - 1)
          : op.kind == Kind::weight_gradient
              ? is_done(Kind::backward, stage)
              : is_done(Kind::forward, stage) && (stage + 1 == stages || is_done(Kind::backward, stage + 1));
      if (!ready) continue;
      done.insert({op.kind, stage, op.micro_batch});
      ++next[device];
      moved = true;
    }
  }
  return done.size() == static_cast<std::size_t>(kinds_of(shape.schedule) * stages * shape.micro_batches);
}

void check_once_each(const Shape& shape, const std::vector<Operation>& order) {
  std::set<std::tuple<Kind, int, int>> seen;
  for (const Operation& op : order) {
    REQUIRE((op.chunk >= 0 && op.chunk < shape.chunks));
    REQUIRE((op.micro_batch >= 0 && op.micro_batch < shape.micro_batches));
    REQUIRE(seen.insert({op.kind, op.chunk, op.micro_batch}).second);
  }
  REQUIRE(order.size() ==
          static_cast<std::size_t>(kinds_of(shape.schedule) * shape.chunks * shape.micro_batches));
}

int max_in_flight(const std::vector<Operation>& order, Kind last = Kind::backward) {
  int now = 0, most = 0;
  for (const Operation& op : order) {
    if (op.kind == Kind::forward) most = std::max(most, ++now);
    if (op.kind == last) --now;
  }
  return most;
}

/// Returns the makespan with 1 s forward and 2 s backward per layer on devices with instant messages.
double makespan(Job job, int devices, int micro_batches) {
  const Topology topology = flat_topology({devices}, link_of(0, 1e18), link_of(0, 1e18));
  return replay_makespan(
      iteration_graph({topology, job, Calibration{}}, plan_of(job, devices, 1, micro_batches)));
}

}  // namespace

TEST_CASE("every operation occurs once in an order that can be run") {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m)
      for (const ScheduleTraits& schedule : schedule_table()) {
        if (schedule.order == nullptr || schedule.has_chunks) continue;
        CAPTURE(std::string(schedule.name), p, m);
        const Shape shape{schedule.kind, p, 1, m};
        const auto orders = orders_of(shape);
        for (const auto& order : orders) check_once_each(shape, order);
        REQUIRE(runs(shape, orders));
      }
  for (int p = 1; p <= 8; ++p)
    for (int m = p; m <= 16; m += p)
      for (int chunks = 2; chunks <= 4; ++chunks) {
        CAPTURE(p, m, chunks);
        const Shape shape{Schedule::interleaved, p, chunks, m};
        const auto orders = orders_of(shape);
        for (const auto& order : orders) check_once_each(shape, order);
        REQUIRE(runs(shape, orders));
      }
}

// Stages of 3 devices with warm-ups of 4, 1 and 0 forwards, and 6 micro-batches.
TEST_CASE("eager-1f1b: plans give the forwards before the first backward") {
  const PipelineShape shape{3, 1, 6, {{.warm_up = 4}, {.warm_up = 1}, {.warm_up = 0}}};
  std::vector<std::vector<Operation>> orders;
  for (int device = 0; device < 3; ++device)
    orders.push_back(operation_order(Schedule::eager_one_f_one_b, shape.position(device), 0));
  const auto text = [](const std::vector<Operation>& order) {
    std::string result;
    for (const Operation& it : order) result += it.kind == Kind::forward ? 'F' : 'B';
    return result;
  };
  CHECK(text(orders[0]) == "FFFFFBFBBBBB");
  CHECK(text(orders[1]) == "FFBFBFBFBFBB");
  CHECK(text(orders[2]) == "FBFBFBFBFBFB");
  REQUIRE(runs({Schedule::eager_one_f_one_b, 3, 1, 6}, orders));
  CHECK(eager_one_f_one_b_in_flight({3, 0, 1, 6, {.warm_up = 4}}) == 5);
  CHECK(eager_one_f_one_b_in_flight({3, 0, 1, 3, {.warm_up = 4}}) == 3);
}

TEST_CASE("the micro-batches in flight of every schedule are those of its order") {
  for (const ScheduleTraits& schedule : schedule_table()) {
    if (schedule.order == nullptr) continue;
    const Kind last = schedule.splits_backward ? Kind::weight_gradient : Kind::backward;
    for (int p = 1; p <= 6; ++p)
      for (int m = schedule.in_rounds ? p : 1; m <= 4 * p; m += schedule.in_rounds ? p : 1)
        for (int chunks = 1; chunks <= (schedule.has_chunks ? 3 : 1); ++chunks)
          for (int d = 0; d < p; ++d) {
            CAPTURE(std::string(schedule.name), p, m, chunks, d);
            const PipelinePosition position{p, d, chunks, m};
            CHECK(schedule.in_flight(position) == max_in_flight(schedule.order(position), last));
          }
  }
}

TEST_CASE("gpipe holds all micro-batches and 1f1b as many as there are stages to the end") {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m)
      for (int d = 0; d < p; ++d) {
        REQUIRE(max_in_flight(gpipe_order({p, d, 1, m})) == m);
        REQUIRE(max_in_flight(one_f_one_b_order({p, d, 1, m})) == std::min(m, p - d));
      }
}

TEST_CASE("a flush empties the pipeline before the next round begins") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    const Shape shape{schedule, 3, 1, 10};
    const auto orders = orders_of(shape, 4);  // rounds of 4, 4 and 2
    REQUIRE(runs(shape, orders));
    for (const auto& order : orders) {
      check_once_each(shape, order);
      for (std::size_t i = 0; i < order.size(); ++i)
        CHECK(order[i].micro_batch / 4 == static_cast<int>(i / 8));
      CHECK(max_in_flight(order) <= 4);
    }
  }
}

TEST_CASE("a schedule that cannot be run is rejected") {
  CHECK(error_message([] {
          operation_order(Schedule::interleaved, {4, 0, 2, 6}, 0);
        }) ==
        "schedule interleaved requires a multiple of 4 micro-batches, the number of devices of a pipeline; "
        "found 6; change the number of micro-batches, the flush interval or the number of stages");
  CHECK(error_message([] {
          operation_order(Schedule::interleaved, {4, 0, 2, 8}, 6);
        }) ==
        "schedule interleaved requires a multiple of 4 micro-batches, the number of devices of a pipeline; "
        "found 6; change the number of micro-batches, the flush interval or the number of stages");
  CHECK(error_message([] {
          operation_order(Schedule::one_f_one_b, {4, 0, 2, 8}, 0);
        }) == "schedule 1f1b has one stage per device, not 2; remove the chunks or use schedule interleaved");
  CHECK(error_message([] {
          operation_order(Schedule::paths, {4, 0, 1, 8}, 0);
        }) == "schedule paths requires a path for each micro-batch");
}

// One layer per stage: tf = 1 s, tb = 2 s.
TEST_CASE("gpipe and 1f1b take (m + p - 1)(tf + tb)") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (int p = 1; p <= 8; ++p)
      for (int m : {1, 2, 5, 16}) {
        CAPTURE(schedule, p, m);
        Job job = chain_job(p, 0, 0);
        job.execution.schedule = schedule;
        CHECK(makespan(job, p, m) == Approx((m + p - 1) * 3));
      }
}

// One layer with parameters per stage: forward, input gradients and weight gradients of 1 s each (Qi et al.,
// arXiv 2401.10241, table 2).
TEST_CASE("zb-h1 takes m (f + b + w) + (p - 1)(f + b - w)") {
  for (int p = 1; p <= 8; ++p)
    for (int m : {p, p + 1, 4 * p}) {
      CAPTURE(p, m);
      Job job = chain_job(p, 1, 0);
      job.execution.schedule = Schedule::zero_bubble_h1;
      CHECK(makespan(job, p, m) == Approx(3 * m + p - 1));
    }
}

// v layers per device, one per chunk: tf + tb of a device is 3 v.
TEST_CASE("interleaved takes m (tf + tb) + (p - 1)(tf + tb) / v") {
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 4})
      for (int rounds : {1, 2, 4}) {
        CAPTURE(p, v, rounds);
        Job job = chain_job(p * v, 0, 0);
        job.execution.schedule = Schedule::interleaved;
        job.execution.chunks = v;
        CHECK(makespan(job, p, rounds * p) == Approx(rounds * p * 3 * v + (p - 1) * 3));
      }
}

// Stages of 1, 2, 1, 2 layers (6 layers over 4): sum tf = 6, max tf = 2, and twice that backward: (6 + (m -
// 1) 2)(1 + 2).
TEST_CASE("gpipe with unequal stages is paced by the slowest stage") {
  for (int m : {1, 4, 9}) CHECK(makespan(chain_job(6, 0, 0), 4, m) == Approx((6 + (m - 1) * 2) * 3));
}

// Two rounds of 4 instead of one of 8, p = 3: 2 (4 + 2) 3 instead of (8 + 2) 3.
TEST_CASE("a flush costs one bubble per round") {
  Job job = chain_job(3, 0, 0);
  job.execution.flush = 4;
  CHECK(makespan(job, 3, 8) == Approx(36));
}
