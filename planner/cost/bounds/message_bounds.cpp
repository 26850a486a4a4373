#include "planner/cost/bounds/message_bounds.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "planner/core/infinity.hpp"

namespace dtfm::cost {
namespace {

/// Costs of messages over the stage boundary with the fewest bytes.
class SmallestMessages {
 public:
  explicit SmallestMessages(const IterationModel& model) : model_(model) {}
  double total_s(int from, int to) const { return model_.network.message(from, to).total_s(bytes(from, to)); }
  double occupancy_s(int from, int to) const {
    return model_.network.message(from, to).occupancy_s(bytes(from, to));
  }

 private:
  double min_bytes(bool compressed) const {
    const StageCosts& costs = model_.stages;
    double result = costs.layers() > 1 ? costs.boundary_bytes(1, compressed) : 0;
    for (int i = 2; i < costs.layers(); ++i) result = std::min(result, costs.boundary_bytes(i, compressed));
    return result;
  }
  double bytes(int from, int to) const { return model_.is_compressed(from, to) ? compressed_ : whole_; }

  const IterationModel& model_;
  const double whole_ = min_bytes(false), compressed_ = min_bytes(true);
};

template <class Cost>
SpanningTreeBound spanning(const std::vector<int>& devices, const StopFunction& stop, const Cost& cost) {
  return SpanningTreeBound(
      static_cast<int>(devices.size()), [&](int a, int b) { return cost(devices[at(a)], devices[at(b)]); },
      stop);
}

}  // namespace

SpanningTreeBound hop_costs(const IterationModel& model, const std::vector<int>& devices,
                            const StopFunction& stop) {
  const SmallestMessages messages(model);
  return spanning(devices, stop,
                  [&](int a, int b) { return messages.total_s(a, b) + messages.total_s(b, a); });
}

SpanningTreeBound hop_occupancies(const IterationModel& model, const std::vector<int>& devices,
                                  const StopFunction& stop) {
  const SmallestMessages messages(model);
  return spanning(devices, stop, [&](int a, int b) {
    return std::max(messages.occupancy_s(a, b), messages.occupancy_s(b, a));
  });
}

SpanningTreeBound one_way_costs(const IterationModel& model, const std::vector<int>& devices,
                                const StopFunction& stop) {
  const SmallestMessages messages(model);
  return spanning(devices, stop,
                  [&](int a, int b) { return std::min(messages.total_s(a, b), messages.total_s(b, a)); });
}

SpanningTreeBound one_way_occupancies(const IterationModel& model, const std::vector<int>& devices,
                                      const StopFunction& stop) {
  const SmallestMessages messages(model);
  return spanning(devices, stop, [&](int a, int b) {
    return std::min(messages.occupancy_s(a, b), messages.occupancy_s(b, a));
  });
}

SpanningTreeBound min_message_costs(const IterationModel& model, const std::vector<int>& devices,
                                    const StopFunction& stop) {
  return spanning(devices, stop, [&](int a, int b) {
    return std::min(model.network.message(a, b).total_s(0), model.network.message(b, a).total_s(0));
  });
}

SpanningTreeBound min_byte_costs(const IterationModel& model, const std::vector<int>& devices,
                                 const StopFunction& stop) {
  return spanning(devices, stop, [&](int a, int b) {
    return std::min(model.network.message(a, b).seconds_per_byte,
                    model.network.message(b, a).seconds_per_byte);
  });
}

HopBound min_hop_between(const IterationModel& model, const std::vector<std::vector<int>>& groups) {
  const SmallestMessages messages(model);
  HopBound hop{infinity, infinity};
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      for (const int a : groups[i])
        for (const int b : groups[j]) {
          hop.total_s = std::min(hop.total_s, messages.total_s(a, b) + messages.total_s(b, a));
          hop.busy_s = std::min({hop.busy_s, messages.occupancy_s(a, b), messages.occupancy_s(b, a)});
        }
  return hop;
}

}  // namespace dtfm::cost
