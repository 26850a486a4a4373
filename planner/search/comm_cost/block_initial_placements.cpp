#include "planner/search/comm_cost/block_initial_placements.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"
#include "core/base/work.hpp"
#include "core/base/rng.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "core/plan/placement_codec.hpp"
#include "planner/search/comm_cost/random_placement.hpp"

namespace dtfm::search {
namespace {

constexpr std::size_t max_blocks = 4;        // with more blocks, little structure remains
constexpr std::size_t max_cuts = 96;         // cuts of the stages into blocks that are tried
constexpr std::size_t max_trades = 64;       // see `trades_of`
constexpr long long max_work = 100'000'000;  // limit per annealing, in pairs of clusters visited
constexpr long long moves_per_count = 6400;  // annealing moves per variable
constexpr double initial_temperature = 0.1, final_temperature = 0.0005;  // as shares of the initial cost

using Lengths = std::vector<int>;  // of the blocks, in stages, ascending

/// Mean costs, s, between and within clusters.
struct ClusterNetwork {
  std::vector<std::vector<int>> members;
  Eigen::MatrixXd sync, hop;

  int count() const { return static_cast<int>(members.size()); }
};

double mean_cost(const Eigen::MatrixXd& cost, const std::vector<int>& a, const std::vector<int>& b) {
  double sum = 0;
  long long pairs = 0;
  for (const int device : a)
    for (const int peer : b)
      if (device != peer) {
        sum += cost(peer, device);
        ++pairs;
      }
  return pairs > 0 ? sum / static_cast<double>(pairs) : 0;
}

ClusterNetwork cluster_network(const cost::CommCostModel& model, const DeviceClasses& clusters) {
  ClusterNetwork network{clusters.members(), Eigen::MatrixXd(clusters.count, clusters.count),
                         Eigen::MatrixXd(clusters.count, clusters.count)};
  for (int a = 0; a < clusters.count; ++a)
    for (int b = 0; b <= a; ++b) {
      network.sync(a, b) = network.sync(b, a) =
          mean_cost(model.sync, network.members[at(a)], network.members[at(b)]);
      network.hop(a, b) = network.hop(b, a) =
          mean_cost(model.hop, network.members[at(a)], network.members[at(b)]);
    }
  return network;
}

/// Appends all ways to write `stages` as a sum of `parts` non-decreasing numbers ≥ `min_length`.
void cut_into(int stages, std::size_t parts, int min_length, Lengths& lengths, std::vector<Lengths>& cuts) {
  if (parts == 1) {
    lengths.push_back(stages);
    cuts.push_back(lengths);
    lengths.pop_back();
    return;
  }
  for (int length = min_length; length * static_cast<int>(parts) <= stages; ++length) {
    lengths.push_back(length);
    cut_into(stages - length, parts - 1, length, lengths, cuts);
    lengths.pop_back();
  }
}

/// All cuts into up to `max_blocks` blocks, or into fewer if there would be too many to list; of more than
/// `max_cuts`, evenly spaced ones.
std::vector<Lengths> cuts_of(int stages) {
  constexpr double max_listed = 1e5;
  std::vector<Lengths> all, some;
  double count = 1;  // approximately stages ^ (parts − 1) ÷ (parts! · (parts − 1)!)
  for (std::size_t parts = 1; parts <= std::min(max_blocks, at(stages)) && count <= max_listed; ++parts) {
    Lengths lengths;
    cut_into(stages, parts, 1, lengths, all);
    count *= stages / static_cast<double>(parts * (parts + 1));
  }
  const std::size_t taken = std::min(max_cuts, all.size());
  for (std::size_t i = 0; i < taken; ++i) some.push_back(all[i * all.size() / taken]);
  return some;
}

using Trade = std::vector<int>;  // change of a cluster's number of pipelines, by block

int size_of(const Trade& trade) {
  return std::accumulate(trade.begin(), trade.end(), 0,
                         [](int sum, int part) { return sum + std::abs(part); });
}

/// The representative of v, 2 v, −v, …: without a common divisor, and with its first nonzero element
/// positive.
Trade primitive(Trade trade) {
  const int divisor =
      std::accumulate(trade.begin(), trade.end(), 0, [](int a, int b) { return std::gcd(a, b); });
  const int first = *std::find_if(trade.begin(), trade.end(), [](int part) { return part != 0; });
  for (int& part : trade) part /= first > 0 ? divisor : -divisor;
  return trade;
}

/// Changes that move a cluster's pipelines between blocks while all its devices stay in use: Σ length · trade
/// = 0. Returns those between two blocks, and the smallest others.
std::vector<Trade> trades_of(const Lengths& lengths) {
  const std::size_t blocks = lengths.size();
  std::vector<Trade> trades;
  for (std::size_t a = 0; a < blocks; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      Trade trade(blocks);
      trade[a] = lengths[b];
      trade[b] = -lengths[a];
      trades.push_back(primitive(trade));
    }
  // Limits every element but the last, which follows from the others; some thousand trades are tried.
  const int max_element = blocks == 3 ? 16 : 4;
  Trade trade(blocks, -max_element);
  const auto advance = [&] {
    for (std::size_t k = 0; k + 1 < blocks; ++k) {
      if (++trade[k] <= max_element) return true;
      trade[k] = -max_element;
    }
    return false;
  };
  if (blocks > 2) do {
      const int rest = std::inner_product(trade.begin(), trade.end() - 1, lengths.begin(), 0);
      trade.back() = -rest / lengths.back();
      if (rest % lengths.back() == 0 && size_of(trade) > 0) trades.push_back(primitive(trade));
    } while (advance());
  std::sort(trades.begin(), trades.end(), [](const Trade& a, const Trade& b) {
    return std::pair(size_of(a), a) < std::pair(size_of(b), b);
  });
  trades.erase(std::unique(trades.begin(), trades.end()), trades.end());
  trades.resize(std::min(trades.size(), max_trades));
  return trades;
}

/// Number of pipelines of each block in each cluster.
struct Blocks {
  Lengths lengths;
  std::vector<std::vector<int>> counts;  // [block][cluster]
  double cost = std::numeric_limits<double>::infinity();
};

class BlockAnnealing {
 public:
  BlockAnnealing(const cost::CommCostModel& model, const ClusterNetwork& network, const Lengths& lengths,
                 std::uint64_t index)
      : model_(model),
        network_(network),
        matcher_(model.replicas),
        trades_(trades_of(lengths)),
        rng_(Rng::for_task(0, index)),
        now_{lengths, std::vector(lengths.size(), std::vector<int>(at(network.count())))},
        best_(now_),
        filled_(lengths.size()),
        block_sync_(lengths.size(), std::vector<double>(at(network.count()))) {}

  /// The cost of the result is infinite if no assignment was found that uses all devices.
  Blocks finish(const StopFunction& stop) {
    for (int c = 0; c < network_.count(); ++c)
      if (!assign_cluster(c)) return best_;
    energy_ = estimate();
    keep_if_best();
    if (trades_.empty()) return best_;
    const double first = energy_;
    penalty_ = first;
    energy_ += penalty_ * imbalance();
    const long long clusters = network_.count(), blocks = static_cast<long long>(now_.lengths.size());
    const long long moves =
        std::min(moves_per_count * clusters * blocks, max_work / (blocks * clusters * clusters));
    for (long long move = 0; move < moves && !is_stopped(stop); ++move) {
      const double progress = static_cast<double>(move) / static_cast<double>(moves);
      try_trade(first * initial_temperature * std::pow(final_temperature / initial_temperature, progress));
    }
    return best_;
  }

 private:
  int below(int end) { return static_cast<int>(rng_.below(static_cast<std::uint32_t>(end))); }

  /// Tries a trade, once or as often as possible, and accepts it by the Metropolis criterion. Two clusters
  /// make opposite trades, so that blocks keep their size, or one cluster trades alone.
  void try_trade(double temperature) {
    const double limit = energy_ - temperature * std::log(1 - rng_.uniform());
    const int a = below(network_.count()), b = below(network_.count());
    const auto& trade = trades_[at(below(static_cast<int>(trades_.size())))];
    const int sign = rng_.below(2) == 1 ? 1 : -1;
    const int max_amount =
        a == b ? room(a, trade, sign) : std::min(room(a, trade, sign), room(b, trade, -sign));
    if (max_amount == 0) return;
    const int amount = sign * (rng_.below(2) == 1 ? 1 : max_amount);
    shift(a, trade, amount);
    if (a != b) shift(b, trade, -amount);
    const double energy = energy_within(limit);
    if (energy < limit) {
      energy_ = energy;
      keep_if_best();
    } else {
      shift(a, trade, -amount);
      if (a != b) shift(b, trade, amount);
    }
  }

  void keep_if_best() {
    if (imbalance() > 0 || energy_ >= best_.cost) return;
    const double exact = cost([this](const auto& from, const auto& to) { return crossing(from, to); });
    if (exact >= best_.cost) return;
    best_ = now_;
    best_.cost = exact;
  }

  bool assign_cluster(int cluster) {
    std::vector<int> part(now_.lengths.size());
    const int devices = static_cast<int>(network_.members[at(cluster)].size());
    if (!fill(part, part.size(), devices)) return false;
    for (std::size_t k = 0; k < part.size(); ++k) add(k, cluster, part[k]);
    return true;
  }

  /// Solves Σ length · part = devices as evenly as possible: recursively from the longest block, whose share
  /// is as close to the even one as possible.
  bool fill(std::vector<int>& part, std::size_t blocks, int devices) const {
    if (blocks == 0) return devices == 0;
    const auto end = now_.lengths.begin() + static_cast<std::ptrdiff_t>(blocks);
    const int divisor =
        std::accumulate(now_.lengths.begin(), end, 0, [](int a, int b) { return std::gcd(a, b); });
    if (devices % divisor != 0) return false;
    const int length = now_.lengths[blocks - 1], max_count = devices / length;
    const int stages = std::accumulate(now_.lengths.begin(), end, 0);
    const int even = devices / stages;
    for (int away = 0; away <= std::max(even, max_count - even); ++away)
      for (const int count : {even - away, even + away}) {
        if (count < 0 || count > max_count) continue;
        part[blocks - 1] = count;
        if (fill(part, blocks - 1, devices - count * length)) return true;
      }
    return false;
  }

  void add(std::size_t block, int cluster, int count) {
    now_.counts[block][at(cluster)] += count;
    filled_[block] += count;
    for (int c = 0; c < network_.count(); ++c) block_sync_[block][at(c)] += count * network_.sync(c, cluster);
  }

  /// Returns how often the cluster can make the trade before one of its counts would become negative.
  int room(int cluster, const Trade& trade, int sign) const {
    int max_times = model_.replicas;
    for (std::size_t k = 0; k < trade.size(); ++k)
      if (sign * trade[k] < 0)
        max_times = std::min(max_times, now_.counts[k][at(cluster)] / std::abs(trade[k]));
    return max_times;
  }

  void shift(int cluster, const Trade& trade, int times) {
    for (std::size_t k = 0; k < trade.size(); ++k)
      if (trade[k] != 0) add(k, cluster, times * trade[k]);
  }

  /// Number of pipelines by which blocks exceed or fall short of `replicas`, summed.
  int imbalance() const {
    int sum = 0;
    for (const int filled : filled_) sum += std::abs(filled - model_.replicas);
    return sum;
  }

  double energy_within(double limit) const {
    const double penalty = penalty_ * imbalance();
    return penalty >= limit ? penalty : penalty + estimate();
  }

  /// A lower estimate of the cost, in a fraction of the time.
  double estimate() const {
    return cost([this](const auto& from, const auto& to) { return min_crossing(from, to); });
  }

  /// `crossing_cost(from, to)` returns the cost of the hop between two blocks with the given number of
  /// pipelines in each cluster.
  template <class Crossing>
  double cost(const Crossing& crossing_cost) const {
    double sync = 0, path = 0;
    for (std::size_t k = 0; k < now_.lengths.size(); ++k) {
      double slowest = 0;
      for (int c = 0; c < network_.count(); ++c) {
        if (now_.counts[k][at(c)] == 0) continue;
        sync = std::max(sync, block_sync_[k][at(c)] - network_.sync(c, c));
        slowest = std::max(slowest, network_.hop(c, c));
      }
      path += (now_.lengths[k] - 1) * slowest;
      if (k > 0) path += crossing_cost(now_.counts[k - 1], now_.counts[k]);
    }
    return sync + path;
  }

  /// Lower bound on the hop between two blocks: pipelines stay in their cluster if they can, and those that
  /// cannot move to some cluster with room for them.
  double min_crossing(const std::vector<int>& from, const std::vector<int>& to) const {
    double cost = 0;
    for (int c = 0; c < network_.count(); ++c) {
      const int surplus = from[at(c)] - to[at(c)];
      double fastest = network_.hop(c, c);
      if (surplus != 0) {
        fastest = std::numeric_limits<double>::infinity();
        for (int other = 0; other < network_.count(); ++other)
          if ((from[at(other)] - to[at(other)]) * static_cast<long long>(surplus) < 0)
            fastest = std::min(fastest, network_.hop(c, other));
      } else if (from[at(c)] == 0) {
        continue;
      }
      cost = std::max(cost, fastest);
    }
    return std::isfinite(cost) ? cost : 0;
  }

  /// Cost of the bottleneck matching of the pipelines. Expects every block to have `replicas` pipelines.
  double crossing(const std::vector<int>& from, const std::vector<int>& to) {
    int row = 0, column = 0;
    for (int c = 0; c < network_.count(); ++c) {
      for (int i = 0; i < from[at(c)]; ++i) matcher_.set_row(row++, &network_.hop(0, c));
      for (int i = 0; i < to[at(c)]; ++i) matcher_.set_column(column++, c);
    }
    return matcher_.solve();
  }

  const cost::CommCostModel& model_;
  const ClusterNetwork& network_;
  cost::BottleneckMatcher matcher_;
  std::vector<Trade> trades_;
  Rng rng_;
  Blocks now_, best_;
  std::vector<int> filled_;                      // pipelines by block
  std::vector<std::vector<double>> block_sync_;  // [block][cluster]: Σ count · sync with the cluster
  double energy_ = 0;
  double penalty_ = 0;  // per unit of imbalance: as much as the initial cost, so that balanced blocks win
};

Placement placed(const cost::CommCostModel& model, const ClusterNetwork& network, const Blocks& blocks) {
  Placement placement(model.stages, model.replicas);
  std::vector<std::size_t> next(at(network.count()));
  int first = 0;
  for (std::size_t k = 0; k < blocks.lengths.size(); ++k) {
    int replica = 0;
    for (int c = 0; c < network.count(); ++c)
      for (int i = 0; i < blocks.counts[k][at(c)]; ++i, ++replica)
        for (int stage = 0; stage < blocks.lengths[k]; ++stage)
          placement.at(first + stage, replica) = network.members[at(c)][next[at(c)]++];
    first += blocks.lengths[k];
  }
  return placement;
}

}  // namespace

std::vector<DeployedPlacement> block_initial_placements(const cost::CommCostModel& model,
                                                        const DeviceClasses& clusters, int max_count,
                                                        const Work& work) {
  const ClusterNetwork network = cluster_network(model, clusters);
  const std::vector<Lengths> cuts = cuts_of(model.stages);
  auto found = distributed_map(static_cast<int>(cuts.size()), work, [&](int i) {
    if (is_stopped(work)) return Blocks{};
    return BlockAnnealing(model, network, cuts[at(i)], static_cast<std::uint64_t>(i)).finish(work.stop);
  });
  std::erase_if(found, [](const Blocks& blocks) { return !std::isfinite(blocks.cost); });
  std::stable_sort(found.begin(), found.end(),
                   [](const Blocks& a, const Blocks& b) { return a.cost < b.cost; });
  return distributed_map(std::min(max_count, static_cast<int>(found.size())), work, [&](int i) {
    return deploy(model, placed(model, network, found[at(i)]), work.stop);
  });
}

}  // namespace dtfm::search
