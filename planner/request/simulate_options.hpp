// What dtfm-sim is asked for.
#pragma once

#include <optional>
#include <string>

#include "core/base/work.hpp"
#include "planner/api/simulate.hpp"
#include "planner/request/problem_options.hpp"

namespace dtfm::request {

struct SimulateOptions : ProblemInputs {  // without a job: that in the plan, or GPT-3 XL
  TopologyInput topology;
  PlanFileInput plan;
  std::optional<TextInput> ranks;     // the device of each rank of a Megatron-LM plan
  std::optional<std::string> scheme;  // name of a scheme to simulate instead of a plan
  api::SchemeOptions scheme_options;  // their seed is that of the simulation
  std::optional<TextInput> scenario;  // if not given: no disturbances
  std::optional<TextInput> measured;  // the timeline of a training to compare with
  std::optional<int> iterations;      // empty: the default of the scheme
  std::optional<int> samples;
  bool records_timeline = false;
  Work work;  // threads, ranks, progress and interrupts
};

/// Each declares the options under one heading of --help.
void add_simulate_inputs(OptionList& list, SimulateOptions& options);
void add_scheme_options(OptionList& list, SimulateOptions& options);
void add_simulation_options(OptionList& list, SimulateOptions& options);

/// Throws Error for options that cannot be combined.
void check_simulate_options(const OptionList& list, const SimulateOptions& options);

/// Reads the inputs. Throws Error for bad input, and for options that contradict it.
api::SimulateRequest read_simulate_request(const SimulateOptions& options);

}  // namespace dtfm::request
