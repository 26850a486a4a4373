// The search stays within what the target of a job runs.
#include "core/plan/target_settings.hpp"

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace search;
namespace {

/// Returns hosts of two devices at two sites, two devices slower than the others, and a GPT with tied
/// embeddings. Everything that a job may leave open is open.
Problem open_problem(Target target) {
  Problem problem{flat_topology({4, 4}, link_of(0.001, 1e9), link_of(0.02, 1e8)), {}, {}, {}};
  Topology& topology = problem.topology.edit();
  RuleLinks& links = std::get<RuleLinks>(topology.links);
  links.same_host = links.table;
  for (int device = 0; device < 8; ++device) topology.devices[at(device)].host = device / 2;
  for (int device = 0; device < 2; ++device) topology.devices[at(device)].speed = 0.6;
  Job& job = problem.job;
  job.name = "gpt";
  job.model = Transformer{6, 512, 8, 256, 5000};
  job.training.global_batch = 24;
  job.efficiency = 0.5;
  job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::micro_batch, Setting::recompute,
                   Setting::tensor};
  restrict_to_target(job, target);
  return problem;
}

TEST_CASE("every plan of a search for a target is one that the target runs without changes") {
  for (const TargetTraits& target : target_table()) {
    CAPTURE(target.name);
    const Problem problem = open_problem(target.kind);
    IterationSearchOptions options;
    options.common.evaluations = 3000;
    for (const PlanCandidate& it : search_iteration(problem, options).finalists) {
      Job job = it.job->problem.job;
      job.execution = it.plan.execution;
      CHECK(run_on_target(it.plan, job, target.kind).changes.empty());
    }
  }
}

TEST_CASE("a target that requires several stages does not plan fewer") {
  IterationSearchOptions options;
  options.common.evaluations = 300;
  options.limits.stages = 1;
  CHECK_THAT(error_message([&] { search_iteration(open_problem(Target::dtfm), options); }),
             contains("target dtfm requires 2 or more stages"));
  CHECK(error_message([&] { search_iteration(open_problem(Target::megatron), options); }) == "no error");
}

}  // namespace
}  // namespace dtfm
