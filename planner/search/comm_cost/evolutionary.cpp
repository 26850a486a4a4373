// The default strategy: a memetic algorithm on islands. Every island holds one placement. In each generation
// every island creates a child, from its own placement and a segment of consecutive stages of another
// island's, and anneals it; the better of child and parent survives. Islands run in parallel and read only
// the previous generation, so the result does not depend on the number of threads.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/index.hpp"
#include "core/base/work.hpp"
#include "planner/search/comm_cost/anneal.hpp"
#include "planner/search/comm_cost/device_classes.hpp"
#include "planner/search/comm_cost/lower_bound.hpp"
#include "core/plan/placement_codec.hpp"
#include "planner/search/comm_cost/random_placement.hpp"
#include "planner/search/comm_cost/structured_initial_placements.hpp"

namespace dtfm::search {
namespace {

// These constants, the shares of moves in anneal.cpp and the default budget were chosen by measurement, from
// some 50 settings, on graphs of scripts/generate-topology.py with seeds 1 to 7 and 21: 64 devices in 6 to 12
// sites, 512 in 12 and 20. Fewer islands leave each one more time to cool slowly, which matters more than
// their number.
constexpr int islands = 4;
// Initial temperatures, as shares of the best cost. The first islands get structured initial placements,
// which higher temperatures would destroy; the others start from random ones.
constexpr std::array structured_initial_temperature{0.003, 0.01};
constexpr double random_initial_temperature = 0.05, later_initial_temperature = 0.03,
                 last_temperature = 0.0002;
constexpr int generations = 4;           // per budget
constexpr int first_shares = 12;         // the first generation must find structure: factor on its moves
constexpr int patience = 2;              // generations without gain before agreeing islands have converged
constexpr double share_for_bound = 0.1;  // share of a time limit for the lower bound
constexpr double guidance = 0.2;         // on every second island, see CommCostState

/// Default budget of moves: fewer if many devices are interchangeable, and fewer if a move costs more. In
/// large groups most of a move's time goes into matchings, which take replicas² steps.
long long default_moves(const cost::CommCostModel& model, int classes) {
  constexpr double max_moves = 16e6;
  const double distinct = std::max(0.125, static_cast<double>(classes) / model.devices());
  const double effort = std::max(1.0, model.replicas / 8.0) * std::max(1.0, model.replicas / 64.0);
  return std::llround(max_moves * distinct / effort);
}

/// Child with a random segment of stages from `donor` and the other stages from `host`. The host's groups
/// lose the devices of that segment; the largest of them are kept and filled up with the devices of the
/// others.
Placement recombine(const cost::CommCostModel& model, const Placement& host, const Placement& donor,
                    Rng& rng) {
  const int stages = model.stages, replicas = model.replicas;
  const int length = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(stages - 1)));
  const int first = static_cast<int>(rng.below(static_cast<std::uint32_t>(stages - length + 1)));
  std::vector<char> taken(at(model.devices()));
  for (int stage = first; stage < first + length; ++stage)
    for (const int device : donor.group(stage)) taken[at(device)] = true;
  std::vector<std::vector<int>> rest(at(stages));
  for (int stage = 0; stage < stages; ++stage)
    for (const int device : host.group(stage))
      if (!taken[at(device)]) rest[at(stage)].push_back(device);
  std::vector<int> by_size(at(stages));
  for (int stage = 0; stage < stages; ++stage) by_size[at(stage)] = stage;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return rest[at(a)].size() > rest[at(b)].size(); });
  std::vector<int> kept(by_size.begin(), by_size.begin() + (stages - length)), spare;
  std::sort(kept.begin(), kept.end());
  for (auto stage = by_size.begin() + (stages - length); stage != by_size.end(); ++stage)
    spare.insert(spare.end(), rest[at(*stage)].begin(), rest[at(*stage)].end());
  rng.shuffle(std::span<int>(spare));
  Placement child(stages, replicas);
  auto next_kept = kept.begin();
  for (int stage = 0; stage < stages; ++stage) {
    const bool donated = stage >= first && stage < first + length;
    auto group = donated ? std::vector<int>(donor.group(stage).begin(), donor.group(stage).end())
                         : rest[at(*next_kept++)];
    for (; group.size() < at(replicas); spare.pop_back()) group.push_back(spare.back());
    for (int replica = 0; replica < replicas; ++replica) child.at(stage, replica) = group[at(replica)];
  }
  return child;
}

class Evolution {
 public:
  explicit Evolution(SearchRun& run)
      : run_(run),
        classes_(interchangeable_devices(run.model(), [&run] { return run.must_stop(); }).count),
        budget_(run.budget(default_moves(run.model(), classes_))) {}

  Stopped finish() {
    initialize_population();
    const auto stop = [this] { return run_.must_stop() || run_.time_share() > share_for_bound; };
    run_.set_lower_bound(computed_by_root(
        run_.options(), [&] { return quick_lower_bound(run_.model(), run_.best_cost(), stop); }));
    run_.report_progress();
    for (int generation = 0;; ++generation) {
      if (run_.is_optimal()) return Stopped::optimal;
      if (run_.must_stop()) return run_.reason_to_stop();
      if (run_.evaluations() >= budget_) return Stopped::evaluations;
      if (!run_.options().time_limit && have_converged(generation)) return Stopped::converged;
      advance(generation);
      run_.report_progress();
    }
  }

 private:
  void initialize_population() {
    const auto initial_solutions = structured_initial_placements(run_.model(), run_.work());
    for (int i = 0; i < islands; ++i) {
      if (i > 0 && run_.must_stop()) return;
      Rng rng = Rng::for_task(run_.options().seed, static_cast<std::uint64_t>(i));
      const bool structured =
          at(i) < std::min(structured_initial_temperature.size(), initial_solutions.size());
      first_initial_temperature_.push_back(structured ? structured_initial_temperature[at(i)]
                                                      : random_initial_temperature);
      population_.push_back(structured ? initial_solutions[at(i)]
                                       : deploy(run_.model(), random_placement(run_.model(), rng),
                                                [this] { return run_.must_stop(); }));
      run_.offer(population_.back().placement, population_.back().cost, 1);
    }
  }

  CoolingSchedule cooling(int generation, int island) const {
    const bool first = generation == 0;
    const double share = (first ? first_shares : 1.0) / (generations + first_shares - 1);
    const double cost = run_.best_cost();
    CoolingSchedule cooling{
        0, (first ? first_initial_temperature_[at(island)] : later_initial_temperature) * cost,
        last_temperature * cost, 0, 0};
    cooling.guidance = island % 2 == 0 ? guidance : 0;
    const long long left = (budget_ - run_.evaluations() + islands - 1) / islands;
    if (run_.options().evaluations || !run_.options().time_limit)
      cooling.moves =
          std::clamp<long long>(std::llround(share * static_cast<double>(budget_) / islands), 1, left);
    else
      cooling.time_share = share * std::min(run_.options().workers(), islands) / islands;
    return cooling;
  }

  void advance(int generation) {
    const auto children = distributed_map(islands, run_.options(), [&](int i) {
      Rng rng =
          Rng::for_task(run_.options().seed, static_cast<std::uint64_t>((generation + 1) * islands + i));
      return anneal_placement(run_, generation == 0 ? population_[at(i)].placement : child(i, rng),
                              cooling(generation, i), rng);
    });
    const double before = run_.best_cost();
    for (int i = 0; i < islands; ++i) {
      const AnnealedPlacement& child = children[at(i)];
      run_.offer(child.best.placement, child.best.cost, child.moves);
      if (child.best.cost <= population_[at(i)].cost) population_[at(i)] = child.best;
    }
    if (run_.best_cost() < before * (1 - 1e-9)) last_gain_ = generation;
  }

  Placement child(int island, Rng& rng) const {
    const int other = (island + 1 + static_cast<int>(rng.below(islands - 1))) % islands;
    if (run_.model().stages < 2) return population_[at(island)].placement;
    return recombine(run_.model(), population_[at(island)].placement, population_[at(other)].placement, rng);
  }

  /// Agreement of islands indicates convergence only if many devices are interchangeable, so that few
  /// placements differ.
  bool have_converged(int generation) const {
    if (2 * classes_ > run_.model().devices() || generation < last_gain_ + 1 + patience) return false;
    const auto agree = std::count_if(
        population_.begin(), population_.end(),
        [this](const DeployedPlacement& one) { return one.cost <= run_.best_cost() * (1 + 1e-9); });
    return agree >= islands / 2;
  }

  SearchRun& run_;
  int classes_;  // number of classes of interchangeable devices
  long long budget_;
  std::vector<DeployedPlacement> population_;
  std::vector<double> first_initial_temperature_;  // by island
  int last_gain_ = -1;
};

}  // namespace

Stopped run_evolutionary(SearchRun& run) {
  return Evolution(run).finish();
}

}  // namespace dtfm::search
