// Plans the built-in job on the topology of a file, and simulates the plan: example TOPOLOGY EVALUATIONS
#include <cstdio>
#include <cstdlib>

#include <planner/api/api.hpp>
#include <core/io/readers/calibration_reader.hpp>
#include <core/io/readers/job_reader.hpp>
#include <core/io/readers/roofline_reader.hpp>
#include <core/io/readers/topology_reader.hpp>

int main(int argc, char** argv) {
  using namespace dtfm;
  if (argc != 3) return 2;
  const Topology topology = io::read_topology(argv[1]);
  const Job job = io::default_job();
  api::PlanRequest request{
      {topology, job, io::calibration_for({}, job, topology).constants, io::built_in_roofline()}};
  request.options.common.evaluations = std::atoll(argv[2]);
  const api::PlanAnswer planned = api::plan(request);

  api::SimulateRequest run{planned.problem, planned.plan};
  run.iterations = 1;
  const api::SimulateResult simulated = api::simulate(run);
  std::printf("%d stages, %zu pipelines: estimated %.17g s, simulated %.17g s\n", depth(planned.plan),
              planned.plan.pipelines.size(), planned.estimate->iteration_s, simulated.report.iteration_time_s.mean);
}
