// The result of a simulation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/report/distribution.hpp"
#include "simulator/report/verification_report.hpp"

namespace dtfm::sim {

struct IterationReport {
  double start_s = 0, end_s = 0;
  double duration_s() const { return end_s - start_s; }
};

/// Times are sums over the run. Computing, waiting for the network, waiting for others and being down add up
/// to the length of the run.
struct DeviceReport {
  int device = 0;
  double compute_s = 0, waiting_network_s = 0, waiting_others_s = 0, down_s = 0;
  double sending_s = 0, receiving_s = 0;           // overlap with the times above
  double peak_memory_bytes = 0, memory_bytes = 0;  // peak use, and memory of the GPU; 0: unknown
};

/// Traffic from one site to another.
struct LinkReport {
  int from = 0, to = 0;  // sites
  double bytes = 0;
  double busy_s = 0;  // time in which at least one transfer was in progress
};

/// One step of the critical path of the last iteration: consecutive tasks of the same text.
struct CriticalStep {
  std::string text;  // such as "send activations ohio/3 → berlin/0"
  int tasks = 0;     // number of tasks in this step
  double start_s = 0, end_s = 0;
};

/// An event of the run: a device that leaves, joins or changes its speed, a recovery, a checkpoint.
struct EventReport {
  double date_s = 0;
  std::string text;
};

/// The outcome of a run with failures, preemptions or checkpoints.
struct UsefulWork {
  double samples = 0;  // of completed iterations that were not lost later
  /// Over the whole run; for a swarm that ends after a number of steps, from the end of its first step.
  double samples_per_s = 0;
  /// The samples if every available device, assigned or not, always contributed as much as a device of the
  /// plan does on average in an undisturbed run; and `samples` ÷ that, which exceeds 1 where a new plan is
  /// better than the first.
  double optimal_samples = 0, share_of_optimal = 0;
  double usd_egress = 0;      // for messages that arrived over links with a price
  std::optional<double> usd;  // egress and all devices while they are available; empty: a price is unknown
};

/// Value of `SimReport::stopped` for a run that was interrupted on request.
inline constexpr const char* stopped_by_user = "interrupted";

struct SimReport {
  double length_s = 0;  // of the run, including what follows the last iteration
  std::vector<IterationReport> iterations;
  Distribution iteration_time_s;  // without the first iteration if there are several; 0 if there is none
  double tokens_per_s = 0, model_flops_per_s = 0;
  double peak_flops_per_s = 0;        // of all devices of the plan; 0: unknown
  double bubble = 0;                  // share of the time of the plan's devices in which they do not compute
  std::vector<DeviceReport> devices;  // of the plan
  std::vector<LinkReport> links;      // with traffic; the most bytes first
  std::vector<EventReport> events;
  double lost_work_s = 0;  // device-seconds of computations whose results were lost, immediately or later
  int rolled_back = 0;     // iterations that were completed but lost by going back to an older checkpoint
  int checkpoints = 0;     // number of checkpoints written, if writing them takes time
  std::optional<VerificationReport> verification;  // of a swarm that verifies calls
  std::optional<UsefulWork> useful;                // with failures, preemptions or periodic checkpoints
  std::vector<CriticalStep> critical_path;
  std::vector<int> out_of_memory;  // devices that exceed their memory; with any, the plan is infeasible
  std::string stopped;             // why the run stopped before its end; empty: it did not
  bool deadlocked = false;         // it stopped because it could not make any more progress
  long long tasks = 0, events_handled = 0, flows = 0;
};

/// Throughput per second if each iteration contributes `amount`: the iterations after the first ÷ the time
/// from its end to the end of the run. If there is only one iteration, or with `iterations_differ` (for
/// instance because devices leave and join), all iterations ÷ the length of the run.
double completed_per_s(const SimReport& report, double amount, bool iterations_differ = false);

}  // namespace dtfm::sim
