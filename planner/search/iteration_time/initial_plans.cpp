#include "planner/search/iteration_time/initial_plans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/plan/stage_mesh.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/iteration_time/layer_split.hpp"
#include "planner/cost/iteration_time/micro_batch_split.hpp"
#include "planner/search/iteration_time/device_order.hpp"

namespace dtfm::search {
namespace {

constexpr int few_tensor_groups = 16;  // chosen by hand: so few that sequences from every start can be tried

/// At least `count` tensor-parallel groups (at most max_tensor_groups). If there are too few, the largest
/// ones are split into groups of the next smaller degree, the last one first.
std::vector<std::vector<int>> tensor_groups_for(const DecidedJob& job, int count) {
  std::vector<std::vector<int>> tensor_groups = job.tensor_groups;
  while (static_cast<int>(tensor_groups.size()) < count) {
    std::size_t largest = 0;
    for (std::size_t i = 0; i < tensor_groups.size(); ++i)
      if (tensor_groups[i].size() >= tensor_groups[largest].size()) largest = i;
    const std::size_t smaller = job.model.degree_below(tensor_groups[largest].size());
    DTFM_ASSERT(smaller > 0);
    std::vector<std::vector<int>> pieces;
    for (auto it = tensor_groups[largest].begin(); it != tensor_groups[largest].end();
         it += static_cast<long>(smaller))
      pieces.emplace_back(it, it + static_cast<long>(smaller));
    tensor_groups.erase(tensor_groups.begin() + static_cast<long>(largest));
    tensor_groups.insert(tensor_groups.begin() + static_cast<long>(largest), pieces.begin(), pieces.end());
  }
  return tensor_groups;
}

/// Seconds of all layers of a micro-batch on the slowest device of the group.
double seconds_of(const DecidedJob& job, const std::vector<int>& tensor_group) {
  const cost::StageCosts& costs = job.model.stages_of(tensor_group.size());
  double slowest = 0;
  for (const int device : tensor_group) {
    const cost::ComputeTime time = costs.compute(costs.kind_of(device), {0, costs.layers()});
    slowest = std::max(slowest, time.forward_s + time.backward_s);
  }
  return slowest;
}

/// Start of the first longest run, where runs begin at `starts` and end at the next start, or at `all`.
int start_of_longest_run(const std::vector<int>& starts, int all) {
  int largest = 0, longest = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int length = (i + 1 < starts.size() ? starts[i + 1] : all) - starts[i];
    if (length > longest) std::tie(largest, longest) = std::pair{starts[i], length};
  }
  return largest;
}

/// Sequences of `count` tensor-parallel groups: the fastest ones; those that compute at the least cost;
/// consecutive ones (cyclically) from the start of the largest site, and of about `most` sites; if there are
/// few groups, from every group.
std::vector<std::vector<int>> group_sequences(const DecidedJob& job,
                                              const std::vector<std::vector<int>>& tensor_groups, int count,
                                              int most, const PlanScore& score) {
  const int all = static_cast<int>(tensor_groups.size());
  std::vector<int> order(tensor_groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> seconds, evaluations;
  for (const auto& tensor_group : tensor_groups) {
    seconds.push_back(seconds_of(job, tensor_group));
    evaluations.push_back(score.of(seconds.back(), score.total_weight(tensor_group), 0));
  }
  const auto least = [&](const std::vector<double>& values) {
    std::vector<int> best = order;
    std::stable_sort(best.begin(), best.end(), [&](int a, int b) { return values[at(a)] < values[at(b)]; });
    best.resize(at(count));
    return best;
  };
  std::set<std::vector<int>> seen;
  std::vector<std::vector<int>> result;
  const auto add = [&](std::vector<int> group_sequence) {
    if (seen.insert(group_sequence).second) result.push_back(std::move(group_sequence));
  };
  for (const auto* values : {&seconds, &evaluations}) {
    std::vector<int> in_order = least(*values);
    std::sort(in_order.begin(), in_order.end());
    add(in_order);
    add(least(*values));
  }
  std::vector<int> starts;
  for (int i = 0; i < all; ++i) {
    const auto site = [&](int tensor_group) {
      return job.problem.topology->devices[at(tensor_groups[at(tensor_group)].front())].site;
    };
    if (i == 0 || site(i) != site(i - 1)) starts.push_back(i);
  }
  const auto add_from = [&](int start) {
    std::vector<int> group_sequence;
    for (int k = 0; k < count; ++k) group_sequence.push_back((start + k) % all);
    add(std::move(group_sequence));
  };
  add_from(start_of_longest_run(starts, all));
  if (all <= few_tensor_groups) {
    for (int i = 0; i < all; ++i) add_from(i);
    return result;
  }
  const int step = std::max(1, (static_cast<int>(starts.size()) + most - 1) / most);
  for (std::size_t i = 0; i < starts.size(); i += at(step)) add_from(starts[i]);
  return result;
}

/// Lays the stages out in `blocks` consecutive blocks, within which the groups of each pipeline are
/// consecutive. With 1 block, the stages of a pipeline are close to each other; with as many as stages, the
/// replicas of a stage are.
Plan lay_out_plan(const DecidedJob& job, const std::vector<std::vector<int>>& tensor_groups,
                  const Shape& shape, const std::vector<int>& group_sequence, int blocks) {
  const Job& of = job.problem.job;
  Plan plan{1, of.execution, {}};
  for (int replica = 0; replica < shape.replicas; ++replica) {
    Pipeline pipeline;
    for (int stage = 0; stage < shape.stages; ++stage) {
      int block = 0;
      while (even_split(shape.stages, blocks, block).second <= stage) ++block;
      const auto [first, last] = even_split(shape.stages, blocks, block);
      const int position = first * shape.replicas + replica * (last - first) + stage - first;
      pipeline.stages.push_back({even_split(job.model.stages.layers(), shape.stages, stage),
                                 tensor_groups[at(group_sequence[at(position)])]});
    }
    plan.pipelines.push_back(std::move(pipeline));
  }
  plan.tensor = tensor_degrees(plan).back();
  assign_micro_batches_evenly(job, plan);
  return plan;
}

}  // namespace

std::vector<std::vector<int>> tensor_groups_for_plan(const DecidedJob& job, const Plan& plan) {
  if (!job.has_mixed_degrees()) return job.tensor_groups;
  const std::vector<int> used = pipeline_major(plan);
  const std::set<int> is_used(used.begin(), used.end());
  std::map<int, int> position;
  std::vector<int> rest;
  for (const auto& tensor_group : job.tensor_groups)
    for (const int device : tensor_group) {
      position.emplace(device, static_cast<int>(position.size()));
      if (!is_used.contains(device)) rest.push_back(device);
    }
  std::vector<int> degrees;
  for (const cost::StageCosts& costs : job.model.by_degree) degrees.push_back(costs.devices());
  auto tensor_groups = stage_tensor_groups(job.problem.topology, rest, degrees);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (!stage.devices.empty()) tensor_groups.push_back(stage.devices);
  std::sort(tensor_groups.begin(), tensor_groups.end(),
            [&](const auto& a, const auto& b) { return position[a.front()] < position[b.front()]; });
  return tensor_groups;
}

void assign_micro_batches_evenly(const DecidedJob& job, Plan& plan) {
  const int pipelines = static_cast<int>(plan.pipelines.size());
  const int step = batch_step(job, static_cast<int>(plan.pipelines.front().stages.size()));
  const int steps = micro_batch_count(job.problem.job) / step;
  for (int i = 0; i < pipelines; ++i) {
    const auto [begin, end] = even_split(steps, pipelines, i);
    plan.pipelines[at(i)].micro_batches = (end - begin) * step;
  }
}

bool is_possible(const DecidedJob& job, const Shape& shape, const ShapeLimits& limits) {
  const auto [stages, replicas] = shape;
  if (stages < 1 || replicas < 1) return false;
  if (limits.stages.value_or(stages) != stages || limits.replicas.value_or(replicas) != replicas)
    return false;
  if (stages > job.model.stages.layers() / job.model.chunks) return false;
  const int batches = micro_batch_count(job.problem.job), step = batch_step(job, stages);
  if (stages < min_stages(job.problem.job)) return false;
  if (!can_have_stages(job.problem.job, stages, batches / replicas)) return false;
  if (stages > 1 && requires_single_devices(job.problem.job)) return false;
  if (replicas > max_tensor_groups(job) / stages) return false;
  if (batches % step != 0 || replicas > batches / step) return false;
  if (requires_uniform_pipelines(job) && batches / step % replicas != 0) return false;
  return job.model.flush % step == 0 || job.model.flush >= batches;  // every round consists of whole steps
}

std::vector<Shape> possible_shapes(const DecidedJob& job, const ShapeLimits& limits, double ratio) {
  const int tensor_groups = max_tensor_groups(job);
  std::vector<Shape> shapes;
  for (int stages = 1; stages <= std::min(tensor_groups, job.model.stages.layers()); ++stages) {
    const int most =
        std::min(tensor_groups / stages, micro_batch_count(job.problem.job) / batch_step(job, stages));
    for (int replicas = 1; replicas <= most;) {
      if (is_possible(job, {stages, replicas}, limits)) shapes.push_back({stages, replicas});
      const int next = limits.replicas || requires_uniform_pipelines(job)
                           ? replicas + 1
                           : std::max(replicas + 1, static_cast<int>(replicas * ratio));
      replicas = next > most && replicas < most ? most : next;
    }
  }
  return shapes;
}

std::vector<Shape> sparse_shapes(const DecidedJob& job, const ShapeLimits& limits) {
  constexpr double sparse_ratio = 2;
  std::vector<Shape> shapes = possible_shapes(job, limits, sparse_ratio);
  std::erase_if(shapes, [&](const Shape& shape) {
    return !std::has_single_bit(static_cast<unsigned>(shape.stages)) && shape.stages != limits.stages;
  });
  return shapes;
}

std::vector<Shape> full_shapes(const DecidedJob& job, const ShapeLimits& limits) {
  std::vector<Shape> shapes;
  const int tensor_groups = static_cast<int>(job.tensor_groups.size());
  for (int stages = 1; stages <= std::min(tensor_groups, job.model.stages.layers()); ++stages) {
    const int most =
        std::min(tensor_groups / stages, micro_batch_count(job.problem.job) / batch_step(job, stages));
    Shape shape{stages, most};
    while (shape.replicas > 0 && !is_possible(job, shape, limits)) --shape.replicas;
    if (shape.replicas > 0) shapes.push_back(shape);
  }
  return shapes;
}

std::vector<PlanCandidate> initial_plans(const std::shared_ptr<const DecidedJob>& job, const Shape& shape,
                                         const PlanScore& score, bool thorough, std::size_t most,
                                         bool needs_one) {
  std::vector<PlanCandidate> best;
  const auto offer = [&](PlanCandidate candidate) {
    const auto position = std::find_if(best.begin(), best.end(),
                                       [&](const PlanCandidate& it) { return is_better(candidate, it); });
    best.insert(position, std::move(candidate));
    if (best.size() > most) best.pop_back();
  };
  PlanEvaluator evaluator(job, score);
  std::set<int> blocks = {1, shape.stages};
  for (int count = 2; thorough && count < shape.stages; count *= 2) blocks.insert(count);
  if (shape.replicas == 1) blocks = {1};
  const int count = shape.stages * shape.replicas;
  const std::vector<std::vector<int>> tensor_groups = tensor_groups_for(*job, count);
  try {
    for (const std::vector<int>& group_sequence :
         group_sequences(*job, tensor_groups, count, thorough ? 24 : 1, score))
      for (const int block_count : blocks) {
        const Plan plan = lay_out_plan(*job, tensor_groups, shape, group_sequence, block_count);
        if (needs_one && best.empty()) {
          const PlanScore unstoppable = score.with_stop({});
          PlanEvaluator always(job, unstoppable);
          offer(balance_plan(always, plan));
        } else if (best.size() < most) {
          offer(balance_plan(evaluator, plan));
        } else if (auto better = balance_plan_if_better(evaluator, plan, best.back())) {
          offer(*std::move(better));
        }
      }
    for (PlanCandidate& candidate : best) {
      Plan plan = candidate.plan;
      assign_micro_batches_evenly(*job, plan);  // as in the initial layout
      candidate = fit_plan(evaluator, std::move(plan));
    }
  } catch (const WorkStopped&) {
    if (best.empty()) throw;
  }
  std::stable_sort(best.begin(), best.end(), is_better);
  return best;
}

std::optional<PlanCandidate> transfer_plan(const std::shared_ptr<const DecidedJob>& job,
                                           const PlanCandidate& from, const ShapeLimits& limits,
                                           const PlanScore& score) {
  const Job &now = job->problem.job, &then = from.job->problem.job;
  const bool in_rounds = traits(job->model.schedule).in_rounds;
  const bool is_allowed = are_equally_deep(from.plan) ? is_possible(*job, from.shape(), limits)
                                                      : !in_rounds && !requires_uniform_pipelines(*job) &&
                                                            !requires_single_devices(now) &&
                                                            from.shape().replicas <= micro_batch_count(now);
  if (!is_allowed || devices_per_stage(now) != devices_per_stage(then) ||
      job->max_degrees != from.job->max_degrees)
    return std::nullopt;
  Plan plan = from.plan;
  plan.execution = now.execution;
  plan.tensor = tensor_degrees(plan).back();
  if (now.execution.micro_batch != then.execution.micro_batch || in_rounds)
    assign_micro_batches_evenly(*job, plan);
  if (in_rounds)  // every stage needs a layer for each of its chunks
    for (Pipeline& pipeline : plan.pipelines)
      for (int stage = 0; stage < from.shape().stages; ++stage)
        pipeline.stages[at(stage)].layers =
            even_split(job->model.stages.layers(), from.shape().stages, stage);
  return fit_plan(job, std::move(plan), score);
}

}  // namespace dtfm::search
