#include "planner/api/schemes/scheme.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "planner/api/schemes/skip_pipe.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::api {
namespace {

constexpr Scheme table[] = {
    {"megatron", "Megatron-LM, ranks in file order, the best of all tensor, pipeline and data degrees",
     "1F1B with blocking sends; ring all-reduce after the last backward pass; equal stages",
     megatron_layouts},
    {"megatron-random", "Megatron-LM with random ranks, otherwise as megatron",
     "1F1B with blocking sends; ring all-reduce after the last backward pass; equal stages",
     megatron_random_layouts},
    {"deepspeed", "DeepSpeed pipelines, ranks in file order, the best of all depths and data degrees",
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
     "each replica has consecutive devices in file order; 1F1B; ring all-reduce; replicas wait for each "
     "other after "
     "every iteration; the effect of rare synchronization on convergence is not modelled",
     local_sgd_layouts, SchemeOption::sync_every},
    {"diloco", "DiLoCo: replicas that average parameters every 500 iterations, or --sync-every",
     "as local-sgd; the outer optimizer takes no time and no device memory", diloco_layouts,
     SchemeOption::sync_every},
    {"skip-pipe", "SkipPipe: each micro-batch skips 0.25 of the stages, or --skip, on its own path",
     "skipped stages are not computed and not counted in model FLOP/s; the effect on convergence is not "
     "modelled; equal stages; the job's gradient_sync; paths are planned before the run",
     skip_pipe_layouts, SchemeOption::skip, Setting::gradient_sync},
    {"single-gpu", "the fastest device alone", "no network", single_gpu_layouts},
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

/// The job with each combination of recomputation and gradient synchronization that it leaves open. Of an
/// automatic gradient synchronization, only its first value: the schemes that take it from the job have many
/// layouts, and there are many algorithms.
std::vector<Job> jobs_to_try(const Job& job, const Scheme& scheme) {
  std::vector<Job> jobs = {job};
  if (job.automatic[Setting::recompute])
    jobs = with_values(jobs, Setting::recompute, choices(job, Setting::recompute));
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
  if (is_swarm(scheme)) return choose_swarm(problem, options, work);
  ChosenLayout chosen;
  std::vector<Layout> layouts;
  try {
    layouts = layouts_of(problem, scheme, options);
  } catch (const NoLayout& none) {
    chosen.no_layout_reason = none.what();
    return chosen;
  } catch (const Error& error) {
    chosen.no_layout_reason = error.what();
    chosen.is_input_error = true;
    return chosen;
  }
  auto trials = distributed_map(static_cast<int>(layouts.size()), work,
                                [&](int i) { return tried(problem, layouts[at(i)], work.stop); });
  Trial* best = nullptr;
  std::optional<MemoryDeficit> smallest;
  for (Trial& it : trials) {
    ++chosen.tried;
    if (it.is_known && it.fits) {
      ++chosen.fitting;
      if (best == nullptr || it.seconds < best->seconds) best = &it;
    } else if (it.deficit) {
      keep_smallest(smallest, *it.deficit);
    } else if (chosen.no_layout_reason.empty()) {
      chosen.no_layout_reason = it.failure_reason;
    }
  }
  if (smallest) chosen.no_layout_reason = smallest->text;
  if (best == nullptr) {
    chosen.is_input_error =
        std::all_of(trials.begin(), trials.end(), [](const Trial& it) { return it.is_input_error; });
    if (chosen.no_layout_reason.empty()) chosen.no_layout_reason = sim::stopped_by_user;
    return chosen;
  }
  chosen.no_layout_reason.clear();
  chosen.layout = std::move(layouts[static_cast<std::size_t>(best - trials.data())]);
  chosen.layout->routing = std::move(best->routing);
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
      "tp {}, pp {}, dp {}, micro-batch {}{}{}", plan.tensor, plan.pipelines.front().stages.size(),
      format_replicas(plan), layout.job.execution.micro_batch,
      layout.sync_every > 1 ? fmt::format(", sync 1/{}", layout.sync_every) : "", format_skipped(layout));
}

}  // namespace dtfm::api
