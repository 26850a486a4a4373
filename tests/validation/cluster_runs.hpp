// Published iterations on clusters of A100, H100 and B200 (data/measured), as a user without a profile would
// describe them: known hosts, and the job as its trainer runs it. `data` is the folder of measured/.
#pragma once

#include <string>
#include <vector>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm {

/// A measured run and its memory in PyTorch's allocator; 0: unknown.
struct ClusterRun {
  sim::MeasuredRun run;           // `seconds` is 0 if it ran out of memory
  bool has_slow_network = false;  // measured just before the run, and far below that of other jobs
  double peak_bytes = 0;          // highest of any device, or of the first stage
  double state_bytes = 0;         // of a device of the first stage, after the backward pass
  bool is_first_stage = false;    // whether `peak_bytes` is that of the first stage
};

/// Between nanotron's hosts, in us: the multiple of 5 with the least root mean square of the logarithmic
/// errors of every other run (tests/validation/published_run_accuracy.cpp). The network is not described.
inline constexpr int nanotron_latency_us = 55;
/// nanotron on 1 to 64 hosts of 8 H100: Llama-like models. The peak is that of reserved memory.
std::vector<ClusterRun> read_nanotron_runs(const std::string& data, int latency_us = nanotron_latency_us);
/// Megatron-LM on a host of 8 B200: Llama 3, cut to a few layers. The peak is that of allocated memory.
std::vector<ClusterRun> read_simumax_runs(const std::string& data);
/// FSDP on 1 to 64 hosts of 8 A100 or H100: MPT.
std::vector<ClusterRun> read_fsdp_runs(const std::string& data);

/// Predicted ÷ measured − 1 of the peaks, and of the states: weights, gradients and optimizer.
struct MemoryErrors {
  std::vector<double> peak, state;
};
MemoryErrors memory_errors(const std::vector<ClusterRun>& runs);

/// Numbers of runs that succeeded and that ran out of memory, and how many of each the planner rejects.
struct RejectionCounts {
  int succeeded = 0, falsely_rejected = 0, out_of_memory = 0, rejected = 0;
};
RejectionCounts count_rejections(const std::vector<ClusterRun>& runs);

/// The runs that did not run out of memory, on healthy networks.
std::vector<sim::MeasuredRun> timed_runs(const std::vector<ClusterRun>& runs);
/// Every second run, beginning with `first`.
std::vector<sim::MeasuredRun> half_of(const std::vector<sim::MeasuredRun>& runs, std::size_t first);

/// All timed runs without a profile: vTrain's, nanotron's, SimuMax's and llm-foundry's.
std::vector<sim::MeasuredRun> read_unprofiled_runs(const std::string& data);

/// Estimated ÷ measured − 1 of each run, with neutral constants. By the formulas of the planner: the
/// simulator does not take on the messages of FSDP on 512 devices, and agrees with them on the others.
std::vector<double> estimate_errors(const std::vector<sim::MeasuredRun>& runs);

/// Runs of one model and batch on the same hosts, at least two.
struct RunChoice {
  std::string name;
  int runs = 0;
  double excess = 0;  // measured time of the one that is estimated to be fastest ÷ the shortest − 1
};
/// What a planner loses that takes the fastest run by its estimates, for each group of nanotron's runs.
std::vector<RunChoice> estimated_choices(const std::vector<sim::MeasuredRun>& runs);

/// The runs to which the roofline is fitted, by set: every second one of each; of nanotron, SimuMax and
/// llm-foundry those on at most two hosts, because the network weighs most on more; of vTrain those with
/// tensor-parallel groups inside a host.
std::vector<std::vector<sim::MeasuredRun>> roofline_fit_runs(const std::string& data);

}  // namespace dtfm
