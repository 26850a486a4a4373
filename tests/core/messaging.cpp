#include "core/schedule/messaging.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// "F0 SF0 RB0 wF0 …": computing (F, B, W), sends (S), receives (R), waits for sends (w) and receives (v),
/// with the chunk if there are several.
std::string format_actions(const std::vector<Action>& actions, bool has_chunks = false) {
  std::vector<std::string> words;
  for (const Action& it : actions) {
    const char* kind = it.operation.kind == Operation::Kind::forward    ? "F"
                       : it.operation.kind == Operation::Kind::backward ? "B"
                                                                        : "W";
    constexpr const char* prefixes[] = {"", "S", "R", "w", "v"};
    words.push_back(fmt::format("{}{}{}{}", prefixes[static_cast<int>(it.kind)], kind,
                                it.operation.micro_batch,
                                has_chunks ? fmt::format("/{}", it.operation.chunk) : ""));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string actions_of(Messaging messaging, Schedule schedule, const PipelineShape& shape, int device,
                       int flush = 0) {
  return format_actions(device_actions(messaging, schedule, shape, flush)[at(device)], shape.chunks > 1);
}

using enum Schedule;

/// Whether all devices come to the end of their lists, if a message leaves only when its receive is posted.
bool comes_to_an_end(const std::vector<std::vector<Action>>& all, const PipelineShape& shape) {
  // [sending stage, kind, micro-batch]
  std::set<std::tuple<int, Operation::Kind, int>> sent, posted;
  std::vector<std::size_t> next(all.size());
  const auto can_pass = [&](const Action& it, int device) {
    const int stage = it.operation.chunk * shape.devices + device;
    const int step = it.operation.kind == Operation::Kind::forward ? 1 : -1;
    const std::tuple output{stage, it.operation.kind, it.operation.micro_batch},
        input{stage - step, it.operation.kind, it.operation.micro_batch};
    switch (it.kind) {
      case Action::Kind::send:
        sent.insert(output);
        return true;
      case Action::Kind::receive:
        posted.insert(input);
        return true;
      case Action::Kind::wait_send:
        return posted.contains(output);
      case Action::Kind::wait_receive:
        return sent.contains(input);
      case Action::Kind::compute:
        break;
    }
    return !has_input(it.operation, device, shape) || (sent.contains(input) && posted.contains(input));
  };
  for (bool progressed = true; progressed;) {
    progressed = false;
    for (std::size_t device = 0; device < all.size(); ++device)
      while (next[device] < all[device].size() &&
             can_pass(all[device][next[device]], static_cast<int>(device))) {
        ++next[device];
        progressed = true;
      }
  }
  for (std::size_t device = 0; device < all.size(); ++device)
    if (next[device] < all[device].size()) return false;
  return true;
}

}  // namespace

TEST_CASE("gpipe in torch: receives are posted when a micro-batch is needed") {
  CHECK(actions_of(Messaging::torch, gpipe, {3, 1, 2}, 1) ==
        "RF0 F0 SF0 RF1 F1 SF1 wF0 wF1 RB0 B0 SB0 RB1 B1 SB1 wB0 wB1");
  CHECK(actions_of(Messaging::torch, gpipe, {2, 1, 2}, 0, 1) == "F0 SF0 wF0 RB0 B0 F1 SF1 wF1 RB1 B1");
}

// Schedule1F1B on the first of three stages: two sends in the warm-up, of which the second is waited for with
// the third; then each forward send goes with the next backward receive.
TEST_CASE("1f1b in torch: sends and receives of both directions are issued together") {
  CHECK(actions_of(Messaging::torch, one_f_one_b_blocking, {3, 1, 4}, 0) ==
        "F0 SF0 F1 wF0 SF1 F2 wF1 SF2 RB0 wF2 B0 F3 SF3 RB1 wF3 B1 RB2 B2 RB3 B3");
  CHECK(actions_of(Messaging::torch, one_f_one_b_blocking, {3, 1, 2}, 2) ==
        "RF0 F0 B0 SB0 RF1 wB0 F1 B1 SB1 wB1");
}

// TrainSchedule of DeepSpeed 0.19 on the second of three stages: the gradient of 0 is sent before activation
// 2 is received, and gradient 1 is received before activation 2 is sent.
TEST_CASE("1f1b in deepspeed: gradients are sent before, and activations after the next receive") {
  CHECK(actions_of(Messaging::deepspeed, one_f_one_b, {3, 1, 3}, 1) ==
        "RF0 vF0 F0 SF0 wF0 RF1 vF1 F1 RB0 vB0 SF1 wF1 B0 SB0 wB0 RF2 vF2 F2 RB1 vB1 SF2 wF2 B1 SB1 wB1 RB2 "
        "vB2 "
        "B2 SB2 wB2");
  // With a single micro-batch, steps without work lie between its forward and its backward.
  CHECK(actions_of(Messaging::deepspeed, one_f_one_b, {3, 1, 1}, 0) == "F0 SF0 wF0 RB0 vB0 B0");
}

TEST_CASE("megatron: sends block in 1f1b, and one receive is ahead when interleaved") {
  CHECK(actions_of(Messaging::megatron, one_f_one_b, {3, 1, 3}, 1) ==
        "RF0 vF0 F0 SF0 wF0 RF1 vF1 F1 SF1 RB0 wF1 vB0 B0 SB0 RF2 wB0 vF2 F2 SF2 RB1 wF2 vB1 B1 SB1 wB1 RB2 "
        "vB2 "
        "B2 SB2 wB2");
  CHECK(actions_of(Messaging::megatron, interleaved, {2, 2, 2}, 1) ==
        "RF0/0 vF0/0 RF1/0 F0/0 SF0/0 vF1/0 RF0/1 F1/0 SF1/0 wF0/0 vF0/1 F0/1 RF1/1 wF1/0 B0/1 SB0/1 vF1/1 "
        "F1/1 "
        "B1/1 SB1/1 RB0/0 wB0/1 vB0/0 B0/0 SB0/0 RB1/0 wB1/1 vB1/0 B1/0 SB1/0 wB0/0 wB1/0");
}

// Two devices of two stages, or with split backwards: the first one's second send waits for the second one's
// receive, and that device's first send for a receive of the first.
TEST_CASE("devices with blocking calls wait for each other forever unless their orders are simple") {
  for (const Schedule schedule : {interleaved, zero_bubble_h1}) {
    const PipelineShape shape{2, schedule == interleaved ? 2 : 1, 2};
    CHECK(!can_run(Messaging::deepspeed, schedule));
    CHECK(!comes_to_an_end(device_actions(Messaging::deepspeed, schedule, shape, 0), shape));
    CHECK(can_run(Messaging::torch, schedule));
  }
  CHECK(can_run(Messaging::deepspeed, gpipe));
}

TEST_CASE("every message is sent, received and waited for once, in every messaging") {
  for (const MessagingTraits& messaging : messaging_table()) {
    if (!messaging.posts_receives) continue;
    for (const Schedule schedule : {gpipe, one_f_one_b, one_f_one_b_blocking, interleaved, zero_bubble_h1})
      for (const PipelineShape& shape :
           {PipelineShape{1, 1, 3}, PipelineShape{4, 1, 2}, PipelineShape{4, 1, 9}, PipelineShape{3, 2, 6}}) {
        if (traits(schedule).has_chunks != (shape.chunks > 1)) continue;
        CAPTURE(messaging.name, schedule, shape.devices, shape.micro_batches);
        std::map<std::tuple<Action::Kind, Operation::Kind, int, int>, int>
            counts;  // sender's or computing stage
        const auto all = device_actions(messaging.kind, schedule, shape, 0);
        for (int device = 0; device < shape.devices; ++device)
          for (const Action& it : all[at(device)]) {
            int stage = it.operation.chunk * shape.devices + device;
            const bool is_input = it.kind == Action::Kind::receive || it.kind == Action::Kind::wait_receive;
            if (is_input) stage += it.operation.kind == Operation::Kind::forward ? -1 : 1;
            ++counts[{it.kind, it.operation.kind, stage, it.operation.micro_batch}];
          }
        for (const auto& [key, count] : counts) CHECK(count == 1);
        if (can_run(messaging.kind, schedule)) CHECK(comes_to_an_end(all, shape));
        const auto of_kind = [&](Action::Kind kind) {
          return std::count_if(counts.begin(), counts.end(),
                               [&](const auto& it) { return std::get<0>(it.first) == kind; });
        };
        const long messages = 2L * (shape.devices * shape.chunks - 1) * shape.micro_batches;
        CHECK(of_kind(Action::Kind::send) == messages);
        CHECK(of_kind(Action::Kind::receive) == messages);
        CHECK(of_kind(Action::Kind::wait_send) == messages);
      }
  }
}
