#include "planner/search/iteration_time/enumeration.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/bounds/plan_bound.hpp"

namespace dtfm::search {
namespace {

constexpr int steps_per_plan = 10;  // a plan takes about as long as this many steps
constexpr int steps_between_stop_checks = 10'000;

using JobPtr = std::shared_ptr<const DecidedJob>;

/// Thrown to end an enumeration that has reached a limit or is stopped.
struct GivesUp {};

void spend(long long& limit, long long amount = 1) {
  limit -= amount;
  if (limit < 0) throw GivesUp();
}

/// The usable devices by class; devices of one class are interchangeable.
std::vector<std::vector<int>> device_classes(const DecidedJob& job) {
  std::map<std::pair<cost::DeviceClass, int>, std::size_t> class_of;  // class and site
  std::vector<std::vector<int>> classes;
  for (const std::vector<int>& group : job.tensor_groups) {
    const int device = group.front();
    const int site = job.problem.topology->devices[at(device)].site;
    // The site matters to hierarchical synchronization.
    const auto [position, is_new] =
        class_of.emplace(std::pair(job.model.class_of(device), site), classes.size());
    if (is_new) classes.emplace_back();
    classes[position->second].push_back(device);
  }
  return classes;
}

class Enumerator {
 public:
  /// Subtracts from `limits` what it does.
  Enumerator(const JobPtr& job, const ShapeLimits& shape, double limit_s, EnumerationLimits& limits,
             const PlanScore& score, const StopFunction& stop)
      : job_(job),
        shape_(requires_single_devices(job->problem.job)
                   ? ShapeLimits{shape.stages.value_or(1), shape.replicas}
                   : shape),
        limit_s_(limit_s),
        pipelines_limit_s_(limit_s - job->problem.constants.iteration_overhead_s),
        limits_(limits),
        stop_(stop),
        evaluator_(job, score),
        classes_(device_classes(*job)),
        batches_(micro_batch_count(job->problem.job)) {
    for (const std::vector<int>& devices : classes_) unused_.push_back(static_cast<int>(devices.size()));
    find_rates();
  }

  /// Lists all pipelines: all sequences of classes, each cut in all ways. Throws GivesUp.
  void add_pipelines() {
    const int stages = shape_.stages.value_or(min_stages(job_->problem.job));
    if (stages > 1 && requires_single_devices(job_->problem.job)) return;
    if (at(stages) > job_->tensor_groups.size() || stages * job_->model.chunks > job_->model.stages.layers())
      return;
    std::vector<std::size_t> sequence;
    Usage usage(classes_.size());
    add_sequences(sequence, usage);
  }

  /// Adds all plans to `found`. Throws GivesUp.
  void add_plans(Enumeration& found) {
    found_ = &found;
    add_pipelines();
    extend(pipelines_.begin(), 0, 0);
  }

 private:
  using Usage = std::vector<int>;  // devices by class
  struct PipelineShape {           // a pipeline without devices and micro-batches
    std::vector<std::size_t> classes;
    std::vector<std::pair<int, int>> layers;
    std::map<int, cost::PipelineBound> bounds;  // by number of micro-batches, as far as known
    std::optional<int> capacity;                // before synchronization, if known
  };
  using Shapes = std::map<Usage, std::vector<PipelineShape>>;

  /// The work of a layer is its time on the first class of devices. The rate of a class is the largest ratio
  /// of work to time over all layers, so a device never does more work per second.
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
    const cost::StageCosts& costs = job_->model.stages;
    const std::pair<int, int> one = {layer, layer + 1};
    const cost::ComputeTime time =
        costs.compute(costs.kind_of(classes_[of].front()), one, costs.min_recomputed(one));
    return time.forward_s + time.backward_s;
  }

  /// Lower bound on the time in which all unused devices together compute this many micro-batches.
  double min_rest_s(int batches) const {
    double rate = 0;
    for (std::size_t i = 0; i < classes_.size(); ++i)
      if (unused_[i] > 0) rate += unused_[i] * rates_[i];
    if (std::all_of(unused_.begin(), unused_.end(), [](int it) { return it == 0; })) return infinity;
    return work_ > 0 && rate > 0 ? batches * work_ / rate : 0;
  }

  void add_sequences(std::vector<std::size_t>& sequence, Usage& usage) {
    const int layers = job_->model.stages.layers();
    const int stages = static_cast<int>(sequence.size());
    count_steps(1);
    if (stages > 0 && stages == shape_.stages.value_or(stages) && stages >= min_stages(job_->problem.job)) {
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
      spend(limits_.pipelines);
      pipelines_[usage].push_back({sequence, cuts, {}, {}});
      return;
    }
    const int begin = left == 1 ? layers : first + chunks, last = layers - (left - 1) * chunks;
    for (int end = begin; end <= last; ++end) {
      cuts.emplace_back(first, end);
      add_cuts(sequence, usage, cuts, end);
      cuts.pop_back();
    }
  }

  /// `used`: devices of each class that other pipelines use; those of this one are added.
  Pipeline pipeline_of(const PipelineShape& shape, int micro_batches, Usage& used) const {
    Pipeline pipeline{micro_batches, {}};
    for (std::size_t i = 0; i < shape.classes.size(); ++i) {
      const std::size_t of = shape.classes[i];
      pipeline.stages.push_back({shape.layers[i], {classes_[of][at(used[of]++)]}});
    }
    return pipeline;
  }

  const cost::PipelineBound& bound_of(PipelineShape& shape, int micro_batches) {
    const auto known = shape.bounds.find(micro_batches);
    if (known != shape.bounds.end()) return known->second;
    spend(limits_.bounds);
    count_steps(steps_per_plan);
    Usage used(classes_.size());
    return shape.bounds
        .emplace(micro_batches, cost::pipeline_bound(job_->model, pipeline_of(shape, micro_batches, used)))
        .first->second;
  }

  /// Most micro-batches that the pipeline may compute until its last backward pass at `limit_s`. Bounds do
  /// not decrease with the number of micro-batches.
  int capacity(PipelineShape& shape, double limit_s) {
    const int step = batch_step(*job_, static_cast<int>(shape.classes.size()));
    int most = 0;
    for (int low = 1, high = batches_ / step; low <= high;) {
      const int middle = low + (high - low) / 2;
      const cost::PipelineBound& bound = bound_of(shape, middle * step);
      if (bound.gradients_s.front() < limit_s && bound.end_s < pipelines_limit_s_) {
        most = middle * step;
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    return most;
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
    spend(limits_.steps, steps);
    until_stop_check_ -= steps;
    if (until_stop_check_ > 0) return;
    until_stop_check_ = steps_between_stop_checks;
    if (is_stopped(stop_)) throw GivesUp();
  }

  bool fits(const Usage& usage) const {
    for (std::size_t i = 0; i < usage.size(); ++i)
      if (usage[i] > unused_[i]) return false;
    return true;
  }

  void take(const Usage& usage, int times) {
    for (std::size_t i = 0; i < usage.size(); ++i) unused_[i] -= times * usage[i];
  }

  /// Adds the chosen pipelines in all orders that matter: one if all have the same role in gradient
  /// synchronization, the order of a ring up to rotation, any order otherwise. Pipelines of one shape are
  /// interchangeable.
  void add_layout() {
    const int pipelines = static_cast<int>(chosen_.size());
    if (pipelines != shape_.replicas.value_or(pipelines)) return;
    ordered_ = chosen_;
    const GradientSyncTraits& sync = traits(job_->model.sync);
    const auto first = ordered_.begin() + (sync.roles == MemberRoles::ring ? 1 : 0);
    const auto comes_before = [&](const PipelineShape* a, const PipelineShape* b) {
      return number_of(a) < number_of(b);
    };
    do add_ordered_layout();
    while (sync.is_ordered() && std::next_permutation(first, ordered_.end(), comes_before));
  }

  /// Number of the first chosen pipeline of this shape; equal ones are neighbours.
  std::ptrdiff_t number_of(const PipelineShape* shape) const {
    return std::find(chosen_.begin(), chosen_.end(), shape) - chosen_.begin();
  }

  /// The first layers are synchronized after the last backward pass, so the pipelines have less time. With
  /// zero2 and zero3, their traffic also limits the micro-batches.
  void add_ordered_layout() {
    count_steps(steps_per_plan);
    layout_ = {1, job_->problem.job.execution, {}};
    Usage used(classes_.size());
    for (const PipelineShape* shape : ordered_) layout_.pipelines.push_back(pipeline_of(*shape, 0, used));
    const double limit_s = pipelines_limit_s_ - cost::min_first_sync_s(job_->model, layout_);
    const int max_micro_batches = cost::max_micro_batches(job_->model, layout_, pipelines_limit_s_);
    capacities_.clear();
    long long sum = 0;
    for (PipelineShape* shape : ordered_) {
      capacities_.push_back(std::min(max_micro_batches, capacity(*shape, limit_s)));
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
    // Pipelines of one shape are interchangeable if their order does not matter.
    if (first > 0 && ordered_[first] == ordered_[first - 1] && !traits(job_->model.sync).is_ordered())
      most = std::min(most, layout_.pipelines[first - 1].micro_batches);
    if (requires_uniform_pipelines(*job_)) {
      if (batches_ % pipelines != 0 || batches_ / pipelines % step != 0) return;
      least = batches_ / pipelines;
      most = std::min(most, least);
    }
    for (int own = least; own <= most; own += step) {
      const int flush = job_->model.flush;
      const bool can_run =
          (flush == 0 || own <= flush || flush % step == 0) &&
          can_have_stages(job_->problem.job, static_cast<int>(ordered_[first]->classes.size()), own);
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
    PlanCandidate candidate = evaluator_.evaluate_with_flushes(layout_);
    if (candidate.deficit_bytes > 0) return;
    spend(limits_.plans);
    found_->plans.push_back({std::move(candidate), bound_s});
  }

  const JobPtr job_;
  const ShapeLimits shape_;
  const double limit_s_, pipelines_limit_s_;  // of an iteration, and of its pipelines
  EnumerationLimits& limits_;
  const StopFunction& stop_;
  PlanEvaluator evaluator_;
  const std::vector<std::vector<int>> classes_;  // devices
  const int batches_;
  std::vector<double> rates_;  // by class
  double work_ = 0;            // of all layers
  Usage unused_;
  Shapes pipelines_;
  int until_stop_check_ = 0;  // steps
  std::vector<PipelineShape*> chosen_;
  // The chosen pipelines in one of their orders.
  std::vector<PipelineShape*> ordered_;
  std::vector<int> capacities_;
  Plan layout_;
  Enumeration* found_ = nullptr;
};

/// All combinations of what the job leaves open. Throws GivesUp if there are too many, or tensor parallelism.
std::vector<JobPtr> all_decided_jobs(Decisions& decisions, const EnumerationLimits& limits) {
  std::vector<JobPtr> jobs = {decisions.first()};
  std::set<std::string> known = {decisions_key(jobs.front()->problem.job)};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobPtr job = jobs[i];
    if (jobs.size() > limits.jobs || job->model.stages.devices() > 1) throw GivesUp();
    for (const JobPtr& other : decisions.alternatives(*job))
      if (known.insert(decisions_key(other->problem.job)).second) jobs.push_back(other);
  }
  return jobs;
}

}  // namespace

bool can_enumerate(const Problem& problem, const ShapeLimits& shape, const EnumerationLimits& limits) {
  // Cuts of the layers alone, which is quick: Σ (layers − 1 choose stages − 1).
  const int layers = layer_count(problem.job.model), devices = problem.topology->size();
  double cuts = 1, all = 1;
  for (int stages = 2; stages <= std::min(layers, devices) && !shape.stages; ++stages) {
    cuts *= static_cast<double>(layers - stages + 1) / (stages - 1);
    all += cuts;
    if (all > static_cast<double>(limits.pipelines)) return false;
  }
  Decisions decisions(problem);
  EnumerationLimits left = limits;
  const PlanScore score(Objective::iteration_time, problem.topology);
  const StopFunction never_stop;
  try {
    Enumerator(decisions.first(), shape, infinity, left, score, never_stop).add_pipelines();
    all_decided_jobs(decisions, limits);
  } catch (const GivesUp&) {
    return false;
  }
  return true;
}

Enumeration enumerate_plans(const Problem& problem, const ShapeLimits& shape, double limit_s,
                            EnumerationLimits limits, const StopFunction& stop) {
  Enumeration found;
  Decisions decisions(problem);
  const PlanScore score(Objective::iteration_time, problem.topology);
  try {
    for (const JobPtr& job : all_decided_jobs(decisions, limits))
      Enumerator(job, shape, limit_s, limits, score, stop).add_plans(found);
  } catch (const GivesUp&) {
    found.is_complete = false;
  }
  found.evaluations = score.evaluated();
  std::stable_sort(
      found.plans.begin(), found.plans.end(),
      [](const EnumeratedPlan& a, const EnumeratedPlan& b) { return is_better(a.candidate, b.candidate); });
  return found;
}

}  // namespace dtfm::search
