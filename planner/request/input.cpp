#include "planner/request/input.hpp"

#include <filesystem>

#include "core/base/error.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/read_log.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/io/scenario_reader.hpp"

namespace dtfm::request {

Shared<Topology> read(const TopologyInput& input) {
  if (input.value) io::ReadLog::note(input.name, "");
  return input.value ? *input.value : Shared(io::read_topology(input.name));
}

Job read(const JobInput& input) {
  if (input.value) io::ReadLog::note(input.name, "");
  return input.value ? *input.value : io::read_job(input.name);
}

io::PlanSource read_plan(const PlanFileInput& input, const std::optional<TextInput>& ranks) {
  if (input.value && ranks) throw Error("--ranks", "requires a file with Megatron-LM flags as plan");
  if (input.value) return *input.value;
  if (!ranks || !ranks->value)
    return io::read_plan_source(input.name, ranks ? std::optional(ranks->name) : std::nullopt);
  return io::make_plan_source({input.name, io::read_plan_text(input.name)},
                              io::NamedFile{ranks->name, *ranks->value});
}

sim::Scenario read_scenario(const TextInput& input, const Topology& topology) {
  return input.value ? io::parse_scenario(*input.value, input.name, std::filesystem::current_path(), topology)
                     : io::read_scenario(input.name, topology);
}

io::NamedFile read_text(const TextInput& input, std::size_t limit) {
  return {input.name, input.value ? *input.value : io::read_file(input.name, limit)};
}

}  // namespace dtfm::request
