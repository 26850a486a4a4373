// How other systems would train the job on the same machines: schemes to hold a plan against. A scheme says
// in which layouts it could run; the simulator says how long each takes. One file for each kind, scheme.cpp
// has the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/search/path_routing/path_router.hpp"
#include "simulator/scenario/scenario.hpp"
#include "simulator/simulate.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::api {

/// A plan, and the job with what the scheme decides: schedule, exchange, tensor degree, micro-batch.
struct Layout {
  Job job;
  Plan plan;
  int sync_every = 1;               // iterations: replicas exchange in the last of so many
  std::optional<int> skipped = {};  // stages that each micro-batch leaves out; nothing: pipelines
  std::optional<search::Routing> routing =
      {};  // of micro-batches, where there is `skipped`; made when it is tried

  const PathSchedule* paths() const { return routing ? &routing->schedule : nullptr; }
};

struct SchemeOptions {
  std::uint64_t seed = 0;              // of what is random
  std::optional<int> sync_every = {};  // of schemes that exchange seldom; nothing: as they do by themselves
  double skip = 0.25;                  // share of the stages, in [0, 1), of schemes that leave some out
  double verify = 0;                   // of swarms: SwarmSetup::verify
  double faulty_share = 0;             // of swarms: SwarmSetup::lying
};

/// A scheme has no layout for a job and its machines, which is no fault of theirs: numbers that do not divide
/// each other, say.
class NoLayout : public Error {
 public:
  explicit NoLayout(const std::string& why) : Error("", why) {}
};

/// Which of the options say something of a scheme.
enum class SchemeOption { none, sync_every, skip, verification };

struct Scheme {
  std::string_view name, what;  // in a line
  std::string_view assumes;     // what the numbers rest on
  /// All that are tried, those that lack memory too. Throws NoLayout where there is none, Error where the
  /// memory that one needs cannot be known. Null: it is no plan, but a swarm.
  std::vector<Layout> (*layouts)(const Problem&, const SchemeOptions&);
  SchemeOption option = SchemeOption::none;
};

std::span<const Scheme> schemes();

bool is_swarm(const Scheme& scheme);

/// What the numbers rest on, with these options.
std::string assumptions(const Scheme& scheme, const SchemeOptions& options);

struct ChosenLayout {
  std::optional<Layout> layout;  // the fastest in which an undisturbed iteration fits the devices' memory
  std::optional<sim::SwarmSetup> swarm;  // in its place, of a swarm
  int tried = 0, fitting = 0;
  std::string no_layout_reason;     // where there is none
  bool is_input_error = false;      // there is none because none can be simulated: the input is at fault
  bool is_partly_verified = false;  // of a swarm that verifies: a stage has one peer, in every layout

  bool is_any() const { return layout || swarm; }
};

/// Tries all layouts of a scheme, by an iteration each. The same for any number of threads. Where `stop`,
/// which is asked now and then, says so, the choice is of what was tried by then. Throws Error for what stops
/// every scheme: a profile of another model, compression that takes a time which nobody knows.
ChosenLayout choose_layout(const Problem& problem, const Scheme& scheme, const SchemeOptions& options,
                           int threads, const std::function<bool()>& stop = {});

/// "tp 1, pp 8, dp 8, micro-batch 2"; "tp 1, pp 4, dp 11–21, micro-batch 1, skips 1 of 4"; "8 stages of 64
/// peers, micro-batch 1"
std::string format_shape(const Problem& problem, const ChosenLayout& chosen);

/// What was chosen under a scenario. With `sync_every`, so many times the iterations of the options. Of a
/// swarm, iterations are the steps that all stages have made, each from the end of the one before; its memory
/// is not simulated. Throws Error as simulate and simulate_swarm do.
sim::SimReport simulate_chosen(const Problem& problem, const ChosenLayout& chosen,
                               const sim::Scenario& scenario, const sim::SimOptions& options);

// The rows of the table.

/// Megatron-LM (arXiv 2104.04473): ranks in file order; rank t + T (d + D p) is device t of stage p of
/// replica d. Every tensor degree T that lies in hosts and divides the heads, every depth P that divides the
/// layers, every number of replicas D that divides the micro-batches.
std::vector<Layout> megatron_layouts(const Problem& problem, const SchemeOptions& options);
/// The same with ranks at random, those of a stage's devices together.
std::vector<Layout> megatron_random_layouts(const Problem& problem, const SchemeOptions& options);
/// GPipe with the job's exchange, devices at random, every depth and width; it drains as often as the memory
/// asks for.
std::vector<Layout> gpipe_random_layouts(const Problem& problem, const SchemeOptions& options);
/// A replica on every device.
std::vector<Layout> data_parallel_layouts(const Problem& problem, const SchemeOptions& options);
/// The largest micro-batch that fits the devices.
std::vector<Layout> zero2_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> zero3_layouts(const Problem& problem, const SchemeOptions& options);
/// Replicas of every depth, each of devices next to each other in file order, which exchange their parameters
/// every 16 iterations (local SGD: Lin et al., arXiv 1808.07217), or every 500 (DiLoCo: Douillard et al.,
/// arXiv 2311.08105).
std::vector<Layout> local_sgd_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> diloco_layouts(const Problem& problem, const SchemeOptions& options);
/// SkipPipe (arXiv 2502.19913): every depth that divides the layers, of which micro-batches leave out a
/// share, rounded down to whole stages; they visit the first, the last and one in between at least. All
/// devices, or half of them, a quarter, …, in file order; a stage has as many as it has visits, either next
/// to each other or spread over all.
std::vector<Layout> skip_pipe_layouts(const Problem& problem, const SchemeOptions& options);
/// On each kind of device.
std::vector<Layout> single_gpu_layouts(const Problem& problem, const SchemeOptions& options);

// Swarms (swarm_scheme.cpp).

/// The number of stages, of those that divide the layers and fit every device's memory, with which a swarm is
/// the fastest; if it verifies, of those in which every stage has two peers, if there are any; activations go
/// from peer to peer, a peer moves every 300 s at most.
ChosenLayout choose_swarm(const Problem& problem, const SchemeOptions& options, int threads,
                          const std::function<bool()>& stop);
/// A run of a swarm, and what of it every run has.
struct SwarmResult {
  sim::SwarmReport swarm;
  sim::SimReport report;
};

/// As simulate_chosen. A run that does not come to its iterations, for it takes too long, says so. Who
/// observes sees all that happens.
SwarmResult simulate_as_swarm(const Problem& problem, const sim::SwarmSetup& setup,
                              const sim::Scenario& scenario, const sim::SimOptions& options,
                              const std::function<void(const sim::SwarmEvent&)>& observe = {});

}  // namespace dtfm::api
