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

/// Thrown to end an enumeration that is too large.
struct TooManyPlans {};

/// The tensor-parallel groups by class; groups of one class are interchangeable.
std::vector<std::vector<int>> group_classes(const DecidedJob& job) {
  std::map<std::vector<std::tuple<int, int, int>>, std::size_t> class_of;
  std::vector<std::vector<int>> classes;
  for (std::size_t group = 0; group < job.tensor_groups.size(); ++group) {
    std::vector<std::tuple<int, int, int>> kinds;
    for (const int device : job.tensor_groups[group])
      kinds.emplace_back(job.model.network.kind(device), job.model.stages.kind_of(device),
                         job.problem.topology->devices[at(device)].gpu);
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
      extend(pipelines_.begin(), 0, batches_);
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
  };
  using Shapes = std::map<Usage, std::vector<PipelineShape>>;
  struct Chosen {
    PipelineShape* shape = nullptr;
    int micro_batches = 0;
  };

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
    for (std::size_t i = 0; i < classes_.size(); ++i) rate += unused_[i] * rates_[i];
    return rate > 0 ? batches * work_ / rate : batches * infinity;
  }

  // All sequences of classes, each cut in all ways.
  void add_pipelines() {
    std::vector<std::size_t> sequence;
    Usage usage(classes_.size());
    add_sequences(sequence, usage);
  }

  void add_sequences(std::vector<std::size_t>& sequence, Usage& usage) {
    const int layers = job_->model.stages.layers();
    const int stages = static_cast<int>(sequence.size());
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
      pipelines_[usage].push_back({sequence, cuts, {}});
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

  bool is_uniform_with_others(const PipelineShape& shape, int micro_batches) const {
    if (!requires_uniform_pipelines(*job_) || chosen_.empty()) return true;
    return chosen_.front().shape->layers == shape.layers && chosen_.front().micro_batches == micro_batches;
  }

  /// Adds further pipelines, which come no earlier than the last one in the order of usage, shape and
  /// micro-batches, until no micro-batches are left.
  void extend(Shapes::iterator from, std::size_t from_shape, int batches_left) {
    if (batches_left == 0) return add_plan();
    if (min_rest_s(batches_left) >= limit_s_) return;
    if (static_cast<int>(chosen_.size()) == shape_.replicas.value_or(batches_)) return;
    for (auto usage = from; usage != pipelines_.end(); ++usage) {
      if (!fits(usage->first)) continue;
      take(usage->first, 1);
      for (std::size_t i = usage == from ? from_shape : 0; i < usage->second.size(); ++i) {
        PipelineShape& shape = usage->second[i];
        const int step = batch_step(*job_, static_cast<int>(shape.classes.size()));
        const bool repeats = !chosen_.empty() && chosen_.back().shape == &shape;
        int batches = repeats ? chosen_.back().micro_batches : step;
        for (; batches <= batches_left; batches += step) {
          if (++steps_ > limits_.steps || (steps_ % 4096 == 0 && stop_ && stop_())) throw TooManyPlans();
          if (bound_of(shape, batches).end_s >= limit_s_) break;
          if (!is_uniform_with_others(shape, batches)) continue;
          chosen_.push_back({&shape, batches});
          extend(usage, i, batches_left - batches);
          chosen_.pop_back();
        }
      }
      take(usage->first, -1);
    }
  }

  bool fits(const Usage& usage) const {
    for (std::size_t i = 0; i < usage.size(); ++i)
      if (usage[i] > unused_[i]) return false;
    return true;
  }

  void take(const Usage& usage, int times) {
    for (std::size_t i = 0; i < usage.size(); ++i) unused_[i] -= times * usage[i];
  }

  /// Adds the plan in all orders of its pipelines that matter: none for sharded parameter servers, the order
  /// of the ring up to rotation, any other order otherwise.
  void add_plan() {
    if (static_cast<int>(chosen_.size()) != shape_.replicas.value_or(static_cast<int>(chosen_.size())))
      return;
    Plan plan{job_->model.stages.tensor(), job_->problem.job.execution, {}};
    Usage groups(classes_.size());
    for (const Chosen& it : chosen_)
      plan.pipelines.push_back(pipeline_of(*it.shape, it.micro_batches, groups));
    const GradientSync sync = job_->model.sync;
    std::vector<std::size_t> order(chosen_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto first = order.begin() + (sync == GradientSync::ring ? 1 : 0);
    do add_ordered(plan, order);
    while (sync != GradientSync::sharded_ps && std::next_permutation(first, order.end()));
  }

  void add_ordered(const Plan& plan, const std::vector<std::size_t>& order) {
    Plan ordered = plan;
    std::vector<const cost::PipelineBound*> bounds;
    for (std::size_t i = 0; i < order.size(); ++i) {
      ordered.pipelines[i] = plan.pipelines[order[i]];
      const Chosen& it = chosen_[order[i]];
      bounds.push_back(&bound_of(*it.shape, it.micro_batches));
    }
    const double bound_s = cost::min_iteration_s(job_->model, ordered, bounds);
    if (bound_s >= limit_s_) return;
    PlanCandidate candidate = evaluate_with_flushes(job_, std::move(ordered), score_);
    if (candidate.deficit_bytes > 0) return;
    if (found_.plans.size() == limits_.plans) throw TooManyPlans();
    found_.plans.push_back({std::move(candidate), bound_s});
  }

  const std::shared_ptr<const DecidedJob>& job_;
  const ShapeLimits& shape_;
  const double limit_s_;
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
  long long steps_ = 0;
  std::vector<Chosen> chosen_;
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
  if (!decisions.mixed_degrees(*job).empty()) return false;
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
  if (job->has_mixed_degrees()) return {{}, 0, 0, false};
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
