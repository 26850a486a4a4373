// What dtfm-compare is asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/work.hpp"
#include "planner/api/compare.hpp"
#include "planner/request/problem_options.hpp"

namespace dtfm::request {

struct CompareOptions : ProblemInputs {  // without a job: GPT-3 XL
  TopologyInput topology;
  std::vector<TextInput> scenarios;   // the nominal scenario is always simulated, too
  std::vector<std::string> schemes;   // names; empty: all
  std::optional<int> iterations;      // empty: the default of the scheme
  api::SchemeOptions scheme_options;  // their seed is also that of the search and the simulations
  Work work;                          // threads, ranks, progress and interrupts
};

/// Each declares the options under one heading of --help.
void add_compare_inputs(OptionList& list, CompareOptions& options);
void add_scheme_options(OptionList& list, CompareOptions& options);
void add_simulation_options(OptionList& list, CompareOptions& options);

/// Throws Error for unknown schemes, and for options that none of the schemes uses.
void check_compare_options(const OptionList& list, const CompareOptions& options);

/// Reads the inputs. Throws Error for bad input.
api::CompareRequest read_compare_request(const CompareOptions& options);

}  // namespace dtfm::request
