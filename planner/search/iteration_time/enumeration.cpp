#include "planner/search/iteration_time/enumeration.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/infinity.hpp"
#include "planner/cost/bounds/plan_bound.hpp"

namespace dtfm::search {
namespace {

constexpr int steps_per_plan = 10;  // by measured time
constexpr long long steps_between_stop_checks = 100'000;

/// Thrown to end an enumeration that is too large.
struct TooManyPlans {};

/// The tensor-parallel groups by class; groups of one class are interchangeable.
std::vector<std::vector<int>> group_classes(const DecidedJob& job) {
  std::map<std::vector<std::tuple<int, int, int, int>>, std::size_t> class_of;
  std::vector<std::vector<int>> classes;
  for (std::size_t group = 0; group < job.tensor_groups.size(); ++group) {
    std::vector<std::tuple<int, int, int, int>> kinds;  // sites matter for hierarchical synchronization
    for (const int device : job.tensor_groups[group])
      kinds.emplace_back(job.model.network.kind(device), job.model.stages.kind_of(device),
                         job.problem.topology->devices[at(device)].gpu,
                         job.problem.topology->devices[at(device)].site);
    const auto [position, is_new] = class_of.emplace(std::move(kinds), classes.size());
    if (is_new) classes.emplace_back();
    classes[position->second].push_back(static_cast<int>(group));
  }
  return classes;
}

class Enumerator {
 public:
  Enumerator(const std::shared_ptr<const DecidedJob>& job, const ShapeLimits& shape, double limit_s,
             const EnumerationLimits& limits, const std::function<bool()>& stop)
      : job_(job),
        shape_(shape),
        limit_s_(limit_s),
        pipelines_limit_s_(limit_s - job->problem.constants.iteration_overhead_s),
        limits_(limits),
        stop_(stop),
        score_(Objective::iteration_time, job->problem.topology),
        classes_(group_classes(*job)),
        batches_(micro_batch_count(job->problem.job)),
        unused_(classes_.size()) {
    for (std::size_t i = 0; i < classes_.size(); ++i) unused_[i] = static_cast<int>(classes_[i].size());
    find_rates();
  }

  bool has_few_pipelines() {
    try {
      add_pipelines();
      return true;
    } catch (const TooManyPlans&) {
      return false;
    }
  }

  Enumeration run() {
    try {
      add_pipelines();
      extend(pipelines_.begin(), 0, 0);
    } catch (const TooManyPlans&) {
      found_.is_complete = false;
    }
    found_.evaluations = score_.evaluated();
    found_.steps = steps_;
    found_.sort();
    return std::move(found_);
  }

 private:
  using Usage = std::vector<int>;  // groups by class
  struct PipelineShape {           // a pipeline without devices and micro-batches
    std::vector<std::size_t> classes;
    std::vector<std::pair<int, int>> layers;
    std::vector<std::optional<cost::PipelineBound>> bounds;  // by number of micro-batches, as far as known
    std::optional<int> capacity;                             // before synchronization, if known
  };
  using Shapes = std::map<Usage, std::vector<PipelineShape>>;
  /// The work of a layer is the time that it takes on the first class of groups. No layer is faster on
  /// another class than its rate says.
  void find_rates() {
    rates_.assign(classes_.size(), 0);
    for (int layer = 0; layer < job_->model.stages.layers(); ++layer) {
      const double work = layer_s(0, layer);
      work_ += work;
      for (std::size_t i = 0; i < classes_.size(); ++i)
        if (work > 0) rates_[i] = std::max(rates_[i], work / layer_s(i, layer));
    }
  }

  double layer_s(std::size_t of, int layer) const {
    double slowest_s = 0;
    for (const int device : job_->tensor_groups[at(classes_[of].front())]) {
      const cost::StageCosts& costs = job_->model.stages;
      const cost::ComputeTime time = costs.compute(costs.kind_of(device), {layer, layer + 1});
      slowest_s = std::max(slowest_s, time.forward_s + time.backward_s);
    }
    return slowest_s;
  }

  /// Least time in which all unused groups together compute so many micro-batches.
  double min_rest_s(int batches) const {
    double rate = 0;
    for (std::size_t i = 0; i < classes_.size(); ++i)
      if (unused_[i] > 0) rate += unused_[i] * rates_[i];
    if (std::all_of(unused_.begin(), unused_.end(), [](int it) { return it == 0; })) return infinity;
    return work_ > 0 && rate > 0 ? batches * work_ / rate : 0;
  }

  // All sequences of classes, each cut in all ways.
  void add_pipelines() {
    const int stages = shape_.stages.value_or(1);
    if (at(stages) > job_->tensor_groups.size() || stages * job_->model.chunks > job_->model.stages.layers())
      return;
    std::vector<std::size_t> sequence;
    Usage usage(classes_.size());
    add_sequences(sequence, usage);
  }

  void add_sequences(std::vector<std::size_t>& sequence, Usage& usage) {
    const int layers = job_->model.stages.layers();
    const int stages = static_cast<int>(sequence.size());
    count_steps(1);
    if (stages > 0 && stages == shape_.stages.value_or(stages)) {
      std::vector<std::pair<int, int>> cuts;
      add_cuts(sequence, usage, cuts, 0);
    }
    if (stages == shape_.stages.value_or(layers) || (stages + 1) * job_->model.chunks > layers) return;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (usage[i] == static_cast<int>(classes_[i].size())) continue;
      ++usage[i];
      sequence.push_back(i);
      add_sequences(sequence, usage);
      sequence.pop_back();
      --usage[i];
    }
  }

  void add_cuts(const std::vector<std::size_t>& sequence, const Usage& usage,
                std::vector<std::pair<int, int>>& cuts, int first) {
    const int layers = job_->model.stages.layers(), chunks = job_->model.chunks;
    const int left = static_cast<int>(sequence.size() - cuts.size());
    if (left == 0) {
      if (++pipeline_count_ > limits_.pipelines) throw TooManyPlans();
      pipelines_[usage].push_back({sequence, cuts, {}, {}});
      return;
    }
    const int last = layers - (left - 1) * chunks;
    for (int end = left == 1 ? layers : first + chunks; end <= last; ++end) {
      cuts.emplace_back(first, end);
      add_cuts(sequence, usage, cuts, end);
      cuts.pop_back();
    }
  }

  /// `groups`: next unused group of each class; it is advanced.
  Pipeline pipeline_of(const PipelineShape& shape, int micro_batches, Usage& groups) const {
    Pipeline pipeline{micro_batches, {}};
    for (std::size_t i = 0; i < shape.classes.size(); ++i) {
      const std::size_t of = shape.classes[i];
      const int group = classes_[of][at(groups[of]++)];
      pipeline.stages.push_back({shape.layers[i], job_->tensor_groups[at(group)]});
    }
    return pipeline;
  }

  const cost::PipelineBound& bound_of(PipelineShape& shape, int micro_batches) {
    if (shape.bounds.size() <= at(micro_batches)) shape.bounds.resize(at(micro_batches) + 1);
    std::optional<cost::PipelineBound>& bound = shape.bounds[at(micro_batches)];
    if (!bound) {
      if (++bound_count_ > limits_.bounds) throw TooManyPlans();
      Usage groups(classes_.size());
      bound = cost::pipeline_bound(job_->model, pipeline_of(shape, micro_batches, groups));
    }
    return *bound;
  }

  /// Most micro-batches that the pipeline may compute until its last backward pass at `limit_s`.
  int capacity(PipelineShape& shape, double limit_s) {
    const int step = batch_step(*job_, static_cast<int>(shape.classes.size()));
    int batches = 0;
    while (batches + step <= batches_) {
      const cost::PipelineBound& bound = bound_of(shape, batches + step);
      if (bound.gradients_s.front() >= limit_s || bound.end_s >= pipelines_limit_s_) break;
      batches += step;
    }
    return batches;
  }

  /// Adds further pipelines, which come no earlier than the last one in the order of usage and shape, as long
  /// as all micro-batches can be computed in time. Those chosen so far can compute `chosen_capacity`.
  void extend(Shapes::iterator from, std::size_t from_shape, int chosen_capacity) {
    if (chosen_capacity >= batches_) add_layout();
    if (static_cast<int>(chosen_.size()) == std::min(batches_, shape_.replicas.value_or(batches_))) return;
    if (chosen_capacity < batches_ && min_rest_s(batches_ - chosen_capacity) >= pipelines_limit_s_) return;
    for (auto usage = from; usage != pipelines_.end(); ++usage) {
      if (!fits(usage->first)) continue;
      take(usage->first, 1);
      for (std::size_t i = usage == from ? from_shape : 0; i < usage->second.size(); ++i) {
        PipelineShape& shape = usage->second[i];
        count_steps(1);
        if (!shape.capacity) shape.capacity = capacity(shape, pipelines_limit_s_);
        const bool is_uniform = chosen_.empty() || chosen_.front()->layers == shape.layers;
        if (*shape.capacity == 0 || (requires_uniform_pipelines(*job_) && !is_uniform)) continue;
        chosen_.push_back(&shape);
        extend(usage, i, std::min(batches_, chosen_capacity + *shape.capacity));
        chosen_.pop_back();
      }
      take(usage->first, -1);
    }
  }

  void count_steps(int steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) throw TooManyPlans();
    if (steps_ < next_stop_check_) return;
    next_stop_check_ = steps_ + steps_between_stop_checks;
    if (stop_ && stop_()) throw TooManyPlans();
  }

  bool fits(const Usage& usage) const {
    for (std::size_t i = 0; i < usage.size(); ++i)
      if (usage[i] > unused_[i]) return false;
    return true;
  }

  void take(const Usage& usage, int times) {
    for (std::size_t i = 0; i < usage.size(); ++i) unused_[i] -= times * usage[i];
  }

  /// Adds the chosen pipelines in all orders that matter: one for sharded parameter servers, the order of the
  /// ring up to rotation, any order otherwise.
  void add_layout() {
    if (static_cast<int>(chosen_.size()) != shape_.replicas.value_or(static_cast<int>(chosen_.size())))
      return;
    Usage groups(classes_.size());
    std::vector<Pipeline> pipelines;
    for (const PipelineShape* shape : chosen_) pipelines.push_back(pipeline_of(*shape, 0, groups));
    std::vector<std::size_t> order(chosen_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const GradientSync sync = job_->model.sync;
    const auto first = order.begin() + (sync == GradientSync::ring ? 1 : 0);
    do {
      layout_ = {job_->model.stages.tensor(), job_->problem.job.execution, {}};
      for (const std::size_t i : order) layout_.pipelines.push_back(pipelines[i]);
      ordered_.clear();
      for (const std::size_t i : order) ordered_.push_back(chosen_[i]);
      add_ordered_layout();
    } while (sync != GradientSync::sharded_ps && std::next_permutation(first, order.end()));
  }

  /// The first layers are synchronized after the last backward pass, which leaves less time for it.
  void add_ordered_layout() {
    count_steps(steps_per_plan);
    const double limit_s = pipelines_limit_s_ - cost::min_first_sync_s(job_->model, layout_);
    capacities_.clear();
    long long sum = 0;
    for (PipelineShape* shape : ordered_) {
      capacities_.push_back(capacity(*shape, limit_s));
      sum += capacities_.back();
    }
    if (sum >= batches_) split_micro_batches(0, batches_, sum);
  }

  /// Gives the pipelines from number `first` on `batches` micro-batches, of at most `capacities`, in all
  /// ways.
  void split_micro_batches(std::size_t first, int batches, long long capacities) {
    if (first == ordered_.size()) return add_plan();
    capacities -= capacities_[first];
    const int pipelines = static_cast<int>(ordered_.size());
    const int step = batch_step(*job_, static_cast<int>(ordered_[first]->classes.size()));
    int least = step, most = std::min(capacities_[first], batches);
    if (requires_uniform_pipelines(*job_)) {
      if (batches_ % pipelines != 0 || batches_ / pipelines % step != 0) return;
      least = batches_ / pipelines;
      most = std::min(most, least);
    }
    for (int own = least; own <= most; own += step) {
      const int flush = job_->model.flush;
      const bool can_run = flush == 0 || own <= flush || flush % step == 0;
      if (batches - own > capacities || !can_run) continue;
      layout_.pipelines[first].micro_batches = own;
      split_micro_batches(first + 1, batches - own, capacities);
    }
  }

  void add_plan() {
    count_steps(steps_per_plan);
    std::vector<const cost::PipelineBound*> bounds;
    for (std::size_t i = 0; i < ordered_.size(); ++i)
      bounds.push_back(&bound_of(*ordered_[i], layout_.pipelines[i].micro_batches));
    const double bound_s = cost::min_iteration_s(job_->model, layout_, bounds);
    if (bound_s >= limit_s_) return;
    PlanCandidate candidate = evaluate_with_flushes(job_, layout_, score_);
    if (candidate.deficit_bytes > 0) return;
    if (found_.plans.size() == limits_.plans) throw TooManyPlans();
    found_.plans.push_back({std::move(candidate), bound_s});
  }

  const std::shared_ptr<const DecidedJob>& job_;
  const ShapeLimits& shape_;
  const double limit_s_, pipelines_limit_s_;  // of an iteration, and of its pipelines
  const EnumerationLimits& limits_;
  const std::function<bool()> stop_;
  const PlanScore score_;
  const std::vector<std::vector<int>> classes_;  // groups
  const int batches_;
  std::vector<double> rates_;  // by class
  double work_ = 0;            // of all layers
  Usage unused_;
  Shapes pipelines_;
  std::size_t pipeline_count_ = 0, bound_count_ = 0;
  long long steps_ = 0, next_stop_check_ = 0;
  std::vector<PipelineShape*> chosen_;
  // The chosen pipelines in one of their orders.
  std::vector<PipelineShape*> ordered_;
  std::vector<int> capacities_;
  Plan layout_;
  Enumeration found_;
};

}  // namespace

bool has_few_pipelines(const Problem& problem, const ShapeLimits& shape, const EnumerationLimits& limits) {
  // Cuts of the layers alone, which is quick: Σ (layers − 1 choose stages − 1).
  const int layers = layer_count(problem.job.model), devices = problem.topology->size();
  double cuts = 1, all = 1;
  for (int stages = 2; stages <= std::min(layers, devices) && !shape.stages; ++stages) {
    cuts *= static_cast<double>(layers - stages + 1) / (stages - 1);
    all += cuts;
    if (all > static_cast<double>(limits.pipelines)) return false;
  }
  Decisions decisions(problem);
  const std::shared_ptr<const DecidedJob> job = decisions.first();
  if (job->model.stages.tensor() > 1) return false;
  return Enumerator(job, shape, infinity, limits, {}).has_few_pipelines();
}

void Enumeration::sort() {
  std::stable_sort(plans.begin(), plans.end(), [](const EnumeratedPlan& a, const EnumeratedPlan& b) {
    return is_better(a.candidate, b.candidate);
  });
}

Enumeration enumerate_plans(const std::shared_ptr<const DecidedJob>& job, const ShapeLimits& shape,
                            double limit_s, const EnumerationLimits& limits,
                            const std::function<bool()>& stop) {
  // Tensor-parallel groups are only tried as they are formed in nearness order.
  if (job->model.stages.tensor() > 1) return {{}, 0, 0, false};
  return Enumerator(job, shape, limit_s, limits, stop).run();
}

Enumeration enumerate_plans(const Problem& problem, const ShapeLimits& shape, double limit_s,
                            const EnumerationLimits& limits, const std::function<bool()>& stop) {
  Decisions decisions(problem);
  std::vector<std::shared_ptr<const DecidedJob>> jobs = {decisions.first()};
  std::set<std::string> known = {decisions_key(jobs.front()->problem.job)};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!decisions.mixed_degrees(*jobs[i]).empty()) return {{}, 0, 0, false};
    for (const std::shared_ptr<const DecidedJob>& job : decisions.alternatives(*jobs[i]))
      if (known.insert(decisions_key(job->problem.job)).second) jobs.push_back(job);
    if (jobs.size() > limits.jobs) return {{}, 0, 0, false};
  }
  Enumeration all;
  EnumerationLimits left = limits;
  for (const std::shared_ptr<const DecidedJob>& job : jobs) {
    Enumeration found = enumerate_plans(job, shape, limit_s, left, stop);
    all.evaluations += found.evaluations;
    all.is_complete = all.is_complete && found.is_complete;
    if (!all.is_complete) break;
    left.steps -= found.steps;
    left.plans -= found.plans.size();
    std::move(found.plans.begin(), found.plans.end(), std::back_inserter(all.plans));
  }
  all.sort();
  return all;
}

}  // namespace dtfm::search
