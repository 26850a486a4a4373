#include "simulator/sync/sync.hpp"

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm::sim {
namespace {

struct Sync {
  std::string_view name;
  std::vector<int> (*add)(GraphBuilder&, const Exchange&);
};

constexpr Sync syncs[] = {{"sharded-ps", sharded_ps},
                          {"central-ps", central_ps},
                          {"ring", ring},
                          {"tree", tree},
                          {"hierarchical", hierarchical}};

TaskLabel label_of(Activity activity, const Exchange& exchange, int phase) {
  TaskLabel label;
  label.activity = activity;
  label.layer = exchange.layer;
  label.rank = exchange.part;
  label.phase = phase;
  return label;
}

}  // namespace

int ExchangeMessages::send(int from, int to, double bytes, std::span<const int> after, int phase) {
  const double sent = bytes / builder_.constants().sync_efficiency;
  return builder_.send(builder_.channel(from, to, Activity::exchange), sent, after,
                       label_of(Activity::exchange, exchange_, phase));
}

int ExchangeMessages::join(const std::vector<int>& tasks, int device, int phase) {
  TaskLabel label = label_of(Activity::wait, exchange_, phase);
  label.device = device;
  return builder_.wait(0, tasks, label);
}

std::vector<int> add_exchange(GraphBuilder& builder, std::string_view name, const Exchange& exchange) {
  DTFM_ASSERT(exchange.devices.size() > 1);
  for (const Sync& sync : syncs)
    if (sync.name == name) return sync.add(builder, exchange);
  throw Error("", fmt::format("there is no gradient_sync `{}`", name));
}

}  // namespace dtfm::sim
