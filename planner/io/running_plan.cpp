#include "planner/io/running_plan.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::io {

api::RunningPlan read_running_plan(const std::string& file, const Job& fallback) {
  return running_plan(read_plan_source(file, std::nullopt), fallback);
}

api::RunningPlan running_plan(const PlanSource& source, const Job& fallback) {
  const std::string& file = source.file.path;
  if (source.format != PlanFormat::json) throw Error(file, "is not a plan written by dtfm-plan -o (JSON)");
  Job job = plan_job(source).value_or(fallback);
  StandalonePlan named = source.json->standalone_plan(job);
  job.execution = named.plan.execution;
  try {
    for (const Pipeline& pipeline : named.plan.pipelines) layers_by_stage(pipeline, stage_chunks(job));
  } catch (const Error& error) {
    throw Error(file, error.what());
  }
  return {std::move(named.plan), std::move(named.ids), std::move(job), file};
}

std::string format_model_difference(const api::ModelDifference& difference) {
  const auto& [kind, layer, before, after] = difference;
  switch (kind) {
    case api::ModelDifference::Kind::layer_count:
      return fmt::format("{:.0f} layers, not {:.0f}", before, after);
    case api::ModelDifference::Kind::parameters:
      return fmt::format("layer {} of {} parameters, not {}", layer, before, after);
    case api::ModelDifference::Kind::tied_parameters:
      break;
  }
  return fmt::format("layer {} with {} tied parameters, not {}", layer, before, after);
}

search::WarmStart warm_start(const api::RunningPlan& running, const Problem& problem, double horizon_s) {
  if (const auto other = api::model_difference(running.job, problem.job))
    throw Error(running.name, fmt::format("is for another model than job {}: it has {}, so no state can be "
                                          "migrated; give its own job by --job FILE",
                                          quote(problem.job.name), format_model_difference(*other)));
  search::WarmStart warm = api::warm_start(running, problem.topology, horizon_s);
  const int devices = problem.topology->size();
  api::check_migration_steps(running, api::migration_steps(problem, warm, devices), devices);
  return warm;
}

}  // namespace dtfm::io
