#include "planner/search/path_routing/path_router.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/plan.hpp"
#include "planner/search/path_routing/busy_times.hpp"
#include "planner/search/path_routing/path_dispatch.hpp"

namespace dtfm::search {
namespace {

/// A way up to a device.
struct Label {
  double end = 0;  // of the forward there
  int station = no_index;
  int before = no_index;  // the label that it goes on from
};
using Labels = std::vector<int>;

class Router {
 public:
  explicit Router(const RoutingProblem& problem);
  Routing route();
  /// Whether the order of the table is all there is.
  bool is_stuck() const { return is_stuck_; }

 private:
  struct Row {  // of the table: a device
    const Station* station;
    int visits_left = 0;
    BusyTimes busy;
    std::vector<double> freed;  // when it is done with each micro-batch, ascending
  };

  int last_stage() const { return static_cast<int>(problem_.stages.size()) - 1; }
  bool is_middle(int stage) const { return stage > 0 && stage < last_stage(); }
  int visits() const { return last_stage() + 1 - problem_.skipped; }
  int visits_of(int stage) const;
  void share_visits(int stage);
  std::vector<PlannedComputation> best_order(const std::vector<std::vector<int>>& ways);

  bool can_end(int stage, int visited) const;
  bool must_visit(int stage) const { return left_[at(stage)] == problem_.micro_batches - routed_; }
  bool may_visit(int stage) const { return is_middle(stage) && left_[at(stage)] > 0; }
  std::vector<int> searched();
  std::vector<int> greedy();
  Labels visit(const Labels& from, int stage);
  void add(Labels& labels, const Label& label);
  void add(Labels& labels, const Labels& more);
  int best_of(const Labels& labels) const;
  std::vector<int> way_to(int label) const;

  Interval message_time(const Message& message, double ready) const;
  Interval forward_time(int from, int to, double ready) const;
  void take(int micro_batch, const std::vector<int>& way);
  double sent(int from, int to, double bytes, double ready);
  double computed(int micro_batch, int station, double ready, double seconds);

  const RoutingProblem& problem_;
  std::vector<Row> rows_;
  std::vector<int> first_;  // row of each stage, and one more
  std::vector<int> left_;   // visits of each stage
  std::vector<BusyTimes> links_;
  std::vector<Label> labels_;                     // of one search
  std::vector<PlannedComputation> computations_;  // by the table
  long long looked_at_ = 0;
  int routed_ = 0;
  bool is_stuck_ = false;
};

Router::Router(const RoutingProblem& problem) : problem_(problem) {
  DTFM_ASSERT(!problem.stages.empty() && problem.skipped >= 0 &&
              problem.skipped <= std::max(0, last_stage() - 1));
  constexpr double most_computations = 2e7;  // as of iteration_graph
  if (const double count = 2.0 * problem.micro_batches * visits(); count > most_computations)
    throw Error("", fmt::format("the paths have {:.3g} computations an iteration; {:.3g} are the most", count,
                                most_computations));
  for (int stage = 0; stage <= last_stage(); ++stage) {
    first_.push_back(static_cast<int>(rows_.size()));
    left_.push_back(visits_of(stage));
    for (const Station& station : problem.stages[at(stage)]) rows_.push_back({&station, 0, {}, {}});
  }
  first_.push_back(static_cast<int>(rows_.size()));
  for (int stage = 0; stage <= last_stage(); ++stage) share_visits(stage);
}

int Router::visits_of(int stage) const {
  if (!is_middle(stage)) return problem_.micro_batches;
  const int middle = last_stage() - 1;
  const auto [begin, end] = even_split(problem_.micro_batches * (visits() - 2), middle, stage - 1);
  return end - begin;
}

/// Of a stage among its devices.
void Router::share_visits(int stage) {
  std::vector<double> speeds;
  for (const Station& it : problem_.stages[at(stage)]) {
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
  std::vector<std::vector<int>> ways;
  for (; routed_ < problem_.micro_batches; ++routed_) {
    const bool searches = looked_at_ < problem_.budget;
    if (!searches) ++routing.greedy;
    ways.push_back(searches ? searched() : greedy());
    take(routed_, ways.back());
    routing.schedule.paths.emplace_back();
    for (const int station : ways.back())
      routing.schedule.paths.back().push_back(rows_[at(station)].station->place);
  }
  for (const PlannedComputation& it : best_order(ways)) {
    routing.schedule.order.push_back(it.micro_batch);
    routing.planned.push_back(it.time);
  }
  return routing;
}

/// That of the table, which has gaps where nothing fits, or without gaps: whichever is done first.
std::vector<PlannedComputation> Router::best_order(const std::vector<std::vector<int>>& ways) {
  std::stable_sort(computations_.begin(), computations_.end(),
                   [](const auto& a, const auto& b) { return a.time.begin < b.time.begin; });
  std::vector<const Station*> stations;
  for (const Row& row : rows_) stations.push_back(row.station);
  const auto without_gaps = dispatched(problem_, stations, ways);
  is_stuck_ = !without_gaps;
  const auto by_end = [](const auto& a, const auto& b) { return a.time.end < b.time.end; };
  const auto end = [&](const std::vector<PlannedComputation>& computations) {
    return std::max_element(computations.begin(), computations.end(), by_end)->time.end;
  };
  return without_gaps && end(*without_gaps) <= end(computations_) ? *without_gaps : computations_;
}

/// Whether so many visits before `stage` can become the right number before the last one: some stages must be
/// visited by all micro-batches that are left, some have been visited enough. That is all that balance asks
/// for: as long as no stage lacks more visits than there are micro-batches, and all lack as many as these
/// will make, they can be dealt out.
bool Router::can_end(int stage, int visited) const {
  int must = visited, may = visited;
  for (int later = stage; later < last_stage(); ++later) {
    if (must_visit(later)) ++must;
    if (may_visit(later)) ++may;
  }
  return must <= visits() - 1 && may >= visits() - 1;
}

std::vector<int> Router::searched() {
  labels_.clear();
  const Labels start = visit({no_index}, 0);
  if (last_stage() == 0) return way_to(best_of(start));
  // [stage][visited]: ways that have decided on all stages before
  std::vector<std::vector<Labels>> ways(at(last_stage() + 2), std::vector<Labels>(at(visits() + 2)));
  ways[1][1] = start;
  for (int stage = 1; stage < last_stage(); ++stage)
    for (int visited = 1; visited < visits(); ++visited) {
      const Labels& from = ways[at(stage)][at(visited)];
      if (from.empty()) continue;
      const auto next = [&](int stages, int more) -> Labels& {
        return ways[at(stage + stages)][at(visited + more)];
      };
      if (may_visit(stage) && can_end(stage + 1, visited + 1)) add(next(1, 1), visit(from, stage));
      if (!must_visit(stage) && can_end(stage + 1, visited)) add(next(1, 0), from);
      if (problem_.swaps && may_visit(stage) && may_visit(stage + 1) && can_end(stage + 2, visited + 2))
        add(next(2, 2), visit(visit(from, stage + 1), stage));
    }
  return way_to(best_of(visit(ways[at(last_stage())][at(visits() - 1)], last_stage())));
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
  return way_to(label);
}

/// The best way to each device of a stage that has visits left.
Labels Router::visit(const Labels& from, int stage) {
  Labels reached;
  for (int to = first_[at(stage)]; to < first_[at(stage) + 1]; ++to) {
    if (rows_[at(to)].visits_left == 0) continue;
    std::optional<Label> best;
    for (const int label : from) {
      const Label before = label == no_index ? Label{} : labels_[at(label)];
      const double end = forward_time(before.station, to, before.end).end;
      if (!best || end < best->end) best = Label{end, to, label};
    }
    looked_at_ += static_cast<long long>(from.size());
    if (best) add(reached, *best);
  }
  return reached;
}

void Router::add(Labels& labels, const Label& label) {
  labels.push_back(static_cast<int>(labels_.size()));
  labels_.push_back(label);
}

/// Of two ways to a device the one that is there first; of equals the one that was there already.
void Router::add(Labels& labels, const Labels& more) {
  for (const int label : more) {
    const auto same = std::find_if(labels.begin(), labels.end(), [&](int it) {
      return labels_[at(it)].station == labels_[at(label)].station;
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

std::vector<int> Router::way_to(int label) const {
  std::vector<int> way;
  for (; label != no_index; label = labels_[at(label)].before) way.push_back(labels_[at(label)].station);
  std::reverse(way.begin(), way.end());
  return way;
}

/// On its links, all at once.
Interval Router::message_time(const Message& message, double ready) const {
  for (double before = ready - 1; before != ready;) {
    before = ready;
    for (const int link : message.links)
      if (at(link) < links_.size()) ready = links_[at(link)].first_fit(ready, message.busy_s);
  }
  return {ready, ready + message.busy_s};
}

/// `from`: no_index for the first.
Interval Router::forward_time(int from, int to, double ready) const {
  const Row& row = rows_[at(to)];
  const Station& station = *row.station;
  if (from != no_index) {
    const Message message = problem_.message(from, to, rows_[at(from)].station->output_bytes);
    ready = message_time(message, ready).end + message.latency_s;
  }
  // Who comes now meets those alone that are not done yet, and of them there must be fewer than it can hold.
  if (row.freed.size() >= at(station.most_held))
    ready = std::max(ready, row.freed[row.freed.size() - at(station.most_held)]);
  const double begin = row.busy.first_fit(ready, station.forward_s);
  return {begin, begin + station.forward_s};
}

void Router::take(int micro_batch, const std::vector<int>& way) {
  double ready = 0;
  for (std::size_t i = 0; i < way.size(); ++i) {
    const Interval time = forward_time(i == 0 ? no_index : way[i - 1], way[i], ready);
    if (i > 0) sent(way[i - 1], way[i], rows_[at(way[i - 1])].station->output_bytes, ready);
    ready = computed(micro_batch, way[i], time.begin, rows_[at(way[i])].station->forward_s);
  }
  for (std::size_t i = way.size(); i-- > 0;) {
    Row& row = rows_[at(way[i])];
    if (i + 1 < way.size()) ready = sent(way[i + 1], way[i], row.station->output_bytes, ready);
    ready = computed(micro_batch, way[i], ready, row.station->backward_s);
    row.freed.insert(std::upper_bound(row.freed.begin(), row.freed.end(), ready), ready);
    --row.visits_left;
  }
  for (int stage = 0; stage <= last_stage(); ++stage)
    left_[at(stage)] -= static_cast<int>(std::count_if(way.begin(), way.end(), [&](int station) {
      return station >= first_[at(stage)] && station < first_[at(stage) + 1];
    }));
}

/// When it is there.
double Router::sent(int from, int to, double bytes, double ready) {
  const Message message = problem_.message(from, to, bytes);
  const Interval time = message_time(message, ready);
  for (const int link : message.links) {
    if (at(link) >= links_.size()) links_.resize(at(link) + 1);
    links_[at(link)].take(time);
  }
  return time.end + message.latency_s;
}

/// When it is done.
double Router::computed(int micro_batch, int station, double ready, double seconds) {
  const double begin = rows_[at(station)].busy.first_fit(ready, seconds);
  rows_[at(station)].busy.take({begin, begin + seconds});
  computations_.push_back({{begin, begin + seconds}, micro_batch});
  return begin + seconds;
}

}  // namespace

Routing route(const RoutingProblem& problem) {
  Router router(problem);
  Routing routing = router.route();
  if (!router.is_stuck()) return routing;
  // Two that visit stages in different orders wait for the room that the other takes. In one order nobody
  // does.
  RoutingProblem in_order = problem;
  in_order.swaps = false;
  Routing other = Router(in_order).route();
  return end_of(other) < end_of(routing) ? other : routing;
}

double end_of(const Routing& routing) {
  double end = 0;
  for (const Interval& it : routing.planned) end = std::max(end, it.end);
  return end;
}

}  // namespace dtfm::search
