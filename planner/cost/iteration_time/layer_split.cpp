#include "planner/cost/iteration_time/layer_split.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/cost/iteration_time/layer_split_costs.hpp"

namespace dtfm::cost {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::size_t max_labels = 1 << 20;  // 40 MB; never reached by small problems

/// A split of the first stages, up to the beginning of the stage and layer of its cell, that no other split
/// dominates.
struct Label {
  ResourceTime time;
  int from = 0, parent = -1;  // first layer of the last of these stages; index of the label in its cell
};

/// Lower bounds on what the stages and layers from a cell on add.
struct Rest {
  ResourceTime parts{never, never, never};  // bound of each component by itself
  double mean = never;                      // bound of the sum plus the maxima weighted with the shares λ
};

/// Dynamic programming over (stages so far, layers so far).
///
/// The time of a split is a non-decreasing function of its label (sum, forward, backward), and each component
/// follows from that of the previous stage by adding or by taking a maximum, so it is non-decreasing in the
/// labels of all earlier stages. Therefore (Bellman) the first stages may be replaced by any others with as
/// many layers and a label no greater in any component, and only labels that no other dominates are kept. Of
/// all paths through the same cell, one with the least time survives. Labels that cannot lead to less than a
/// known split, by lower bounds on the remaining sum and maxima, are dropped too; the same recursion computes
/// these bounds from the end, each component by itself.
class SplitSearch {
 public:
  SplitSearch(const IterationModel& model, const std::vector<StageChain>& pipelines, int replicas)
      : costs_(model, pipelines, replicas), stages_(costs_.stages()), layers_(costs_.layers()) {}

  LayerSplit best() {
    try_even_split();
    find_shares();
    find_rests();
    if (!fits(0, 0)) return min_memory_utilization();
    find_labels(1);  // a good split, whose time excludes most others
    find_labels(std::max(std::size_t{4}, max_labels / rests_.size()));
    DTFM_ASSERT(known_);
    known_->lower_bound_s = std::min(known_->time_s, dropped_);
    return *known_;
  }

 private:
  using Labels = std::vector<Label>;
  std::size_t cell(int stage, int layer) const { return at(stage) * at(layers_ + 1) + at(layer); }
  Rest& rest(int stage, int layer) { return rests_[cell(stage, layer)]; }
  bool fits(int stage, int layer) { return rest(stage, layer).parts.sum < never; }
  double upper() const { return known_ ? known_->time_s : never; }

  /// Range [first, last] of layers at which stage `stage` may end if it begins at `begin`.
  std::pair<int, int> ends(int stage, int begin) const {
    const int least = costs_.min_layers();
    const int after = stages_ - 1 - stage;
    return {after == 0 ? layers_ : begin + least, layers_ - after * least};
  }
  bool can_begin(int stage, int begin) const {
    const int least = costs_.min_layers();
    return begin >= stage * least && (stage > 0 || begin == 0) &&
           begin + (stages_ - stage) * least <= layers_;
  }

  void try_even_split() {
    LayerSplit even;
    ResourceTime time;
    for (int stage = 0; stage < stages_; ++stage) {
      const auto layers = even_split(layers_, stages_, stage);
      even.layers.push_back(layers);
      if (costs_.memory_utilization(stage, layers) > 1) return;
      costs_.append(time, stage, layers);
    }
    even.time_s = time.total();
    known_ = even;
  }

  /// A weighted mean of the stages bounds the maxima from below. If every stage takes μ for the whole chain
  /// of layers, Σ + λ (max forward + max backward), it does not matter which of them has more layers; a stage
  /// that takes longer has none, and λ = 0. Bisection finds the μ with Σ λ = 1.
  void find_shares() {
    std::vector<ResourceTime> whole;
    double high = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      whole.push_back(costs_.stage(stage, {0, layers_}));
      high = std::max(high, whole.back().total());
    }
    const auto shares = [&](double mu) {
      std::vector<double> left(at(stages_ + 1));  // Σ λ of the stages from each one on
      for (int stage = stages_ - 1; stage >= 0; --stage) {
        const ResourceTime& own = whole[at(stage)];
        const double maxima = own.forward + own.backward;
        left[at(stage)] = left[at(stage + 1)] + (maxima > 0 ? std::max(0.0, (mu - own.sum) / maxima) : 0);
      }
      return left;
    };
    double low = 0;
    for (int step = 0; step < 50; ++step) {
      const double middle = (low + high) / 2;
      (shares(middle).front() < 1 ? low : high) = middle;
    }
    shares_left_ = shares(low);
  }

  void find_rests() {
    rests_.assign(at(stages_ + 1) * at(layers_ + 1), {});
    rest(stages_, layers_) = {{}, 0};
    for (int begin = layers_ - 1; begin >= 0; --begin)
      for (int stage = 0; stage < stages_; ++stage)
        if (can_begin(stage, begin)) find_rest(stage, begin);
  }

  void find_rest(int stage, int begin) {
    const double share = shares_left_[at(stage)] - shares_left_[at(stage + 1)];
    Rest& least = rest(stage, begin);
    const auto [first, last] = ends(stage, begin);
    for (int end = first; end <= last; ++end) {
      if (!fits(stage + 1, end) || costs_.memory_utilization(stage, {begin, end}) > 1) continue;
      const ResourceTime own = costs_.stage(stage, {begin, end});
      if (own.total() - costs_.compression_slack() > upper()) break;
      const Rest& after = rest(stage + 1, end);
      const ResourceTime hop = costs_.hop(stage, end);
      const double sum = own.sum + hop.sum, forward = std::max(own.forward, hop.forward),
                   backward = std::max(own.backward, hop.backward);
      least.parts.sum = std::min(least.parts.sum, sum + after.parts.sum);
      least.parts.forward = std::min(least.parts.forward, std::max(forward, after.parts.forward));
      least.parts.backward = std::min(least.parts.backward, std::max(backward, after.parts.backward));
      least.mean = std::min(least.mean, sum + share * (forward + backward) + after.mean);
    }
  }

  /// Lower bound on every split that continues from `time` at this cell.
  double bound(const ResourceTime& time, int stage, int layer) {
    const Rest& after = rest(stage, layer);
    const double sum = time.sum + after.parts.sum;
    const double apart = sum + std::max({time.forward, after.parts.forward, costs_.mean_of_all(sum)}) +
                         std::max(time.backward, after.parts.backward);
    const double so_far = std::max(0.0, 1 - shares_left_[at(stage)]);
    return std::max(apart, time.sum + so_far * (time.forward + time.backward) + after.mean);
  }

  /// Keeps at most `width` labels per cell: all of them, or those with the lowest bounds.
  void find_labels(std::size_t width) {
    labels_.assign(at(stages_ + 1) * at(layers_ + 1), {});
    labels_[0].push_back({});
    dropped_ = never;
    for (int begin = 0; begin < layers_; ++begin)
      for (int stage = 0; stage < stages_; ++stage)
        if (can_begin(stage, begin) && !labels_[cell(stage, begin)].empty())
          extend_labels(stage, begin, width);
    const Labels& ends = labels_[cell(stages_, layers_)];
    for (const Label& label : ends)
      if (label.time.total() < upper()) adopt(label);
  }

  void extend_labels(int stage, int begin, std::size_t width) {
    const Labels& here = labels_[cell(stage, begin)];
    ResourceTime least = here.front().time;  // of every component
    for (const Label& label : here)
      least = {std::min(least.sum, label.time.sum), std::min(least.forward, label.time.forward),
               std::min(least.backward, label.time.backward)};
    const auto [first, last] = ends(stage, begin);
    for (int end = first; end <= last; ++end) {
      if (least.sum + rest(stage + 1, end).mean >= upper()) continue;
      const ResourceTime own = costs_.stage(stage, {begin, end});
      if (own.total() - costs_.compression_slack() > upper()) break;
      ResourceTime best = least;
      costs_.append(best, own, stage, end);
      if (bound(best, stage + 1, end) >= upper()) continue;
      if (costs_.memory_utilization(stage, {begin, end}) > 1) continue;
      for (int parent = 0; parent < static_cast<int>(here.size()); ++parent) {
        Label next{here[at(parent)].time, begin, parent};
        costs_.append(next.time, own, stage, end);
        if (bound(next.time, stage + 1, end) < upper()) keep(next, stage + 1, end, width);
      }
    }
  }

  void keep(const Label& label, int stage, int layer, std::size_t width) {
    Labels& labels = labels_[cell(stage, layer)];
    for (const Label& other : labels)
      if (other.time.dominates(label.time)) return;
    labels.erase(std::remove_if(labels.begin(), labels.end(),
                                [&](const Label& other) { return label.time.dominates(other.time); }),
                 labels.end());
    labels.push_back(label);
    if (labels.size() <= width) return;
    const auto worst = std::max_element(labels.begin(), labels.end(), [&](const Label& a, const Label& b) {
      return bound(a.time, stage, layer) < bound(b.time, stage, layer);
    });
    dropped_ = std::min(dropped_, bound(worst->time, stage, layer));
    labels.erase(worst);
  }

  void adopt(Label label) {
    LayerSplit split;
    split.time_s = label.time.total();
    split.layers.resize(at(stages_));
    int end = layers_;
    for (int stage = stages_ - 1; stage >= 0; --stage) {
      split.layers[at(stage)] = {label.from, end};
      end = label.from;
      if (stage > 0) label = labels_[cell(stage, end)][at(label.parent)];
    }
    known_ = split;
  }

  /// The same recursion for the maximum of needed memory / capacity.
  LayerSplit min_memory_utilization() {
    std::vector<double> least(at(stages_ + 1) * at(layers_ + 1), never);
    std::vector<int> best_end(least.size());
    least[cell(stages_, layers_)] = 0;
    for (int begin = layers_ - 1; begin >= 0; --begin)
      for (int stage = 0; stage < stages_; ++stage) {
        if (!can_begin(stage, begin)) continue;
        const auto [first, last] = ends(stage, begin);
        for (int end = first; end <= last; ++end) {
          const double most =
              std::max(costs_.memory_utilization(stage, {begin, end}), least[cell(stage + 1, end)]);
          if (!(most < least[cell(stage, begin)])) continue;
          least[cell(stage, begin)] = most;
          best_end[cell(stage, begin)] = end;
        }
      }
    LayerSplit split;
    ResourceTime time;
    split.fits = false;
    for (int stage = 0, begin = 0; stage < stages_; ++stage) {
      const int end = best_end[cell(stage, begin)];
      split.layers.emplace_back(begin, end);
      costs_.append(time, stage, {begin, end});
      const double memory_utilization = costs_.memory_utilization(stage, {begin, end});
      if (memory_utilization > split.memory_utilization) {
        split.memory_utilization = memory_utilization;
        split.peak_memory_stage = stage;
      }
      begin = end;
    }
    split.time_s = split.lower_bound_s = time.total();
    return split;
  }

  LayerSplitCosts costs_;
  const int stages_, layers_;
  std::optional<LayerSplit> known_;
  double dropped_ = never;           // lower bound on splits lost because a cell had more than `width` labels
  std::vector<double> shares_left_;  // Σ λ of the stages from each one on
  std::vector<Rest> rests_;
  std::vector<Labels> labels_;
};

}  // namespace

LayerSplit best_layer_split(const IterationModel& model, const std::vector<StageChain>& pipelines,
                            int replicas) {
  DTFM_ASSERT(!pipelines.empty() && !pipelines.front().devices.empty());
  const int stages = static_cast<int>(pipelines.front().devices.size());
  if (model.stages.layers() < stages * model.chunks)
    throw Error("", fmt::format("{} layers cannot be split into {} stages", model.stages.layers(),
                                stages * model.chunks));
  return SplitSearch(model, pipelines, replicas).best();
}

}  // namespace dtfm::cost
