#include "planner/cost/comm_cost/shortest_path.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

/// Relative to the length of the path. Smaller gains are rounding errors and could cause an endless loop.
constexpr double min_relative_gain = 1e-12;

std::vector<int> held_karp(const Eigen::MatrixXd& weights) {
  const int n = static_cast<int>(weights.rows());
  const int sets = 1 << n;
  // length(last, set) is the length of the shortest path over `set` that ends in `last`.
  Eigen::ArrayXXd length = Eigen::ArrayXXd::Constant(n, sets, infinity);
  for (int set = 1; set < sets; ++set)
    for (int last = 0; last < n; ++last) {
      const int rest = set & ~(1 << last);
      if (rest == set) continue;
      length(last, set) = rest == 0 ? 0 : (length.col(rest) + weights.col(last).array()).minCoeff();
    }
  std::vector<int> order(at(n));
  int set = sets - 1;
  for (int position = n; position-- > 0;) {
    int best = n;
    double best_length = infinity;
    for (int last = 0; last < n; ++last) {
      if ((set >> last & 1) == 0) continue;
      const double onward = position + 1 == n ? 0 : weights(last, order[at(position + 1)]);
      if (const double through = length(last, set) + onward; best == n || through < best_length) {
        best = last;
        best_length = through;
      }
    }
    order[at(position)] = best;
    set &= ~(1 << best);
  }
  return order;
}

std::vector<int> greedy_path(const Eigen::MatrixXd& weights, int start) {
  const int n = static_cast<int>(weights.rows());
  std::vector<int> order{start};
  std::vector<char> visited(at(n));
  visited[at(start)] = true;
  while (static_cast<int>(order.size()) < n) {
    int nearest = -1;
    for (int node = 0; node < n; ++node)
      if (!visited[at(node)] && (nearest < 0 || weights(order.back(), node) < weights(order.back(), nearest)))
        nearest = node;
    order.push_back(nearest);
    visited[at(nearest)] = true;
  }
  return order;
}

/// Local search moves on one path. Position −1 and position n stand for the two open ends, whose edges cost
/// nothing.
class PathMoves {
 public:
  PathMoves(const Eigen::MatrixXd& weights, std::vector<int>& order, const std::function<bool()>& stop)
      : weights_(weights), order_(order), stop_(stop), n_(static_cast<int>(order.size())) {}

  /// Returns false if no move improves the path, or if told to stop.
  bool improve_once(double min_gain) {
    return (reverse_some_segment(min_gain) || move_some_segment(min_gain)) && !must_stop();
  }

 private:
  bool must_stop() const { return stop_ && stop_(); }

  double edge(int a, int b) const { return a < 0 || b >= n_ ? 0 : weights_(order_[at(a)], order_[at(b)]); }

  bool reverse_some_segment(double min_gain) {
    bool improved = false;
    for (int first = 0; first < n_ && !must_stop(); ++first) {
      for (int last = first + 1; last < n_; ++last) {
        if (first == 0 && last == n_ - 1) continue;
        const double before = edge(first - 1, first) + edge(last, last + 1);
        const double after =
            (first == 0 ? 0 : edge(first - 1, last)) + (last == n_ - 1 ? 0 : edge(first, last + 1));
        if (after >= before - min_gain) continue;
        std::reverse(order_.begin() + first, order_.begin() + last + 1);
        improved = true;
      }
    }
    return improved;
  }

  bool move_some_segment(double min_gain) {
    bool improved = false;
    for (int length = 1; length <= 3 && length < n_; ++length)
      for (int first = 0; first + length <= n_ && !must_stop(); ++first)
        improved |= move_segment(first, length, min_gain);
    return improved;
  }

  /// Moves [first, first + length) between positions gap − 1 and gap, in the direction that is shorter.
  bool move_segment(int first, int length, double min_gain) {
    const int last = first + length - 1;
    const double joined = first == 0 || last == n_ - 1 ? 0 : edge(first - 1, last + 1);
    const double removed = edge(first - 1, first) + edge(last, last + 1) - joined;
    for (int gap = 0; gap <= n_; ++gap) {
      if (gap >= first && gap <= last + 1) continue;
      const double opened = edge(gap - 1, gap);
      const double straight = joint(gap - 1, first) + joint(last, gap) - opened;
      const double reversed = joint(gap - 1, last) + joint(first, gap) - opened;
      if (std::min(straight, reversed) >= removed - min_gain) continue;
      if (reversed < straight) std::reverse(order_.begin() + first, order_.begin() + last + 1);
      if (gap < first)
        std::rotate(order_.begin() + gap, order_.begin() + first, order_.begin() + last + 1);
      else
        std::rotate(order_.begin() + first, order_.begin() + last + 1, order_.begin() + gap);
      return true;
    }
    return false;
  }

  double joint(int a, int b) const {
    if (a < 0 || b < 0 || a >= n_ || b >= n_) return 0;
    return weights_(order_[at(a)], order_[at(b)]);
  }

  const Eigen::MatrixXd& weights_;
  std::vector<int>& order_;
  const std::function<bool()>& stop_;
  int n_;
};

}  // namespace

double path_length(const Eigen::MatrixXd& weights, std::span<const int> order) {
  double length = 0;
  for (std::size_t i = 1; i < order.size(); ++i) length += weights(order[i - 1], order[i]);
  return length;
}

std::vector<int> improve_path(const Eigen::MatrixXd& weights, std::vector<int> order,
                              const std::function<bool()>& stop) {
  const double min_gain = min_relative_gain * path_length(weights, order);
  PathMoves moves(weights, order, stop);
  while (moves.improve_once(min_gain)) {
  }
  return order;
}

std::vector<int> shortest_path(const Eigen::MatrixXd& weights, std::span<const int> start,
                               const std::function<bool()>& stop) {
  const int n = static_cast<int>(weights.rows());
  DTFM_ASSERT(weights.cols() == n);
  if (n <= max_exact_path_nodes) return held_karp(weights);
  std::vector<int> best(start.begin(), start.end());
  if (best.empty()) {
    best.resize(at(n));
    std::iota(best.begin(), best.end(), 0);
  }
  best = improve_path(weights, std::move(best), stop);
  const int greedy_starts = std::clamp(65536 / (n * n), 1, 16);  // one local search takes at least n² steps
  for (int i = 0; i < greedy_starts && !(stop && stop()); ++i) {
    auto path = improve_path(weights, greedy_path(weights, i * n / greedy_starts), stop);
    if (path_length(weights, path) < path_length(weights, best)) best = std::move(path);
  }
  return best;
}

}  // namespace dtfm::cost
