#include "planner/request/compare_options.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/text/parse_number.hpp"
#include "core/io/text/suggest.hpp"
#include "planner/api/devices/canonical_topology.hpp"
#include "planner/request/scheme_options.hpp"

namespace dtfm::request {

void add_compare_inputs(OptionList& list, CompareOptions& options) {
  begin_group(list, heading::inputs);
  add_input(list, "TOPOLOGY", "", "devices and the network between them (YAML)", options.topology);
  add_input(list, "--job", "FILE", "job to train (YAML) [GPT-3 XL]", options.job);
  add_model_options(list, options.model, options.sequence);
  add_batch_option(list, options.batch);
  add_calibration_option(list, options.calibration);
}

void add_scheme_options(OptionList& list, CompareOptions& options) {
  begin_group(list, heading::schemes);
  set_completion_values(
      add_repeatable_option(list, "--scheme", "NAME", "scheme to compare [all]; may be repeated",
                            [&](const std::string& name) { options.schemes.push_back(name); }),
      api::compared_schemes());
  add_scheme_parameter_options(list, options.scheme_options);
}

void add_simulation_options(OptionList& list, CompareOptions& options) {
  begin_group(list, heading::simulation);
  add_input(list, "--scenario", "FILE", "also simulates under a scenario (YAML) [none]; may be repeated",
            options.scenarios);
  add_option(list, "--iterations", "N",
             "training iterations, unless the scenario has a horizon [3; swarm: 100]",
             [&](const std::string& text) {
               options.iterations = io::parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_seed_option(list, "seed of random ranks and of the scenarios [0]", options.scheme_options.seed);
}

void check_compare_options(const OptionList& list, const CompareOptions& options) {
  if (!options.topology.is_given()) throw Error("", "TOPOLOGY is missing");
  const std::vector<std::string> names = api::compared_schemes();
  for (const std::string& scheme : options.schemes)
    if (std::find(names.begin(), names.end(), scheme) == names.end())
      io::fail_unknown("--scheme", "unknown scheme", scheme, {names.begin(), names.end()});
  if (!options.schemes.empty()) check_scheme_options(list, options.schemes);
}

api::CompareRequest read_compare_request(const CompareOptions& options) {
  api::CompareRequest request;
  request.problem =
      read_problem(api::canonical_topology(read(options.topology)), options, io::default_job()).problem;
  for (const TextInput& input : options.scenarios)
    request.scenarios.push_back(read_scenario(input, request.problem.topology));
  request.schemes = options.schemes;
  request.options = options.scheme_options;
  request.iterations = options.iterations;
  request.work = options.work;
  return request;
}

}  // namespace dtfm::request
