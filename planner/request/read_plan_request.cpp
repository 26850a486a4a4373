#include "planner/request/read_plan_request.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/io/writers/cluster_text.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/suggest.hpp"
#include "core/plan/target.hpp"
#include "planner/api/comm_cost.hpp"
#include "planner/api/plan.hpp"
#include "planner/io/running_plan.hpp"

namespace dtfm::request {
namespace {

/// The changes that options other than --target make to the job.
void change_job(const PlanOptions& options, Job& job) {
  if (options.tensor || options.tensor_auto) {
    job.parallelism.tensor = options.tensor.value_or(1);
    job.automatic[Setting::tensor] = options.tensor_auto;
    job.listed.erase(Setting::tensor);
  }
  if (options.context || options.context_auto) {
    job.execution.context = options.context.value_or(1);
    job.automatic[Setting::context] = options.context_auto;
    job.listed.erase(Setting::context);
  }
  if (options.expert || options.expert_auto) {
    job.execution.expert = options.expert.value_or(1);
    job.execution.stage_data.reset();
    job.automatic[Setting::expert] = options.expert_auto;
    job.listed.erase(Setting::expert);
  }
  job.parallelism.uniform_pipelines = job.parallelism.uniform_pipelines || options.uniform_pipelines;
}

/// Throws Error if --pipeline, --data, --tensor or --batch contradicts the plan to score.
void check_shape(const PlanOptions& options, const Plan& plan) {
  const int stages = depth(plan), pipelines = static_cast<int>(plan.pipelines.size());
  if (options.pipeline.value_or(stages) != stages)
    throw Error("--pipeline",
                fmt::format("{}, but the plan has {}", *options.pipeline, io::format_count(stages, "stage")));
  if (options.data.value_or(pipelines) != pipelines)
    throw Error("--data", fmt::format("{}, but the plan has {}", *options.data,
                                      io::format_count(pipelines, "pipeline")));
  if (options.tensor.value_or(plan.tensor) != plan.tensor)
    throw Error("--tensor", fmt::format("{}, but the plan has {} per stage", *options.tensor,
                                        io::format_count(plan.tensor, "device")));
  if (const int context = plan.execution.context; options.context.value_or(context) != context)
    throw Error("--context", fmt::format("{}, but the plan has {}", *options.context, context));
  if (const int expert = plan.execution.expert; options.expert.value_or(expert) != expert)
    throw Error("--expert", fmt::format("{}, but the plan has {}", *options.expert, expert));
  check_batch_of_plan(options.batch, plan, options.score->name);
}

api::GivenPlan read_given_plan(const PlanOptions& options, const io::PlanSource& source,
                               const Problem& problem) {
  io::PlanAndNotes read = io::read_any_plan(source, problem.topology, problem.job, options.gives_job());
  check_shape(options, read.plan);
  return {std::move(read.plan), options.score->name,      std::move(read.notes),
          read.undecided,       read.checkpoint_period_s, !options.gives_job()};
}

std::vector<api::NamedScenario> read_scenarios(const PlanOptions& options, const Topology& topology) {
  std::vector<api::NamedScenario> scenarios = {api::nominal_scenario()};
  for (const TextInput& input : options.scenarios) {
    sim::Scenario scenario = read_scenario(input, topology);
    const std::string name = scenario.name.empty() ? input.name : scenario.name;
    for (const api::NamedScenario& other : scenarios)
      if (other.name == name) throw Error(input.name, fmt::format("two scenarios have the name {}", name));
    scenarios.push_back({name, std::move(scenario)});
  }
  return scenarios;
}

/// Reads the plan of --warm-start. Throws Error if it trains another model, and if no job is given and it is
/// not for the built-in one.
api::WarmStart read_warm_start(const PlanOptions& options, const Problem& problem) {
  const Job& job = problem.job;
  if (job.parallelism.uniform_pipelines)
    throw Error(
        "--warm-start",
        fmt::format("cannot be combined with --uniform-pipelines (or `uniform_pipelines` in the job{})",
                    job.target ? fmt::format(", or target {}", name_of(*job.target)) : ""));
  const api::RunningPlan running = io::running_plan(read_plan(*options.warm_start, std::nullopt), job);
  if (!options.gives_job() && running.job.name != job.name)
    throw Error(running.name, fmt::format("is for job {}, but without --job FILE the job is the built-in {}",
                                          io::quote(running.job.name), job.name));
  return io::warm_start(running, problem, options.horizon.value_or(api::default_horizon_s));
}

void set_search_options(const PlanOptions& options, api::PlanRequest& request) {
  auto& search = request.options;
  const Parallelism& parallelism = request.problem.job.parallelism;
  search.common = {options.work, options.seed, options.evaluations, options.prove};
  search.limits = {options.pipeline, options.data};
  // comm-cost takes both numbers from the same place. A job from a plan's file does not limit other plans.
  if (options.objective != Objective::comm_cost && (!options.score || options.gives_job())) {
    if (!options.pipeline && !options.pipeline_auto) search.limits.stages = parallelism.pipeline;
    if (!options.data && !options.data_auto) search.limits.replicas = parallelism.data;
  }
  search.objective = options.objective;
  if (options.finalists) search.finalists = *options.finalists;
  search.keeps_pareto_front = options.keeps_pareto_front;
}

/// Throws Error if a site of --link does not exist.
std::optional<api::PlanQuestion> question_of(const PlanOptions& options, const Topology& topology) {
  if (!options.question) return std::nullopt;
  api::PlanQuestion question{.kind = *options.question, .max_iteration_s = options.max_iteration_s};
  question.min_throughput = options.min_throughput.value_or(api::default_min_throughput);
  if (!options.link) return question;
  std::vector<std::string_view> names;
  for (const Site& site : topology.sites) names.push_back(site.name);
  const auto number_of = [&](const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw Error("--link", fmt::format("unknown site {}; {}", io::quote(name), io::suggestion(name, names)));
    return static_cast<int>(found - names.begin());
  };
  question.sites = {number_of(options.link->first), number_of(options.link->second)};
  return question;
}

/// No plan has the requested numbers of stages and replicas. Names the option or the job that sets them or,
/// if neither does, the option that could.
Error no_such_shape(const PlanOptions& options, const api::PlanRequest& request, const Error& error) {
  const Job& job = request.problem.job;
  const std::string option = options.pipeline ? "--pipeline" : options.data ? "--data" : "";
  if (options.objective == Objective::comm_cost) {
    const bool is_in_job = job.parallelism.pipeline || job.parallelism.data || job.comm_cost_stages;
    return {!option.empty() ? option : is_in_job ? "job " + job.name : "--pipeline", error.what()};
  }
  const auto& [stages, replicas] = request.options.limits;
  std::string limits;
  if (stages) limits += fmt::format(" of {}", io::format_count(*stages, "stage"));
  if (replicas)
    limits += fmt::format("{}{}", limits.empty() ? " of " : " and ", io::format_count(*replicas, "replica"));
  return {option.empty() ? "job " + job.name : option,
          fmt::format("no plan{} is possible: {}", limits, error.what())};
}

}  // namespace

PlanTask read_plan_task(const PlanOptions& options) {
  if (!options.gpus && !options.topology.is_given()) throw Error("", "TOPOLOGY or --gpus is missing");
  const std::string topology_text = options.gpus ? io::format_cluster(*options.gpus, options.links) : "";
  const Shared<Topology> topology =
      options.gpus ? Shared(io::parse_topology(topology_text, "--gpus", "")) : read(options.topology);
  std::optional<io::PlanSource> source;
  if (options.score) source = read_plan(*options.score, options.ranks);
  const std::optional<Job> own = source && !options.gives_job() ? io::plan_job(*source) : std::nullopt;
  auto [problem_read, spread] = read_problem(topology, options, own ? *own : io::default_job());
  PlanTask task{{std::move(problem_read)}, {}, topology_text};
  api::PlanRequest& request = task.request;
  Problem& problem = request.problem;
  change_job(options, problem.job);
  if (options.objective == Objective::comm_cost) api::check_comm_cost(problem.job);
  if (source) {
    task.given = read_given_plan(options, *source, problem);
    if (options.target) {
      TargetedPlan run = run_on_target(task.given->plan, problem.job, *options.target);
      task.given->plan = std::move(run.plan);
      problem.job = std::move(run.job);
      task.target_changes = std::move(run.changes);
    }
  } else if (options.target) {
    request.untargeted = problem.job;
    task.target_changes = restrict_to_target(problem.job, *options.target);
  }
  if (options.objective == Objective::comm_cost && options.data_auto) problem.job.parallelism.data.reset();
  set_search_options(options, request);
  request.scenarios = read_scenarios(options, problem.topology);
  request.robust = options.robust.value_or(api::RobustCriterion::mean);
  if (options.warm_start) request.options.warm = read_warm_start(options, problem);
  if (options.near_equal && (options.warm_start || !options.scenarios.empty()))
    throw Error("--near-equal", fmt::format("cannot be combined with {}",
                                            options.warm_start ? "--warm-start" : "--scenario"));
  request.near_equal = options.near_equal.value_or(api::default_near_equal);
  request.spread = spread;
  request.strategy = options.strategy;
  request.explains = options.explain;
  request.advises = options.advise;
  request.question = question_of(options, problem.topology);
  if (options.warm_start) request.running_plan = options.warm_start->name;
  return task;
}

api::PlanAnswer run(const PlanTask& task, const PlanOptions& options) {
  try {
    return task.given ? api::score(task.request, *task.given) : api::plan(task.request);
  } catch (const api::NoSuchShape& error) {
    throw no_such_shape(options, task.request, error);
  }
}

}  // namespace dtfm::request
