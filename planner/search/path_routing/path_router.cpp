#include "planner/search/path_routing/path_router.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "planner/search/path_routing/path_dispatch.hpp"
#include "planner/search/path_routing/reservations.hpp"

namespace dtfm::search {
namespace {

/// A partial path that ends at a device.
struct Label {
  double end = 0;  // s, end of the forward on its last device
  int resource = no_index;
  int before = no_index;  // label of the path without its last device
};
using Labels = std::vector<int>;

class Router {
 public:
  explicit Router(const RoutingProblem& problem);
  Routing route();
  /// Whether dispatching the paths deadlocks, so that only the order of the reservation table is left.
  bool is_deadlocked() const { return is_deadlocked_; }

 private:
  struct Row {  // row of the reservation table: one device
    const StageResource* resource;
    int visits_left = 0;
    Reservations busy;
    std::vector<double> freed;  // s, ascending: when it finishes each micro-batch
  };

  int last_stage() const { return static_cast<int>(problem_.stages.size()) - 1; }
  bool is_middle(int stage) const { return stage > 0 && stage < last_stage(); }
  int visits() const { return last_stage() + 1 - problem_.skipped; }
  int visits_of(int stage) const;
  void assign_visits(int stage);
  std::vector<PlannedComputation> best_order(const std::vector<std::vector<int>>& paths);

  bool can_end(int stage, int visited) const;
  bool must_visit(int stage) const { return left_[at(stage)] == problem_.micro_batches - routed_; }
  bool may_visit(int stage) const { return is_middle(stage) && left_[at(stage)] > 0; }
  std::vector<int> search_path();
  std::vector<int> greedy();
  Labels visit(const Labels& from, int stage);
  void add(Labels& labels, const Label& label);
  void add(Labels& labels, const Labels& more);
  int best_of(const Labels& labels) const;
  std::vector<int> path_to(int label) const;

  Interval message_time(const Message& message, double ready) const;
  Interval forward_time(int from, int to, double ready) const;
  void reserve(int micro_batch, const std::vector<int>& path);
  double reserve_links(int from, int to, double bytes, double ready);
  double reserve_device(int micro_batch, int resource, double ready, double seconds);

  const RoutingProblem& problem_;
  std::vector<Row> rows_;
  std::vector<int> first_;  // by stage: its first row; then the number of rows
  std::vector<int> left_;   // by stage: visits still to be made
  std::vector<Reservations> links_;
  std::vector<Label> labels_;                     // of the current search
  std::vector<PlannedComputation> computations_;  // as reserved in the table
  long long expanded_ = 0;
  int routed_ = 0;
  bool is_deadlocked_ = false;
};

Router::Router(const RoutingProblem& problem) : problem_(problem) {
  DTFM_ASSERT(!problem.stages.empty() && problem.skipped >= 0 &&
              problem.skipped <= std::max(0, last_stage() - 1));
  constexpr double max_computations = 2e7;  // the limit of iteration_graph
  if (const double count = 2.0 * problem.micro_batches * visits(); count > max_computations)
    throw Error("", fmt::format("the paths have {:.3g} computations per iteration; the maximum is {:.3g}",
                                count, max_computations));
  for (int stage = 0; stage <= last_stage(); ++stage) {
    first_.push_back(static_cast<int>(rows_.size()));
    left_.push_back(visits_of(stage));
    for (const StageResource& resource : problem.stages[at(stage)]) rows_.push_back({&resource, 0, {}, {}});
  }
  first_.push_back(static_cast<int>(rows_.size()));
  for (int stage = 0; stage <= last_stage(); ++stage) assign_visits(stage);
}

int Router::visits_of(int stage) const {
  if (!is_middle(stage)) return problem_.micro_batches;
  const int middle = last_stage() - 1;
  const auto [begin, end] = even_split(problem_.micro_batches * (visits() - 2), middle, stage - 1);
  return end - begin;
}

/// Divides the visits of a stage among its devices in proportion to their speeds, by largest remainder.
void Router::assign_visits(int stage) {
  std::vector<double> speeds;
  for (const StageResource& it : problem_.stages[at(stage)]) {
    const double seconds = it.forward_s + it.backward_s;
    speeds.push_back(seconds > 0 ? 1 / seconds : 1);
  }
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<std::pair<double, int>> remainders;
  int left = left_[at(stage)];
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double share = left_[at(stage)] * speeds[i] / sum;
    Row& row = rows_[at(first_[at(stage)]) + i];
    row.visits_left = std::min(left, static_cast<int>(share));
    left -= row.visits_left;
    remainders.emplace_back(row.visits_left - share, first_[at(stage)] + static_cast<int>(i));
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; left > 0; ++i, --left)
    ++rows_[at(remainders[i % remainders.size()].second)].visits_left;
}

Routing Router::route() {
  Routing routing;
  std::vector<std::vector<int>> paths;
  for (; routed_ < problem_.micro_batches; ++routed_) {
    const bool searches = expanded_ < problem_.budget;
    if (!searches) ++routing.greedy;
    paths.push_back(searches ? search_path() : greedy());
    reserve(routed_, paths.back());
    routing.schedule.paths.emplace_back();
    for (const int resource : paths.back())
      routing.schedule.paths.back().push_back(rows_[at(resource)].resource->place);
  }
  for (const PlannedComputation& it : best_order(paths)) {
    routing.schedule.order.push_back(it.micro_batch);
    routing.planned.push_back(it.time);
  }
  return routing;
}

/// The order of the reservation table, which has gaps, or the one without idling: whichever finishes first.
std::vector<PlannedComputation> Router::best_order(const std::vector<std::vector<int>>& paths) {
  std::stable_sort(computations_.begin(), computations_.end(),
                   [](const auto& a, const auto& b) { return a.time.begin < b.time.begin; });
  std::vector<const StageResource*> resources;
  for (const Row& row : rows_) resources.push_back(row.resource);
  const auto dispatch_order = dispatch(problem_, resources, paths);
  is_deadlocked_ = !dispatch_order;
  const auto by_end = [](const auto& a, const auto& b) { return a.time.end < b.time.end; };
  const auto end = [&](const std::vector<PlannedComputation>& computations) {
    return std::max_element(computations.begin(), computations.end(), by_end)->time.end;
  };
  return dispatch_order && end(*dispatch_order) <= end(computations_) ? *dispatch_order : computations_;
}

/// Whether a path with `visited` visits before `stage` can be completed with the right number of visits. Some
/// stages must be visited by all remaining micro-batches, others have had all their visits. Balance requires
/// nothing else: as long as no stage has more visits left than there are micro-batches, and together they
/// have as many left as these micro-batches will make, the visits can be distributed.
bool Router::can_end(int stage, int visited) const {
  int must = visited, may = visited;
  for (int later = stage; later < last_stage(); ++later) {
    if (must_visit(later)) ++must;
    if (may_visit(later)) ++may;
  }
  return must <= visits() - 1 && may >= visits() - 1;
}

std::vector<int> Router::search_path() {
  labels_.clear();
  const Labels start = visit({no_index}, 0);
  if (last_stage() == 0) return path_to(best_of(start));
  // [stage][visited]: partial paths for which all stages before `stage` are decided.
  std::vector<std::vector<Labels>> paths(at(last_stage() + 2), std::vector<Labels>(at(visits() + 2)));
  paths[1][1] = start;
  for (int stage = 1; stage < last_stage(); ++stage)
    for (int visited = 1; visited < visits(); ++visited) {
      const Labels& from = paths[at(stage)][at(visited)];
      if (from.empty()) continue;
      const auto next = [&](int stages, int more) -> Labels& {
        return paths[at(stage + stages)][at(visited + more)];
      };
      if (may_visit(stage) && can_end(stage + 1, visited + 1)) add(next(1, 1), visit(from, stage));
      if (!must_visit(stage) && can_end(stage + 1, visited)) add(next(1, 0), from);
      if (problem_.allow_swaps && may_visit(stage) && may_visit(stage + 1) && can_end(stage + 2, visited + 2))
        add(next(2, 2), visit(visit(from, stage + 1), stage));
    }
  return path_to(best_of(visit(paths[at(last_stage())][at(visits() - 1)], last_stage())));
}

std::vector<int> Router::greedy() {
  labels_.clear();
  std::vector<int> stages;
  for (int stage = 1; stage < last_stage(); ++stage) stages.push_back(stage);
  std::stable_sort(stages.begin(), stages.end(), [&](int a, int b) { return left_[at(a)] > left_[at(b)]; });
  if (last_stage() > 0) stages.resize(at(visits() - 2));
  std::sort(stages.begin(), stages.end());
  if (last_stage() > 0) stages.push_back(last_stage());
  int label = best_of(visit({no_index}, 0));
  for (const int stage : stages) label = best_of(visit({label}, stage));
  return path_to(label);
}

/// Extends the partial paths to each device of a stage that has visits left, keeping the best for each
/// device.
Labels Router::visit(const Labels& from, int stage) {
  Labels reached;
  for (int to = first_[at(stage)]; to < first_[at(stage) + 1]; ++to) {
    if (rows_[at(to)].visits_left == 0) continue;
    std::optional<Label> best;
    for (const int label : from) {
      const Label before = label == no_index ? Label{} : labels_[at(label)];
      const double end = forward_time(before.resource, to, before.end).end;
      if (!best || end < best->end) best = Label{end, to, label};
    }
    expanded_ += static_cast<long long>(from.size());
    if (best) add(reached, *best);
  }
  return reached;
}

void Router::add(Labels& labels, const Label& label) {
  labels.push_back(static_cast<int>(labels_.size()));
  labels_.push_back(label);
}

/// Keeps the faster of two paths to the same device; of equal ones the existing one.
void Router::add(Labels& labels, const Labels& more) {
  for (const int label : more) {
    const auto same = std::find_if(labels.begin(), labels.end(), [&](int it) {
      return labels_[at(it)].resource == labels_[at(label)].resource;
    });
    if (same == labels.end())
      labels.push_back(label);
    else if (labels_[at(label)].end < labels_[at(*same)].end)
      *same = label;
  }
}

int Router::best_of(const Labels& labels) const {
  DTFM_ASSERT(!labels.empty());
  return *std::min_element(labels.begin(), labels.end(),
                           [&](int a, int b) { return labels_[at(a)].end < labels_[at(b)].end; });
}

std::vector<int> Router::path_to(int label) const {
  std::vector<int> path;
  for (; label != no_index; label = labels_[at(label)].before) path.push_back(labels_[at(label)].resource);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Earliest time from `ready` on at which all links of the message are free at once.
Interval Router::message_time(const Message& message, double ready) const {
  for (double before = ready - 1; before != ready;) {
    before = ready;
    for (const int link : message.links)
      if (at(link) < links_.size()) ready = links_[at(link)].first_fit(ready, message.busy_s);
  }
  return {ready, ready + message.busy_s};
}

/// Time of the forward on `to` after one on `from` that ends at `ready`; `from` is no_index on the first
/// device.
Interval Router::forward_time(int from, int to, double ready) const {
  const Row& row = rows_[at(to)];
  const StageResource& resource = *row.resource;
  if (from != no_index) {
    const Message message = problem_.message(from, to, rows_[at(from)].resource->output_bytes);
    ready = message_time(message, ready).end + message.latency_s;
  }
  // Only micro-batches that are not finished occupy room, and there must be fewer of them than
  // `max_in_flight`.
  if (row.freed.size() >= at(resource.max_in_flight))
    ready = std::max(ready, row.freed[row.freed.size() - at(resource.max_in_flight)]);
  const double begin = row.busy.first_fit(ready, resource.forward_s);
  return {begin, begin + resource.forward_s};
}

void Router::reserve(int micro_batch, const std::vector<int>& path) {
  double ready = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Interval time = forward_time(i == 0 ? no_index : path[i - 1], path[i], ready);
    if (i > 0) reserve_links(path[i - 1], path[i], rows_[at(path[i - 1])].resource->output_bytes, ready);
    ready = reserve_device(micro_batch, path[i], time.begin, rows_[at(path[i])].resource->forward_s);
  }
  for (std::size_t i = path.size(); i-- > 0;) {
    Row& row = rows_[at(path[i])];
    if (i + 1 < path.size()) ready = reserve_links(path[i + 1], path[i], row.resource->output_bytes, ready);
    ready = reserve_device(micro_batch, path[i], ready, row.resource->backward_s);
    row.freed.insert(std::upper_bound(row.freed.begin(), row.freed.end(), ready), ready);
    --row.visits_left;
  }
  for (int stage = 0; stage <= last_stage(); ++stage)
    left_[at(stage)] -= static_cast<int>(std::count_if(path.begin(), path.end(), [&](int resource) {
      return resource >= first_[at(stage)] && resource < first_[at(stage) + 1];
    }));
}

/// Reserves the links for a message; returns when it arrives, s.
double Router::reserve_links(int from, int to, double bytes, double ready) {
  const Message message = problem_.message(from, to, bytes);
  const Interval time = message_time(message, ready);
  for (const int link : message.links) {
    if (at(link) >= links_.size()) links_.resize(at(link) + 1);
    links_[at(link)].reserve(time);
  }
  return time.end + message.latency_s;
}

/// Reserves the device for a computation; returns when it ends, s.
double Router::reserve_device(int micro_batch, int resource, double ready, double seconds) {
  const double begin = rows_[at(resource)].busy.first_fit(ready, seconds);
  rows_[at(resource)].busy.reserve({begin, begin + seconds});
  computations_.push_back({{begin, begin + seconds}, micro_batch});
  return begin + seconds;
}

}  // namespace

Routing route(const RoutingProblem& problem) {
  Router router(problem);
  Routing routing = router.route();
  if (!router.is_deadlocked()) return routing;
  // Micro-batches that visit stages in different orders can wait for the room that the other holds. If all
  // visit stages in the same order, none can.
  RoutingProblem in_order = problem;
  in_order.allow_swaps = false;
  Routing other = Router(in_order).route();
  return end_time(other) < end_time(routing) ? other : routing;
}

double end_time(const Routing& routing) {
  double end = 0;
  for (const Interval& it : routing.planned) end = std::max(end, it.end);
  return end;
}

}  // namespace dtfm::search
