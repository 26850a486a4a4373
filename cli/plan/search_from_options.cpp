#include "cli/plan/search_from_options.hpp"

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "cli/plan/warm_start.hpp"
#include "core/plan/target.hpp"
#include "simulator/io/scenario_reader.hpp"

namespace dtfm::cli {
namespace {

/// Returns where the numbers of stages and replicas are set: an option or the job.
std::string source_of_limits(const PlanOptions& options, const Job& job) {
  if (options.pipeline) return "--pipeline";
  return options.data ? "--data" : "job " + job.name;
}

std::string format_shape_limits(const search::ShapeLimits& limits) {
  std::string text;
  if (limits.stages) text += fmt::format(" of {}", format_count(*limits.stages, "stage"));
  if (limits.replicas)
    text += fmt::format("{}{}", text.empty() ? " of " : " and ", format_count(*limits.replicas, "replica"));
  return text;
}

}  // namespace

std::vector<api::NamedScenario> read_scenarios(const PlanOptions& options, const Topology& topology) {
  std::vector<api::NamedScenario> scenarios = {api::nominal_scenario()};
  for (const std::string& file : options.scenarios) {
    sim::Scenario scenario = io::read_scenario(file, topology);
    const std::string name = scenario.name.empty() ? file : scenario.name;
    for (const api::NamedScenario& other : scenarios)
      if (other.name == name) throw Error(file, fmt::format("two scenarios have the name {}", name));
    scenarios.push_back({name, std::move(scenario)});
  }
  return scenarios;
}

search::SearchOptions common_search_options(const PlanOptions& options, ProgressPrinter& printer,
                                            const InterruptWatch& watch) {
  search::SearchOptions result{options.work, options.seed, options.evaluations, options.prove};
  result.begin = options.work.ranks ? options.work.ranks->now() : options.begin;
  result.stop = watch.stop();
  result.on_progress = [&printer](const Progress& progress) { printer.show(progress); };
  return result;
}

api::PlanRequest plan_request(const PlanOptions& options, const Problem& problem,
                              const std::vector<api::NamedScenario>& scenarios, ProgressPrinter& printer,
                              const InterruptWatch& watch) {
  const Job& job = problem.job;
  api::PlanRequest request{problem, {}, scenarios, options.robust.value_or(api::RobustCriterion::mean)};
  search::IterationSearchOptions& search = request.options;
  search.common = common_search_options(options, printer, watch);
  search.limits.stages = options.pipeline        ? options.pipeline
                         : options.pipeline_auto ? std::nullopt
                                                 : job.parallelism.pipeline;
  search.limits.replicas = options.data        ? options.data
                           : options.data_auto ? std::nullopt
                                               : job.parallelism.data;
  search.objective = options.objective;
  if (job.parallelism.uniform_pipelines && options.warm_start)
    throw Error(
        "--warm-start",
        fmt::format("cannot be combined with --uniform-pipelines (or `uniform_pipelines` in the job{})",
                    job.target ? fmt::format(", or target {}", name_of(*job.target)) : ""));
  search.warm = read_warm_start(options, problem);
  if (options.near_equal && (search.warm || !options.scenarios.empty()))
    throw Error("--near-equal",
                fmt::format("cannot be combined with {}", search.warm ? "--warm-start" : "--scenario"));
  if (options.near_equal) request.near_equal = *options.near_equal;
  if (options.finalists) search.finalists = *options.finalists;
  search.keeps_pareto_front = options.pareto.has_value();
  return request;
}

api::PlanResult plan_or_name_source(const PlanOptions& options, const api::PlanRequest& request) {
  try {
    return api::plan(request);
  } catch (const search::NoSuchShape& error) {
    throw Error(
        source_of_limits(options, request.problem.job),
        fmt::format("no plan{} is possible: {}", format_shape_limits(request.options.limits), error.what()));
  }
}

}  // namespace dtfm::cli
