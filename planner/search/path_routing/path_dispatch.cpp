#include "planner/search/path_routing/path_dispatch.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "core/base/index.hpp"

namespace dtfm::search {
namespace {

struct Event {
  enum class Kind { done, arrives };
  double date = 0;
  Kind kind = Kind::arrives;
  int micro_batch = 0;

  friend bool operator>(const Event& a, const Event& b) {
    return std::tie(a.date, a.kind, a.micro_batch) > std::tie(b.date, b.kind, b.micro_batch);
  }
};

class Dispatcher {
 public:
  Dispatcher(const RoutingProblem& problem, const std::vector<const StageResource*>& resources,
             const std::vector<std::vector<int>>& paths)
      : problem_(problem),
        resources_(resources),
        paths_(paths),
        next_operation_(paths.size()),
        devices_(resources.size()) {}

  std::optional<std::vector<PlannedComputation>> computations() {
    std::size_t all = 0;
    for (int i = 0; at(i) < paths_.size(); ++i) {
      events_.push({0, Event::Kind::arrives, i});
      all += 2 * paths_[at(i)].size();
    }
    while (!events_.empty()) {
      const double now = events_.top().date;
      std::set<int> changed_devices;
      for (; !events_.empty() && events_.top().date == now; events_.pop()) {
        const Event event = events_.top();
        changed_devices.insert(resource_of(event.micro_batch));
        if (event.kind == Event::Kind::arrives)
          arrive(event);
        else
          finish(event);
      }
      for (const int device : changed_devices) start_next(device, now);
    }
    if (computations_.size() < all) return std::nullopt;
    return std::move(computations_);
  }

 private:
  struct State {
    bool busy = false;
    int held = 0;                                          // micro-batches in flight
    std::set<std::pair<double, int>> forwards, backwards;  // {arrival time in s, micro-batch} waiting here
  };

  std::size_t visits(int micro_batch) const { return paths_[at(micro_batch)].size(); }
  bool is_backward(int micro_batch) const { return next_operation_[at(micro_batch)] >= visits(micro_batch); }
  int resource_of(int micro_batch) const {
    const std::size_t turn = next_operation_[at(micro_batch)], count = visits(micro_batch);
    return paths_[at(micro_batch)][turn < count ? turn : 2 * count - 1 - turn];
  }

  void arrive(const Event& event) {
    State& device = devices_[at(resource_of(event.micro_batch))];
    (is_backward(event.micro_batch) ? device.backwards : device.forwards)
        .emplace(event.date, event.micro_batch);
  }

  void finish(const Event& event) {
    const int here = resource_of(event.micro_batch);
    const bool back = is_backward(event.micro_batch);
    devices_[at(here)].busy = false;
    if (back) --devices_[at(here)].held;
    if (++next_operation_[at(event.micro_batch)] == 2 * visits(event.micro_batch)) {
      --next_operation_[at(event.micro_batch)];  // it is done, and stays at its last device
      return;
    }
    const int next = resource_of(event.micro_batch);
    const double there = next == here ? event.date : send_message(here, next, back ? next : here, event.date);
    events_.push({there, Event::Kind::arrives, event.micro_batch});
  }

  /// Sends the output of device `boundary`, or its gradient, at `now`; returns when it arrives, s.
  double send_message(int from, int to, int boundary, double now) {
    const Message message = problem_.message(from, to, resources_[at(boundary)]->output_bytes);
    for (const int link : message.links) {
      if (at(link) >= link_free_.size()) link_free_.resize(at(link) + 1);
      now = std::max(now, link_free_[at(link)]);
    }
    for (const int link : message.links) link_free_[at(link)] = now + message.busy_s;
    return now + message.busy_s + message.latency_s;
  }

  void start_next(int number, double now) {
    State& device = devices_[at(number)];
    const StageResource& resource = *resources_[at(number)];
    const bool back = !device.backwards.empty();
    auto& ready = back ? device.backwards : device.forwards;
    if (device.busy || ready.empty() || (!back && device.held >= resource.max_in_flight)) return;
    const int micro_batch = ready.begin()->second;
    ready.erase(ready.begin());
    device.busy = true;
    if (!back) ++device.held;
    const double end = now + (back ? resource.backward_s : resource.forward_s);
    computations_.push_back({{now, end}, micro_batch});
    events_.push({end, Event::Kind::done, micro_batch});
  }

  const RoutingProblem& problem_;
  const std::vector<const StageResource*>& resources_;
  const std::vector<std::vector<int>>& paths_;
  std::vector<std::size_t> next_operation_;  // by micro-batch: current or next operation
  std::vector<State> devices_;
  std::vector<double> link_free_;  // s, by link: when it becomes free
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<PlannedComputation> computations_;
};

}  // namespace

std::optional<std::vector<PlannedComputation>> dispatch(const RoutingProblem& problem,
                                                        const std::vector<const StageResource*>& resources,
                                                        const std::vector<std::vector<int>>& paths) {
  return Dispatcher(problem, resources, paths).computations();
}

}  // namespace dtfm::search
