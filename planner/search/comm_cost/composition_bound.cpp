#include "planner/search/comm_cost/composition_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "planner/search/comm_cost/device_class_network.hpp"
#include "planner/search/comm_cost/hop_levels.hpp"

namespace dtfm::search {
namespace {

constexpr long long work_of_effort = 1000;  // see `is_spent`; takes some microseconds
constexpr long long max_sync_ranges = 64;
constexpr double rounding = 1e-12;  // relative: terms are summed in another order than in comm_cost

/// Bytes that an allocation takes on the heap, including its header, in multiples of 16.
std::size_t heap_bytes(std::size_t bytes) {
  return std::max<std::size_t>(32, (bytes + 8 + 15) / 16 * 16);
}

/// A partial sequence of groups, of which only the last group and the remaining devices matter.
struct State {
  double bound;       // s: no completion costs less
  double sync, path;  // s: slowest gradient synchronization and path length so far
  int left;           // groups still to come
  Counts remaining, last;
};

struct LaterBound {
  bool operator()(const State& a, const State& b) const {
    if (a.bound != b.bound) return a.bound > b.bound;
    return a.left > b.left;
  }
};

class CompositionSearch {
 public:
  CompositionSearch(const cost::CommCostModel& model, const DeviceClasses& classes, double upper_bound,
                    long long max_effort, const StopFunction& stop, std::size_t max_bytes)
      : stages_(model.stages),
        replicas_(model.replicas),
        stop_(stop),
        network_(model, classes, [this] { return must_stop(); }),
        counts_bytes_(heap_bytes(at(classes.count) * sizeof(std::int16_t))),
        upper_bound_(upper_bound),
        max_effort_(max_effort),
        max_bytes_(max_bytes) {}

  CompositionBound run();

 private:
  struct RunShares {
    std::vector<double> of_class;
    std::vector<double> largest;  // by component: the largest share of its classes
  };

  struct Level : HopLevel {
    std::vector<RunShares> runs;  // by sync range, see `set_run_shares`
  };

  struct OpenRange {
    std::size_t range;
    double sync, path;
  };

  bool prepare();
  bool enumerate(Counts& counts, int c, int left);
  void find_sync_ranges();
  bool set_run_shares(Level& level);
  void join_equal_ranges();
  int longest_run(const Level& level, const Counts& counts);
  /// Latches: once true, it stays true.
  bool must_stop() { return stopped_ = stopped_ || is_stopped(stop_); }
  std::size_t bytes() const;
  bool is_spent() const;
  bool start();
  bool expand(const State& state);
  void push(State state);
  State take_first();
  double min_hop(const Counts& from, const Counts& to);
  double lower_bound_of(const State& state);
  double entry_costs(const State& state);
  bool needs_crossing(const State& state) const;
  int max_continuing(const Level& level, const State& state) const;
  double min_new_runs(const RunShares& shares, int continued, const State& state) const;
  void sum_components(const Level& level, const State& state);

  int stages_, replicas_;
  const StopFunction& stop_;
  bool stopped_ = false;
  DeviceClassNetwork network_;
  std::size_t counts_bytes_;  // heap bytes of one Counts
  double upper_bound_;
  long long max_effort_;
  std::size_t max_bytes_;
  std::vector<Level> levels_;              // in ascending order of cost
  std::vector<Composition> compositions_;  // in ascending order of sync
  std::vector<double> sync_ranges_;        // range i is [sync_ranges_[i], sync_ranges_[i + 1])
  std::vector<State> open_;                // binary heap, least bound first
  std::map<std::pair<Counts, Counts>, std::vector<std::pair<double, double>>>
      seen_;                      // non-dominated (sync, path) of every visited (remaining, last)
  std::size_t known_points_ = 0;  // total capacity of the values of `seen_`
  std::vector<double> entry_;     // scratch
  std::vector<int> rest_, now_, share_;
  std::vector<OpenRange> open_ranges_;
  long long effort_ = 0;  // continuations evaluated
  long long work_ = 0;    // classes visited for them, over all levels and ranges
};

/// Returns false if told to stop; the object must not be used then.
bool CompositionSearch::prepare() {
  if (must_stop()) return false;
  for (HopLevel& level : hop_levels(network_)) levels_.push_back({std::move(level), {}});
  Counts counts(at(network_.classes()));
  if (!enumerate(counts, 0, replicas_)) return false;
  std::stable_sort(compositions_.begin(), compositions_.end(),
                   [](const Composition& a, const Composition& b) { return a.sync < b.sync; });
  find_sync_ranges();
  for (Level& level : levels_)
    if (!set_run_shares(level)) return false;
  join_equal_ranges();
  return true;
}

bool CompositionSearch::enumerate(Counts& counts, int c, int left) {
  if (c == network_.classes()) {
    if (left > 0) return true;
    if (must_stop()) return false;
    Composition composition = network_.measure(counts);
    if (composition.sync + (stages_ - 1) * network_.fastest_hop() < upper_bound_)
      compositions_.push_back(std::move(composition));
    return true;
  }
  for (int taken = std::min(left, network_.size(c)); taken >= 0; --taken) {
    counts[at(c)] = static_cast<std::int16_t>(taken);
    if (!enumerate(counts, c + 1, left - taken)) return false;
  }
  counts[at(c)] = 0;
  return true;
}

/// Upper bound on the number of consecutive groups that can hold as many devices of each component as
/// `counts` does.
int CompositionSearch::longest_run(const Level& level, const Counts& counts) {
  share_.assign(at(level.components()), 0);
  for (int c = 0; c < network_.classes(); ++c) {
    if (counts[at(c)] > 0 && network_.min_hop(c) > level.cost)
      return 1;  // no hop within the level touches it
    share_[at(level.component[at(c)])] += counts[at(c)];
  }
  int longest = stages_;
  for (int k = 0; k < level.components(); ++k)
    if (share_[at(k)] > 0) longest = std::min(longest, level.size[at(k)] / share_[at(k)]);
  return longest;
}

/// Splits the synchronization costs that groups may have into ranges; the bound is the minimum over ranges,
/// each with its own longest runs. Uses as many ranges as the work allows for the sequences of one group;
/// most ranges are pruned early.
void CompositionSearch::find_sync_ranges() {
  const auto work = static_cast<long long>(compositions_.size() * levels_.size() * at(network_.classes()));
  const auto max_ranges = static_cast<std::size_t>(
      std::clamp<long long>(max_effort_ * 2 * work_of_effort / std::max(work, 1LL), 1, max_sync_ranges));
  std::set<double> distinct;
  for (const Composition& composition : compositions_) distinct.insert(composition.sync);
  const std::vector<double> all(distinct.begin(), distinct.end());
  const std::size_t ranges = std::min(max_ranges, all.size());
  for (std::size_t i = 0; i < ranges; ++i) sync_ranges_.push_back(all[i * all.size() / ranges]);
  sync_ranges_.push_back(infinity);
}

// A run is a maximal sequence of groups joined by hops within the level, so all its groups hold equally many
// devices of each component. If groups may synchronize for up to some time, a device of class c is in a run
// of at most l groups, where l is the longest run of any such composition that contains c. So it accounts for
// at least 1 / (l · replicas) of a run, and the remaining devices for at least the sum of their shares.
bool CompositionSearch::set_run_shares(Level& level) {
  const std::size_t n = at(network_.classes());
  std::vector<int> longest(n, 0);
  std::size_t next = 0;
  for (std::size_t range = 0; range + 1 < sync_ranges_.size(); ++range) {
    if (must_stop()) return false;
    for (; next < compositions_.size() && compositions_[next].sync < sync_ranges_[range + 1]; ++next) {
      const Counts& counts = compositions_[next].counts;
      const int run = longest_run(level, counts);
      for (std::size_t c = 0; c < n; ++c)
        if (counts[c] > 0) longest[c] = std::max(longest[c], run);
    }
    RunShares shares{std::vector<double>(n), std::vector<double>(at(level.components()))};
    for (std::size_t c = 0; c < n; ++c) {
      shares.of_class[c] = longest[c] > 0 ? 1.0 / (longest[c] * replicas_) : infinity;
      double& largest = shares.largest[at(level.component[c])];
      if (longest[c] > 0) largest = std::max(largest, shares.of_class[c]);
    }
    level.runs.push_back(std::move(shares));
  }
  return true;
}

/// Slower synchronization that allows no longer runs gains nothing, so the range is merged with the faster
/// one before it.
void CompositionSearch::join_equal_ranges() {
  for (std::size_t range = sync_ranges_.size() - 1; range-- > 1;) {
    const auto equal = [&](const Level& level) {
      return level.runs[range].of_class == level.runs[range - 1].of_class;
    };
    if (!std::all_of(levels_.begin(), levels_.end(), equal)) continue;
    const auto index = static_cast<std::ptrdiff_t>(range);
    sync_ranges_.erase(sync_ranges_.begin() + index);
    for (Level& level : levels_) level.runs.erase(level.runs.begin() + index);
  }
}

void CompositionSearch::sum_components(const Level& level, const State& state) {
  rest_.assign(at(level.components()), 0);
  now_.assign(at(level.components()), 0);
  for (std::size_t c = 0; c < state.last.size(); ++c) {
    rest_[at(level.component[c])] += state.remaining[c];
    now_[at(level.component[c])] += state.last[c];
  }
}

/// Whether the groups still to come cannot all have the composition of the last one. Expects
/// `sum_components`.
bool CompositionSearch::needs_crossing(const State& state) const {
  return !std::equal(rest_.begin(), rest_.end(), now_.begin(),
                     [&](int left, int each) { return left == state.left * each; });
}

/// Upper bound on the number of groups still to come that can continue the run of the last one. Expects
/// `sum_components`.
int CompositionSearch::max_continuing(const Level& level, const State& state) const {
  int limit = state.left;
  for (std::size_t k = 0; k < rest_.size(); ++k)
    if (now_[k] > 0) limit = std::min(limit, rest_[k] / now_[k]);
  for (int c = 0; c < network_.classes(); ++c)
    if (state.last[at(c)] > 0 && network_.min_hop(c) > level.cost) limit = 0;
  return limit;
}

/// Lower bound on the runs that must still begin, each with a hop slower than the level, given the shares of
/// one sync range: the shares of all remaining devices, less those of devices that may continue the run of
/// the last group. The number of the latter is known only by component, so each counts with the largest share
/// there. Expects `sum_components`.
double CompositionSearch::min_new_runs(const RunShares& shares, int continued, const State& state) const {
  double runs = 0, continuing = 0;
  for (std::size_t c = 0; c < shares.of_class.size(); ++c)
    if (state.remaining[c] > 0) runs += state.remaining[c] * shares.of_class[c];
  if (continued == 0 || runs == infinity) return runs;
  for (std::size_t k = 0; k < now_.size(); ++k) continuing += now_[k] * shares.largest[k];
  return runs - continued * continuing;
}

/// Lower bound on the hops still to come: each group is entered by a hop no faster than its slowest member's
/// fastest link, and the k · replicas + 1 devices with the slowest such links occupy at least k + 1 groups.
double CompositionSearch::entry_costs(const State& state) {
  entry_.clear();
  for (int c = 0; c < network_.classes(); ++c)
    entry_.insert(entry_.end(), static_cast<std::size_t>(state.remaining[at(c)]), network_.min_hop(c));
  std::sort(entry_.begin(), entry_.end(), std::greater<>());
  double sum = 0;
  for (int k = 0; k < state.left; ++k) sum += entry_[at(k * replicas_)];
  return sum;
}

// The path still to come costs at least `entry_costs`. It also costs at least its number of hops times the
// fastest hop plus, for each level, the step to the next level times the number of hops that are slower. The
// slower groups may synchronize, the fewer those are, so the bound is the minimum over all sync ranges.
// Ranges that reach the upper bound are pruned on the way.
double CompositionSearch::lower_bound_of(const State& state) {
  if (state.left == 0) return state.sync + state.path;
  const double by_entries = state.path + entry_costs(state);
  const double by_hops = state.path + state.left * network_.fastest_hop();
  open_ranges_.clear();
  for (std::size_t range = 0; range + 1 < sync_ranges_.size(); ++range) {
    const double sync = std::max(state.sync, sync_ranges_[range]);
    if (sync_ranges_[range + 1] > state.sync && sync + std::max(by_entries, by_hops) < upper_bound_)
      open_ranges_.push_back({range, sync, by_hops});
  }
  for (const Level& level : levels_) {
    if (open_ranges_.empty()) return infinity;
    work_ += static_cast<long long>(open_ranges_.size() * state.last.size());
    sum_components(level, state);
    const int continued = max_continuing(level, state);
    const int min_crossings = needs_crossing(state) ? 1 : 0;
    std::erase_if(open_ranges_, [&](OpenRange& open) {
      const double runs = min_new_runs(level.runs[open.range], continued, state);
      const double crossings = std::clamp(std::ceil(runs - 1e-9), double(min_crossings), double(state.left));
      open.path += level.extra() * crossings;
      return runs == infinity || open.sync + open.path >= upper_bound_;
    });
  }
  double bound = infinity;
  for (const OpenRange& open : open_ranges_)
    bound = std::min(bound, open.sync + std::max(by_entries, open.path));
  return bound;
}

void CompositionSearch::push(State state) {
  state.bound = std::max(state.bound, lower_bound_of(state));  // no less than its parent's bound
  if (state.bound >= upper_bound_ * (1 - rounding)) return;
  network_.make_canonical(state.remaining, state.last);
  auto& known = seen_[{state.remaining, state.last}];
  const std::size_t room = known.capacity();
  const auto dominates = [&](const auto& other) {
    return other.first <= state.sync && other.second <= state.path;
  };
  if (std::any_of(known.begin(), known.end(), dominates)) return;
  std::erase_if(known,
                [&](const auto& other) { return state.sync <= other.first && state.path <= other.second; });
  known.emplace_back(state.sync, state.path);
  known_points_ += known.capacity() - room;
  open_.push_back(std::move(state));
  std::push_heap(open_.begin(), open_.end(), LaterBound());
}

State CompositionSearch::take_first() {
  std::pop_heap(open_.begin(), open_.end(), LaterBound());
  State first = std::move(open_.back());
  open_.pop_back();
  return first;
}

/// Heap bytes of everything that grows with the search, with allocations rounded up as by malloc.
std::size_t CompositionSearch::bytes() const {
  using Entry = decltype(seen_)::value_type;
  constexpr std::size_t links = 4 * sizeof(void*);  // pointers and color of a map node
  const std::size_t entry = heap_bytes(links + sizeof(Entry)) + 2 * counts_bytes_ + heap_bytes(0);
  return compositions_.size() * (sizeof(Composition) + counts_bytes_) + open_.capacity() * sizeof(State) +
         open_.size() * 2 * counts_bytes_ + seen_.size() * entry +
         known_points_ * sizeof(std::pair<double, double>);
}

/// On irregular networks with many levels, evaluating a continuation takes a thousand times as long as on
/// regular ones. So work is limited as well, even within an expansion, and so is memory.
bool CompositionSearch::is_spent() const {
  return work_ / work_of_effort >= max_effort_ || bytes() > max_bytes_;
}

/// Returns false if stopped early; no bound is known then.
bool CompositionSearch::start() {
  Counts all(at(network_.classes()));
  for (int c = 0; c < network_.classes(); ++c) all[at(c)] = static_cast<std::int16_t>(network_.size(c));
  for (const Composition& first : compositions_) {
    State state{0, first.sync, 0, stages_ - 1, all, first.counts};
    for (std::size_t c = 0; c < all.size(); ++c)
      state.remaining[c] = static_cast<std::int16_t>(state.remaining[c] - first.counts[c]);
    push(std::move(state));
    if (bytes() > max_bytes_ || must_stop()) return false;
  }
  return true;
}

/// Returns false if stopped early; the bound of `state` is then all that is known.
bool CompositionSearch::expand(const State& state) {
  double min_next_hop = 0;
  for (int c = 0; c < network_.classes(); ++c)
    if (state.last[at(c)] > 0) min_next_hop = std::max(min_next_hop, network_.min_hop(c));
  const double after = state.path + (state.left - 1) * network_.fastest_hop();
  for (const Composition& next : compositions_) {
    const double sync = std::max(state.sync, next.sync);
    if (sync + after + std::max(min_next_hop, next.min_hop) >= upper_bound_ * (1 - rounding)) {
      if (next.sync + after + min_next_hop >= upper_bound_ * (1 - rounding))
        break;  // all further compositions synchronize even more slowly
      continue;
    }
    const bool available = std::equal(next.counts.begin(), next.counts.end(), state.remaining.begin(),
                                      [](auto needed, auto left) { return needed <= left; });
    if (!available) continue;
    State child{state.bound,     sync,       state.path + min_hop(state.last, next.counts), state.left - 1,
                state.remaining, next.counts};
    for (std::size_t c = 0; c < child.remaining.size(); ++c)
      child.remaining[c] = static_cast<std::int16_t>(child.remaining[c] - next.counts[c]);
    ++effort_;
    if (is_spent() || must_stop()) return false;
    if (lower_bound_of(child) >= upper_bound_) continue;
    child.path = state.path + network_.hop_between(state.last, next.counts);
    work_ += 4LL * replicas_ * replicas_;
    push(std::move(child));
  }
  return true;
}

/// Lower bound on a hop: within a level it only joins groups that hold equally many devices of each
/// component.
double CompositionSearch::min_hop(const Counts& from, const Counts& to) {
  double bound = network_.fastest_hop();
  for (const Level& level : levels_) {
    rest_.assign(at(level.components()), 0);
    for (std::size_t c = 0; c < from.size(); ++c) rest_[at(level.component[c])] += from[c] - to[c];
    if (std::all_of(rest_.begin(), rest_.end(), [](int difference) { return difference == 0; })) break;
    bound = level.beyond;
  }
  return bound;
}

CompositionBound CompositionSearch::run() {
  CompositionBound result;
  if (!prepare() || !start()) return result;
  while (!open_.empty()) {
    result.value = open_.front().bound * (1 - rounding);
    if (open_.front().left == 0) {
      result.complete = true;
      return result;
    }
    if (effort_ >= max_effort_ || is_spent() || must_stop()) return result;
    if (!expand(take_first())) return result;
  }
  result.value = upper_bound_;
  result.complete = true;
  return result;
}

}  // namespace

CompositionBound composition_bound(const cost::CommCostModel& model, const DeviceClasses& classes,
                                   double upper_bound, long long max_effort, const StopFunction& stop,
                                   std::size_t max_bytes) {
  return CompositionSearch(model, classes, upper_bound, max_effort, stop, max_bytes).run();
}

long long count_compositions(int replicas, int classes, long long limit) {
  long long count = 1;
  for (int i = 1; i < classes; ++i) {
    count = count * (replicas + i) / i;
    if (count > limit) return limit + 1;
  }
  return count;
}

}  // namespace dtfm::search
