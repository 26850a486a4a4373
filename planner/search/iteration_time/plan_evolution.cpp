#include "planner/search/iteration_time/plan_evolution.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/iteration_time/layer_split.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/random_change.hpp"
#include "planner/search/iteration_time/ring_order.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand.
constexpr int population_size = 8;
constexpr std::size_t max_best = 96;  // plans that are kept besides the population
constexpr int max_groups = 64;
constexpr std::size_t children_per_job_change = 16;
constexpr std::size_t children_per_common_split = 8;  // of equally deep pipelines
constexpr long long children_in_turn = 32;            // of one plan: estimates of similar plans are fast
// As fractions of the best score; those of annealing, but it does not end as cold.
constexpr double warm_temperature = 0.02, cold_temperature = 0.0005;
constexpr int end_of_stage = -1, end_of_pipeline = -2;  // in keys of layer splits
constexpr int balance_passes = 2;  // micro-batches depend on the layers' times, and vice versa

/// A number for the class of each device.
std::vector<int> class_of_each_device(const DecidedJob& job) {
  std::map<cost::DeviceClass, int> known;
  std::vector<int> classes;
  for (int device = 0; device < job.problem.topology->size(); ++device)
    classes.push_back(
        known.try_emplace(job.model.class_of(device), static_cast<int>(known.size())).first->second);
  return classes;
}

class PlanEvolution {
 public:
  PlanEvolution(std::vector<PlanCandidate> starts, const DecidedJobs& jobs, const ShapeLimits& limits,
                const PlanScore& score, Rng& rng, LayerSplits& splits)
      : limits_(limits), score_(score), rng_(rng), splits_(splits), best_(std::move(starts)) {
    for (const auto& job : jobs)
      decided_.push_back({job,
                          PlanEvaluator(job, score),
                          {job->tensor_groups.begin(), job->tensor_groups.end()},
                          class_of_each_device(*job)});
    std::stable_sort(best_.begin(), best_.end(), is_better);
    if (best_.size() > max_best) best_.resize(max_best, best_.front());
  }

  std::vector<PlanCandidate> run(long long children, const StopFunction& stop) {
    std::vector<PlanCandidate> population;
    for (int i = 0; i < population_size; ++i) population.push_back(tournament());
    try {
      evolve(population, children, stop);
    } catch (const WorkStopped&) {  // between two evaluations
    }
    return std::move(best_);
  }

 private:
  /// A decided job, with what is known of it.
  struct Decided {
    std::shared_ptr<const DecidedJob> job;
    PlanEvaluator evaluator;
    std::set<std::vector<int>> groups;
    std::vector<int> device_class;  // of every device
  };

  /// Throws WorkStopped if the score is stopped.
  void evolve(std::vector<PlanCandidate>& population, long long children, const StopFunction& stop) {
    const double scale = best_.front().score;
    for (long long i = 0; i < children && !is_stopped(stop); ++i) {
      PlanCandidate& parent = population[static_cast<std::size_t>(i / children_in_turn) % population.size()];
      const bool changes_job = decided_.size() > 1 && below(children_per_job_change) == 0;
      use(changes_job ? decided_[at(below(decided_.size()))].job : parent.job);
      std::optional<Plan> plan = changes_job ? fit_anew(parent.plan) : make_child(parent.plan);
      if (!plan) continue;
      plan->tensor = tensor_degrees(*plan).back();
      const double share = static_cast<double>(i) / static_cast<double>(children);
      const double temperature =
          scale * warm_temperature * std::pow(cold_temperature / warm_temperature, share);
      auto child = now_->evaluator.evaluate_with_flushes_up_to(
          acceptance_limit(energy_of(parent), temperature, rng_), *std::move(plan));
      if (!child) continue;
      keep_if_among_best(*child);
      parent = *std::move(child);
    }
  }

  const DecidedJob& job() const { return *now_->job; }
  bool has_mixed_degrees() const { return job().has_mixed_degrees(); }
  /// The next child is a plan of this job.
  void use(const std::shared_ptr<const DecidedJob>& job) {
    const auto decided =
        std::find_if(decided_.begin(), decided_.end(), [&](const Decided& it) { return it.job == job; });
    DTFM_ASSERT(decided != decided_.end());
    now_ = &*decided;
  }

  int below(std::size_t bound) { return static_cast<int>(rng_.below(static_cast<std::uint32_t>(bound))); }

  /// The better one of two random plans among the best.
  const PlanCandidate& tournament() {
    const PlanCandidate &a = best_[at(below(best_.size()))], &b = best_[at(below(best_.size()))];
    return is_better(a, b) ? a : b;
  }

  void keep_if_among_best(const PlanCandidate& child) {
    for (const PlanCandidate& it : best_)
      if (it.job == child.job && it.plan.pipelines == child.plan.pipelines) return;
    const auto position = std::find_if(best_.begin(), best_.end(),
                                       [&](const PlanCandidate& it) { return is_better(child, it); });
    best_.insert(position, child);
    if (best_.size() > max_best) best_.pop_back();
  }

  /// How a child differs from its parent.
  struct Change {
    int odds;
    bool (PlanEvolution::*apply)(Plan&);  // returns whether it changed something
    bool is_refitted;                     // by `fit`
    ChangeRequires required;
  };
  static const std::array<Change, 14> changes;

  /// A parent with one change. Nothing if the change is not possible.
  std::optional<Plan> make_child(Plan child) {
    const bool is_ordered = traits(child.execution.gradient_sync).is_ordered();
    const Change& change = random_change(changes, {is_ordered, has_mixed_degrees()}, rng_);
    before_ = child.pipelines;
    if (!(this->*change.apply)(child)) return std::nullopt;
    if (!change.is_refitted) return child;
    if (!is_allowed(child)) return std::nullopt;
    return fit(std::move(child));
  }

  bool move_layer(Plan& plan) {
    std::vector<Stage>& stages = random_pipeline(plan).stages;
    if (stages.size() < 2) return false;
    const std::size_t stage = at(below(stages.size() - 1));
    int& cut = stages[stage].layers.second;
    const int moved = cut + (below(2) == 0 ? 1 : -1);
    const int chunks = job().model.chunks;
    if (moved - stages[stage].layers.first < chunks || stages[stage + 1].layers.second - moved < chunks)
      return false;
    cut = stages[stage + 1].layers.first = moved;
    return true;
  }

  bool move_micro_batch(Plan& plan) {
    Pipeline &from = random_pipeline(plan), &to = random_pipeline(plan);
    if (&from == &to || from.micro_batches < 2) return false;
    --from.micro_batches;
    ++to.micro_batches;
    return true;
  }

  bool exchange_groups(Plan& plan) {
    Stage& a = random_stage(plan);
    if (below(3) == 0) {
      const std::vector<int> unused = random_unused_group(plan);
      if (unused.empty()) return false;
      a.devices = unused;
      return true;
    }
    Stage& b = random_stage(plan);
    std::swap(a.devices, b.devices);
    return &a != &b;
  }

  bool move_group(Plan& plan) {
    const std::size_t from = at(below(plan.pipelines.size())), to = at(below(plan.pipelines.size()));
    std::vector<Stage>& stages = plan.pipelines[from].stages;
    const std::size_t stage = at(below(stages.size()));
    const Stage moved = stages[stage];
    stages.erase(stages.begin() + static_cast<long>(stage));
    insert(plan.pipelines[to], moved);
    if (plan.pipelines[from].stages.empty()) erase_pipeline(plan, from);
    return true;
  }

  bool add_group(Plan& plan) {
    const Stage stage{{}, random_unused_group(plan)};
    if (stage.devices.empty()) return false;
    const std::size_t pipeline = at(below(plan.pipelines.size() + 1));
    if (pipeline == plan.pipelines.size()) plan.pipelines.push_back({1, {}});
    insert(plan.pipelines[pipeline], stage);
    return true;
  }

  bool remove_group(Plan& plan) {
    const std::size_t pipeline = at(below(plan.pipelines.size()));
    std::vector<Stage>& stages = plan.pipelines[pipeline].stages;
    stages.erase(stages.begin() + below(stages.size()));
    if (stages.empty()) erase_pipeline(plan, pipeline);
    return !plan.pipelines.empty();
  }

  /// Leaves a stage the first half of its devices.
  bool halve_stage(Plan& plan) { return halve(random_stage(plan).devices); }

  bool halve(std::vector<int>& group) const {
    const std::size_t half = group.size() / 2;
    if (group.size() % 2 != 0 || !job().model.has_degree(half)) return false;
    group.resize(half);
    return true;
  }

  /// Gives a stage as many unused devices of its host as it has.
  bool double_stage(Plan& plan) {
    std::vector<int>& group = random_stage(plan).devices;
    const std::size_t size = group.size();
    if (!job().model.has_degree(2 * size)) return false;
    const auto host = [&](const std::vector<int>& it) {
      return job().problem.topology->devices[at(it.front())].host;
    };
    for (const std::vector<int>& more : unused_groups(plan))
      if (more.size() >= size && host(more) == host(group)) {
        group.insert(group.end(), more.begin(), more.begin() + static_cast<long>(size));
        return true;
      }
    return false;
  }

  /// Moves half of a stage's devices to a stage of the same host that has as many as that half.
  bool move_half_stage(Plan& plan) { return halve_stage(plan) && double_stage(plan); }

  bool split_pipeline(Plan& plan) {
    Pipeline& first = random_pipeline(plan);
    if (first.stages.size() < 2) return false;
    const auto middle = first.stages.begin() + 1 + below(first.stages.size() - 1);
    Pipeline second{1, {middle, first.stages.end()}};
    first.stages.erase(middle, first.stages.end());
    plan.pipelines.push_back(std::move(second));
    return true;
  }

  bool join_pipelines(Plan& plan) {
    if (plan.pipelines.size() < 2) return false;
    const std::size_t from = at(below(plan.pipelines.size())), to = at(below(plan.pipelines.size()));
    if (from == to) return false;
    for (const Stage& stage : plan.pipelines[from].stages) plan.pipelines[to].stages.push_back(stage);
    erase_pipeline(plan, from);
    return true;
  }

  /// Reverses consecutive stages of a pipeline.
  bool reverse_stages(Plan& plan) {
    std::vector<Stage>& stages = random_pipeline(plan).stages;
    const int a = below(stages.size()), b = below(stages.size());
    std::reverse(stages.begin() + std::min(a, b), stages.begin() + std::max(a, b) + 1);
    return a != b;
  }

  void shuffle(std::vector<Pipeline>& all) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[at(below(i))]);
  }

  /// Exchanges two pipelines or two successive sequences of pipelines, reverses one, or, in a ring, orders
  /// all of them from their present or a random order.
  bool reorder_pipelines(Plan& plan) {
    std::vector<Pipeline>& all = plan.pipelines;
    if (all.size() < 2) return false;
    enum Kind { two, sequences, reversed, ring };
    const int kind = below(4);
    if (kind == ring && traits(plan.execution.gradient_sync).roles == MemberRoles::ring) {
      const std::vector<Pipeline> before = all;
      if (below(2) == 0) shuffle(all);
      plan = order_ring(job().model, std::move(plan));
      return plan.pipelines != before;
    }
    if (kind == two || kind == ring) {
      Pipeline &a = random_pipeline(plan), &b = random_pipeline(plan);
      std::swap(a, b);
      return &a != &b;
    }
    std::vector<long> ends;
    for (int i = 0; i < 3; ++i) ends.push_back(below(all.size() + 1));
    std::sort(ends.begin(), ends.end());
    if (ends[0] == ends[1] || (kind == sequences && ends[1] == ends[2])) return false;
    if (kind == sequences)
      std::rotate(all.begin() + ends[0], all.begin() + ends[1], all.begin() + ends[2]);
    else
      std::reverse(all.begin() + ends[0], all.begin() + ends[1]);
    return true;
  }

  /// Keeps each pipeline with probability 1/2, and adds the pipelines of one of the best plans, without
  /// groups that the kept ones use.
  bool recombine(Plan& plan) {
    const Plan& other = tournament().plan;
    std::erase_if(plan.pipelines, [&](const Pipeline&) { return below(2) == 0; });
    std::set<int> used = used_devices(plan);
    for (Pipeline pipeline : other.pipelines) {
      std::erase_if(pipeline.stages, [&](const Stage& it) {
        return std::any_of(it.devices.begin(), it.devices.end(),
                           [&](int device) { return used.contains(device); });
      });
      if (pipeline.stages.empty()) continue;
      for (const Stage& stage : pipeline.stages) used.insert(stage.devices.begin(), stage.devices.end());
      plan.pipelines.push_back(std::move(pipeline));
    }
    return plan.pipelines != before_;
  }

  Pipeline& random_pipeline(Plan& plan) { return plan.pipelines[at(below(plan.pipelines.size()))]; }
  Stage& random_stage(Plan& plan) {
    std::vector<Stage>& stages = random_pipeline(plan).stages;
    return stages[at(below(stages.size()))];
  }
  void insert(Pipeline& pipeline, const Stage& stage) {
    pipeline.stages.insert(pipeline.stages.begin() + below(pipeline.stages.size() + 1), stage);
  }
  static void erase_pipeline(Plan& plan, std::size_t pipeline) {
    plan.pipelines.erase(plan.pipelines.begin() + static_cast<long>(pipeline));
  }

  static std::set<int> used_devices(const Plan& plan) {
    const std::vector<int> devices = pipeline_major(plan);
    return {devices.begin(), devices.end()};
  }

  std::vector<std::vector<int>> unused_groups(const Plan& plan) const {
    const std::set<int> used = used_devices(plan);
    std::vector<std::vector<int>> unused;
    for (const std::vector<int>& group : tensor_groups_for_plan(job(), plan))
      if (!used.contains(group.front()) && std::isfinite(score_.total_weight(group))) unused.push_back(group);
    return unused;
  }

  /// Empty if all groups are used.
  std::vector<int> random_unused_group(const Plan& plan) {
    const std::vector<std::vector<int>> unused = unused_groups(plan);
    if (unused.empty()) return {};
    std::vector<int> group = unused[at(below(unused.size()))];
    while (has_mixed_degrees() && below(2) == 0 && halve(group)) {
    }
    return group;
  }

  /// Whether the job has the groups of a plan that may be of another job.
  bool has_groups_of(const Plan& plan) const {
    return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& pipeline) {
      return std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
        return has_mixed_degrees() ? job().model.has_degree(stage.devices.size())
                                   : now_->groups.contains(stage.devices);
      });
    });
  }

  bool is_allowed(const Plan& plan) const {
    const std::size_t pipelines = plan.pipelines.size();
    if (pipelines == 0 || pipelines != at(limits_.replicas.value_or(static_cast<int>(pipelines))))
      return false;
    if (!has_groups_of(plan)) return false;
    return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& it) {
      const int stages = static_cast<int>(it.stages.size());
      return stages * job().model.chunks <= job().model.stages.layers() &&
             stages == limits_.stages.value_or(stages);
    });
  }

  // Layers and micro-batches.

  /// The plan with layers and micro-batches for a job other than its own. Nothing if that has too few
  /// micro-batches, or other groups.
  std::optional<Plan> fit_anew(Plan plan) {
    if (!has_groups_of(plan)) return std::nullopt;
    before_.clear();
    return fit(std::move(plan));
  }

  /// Splits the layers of each changed pipeline by itself, or of all pipelines of a depth in common, and
  /// balances micro-batches. Nothing if a pipeline would get no micro-batches.
  std::optional<Plan> fit(Plan plan) {
    const int total = micro_batch_count(job().problem.job);
    const int pipelines = static_cast<int>(plan.pipelines.size());
    if (pipelines > total) return std::nullopt;
    for (Pipeline& pipeline : plan.pipelines)
      if (has_changed(pipeline)) pipeline.micro_batches = total / pipelines;  // until they are balanced
    if (below(children_per_common_split) == 0)
      split_by_depth(plan);
    else
      for (Pipeline& pipeline : plan.pipelines)
        if (has_changed(pipeline)) set_layers(pipeline, best_layers({&pipeline}, sharing_replicas_of(plan)));
    plan.execution = job().problem.job.execution;
    for (int pass = 0; pass < balance_passes; ++pass) {
      const std::vector<int> balanced = cost::balanced_micro_batches(
          pipeline_paces(plan, now_->evaluator.estimate_pipelines(plan)), 1, total);
      bool is_balanced = true;
      for (int i = 0; i < pipelines; ++i) {
        if (balanced[at(i)] == 0) return std::nullopt;
        is_balanced = is_balanced && plan.pipelines[at(i)].micro_batches == balanced[at(i)];
        plan.pipelines[at(i)].micro_batches = balanced[at(i)];
      }
      if (is_balanced) break;
    }
    return plan;
  }

  bool has_changed(const Pipeline& pipeline) const {
    return std::none_of(before_.begin(), before_.end(),
                        [&](const Pipeline& it) { return it.stages == pipeline.stages; });
  }

  /// With hierarchical synchronization that depends on layers that are yet to be split, so no sharing is
  /// assumed.
  int sharing_replicas_of(const Plan& plan) const {
    return traits(job().model.sync).shares_by_site() ? 1 : static_cast<int>(plan.pipelines.size());
  }

  void split_by_depth(Plan& plan) {
    std::map<std::size_t, std::vector<const Pipeline*>> of_depth;
    for (const Pipeline& it : plan.pipelines) of_depth[it.stages.size()].push_back(&it);
    std::map<std::size_t, Layers> layers;
    const int replicas = sharing_replicas_of(plan);
    for (const auto& [depth, equally_deep] : of_depth) layers[depth] = best_layers(equally_deep, replicas);
    for (Pipeline& it : plan.pipelines) set_layers(it, layers[it.stages.size()]);
  }

  static void set_layers(Pipeline& pipeline, const Layers& layers) {
    for (std::size_t stage = 0; stage < layers.size(); ++stage) pipeline.stages[stage].layers = layers[stage];
  }

  Layers best_layers(const std::vector<const Pipeline*>& pipelines, int replicas) {
    std::vector<cost::StageChain> chains;
    std::vector<int> key, hosts;
    if (job().model.sharding.optimizer) key.push_back(replicas);
    for (const Pipeline* pipeline : pipelines) {
      chains.push_back({{}, pipeline->micro_batches});
      key.push_back(pipeline->micro_batches);
      hosts.clear();  // in the order of their first devices
      for (const Stage& stage : pipeline->stages) {
        chains.back().devices.push_back(stage.devices);
        for (const int device : stage.devices) {
          const int host = job().problem.topology->devices[at(device)].host;
          const auto known = std::find(hosts.begin(), hosts.end(), host);
          key.push_back(now_->device_class[at(device)]);
          key.push_back(static_cast<int>(known - hosts.begin()));
          if (known == hosts.end()) hosts.push_back(host);
        }
        key.push_back(end_of_stage);
      }
      key.push_back(end_of_pipeline);
    }
    return splits_.get(job(), std::move(key),
                       [&] { return cost::best_layer_split(job().model, chains, replicas).layers; });
  }

  const ShapeLimits& limits_;
  const PlanScore& score_;
  Rng& rng_;
  LayerSplits& splits_;
  std::vector<Decided> decided_;
  Decided* now_ = nullptr;
  std::vector<PlanCandidate> best_;  // found so far, best first
  std::vector<Pipeline> before_;     // of the parent of the current child
};

// Chosen by hand: small changes are more frequent. docs/how-it-works.md has the same odds.
constexpr std::array<PlanEvolution::Change, 14> PlanEvolution::changes = {{
    {2, &PlanEvolution::move_layer, false, ChangeRequires::nothing},
    {1, &PlanEvolution::move_micro_batch, false, ChangeRequires::nothing},
    {3, &PlanEvolution::exchange_groups, true, ChangeRequires::nothing},
    {3, &PlanEvolution::move_group, true, ChangeRequires::nothing},
    {1, &PlanEvolution::add_group, true, ChangeRequires::nothing},
    {1, &PlanEvolution::remove_group, true, ChangeRequires::nothing},
    {1, &PlanEvolution::split_pipeline, true, ChangeRequires::nothing},
    {1, &PlanEvolution::join_pipelines, true, ChangeRequires::nothing},
    {1, &PlanEvolution::reverse_stages, true, ChangeRequires::nothing},
    {2, &PlanEvolution::recombine, true, ChangeRequires::nothing},
    {4, &PlanEvolution::reorder_pipelines, false, ChangeRequires::order},
    {1, &PlanEvolution::halve_stage, true, ChangeRequires::mixed_degrees},
    {1, &PlanEvolution::double_stage, true, ChangeRequires::mixed_degrees},
    {1, &PlanEvolution::move_half_stage, true, ChangeRequires::mixed_degrees},
}};

}  // namespace

bool can_evolve(const DecidedJob& job) {
  return !requires_uniform_pipelines(job) && !requires_single_devices(job.problem.job) &&
         !traits(job.model.schedule).in_rounds && max_tensor_groups(job) <= max_groups;
}

std::vector<PlanCandidate> evolve_plans(std::vector<PlanCandidate> starts, const DecidedJobs& jobs,
                                        const ShapeLimits& limits, const PlanScore& score, long long children,
                                        Rng& rng, const StopFunction& stop, LayerSplits* splits) {
  LayerSplits own;
  return PlanEvolution(std::move(starts), jobs, limits, score, rng, splits ? *splits : own)
      .run(children, stop);
}

}  // namespace dtfm::search
