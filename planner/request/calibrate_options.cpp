#include "planner/request/calibrate_options.hpp"

#include <filesystem>
#include <memory>

#include "core/base/error.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "simulator/io/runs_reader.hpp"

namespace dtfm::request {

void add_calibrate_inputs(OptionList& list, CalibrateOptions& options) {
  begin_group(list, heading::inputs);
  add_input(list, "TOPOLOGY", "", "devices and the network between them (YAML)", options.topology);
  add_input(list, "RUNS.csv", "", "measured iterations", options.runs);
  add_input(list, "--job", "FILE", "job that was trained (YAML) [the jobs in the plans, or GPT-3 XL]",
            options.job);
}

void check_calibrate_options(const CalibrateOptions& options) {
  if (!options.topology.is_given()) throw Error("", "TOPOLOGY is missing");
  if (!options.runs.is_given()) throw Error("", "RUNS.csv is missing");
}

api::CalibrateRequest read_calibrate_request(const CalibrateOptions& options) {
  const auto topology = std::make_shared<const Topology>(*read(options.topology));
  std::optional<Job> job;
  if (options.job) job = read(*options.job);
  const Roofline roofline = io::built_in_roofline();
  const io::RunsContext context{topology, job, roofline};
  const auto& [name, text] = options.runs;
  api::CalibrateRequest request{topology};
  request.runs = text ? io::parse_runs(*text, name, std::filesystem::current_path(), context)
                      : io::read_runs(name, context);
  if (request.runs.empty()) throw Error(name, "has no runs; fitting the constants requires at least one");
  request.prior = io::calibration_for({}, job.value_or(Job()), *topology).constants;
  request.work = options.work;
  return request;
}

}  // namespace dtfm::request
