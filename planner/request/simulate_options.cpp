#include "planner/request/simulate_options.hpp"

#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/text/parse_number.hpp"
#include "core/io/text/suggest.hpp"
#include "planner/api/compare.hpp"
#include "planner/api/devices/canonical_topology.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "planner/request/scheme_options.hpp"
#include "simulator/io/measured_iteration.hpp"

namespace dtfm::request {
namespace {

constexpr std::size_t max_timeline_bytes = std::size_t{1} << 30;

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const api::Scheme& it : api::schemes()) names.emplace_back(it.name);
  return names;
}

/// Returns the job in the plan file. CSV and Megatron-LM plans have none and get the default job.
Job job_of_plan(const io::PlanSource& source) {
  auto job = io::plan_job(source);
  if (!job && source.format != io::PlanFormat::json) return io::default_job();
  if (!job) throw Error(source.file.path, "contains no job; give one with --job");
  return std::move(*job);
}

void place_plan(const SimulateOptions& options, const io::PlanSource& source, api::SimulateRequest& request) {
  Job& job = request.problem.job;
  io::PlanAndNotes read = io::read_any_plan(source, request.problem.topology, job, options.job.has_value());
  check_batch_of_plan(options.batch, read.plan, options.plan.name);
  request.plan = std::move(read.plan);
  request.undecided = read.undecided;
  request.checkpoint_period_s = read.checkpoint_period_s;
  request.notes = std::move(read.notes);
  job.execution = request.plan.execution;
}

}  // namespace

void add_simulate_inputs(OptionList& list, SimulateOptions& options) {
  begin_group(list, heading::inputs);
  add_input(list, "TOPOLOGY", "", "devices and the network between them (YAML)", options.topology);
  add_input(list, "PLAN", "", "plan to simulate (JSON of dtfm-plan, CSV, Megatron-LM flags)", options.plan);
  add_input(list, "--job", "FILE", "job to train (YAML) [that in the plan, or GPT-3 XL]", options.job);
  add_batch_option(list, options.batch);
  add_input(list, "--ranks", "FILE", "device of each rank of a Megatron-LM plan", options.ranks);
  add_calibration_option(list, options.calibration);
}

void add_scheme_options(OptionList& list, SimulateOptions& options) {
  begin_group(list, heading::schemes);
  set_completion_values(
      add_option(list, "--scheme", "NAME",
                 "simulates another system instead of PLAN; see dtfm-compare --list-schemes",
                 [&](const std::string& text) {
                   if (text == api::planned_scheme)
                     throw Error("--scheme",
                                 "planned is not simulated by name: write the plan with dtfm-plan -o "
                                 "FILE, and give FILE as PLAN");
                   options.scheme = io::find_row(api::schemes(), text, "--scheme", "unknown scheme").name;
                 }),
      scheme_names());
  add_scheme_parameter_options(list, options.scheme_options);
}

void add_simulation_options(OptionList& list, SimulateOptions& options) {
  begin_group(list, heading::simulation);
  add_input(list, "--scenario", "FILE", "failures, traces and jitter during the run (YAML) [none]",
            options.scenario);
  add_option(list, "--iterations", "N",
             "training iterations, unless the scenario has a horizon [3; swarm: 100]",
             [&](const std::string& text) {
               options.iterations = io::parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_option(list, "--samples", "N", "number of runs of a random scenario, with different seeds [1]",
             [&](const std::string& text) {
               options.samples = io::parse_whole_number("--samples", text, 1, 1'000'000);
             });
  add_input(list, "--measured", "FILE",
            "compares with an iteration of a training: its timeline (train.py --trace) [none]",
            options.measured);
  add_seed_option(list, "seed of the random numbers, combined with that of the scenario [0]",
                  options.scheme_options.seed);
}

void check_simulate_options(const OptionList& list, const SimulateOptions& options) {
  if (options.samples) reject_options(list, {"--measured"}, "cannot be combined with --samples");
  if (!options.topology.is_given()) throw Error("", "TOPOLOGY is missing");
  if (!options.plan.is_given() && !options.scheme) throw Error("", "PLAN is missing");
  if (!options.scheme) {
    reject_options(list, {"--sync-every", "--skip", "--verify", "--faulty-peers"}, "requires --scheme");
    return;
  }
  reject_options(list, {"PLAN", "--ranks"}, "cannot be combined with --scheme");
  check_scheme_options(list, {*options.scheme});
  if (api::is_swarm(api::scheme_named(*options.scheme)))
    reject_options(list, {"--samples", "--measured"}, "cannot be combined with --scheme swarm");
}

api::SimulateRequest read_simulate_request(const SimulateOptions& options) {
  Shared<Topology> topology = read(options.topology);
  if (options.scheme) topology = api::canonical_topology(topology);  // as in dtfm-compare
  std::optional<io::PlanSource> source;
  if (!options.scheme) source = read_plan(options.plan, options.ranks);
  api::SimulateRequest request;
  auto [problem, spread] =
      read_problem(topology, options, source && !options.job ? job_of_plan(*source) : io::default_job());
  request.problem = std::move(problem);
  request.spread = std::move(spread);
  if (source) place_plan(options, *source, request);
  if (options.scenario) request.scenario = read_scenario(*options.scenario, topology);
  if (options.measured) {
    io::NamedFile measured = read_text(*options.measured, max_timeline_bytes);
    request.measured = io::parse_measured_iteration(std::move(measured.text), measured.path, topology);
  }
  request.scheme = options.scheme;
  request.options = options.scheme_options;
  request.iterations = options.iterations;
  request.samples = options.samples;
  request.work = options.work;
  request.estimates_accuracy = true;
  request.records_timeline = options.records_timeline;
  return request;
}

}  // namespace dtfm::request
