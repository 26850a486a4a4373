#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/index.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm {
namespace {

using Kind = Operation::Kind;
constexpr std::array cycle = {Kind::forward, Kind::backward, Kind::weight_gradient};

/// 1F1B with a split backward.
PassOrder default_passes(const PipelinePosition& position) {
  const int ahead = std::min(position.devices - position.device - 1, position.micro_batches);
  PassOrder passes(at(ahead), Kind::forward);
  for (int i = 0; i < position.micro_batches; ++i)
    for (const Kind kind : cycle)
      if (kind != Kind::forward || i + ahead < position.micro_batches) passes.push_back(kind);
  return passes;
}

/// Without the operations of the last micro-batches.
PassOrder first_micro_batches(const PassOrder& passes, int micro_batches) {
  PassOrder result;
  std::array<int, cycle.size()> done = {};
  for (const Kind kind : passes)
    if (done[static_cast<std::size_t>(kind)]++ < micro_batches) result.push_back(kind);
  return result;
}

/// With `count` forwards, input gradients and weight gradients in turn before the middle forward. In each
/// stage as many micro-batches are then in flight as in the given order, and no stage has fewer before its
/// middle forward than the next one, so stages do not wait for each other forever.
PassOrder with_repeated_middle(const PassOrder& passes, int micro_batches, int count) {
  PassOrder result;
  int forwards = 0;
  for (const Kind kind : passes) {
    if (kind == Kind::forward && forwards++ == micro_batches / 2)
      for (int i = 0; i < count; ++i) result.insert(result.end(), cycle.begin(), cycle.end());
    result.push_back(kind);
  }
  return result;
}

PassOrder passes_of(const PipelinePosition& position) {
  const PassOrder& planned = position.planned.passes;
  if (planned.empty()) return default_passes(position);
  const auto known = static_cast<int>(planned.size() / cycle.size());
  if (position.micro_batches <= known) return first_micro_batches(planned, position.micro_batches);
  return with_repeated_middle(planned, known, position.micro_batches - known);
}

}  // namespace

std::vector<Operation> zero_bubble_greedy_order(const PipelinePosition& position) {
  std::vector<Operation> order;
  std::array<int, cycle.size()> done = {};
  for (const Kind kind : passes_of(position))
    order.push_back({kind, 0, done[static_cast<std::size_t>(kind)]++});
  return order;
}

int zero_bubble_greedy_in_flight(const PipelinePosition& position) {
  return max_in_flight(passes_of(position));
}

int max_in_flight(const PassOrder& passes) {
  int held = 0, most = 0;
  for (const Kind kind : passes) {
    if (kind == Kind::forward) most = std::max(most, ++held);
    if (kind == Kind::weight_gradient) --held;
  }
  return most;
}

bool can_complete(std::span<const PassOrder* const> stages) {
  struct Progress {
    std::size_t next = 0;
    int forwards = 0, backwards = 0, weight_gradients = 0;
  };
  std::vector<Progress> all(stages.size());
  const auto advance = [&](std::size_t stage) {
    Progress& it = all[stage];
    bool progressed = false;
    for (; it.next < stages[stage]->size(); ++it.next, progressed = true) {
      const Kind kind = (*stages[stage])[it.next];
      if (kind == Kind::forward) {
        if (stage > 0 && all[stage - 1].forwards <= it.forwards) break;
        ++it.forwards;
      } else if (kind == Kind::backward) {
        const int ready = stage + 1 < stages.size() ? all[stage + 1].backwards : it.forwards;
        if (std::min(ready, it.forwards) <= it.backwards) break;
        ++it.backwards;
      } else if (it.backwards <= it.weight_gradients) {
        break;
      } else {
        ++it.weight_gradients;
      }
    }
    return progressed;
  };
  std::vector<std::size_t> waiting(stages.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  while (!waiting.empty()) {
    const std::size_t stage = waiting.back();
    waiting.pop_back();
    if (!advance(stage)) continue;
    if (stage > 0) waiting.push_back(stage - 1);
    if (stage + 1 < stages.size()) waiting.push_back(stage + 1);
  }
  return std::equal(all.begin(), all.end(), stages.begin(),
                    [](const Progress& it, const PassOrder* passes) { return it.next == passes->size(); });
}

}  // namespace dtfm
