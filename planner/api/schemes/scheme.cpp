#include "planner/api/schemes/scheme.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/api/devices/device_sets.hpp"
#include "planner/api/schemes/layout.hpp"
#include "planner/api/schemes/layout_estimate.hpp"
#include "planner/api/schemes/skip_pipe.hpp"
#include "planner/api/devices/sub_topology.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::api {
namespace {

constexpr Scheme table[] = {
    {"megatron",
     "Megatron-LM, ranks in the order of devices, the best of all tensor, pipeline and data degrees",
     "1F1B with blocking sends; ring all-reduce after the last backward pass; equal stages",
     megatron_layouts},
    {"megatron-random", "Megatron-LM with random ranks, otherwise as megatron",
     "1F1B with blocking sends; ring all-reduce after the last backward pass; equal stages",
     megatron_random_layouts},
    {"deepspeed",
     "DeepSpeed pipelines, ranks in the order of devices, the best of all depths and data degrees",
     "1F1B with blocking sends; ring all-reduce after the last backward pass; stages as equal as possible",
     deepspeed_layouts},
    {"gpipe-random", "GPipe on random devices, without planning, the best of all depths",
     "messages overlap with compute; the job's gradient_sync; equal stages; pipeline flushes as often as "
     "memory requires",
     gpipe_random_layouts, SchemeOption::none, Setting::gradient_sync},
    {"data-parallel", "a replica on every device", "ring all-reduce after the last backward pass",
     data_parallel_layouts},
    {"zero2", "ZeRO with sharded gradients and optimizer states",
     "rings; reduce-scatter after every micro-batch; one all-gather of parameters; micro-batches of the job "
     "or, if open, as large as fit",
     zero2_layouts},
    {"zero-offload", "ZeRO-Offload: as zero2, with gradients and optimizer state in host memory",
     "as zero2; optimizer step on host processors, 0.22 s per billion parameters; copies overlap with passes "
     "and updates",
     zero_offload_layouts},
    {"zero3", "ZeRO with sharded gradients, optimizer states and parameters; FSDP with FULL_SHARD",
     "rings; all-gather of a layer's parameters before its forward and backward pass, one layer ahead; "
     "micro-batches as for zero2",
     zero3_layouts},
    {"hsdp", "FSDP with HYBRID_SHARD: zero3 inside each site, all-reduce across sites",
     "as zero3; equally many devices in every site; after every micro-batch, devices with the same part "
     "all-reduce its gradients in a ring across sites",
     hsdp_layouts},
    {"local-sgd", "replicas that average parameters every 16 iterations, or --sync-every",
     "each replica has consecutive devices; 1F1B; ring all-reduce; replicas wait for each other after every "
     "iteration; the effect of rare synchronization on convergence is not modelled",
     local_sgd_layouts, SchemeOption::sync_every},
    {"diloco", "DiLoCo: replicas that average parameters every 500 iterations, or --sync-every",
     "as local-sgd; the outer optimizer takes no time and no device memory", diloco_layouts,
     SchemeOption::sync_every},
    {"skip-pipe", "SkipPipe: each micro-batch skips 0.25 of the stages, or --skip, on its own path",
     "skipped stages are not computed and not counted in model FLOP/s; the effect on convergence is not "
     "modelled; equal stages; the job's gradient_sync; paths are planned before the run",
     skip_pipe_layouts, SchemeOption::skip, Setting::gradient_sync},
    {"single-gpu",
     "the fastest device alone",
     "no network",
     single_gpu_layouts,
     SchemeOption::none,
     {},
     true},
    {"swarm",
     "SWARM: peers serve stages, dynamic routing of micro-batches; the job's or the best number of stages",
     "micro-batches of the next batches are in flight before a step; activations from peer to peer; full "
     "recomputation; a peer switches stage every 300 s at most, where that helps; all-reduces concurrent "
     "with messages; compression, if any, on all links; memory of queues is not counted",
     nullptr, SchemeOption::verification, Setting::micro_batch},
};

struct Trial {
  double seconds = 0;
  bool fits = false, is_known = false, is_input_error = false;
  std::string failure_reason;  // other than memory
  std::optional<MemoryDeficit> deficit = {};
  std::optional<search::Routing> routing = {};
};

/// The deficit of the device that exceeds its memory by the largest factor.
MemoryDeficit worst_deficit(const Topology& topology, const sim::SimReport& report) {
  const auto deficit = [](const sim::DeviceReport& it) {
    return it.memory_bytes > 0 ? it.peak_memory_bytes / it.memory_bytes : 0;
  };
  const sim::DeviceReport& worst = *std::max_element(
      report.devices.begin(), report.devices.end(),
      [&](const sim::DeviceReport& a, const sim::DeviceReport& b) { return deficit(a) < deficit(b); });
  return memory_deficit(topology, worst.device, worst.peak_memory_bytes, worst.memory_bytes);
}

Trial tried(const Problem& problem, const Layout& layout, const StopFunction& stop) {
  Trial trial;
  Problem own = problem;
  own.job = layout.job;
  sim::SimOptions options;
  if (layout.plan.execution.iteration_barrier || layout.skipped)
    options.iterations = 1;  // all are equally long
  options.stop = stop;
  if (is_stopped(stop)) return trial;
  try {
    if (layout.skipped) options.paths = &trial.routing.emplace(routing_of(problem, layout)).schedule;
    const sim::SimReport report = sim::simulate(own, layout.plan, {}, options);
    if (report.iterations.empty() || !report.stopped.empty()) return trial;  // interrupted
    trial.is_known = true;
    trial.seconds = layout.sync_every == 1
                        ? report.iteration_time_s.mean
                        : sim::undisturbed_seconds(own, layout.plan, layout.sync_every, nullptr, stop);
    trial.fits = report.out_of_memory.empty();
    if (!trial.fits) trial.deficit = worst_deficit(problem.topology, report);
    if (!trial.fits) trial.routing.reset();
  } catch (const WorkStopped&) {
    return {};
  } catch (const NoLayout& none) {
    trial.failure_reason = none.what();
  } catch (const Error& error) {
    trial.failure_reason = error.what();
    trial.is_input_error = true;
  }
  return trial;
}

/// Whether every device can hold its model and one micro-batch.
bool fits(const Problem& problem, const Layout& layout) {
  Problem own = problem;
  own.job = layout.job;
  const sim::LoadModel model(own, layout.plan);
  return std::all_of(layout.plan.pipelines.begin(), layout.plan.pipelines.end(), [&](const Pipeline& it) {
    const auto memory = memory_of(problem.topology, it.stages.front().devices.front());
    return !memory || needed_bytes(model.of(it.stages.front())) <= *memory;
  });
}

/// Partitioned gradients are communicated once per micro-batch, so that of their layouts, which are in the
/// order of sizes, only the one with the largest micro-batch that fits is kept; if none fits, the first one.
void keep_largest_that_fits(const Problem& problem, std::vector<Layout>& layouts) {
  const auto is_partitioned = [](const Layout& it) {
    return traits(it.plan.execution.optimizer_sharding).gradients;
  };
  if (layouts.empty() || !std::all_of(layouts.begin(), layouts.end(), is_partitioned)) return;
  while (layouts.size() > 1 && !fits(problem, layouts.back())) layouts.pop_back();
  layouts = {std::move(layouts.back())};
}

/// Each of the jobs with each of the values.
std::vector<Job> with_values(const std::vector<Job>& jobs, Setting setting,
                             const std::vector<SettingValue>& values) {
  std::vector<Job> result;
  for (const Job& job : jobs)
    for (const SettingValue& value : values) {
      result.push_back(job);
      traits(setting).set(result.back(), value);
    }
  return result;
}

/// Without those that planners choose by stage, unless there are no others.
std::vector<SettingValue> recomputations_to_try(const Job& job) {
  std::vector<SettingValue> values = choices(job, Setting::recompute), uniform = values;
  std::erase_if(uniform, [](const SettingValue& it) {
    return traits(kind_named(recomputation_table(), std::get<std::string_view>(it)).value()).is_per_stage();
  });
  return uniform.empty() ? values : uniform;
}

/// The job with each combination of recomputation and gradient synchronization that it leaves open. Of an
/// automatic gradient synchronization, only its first value: the schemes that take it from the job have many
/// layouts, and there are many algorithms.
std::vector<Job> jobs_to_try(const Job& job, const Scheme& scheme) {
  std::vector<Job> jobs = {job};
  if (job.automatic[Setting::recompute])
    jobs = with_values(jobs, Setting::recompute, recomputations_to_try(job));
  const std::vector<SettingValue> syncs = listed_values(job, Setting::gradient_sync);
  const bool uses_sync = scheme.first_of_automatic == Setting::gradient_sync;
  if (uses_sync && job.automatic[Setting::gradient_sync] && !syncs.empty())
    jobs = with_values(jobs, Setting::gradient_sync, syncs);
  return jobs;
}

/// Adds the layouts that are not among `all` yet.
void add_different(std::vector<Layout> layouts, std::vector<Layout>& all) {
  for (Layout& it : layouts)
    if (std::none_of(all.begin(), all.end(), [&](const Layout& other) { return other.plan == it.plan; }))
      all.push_back(std::move(it));
}

/// The different layouts with every size of the micro-batch that the job leaves open. Sets `none` if there
/// are none with some size. Throws Error.
std::vector<Layout> layouts_of_all_sizes(const Problem& problem, const Scheme& scheme,
                                         const SchemeOptions& options, std::optional<NoLayout>& none) {
  const Job& job = problem.job;
  Problem sized = problem;
  std::vector<Layout> all;
  for (const int size : job.automatic[Setting::micro_batch] ? open_micro_batches(job)
                                                            : std::vector{job.execution.micro_batch}) {
    sized.job.execution.micro_batch = size;
    try {
      add_different(scheme.layouts(sized, options), all);
    } catch (const NoLayout& why) {
      if (!none) none = why;
    }
  }
  keep_largest_that_fits(problem, all);
  return all;
}

/// The different layouts with all values that the scheme takes from the job and that the job leaves open.
/// Throws NoLayout if there are none with any values, and Error.
std::vector<Layout> layouts_of(const Problem& problem, const Scheme& scheme, const SchemeOptions& options) {
  Problem own = problem;
  std::vector<Layout> all;
  std::optional<NoLayout> none;
  for (Job& job : jobs_to_try(problem.job, scheme)) {
    own.job = std::move(job);
    add_different(layouts_of_all_sizes(own, scheme, options, none), all);
  }
  if (all.empty() && none) throw *none;
  return all;
}

/// Throws Error if layer times cannot be computed for any layout. Whether the times on a device are known
/// matters only to layouts that use it.
void check_computable(const Problem& problem) {
  sim::LoadModel(problem, Plan{1, problem.job.execution, {}});
}

/// A layout on one of the device sets.
struct Candidate {
  std::size_t set = 0;
  Layout layout;
  std::optional<LayoutEstimate> estimate;

  bool may_fit() const { return !estimate || estimate->deficit_bytes <= 0; }
};

/// Those without an estimate first, because only a simulation can tell; then those that fit in memory; then
/// the fastest, or those that exceed the memory least.
bool is_more_promising(const Candidate& a, const Candidate& b) {
  if (!a.estimate || !b.estimate) return !a.estimate && b.estimate;
  if (a.may_fit() != b.may_fit()) return a.may_fit();
  return a.may_fit() ? a.estimate->seconds < b.estimate->seconds
                     : a.estimate->deficit_bytes < b.estimate->deficit_bytes;
}

/// Number of layouts that are simulated at once, the most promising ones by estimate. Chosen by hand: on four
/// topologies, ten schemes were as fast with 4, with 16 and with all layouts.
constexpr std::ptrdiff_t simulated_at_once = 16;

/// The most promising layouts of a scheme on all device sets.
struct Candidates {
  std::vector<SubTopology> parts;  // by device set
  std::vector<Candidate> ranked;   // the most promising first
  int tried = 0, fitting = 0;      // `fitting`: by estimate, besides those in `ranked`
  std::string error;               // why there is none on the first set that has none
  bool is_input_error = true;      // on all sets

  /// Adds the layouts on one device set.
  void add(std::vector<Layout> layouts, const std::vector<std::optional<LayoutEstimate>>& estimates) {
    std::vector<Candidate> own;
    for (std::size_t i = 0; i < layouts.size(); ++i)
      own.push_back({parts.size() - 1, std::move(layouts[i]), estimates[i]});
    std::stable_sort(own.begin(), own.end(), is_more_promising);
    const auto worst = std::min(std::ssize(own), first_batch(own));
    tried += static_cast<int>(own.size());
    fitting += static_cast<int>(
        std::count_if(own.begin() + worst, own.end(), [](const Candidate& it) { return it.may_fit(); }));
    std::move(own.begin(), own.begin() + worst, std::back_inserter(ranked));
  }
  static std::ptrdiff_t first_batch(const std::vector<Candidate>& ranked) {
    return std::count_if(ranked.begin(), ranked.end(), [](const Candidate& it) { return !it.estimate; }) +
           simulated_at_once;
  }
};

Problem on_part(const Problem& problem, const SubTopology& part) {
  return {part.topology, problem.job, problem.constants, problem.roofline};
}

Candidates candidates_of(const Problem& problem, const Scheme& scheme, const SchemeOptions& options,
                         const Work& work) {
  Candidates all;
  for (std::vector<int>& devices : device_sets(problem)) {
    all.parts.push_back(sub_topology(problem.topology, std::move(devices)));
    const Problem own = on_part(problem, all.parts.back());
    try {
      std::vector<Layout> layouts = layouts_of(own, scheme, options);
      const auto estimates = estimate_layouts(own, layouts, work.threads, work.stop);
      all.add(std::move(layouts), estimates);
      all.is_input_error = false;
    } catch (const NoLayout& none) {
      if (all.error.empty()) all.error = none.what();
      all.is_input_error = false;
    } catch (const Error& error) {
      if (all.error.empty()) all.error = error.what();
    }
    if (scheme.chooses_devices) break;
  }
  std::stable_sort(all.ranked.begin(), all.ranked.end(), is_more_promising);
  return all;
}

/// Simulates the most promising candidates, and more until one fits or none is estimated to fit.
class Trials {
 public:
  Trials(const Problem& problem, Candidates candidates, const Work& work)
      : problem_(problem), candidates_(std::move(candidates)), work_(work) {}

  ChosenLayout fastest() {
    chosen_.tried = candidates_.tried;
    chosen_.fitting = candidates_.fitting;
    std::vector<Candidate>& ranked = candidates_.ranked;
    auto end = std::min(std::ssize(ranked), Candidates::first_batch(ranked));
    for (std::ptrdiff_t begin = 0; begin < end;) {
      simulate(begin, end);
      begin = end;
      const bool continues = begin < std::ssize(ranked) && !best_ && !is_stopped(work_);
      if (continues && ranked[at(static_cast<int>(begin))].may_fit())
        end = std::min(std::ssize(ranked), begin + simulated_at_once);
    }
    for (auto it = ranked.begin() + end; it != ranked.end(); ++it)
      if (it->may_fit()) ++chosen_.fitting;
    if (best_)
      take_best();
    else
      explain();
    return std::move(chosen_);
  }

 private:
  void simulate(std::ptrdiff_t begin, std::ptrdiff_t end) {
    const auto candidate = [&](int i) -> Candidate& {
      return candidates_.ranked[static_cast<std::size_t>(begin + i)];
    };
    auto trials = distributed_map(static_cast<int>(end - begin), work_, [&](int i) {
      const Candidate& it = candidate(i);
      return tried(on_part(problem_, candidates_.parts[it.set]), it.layout, work_.stop);
    });
    for (std::size_t i = 0; i < trials.size(); ++i) {
      Trial& it = trials[i];
      ++chosen_.simulated;
      are_input_errors_ = are_input_errors_ && it.is_input_error;
      if (it.is_known && it.fits) {
        ++chosen_.fitting;
        if (!best_ || it.seconds < best_->seconds) {
          best_ = std::move(it);
          best_candidate_ = &candidate(static_cast<int>(i));
        }
      } else if (it.deficit) {
        keep_smallest(smallest_, *it.deficit);
      } else if (reason_.empty()) {
        reason_ = it.failure_reason;
      }
    }
  }

  /// Sets the layout, with the numbers that devices have in the whole topology.
  void take_best() {
    Layout& layout = chosen_.layout.emplace(std::move(best_candidate_->layout));
    layout.plan = renumber_devices(std::move(layout.plan), candidates_.parts[best_candidate_->set].whole);
    layout.routing = std::move(best_->routing);
  }

  void explain() {
    chosen_.exceeds_memory = smallest_.has_value();
    if (candidates_.ranked.empty()) {
      chosen_.no_layout_reason = candidates_.error;
      chosen_.is_input_error = candidates_.is_input_error;
      return;
    }
    chosen_.no_layout_reason = smallest_ ? "does not fit: " + smallest_->text : reason_;
    chosen_.is_input_error = are_input_errors_;
    if (chosen_.no_layout_reason.empty()) chosen_.no_layout_reason = sim::stopped_by_user;
  }

  const Problem& problem_;
  Candidates candidates_;
  const Work& work_;
  ChosenLayout chosen_;
  std::optional<Trial> best_;
  Candidate* best_candidate_ = nullptr;
  std::optional<MemoryDeficit> smallest_;
  std::string reason_;  // of the first layout that could not be simulated
  bool are_input_errors_ = true;
};

ChosenLayout fastest_of(const Problem& problem, const Scheme& scheme, const SchemeOptions& options,
                        const Work& work) {
  if (is_swarm(scheme)) return choose_swarm(problem, options, work);
  return Trials(problem, candidates_of(problem, scheme, options, work), work).fastest();
}

using SettingValues = std::vector<std::pair<Setting, SettingValue>>;

/// Settings that need less memory than those that the job fixes, if it has others.
SettingValues smaller_settings(const Job& job) {
  SettingValues smaller;
  if (!job.automatic[Setting::recompute] && job.execution.recomputation != Recomputation::full)
    smaller.emplace_back(Setting::recompute, name_of(Recomputation::full));
  if (job.training.optimizer != Optimizer::host_offload && !job.target)
    smaller.emplace_back(Setting::optimizer, name_of(Optimizer::host_offload));
  if (!job.automatic[Setting::micro_batch] && job.execution.micro_batch > 1)
    smaller.emplace_back(Setting::micro_batch, 1);
  return smaller;
}

/// The changes of the job, each by itself or else together, with which some layout of the scheme fits.
std::vector<search::FeasibleChange> fitting_changes(const Problem& problem, const Scheme& scheme,
                                                    const SchemeOptions& options, const Work& work) {
  std::vector<search::FeasibleChange> changes;
  const auto try_settings = [&](const SettingValues& settings) {
    Problem other = problem;
    for (const auto& [setting, value] : settings) {
      traits(setting).set(other.job, value);
      other.job.automatic[setting] = false;
    }
    if (fastest_of(other, scheme, options, work).is_any())
      changes.push_back({.kind = search::FeasibleChange::Kind::settings, .settings = settings});
  };
  const SettingValues smaller = smaller_settings(problem.job);
  for (const auto& it : smaller) try_settings({it});
  if (changes.empty() && smaller.size() > 1) try_settings(smaller);
  return is_stopped(work) ? std::vector<search::FeasibleChange>() : changes;
}

/// "16"; "11–21" if some pipelines do not have all stages.
std::string format_replicas(const Plan& plan) {
  const auto min_replicas = std::count_if(
      plan.pipelines.begin(), plan.pipelines.end(),
      [&](const Pipeline& it) { return it.stages.size() == plan.pipelines.front().stages.size(); });
  const auto max_replicas = static_cast<long>(plan.pipelines.size());
  return min_replicas == max_replicas ? fmt::format("{}", max_replicas)
                                      : fmt::format("{}–{}", min_replicas, max_replicas);
}

/// ", skips 1 of 4", and for how many micro-batches the path was chosen greedily; empty without skipping.
std::string format_skipped(const Layout& layout) {
  if (!layout.skipped) return "";
  const std::string text =
      fmt::format(", skips {} of {}", *layout.skipped, layout.plan.pipelines.front().stages.size());
  if (!layout.routing || layout.routing->greedy == 0) return text;
  return text + fmt::format(", {} of {} paths greedy", layout.routing->greedy,
                            layout.routing->schedule.paths.size());
}

}  // namespace

std::span<const Scheme> schemes() {
  return table;
}

const Scheme& scheme_named(std::string_view name) {
  for (const Scheme& it : table)
    if (it.name == name) return it;
  throw Error("", fmt::format("unknown scheme '{}'", name));
}

bool is_swarm(const Scheme& scheme) {
  return scheme.layouts == nullptr;
}

std::string assumptions(const Scheme& scheme, const SchemeOptions& options, const Job& job) {
  std::string text(scheme.assumes);
  if (const auto setting = scheme.first_of_automatic;
      setting && job.automatic[*setting] && listed_values(job, *setting).empty())
    text += fmt::format("; of {} auto, only {} is tried", name_of(*setting),
                        format_value(traits(*setting).get(job)));
  if (scheme.option == SchemeOption::sync_every && options.sync_every)
    text += fmt::format("; here every {} iterations", *options.sync_every);
  if (scheme.option == SchemeOption::skip)
    text += fmt::format("; here {:g} of the stages are skipped", options.skip);
  if (scheme.option != SchemeOption::verification) return text;
  if (options.verify > 0)
    text += fmt::format(
        "; a second peer recomputes {:g} % of the calls, and sketches of the outputs are compared",
        100 * options.verify);
  if (options.faulty_share > 0)
    text += fmt::format("; {:g} % of the peers are faulty", 100 * options.faulty_share);
  return text;
}

ChosenLayout choose_layout(const Problem& of, const Scheme& scheme, const SchemeOptions& options,
                           const Work& work) {
  Problem problem = of;  // schemes divide experts as all layers
  problem.job.execution.context = problem.job.execution.expert = 1;
  problem.job.execution.stage_data.reset();
  check_computable(problem);
  ChosenLayout chosen = fastest_of(problem, scheme, options, work);
  if (chosen.exceeds_memory && !is_stopped(work))
    chosen.fitting_changes = fitting_changes(problem, scheme, options, work);
  return chosen;
}

sim::SimOptions layout_options(const Layout& layout, sim::SimOptions options) {
  options.sync_every = layout.sync_every;
  options.paths = layout.paths();
  constexpr int max_iterations = 1'000'000;
  if (options.iterations > max_iterations / options.sync_every)
    throw Error("", fmt::format("{} rounds of {} iterations are more than {} iterations", options.iterations,
                                options.sync_every, max_iterations));
  options.iterations *= options.sync_every;
  return options;
}

sim::SimReport simulate_chosen(const Problem& problem, const ChosenLayout& chosen,
                               const sim::Scenario& scenario, const sim::SimOptions& options) {
  Problem own = problem;
  if (chosen.swarm) {
    own.job.execution.micro_batch = chosen.micro_batch;
    own.job.execution.context = own.job.execution.expert = 1;
    own.job.execution.stage_data.reset();
    return simulate_as_swarm(own, *chosen.swarm, scenario, options).report;
  }
  own.job = chosen.layout->job;
  return sim::simulate(own, chosen.layout->plan, scenario, layout_options(*chosen.layout, options));
}

std::string format_shape(const Problem& problem, const ChosenLayout& chosen) {
  if (chosen.swarm)
    return fmt::format("{} stage{} of {} peer{}, micro-batch {}{}", chosen.swarm->stages,
                       chosen.swarm->stages == 1 ? "" : "s", problem.topology->size(),
                       problem.topology->size() == 1 ? "" : "s", chosen.micro_batch,
                       chosen.is_partly_verified ? ", partly not verified" : "");
  const Layout& layout = *chosen.layout;
  const Plan& plan = layout.plan;
  return fmt::format(
      "{}; tp {}, pp {}, dp {}, micro-batch {}{}{}",
      format_devices_used(problem.topology, device_counts(problem.topology, plan)), plan.tensor,
      plan.pipelines.front().stages.size(), format_replicas(plan), layout.job.execution.micro_batch,
      layout.sync_every > 1 ? fmt::format(", sync 1/{}", layout.sync_every) : "", format_skipped(layout));
}

}  // namespace dtfm::api
