// What dtfm-calibrate is asked for.
#pragma once

#include <optional>

#include "planner/api/calibrate.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::request {

struct CalibrateOptions {
  TopologyInput topology;
  TextInput runs;               // the table of measured iterations (simulator/io/runs_reader.hpp)
  std::optional<JobInput> job;  // if not given: the jobs of the plans, else GPT-3 XL
  Work work;
};

/// Declares the options of the inputs under their heading of --help.
void add_calibrate_inputs(OptionList& list, CalibrateOptions& options);

/// Throws Error if an input is missing.
void check_calibrate_options(const CalibrateOptions& options);

/// Reads the inputs. Throws Error for bad input. The files that a table of runs without a file names are
/// relative to the working directory.
api::CalibrateRequest read_calibrate_request(const CalibrateOptions& options);

}  // namespace dtfm::request
