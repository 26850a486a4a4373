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

/// Times are sums over the run; computing, waiting for the network, waiting for others and being down add up
/// to the length of the run.
struct DeviceReport {
  int device = 0;
  double compute_s = 0, waiting_network_s = 0, waiting_others_s = 0, down_s = 0;
  double sending_s = 0, receiving_s = 0;           // beside the others
  double peak_memory_bytes = 0, memory_bytes = 0;  // memory of the GPU; 0: not known
};

/// Of a pair of sites and a direction.
struct LinkReport {
  int from = 0, to = 0;  // sites
  double bytes = 0;
  double busy_s = 0;  // that at least one transfer was on it
};

/// One step of the chain of tasks that decides how long the last iteration takes, neighbours alike put
/// together.
struct CriticalStep {
  std::string text;  // "send activations ohio/3 → berlin/0"
  int tasks = 0;     // put together
  double start_s = 0, end_s = 0;
};

/// What happened: a departure, a join, a recovery, a change of speed.
struct EventReport {
  double date_s = 0;
  std::string text;
};

/// What came of a run in which machines come and go, or checkpoints are written.
struct UsefulWork {
  double samples = 0;  // of the iterations that were not lost later
  /// Over the whole run; of a swarm that a number of steps ends, from the end of its first.
  double samples_per_s = 0;
  /// If all devices that are there, with a place or without, did as much as one of the plan does on average
  /// when nothing happens; and `samples` ÷ those. More than 1 where a new plan is better than that.
  double optimal_samples = 0, share_of_optimal = 0;
  double usd_egress = 0;      // for what arrived over links with a price
  std::optional<double> usd;  // that, and for all devices while they are there; nothing: a price is not known
};

/// `stopped` of a run that was broken off because it was asked to stop.
inline constexpr const char* stopped_by_user = "interrupted";

struct SimReport {
  double length_s = 0;  // of the run, what follows the last iteration included
  std::vector<IterationReport> iterations;
  Distribution iteration_time_s;  // without the first iteration where there are more; 0 if there is none
  double tokens_per_s = 0, model_flops_per_s = 0;
  double peak_flops_per_s = 0;        // of all devices of the plan; 0: not known
  double bubble = 0;                  // share of time of the devices of the plan that is not computing
  std::vector<DeviceReport> devices;  // of the plan
  std::vector<LinkReport> links;      // that carried something, the most bytes first
  std::vector<EventReport> events;
  double lost_work_s = 0;  // device-seconds of computations whose results were lost, there and then or later
  int rolled_back = 0;     // iterations that were completed, and lost because a checkpoint was older
  int checkpoints = 0;     // that were written, where that takes time
  std::optional<VerificationReport> verification;  // of a swarm that verifies calls
  std::optional<UsefulWork> useful;                // where machines come and go, or checkpoints take time
  std::vector<CriticalStep> critical_path;
  std::vector<int> out_of_memory;  // devices whose memory does not suffice: the plan is infeasible
  std::string stopped;        // why before its end; empty: it was not
  bool deadlocked = false;         // it was, because nothing would come of going on
  long long tasks = 0, events_handled = 0, flows = 0;
};

/// What iterations bring of which each has `amount`, per second: those after the first over the time from its
/// end to the end of the run; the only one, and with `iterations_differ` (where machines come and go, say) all, over
/// the whole run.
double completed_per_s(const SimReport& report, double amount, bool iterations_differ = false);

}  // namespace dtfm::sim
