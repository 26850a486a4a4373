// Plans the built-in job on the topology of a file, and simulates the plan: example TOPOLOGY EVALUATIONS
#include <cstdio>
#include <cstdlib>

#include <planner/io/readers/calibration_reader.hpp>
#include <planner/io/readers/job_reader.hpp>
#include <planner/io/readers/roofline_reader.hpp>
#include <planner/io/readers/topology_reader.hpp>
#include <planner/search/iteration_time/iteration_search.hpp>
#include <simulator/simulate.hpp>

int main(int argc, char** argv) {
  using namespace dtfm;
  if (argc != 3) return 2;
  const Problem problem{read_topology(argv[1]), default_job(), built_in_calibration(), built_in_roofline()};

  IterationSearchOptions search;
  search.common.evaluations = std::atoll(argv[2]);
  const PlanCandidate best = search_iteration(problem, search).finalists.front();

  Problem decided = best.job->problem;  // with `auto` settings replaced by the decisions
  if (best.flush > 0) decided.job.parallelism.flush = best.flush;
  SimOptions once;
  once.iterations = 1;
  const SimReport report = simulate(decided, best.plan, Scenario(), once);
  std::printf("%d stages, %zu pipelines: estimated %.17g s, simulated %.17g s\n", depth(best.plan),
              best.plan.pipelines.size(), best.iteration_s, report.iteration_time_s.mean);
}
