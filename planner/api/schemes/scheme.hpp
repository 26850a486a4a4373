// Schemes: how other systems would train the job on the same machines, for comparison with a plan. A scheme
// lists the layouts in which it could run, and the simulator determines how long each takes. There is one
// file for each kind; scheme.cpp has the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/base/work.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"
#include "planner/search/path_routing/path_router.hpp"
#include "simulator/scenario/scenario.hpp"
#include "simulator/simulate.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::api {

/// A plan, and the job with the decisions of the scheme: the execution of the plan, and its tensor degree.
struct Layout {
  Job job;
  Plan plan;
  int sync_every = 1;               // replicas synchronize in the last of this many iterations
  std::optional<int> skipped = {};  // number of stages that each micro-batch skips; empty: pipelines
  std::optional<search::Routing> routing =
      {};  // of micro-batches, if `skipped` is set; computed when the layout is tried

  const PathSchedule* paths() const { return routing ? &routing->schedule : nullptr; }
};

struct SchemeOptions {
  std::uint64_t seed = 0;
  std::optional<int> sync_every =
      {};                   // iterations, for schemes that synchronize rarely; empty: their default
  double skip = 0.25;       // share of the stages, in [0, 1), for schemes that skip stages
  double verify = 0;        // of swarms: SwarmSetup::verify
  double faulty_share = 0;  // of swarms: SwarmSetup::faulty_share
};

/// A scheme has no layout for this job on these machines, although the input is valid: for example because
/// the number of layers is not divisible.
class NoLayout : public Error {
 public:
  explicit NoLayout(const std::string& why) : Error("", why) {}
};

/// The option that applies to a scheme.
enum class SchemeOption { none, sync_every, skip, verification };

struct Scheme {
  std::string_view name, what;  // `what` describes it in one line
  std::string_view assumes;     // assumptions behind its results
  /// Returns all layouts to try on all devices of the problem, in their order, including those that exceed
  /// memory. Throws NoLayout if there is none, and Error if the memory that a layout needs cannot be
  /// determined. Null for a swarm, which has no plan.
  std::vector<Layout> (*layouts)(const Problem&, const SchemeOptions&);
  SchemeOption option = SchemeOption::none;
  /// A setting that it takes from the job and of which it tries only the first value if it is automatic.
  std::optional<Setting> first_of_automatic = {};
  bool chooses_devices = false;  // `layouts` chooses devices itself, and is called for all of them only
};

std::span<const Scheme> schemes();
/// Throws Error if there is none.
const Scheme& scheme_named(std::string_view name);

bool is_swarm(const Scheme& scheme);

/// The assumptions behind the results with these options for this job.
std::string assumptions(const Scheme& scheme, const SchemeOptions& options, const Job& job);

struct ChosenLayout {
  std::optional<Layout> layout;          // the fastest whose undisturbed iteration fits the devices' memory
  std::optional<sim::SwarmSetup> swarm;  // instead of `layout`, for a swarm
  int micro_batch = 0;                   // of `swarm`
  /// Layouts that were compared: by estimate, and the most promising ones by simulation. Those that fit in
  /// memory do so as simulated or, if they were not, as estimated.
  int tried = 0, simulated = 0, fitting = 0;
  std::string no_layout_reason;  // if there is none
  bool exceeds_memory = false;   // there is none because all layouts exceed the memory
  std::vector<search::FeasibleChange> fitting_changes = {};  // of the job, with which one would fit
  bool is_input_error = false;      // there is none because invalid input prevents all simulations
  bool is_partly_verified = false;  // in every layout of a verifying swarm, some stage has only one peer

  bool is_any() const { return layout || swarm; }
};

/// Tries a scheme on every set of `device_sets`, with all values of micro-batch, recomputation and gradient
/// synchronization that the scheme takes from the job and that the job lists, and with all micro-batches and
/// recomputations if they are automatic. Of all these layouts, those that are fastest by the planner's
/// estimate are simulated for one iteration each; layouts that it cannot estimate are all simulated. If none
/// fits in memory, also tries smaller settings of the job. The result depends neither on the number of
/// threads nor on how devices are numbered. Once `stop`, which is called regularly, returns true, the choice
/// is among the layouts tried so far. Throws Error for input with which no scheme can be simulated, such as a
/// profile of another model or compression of unknown duration.
ChosenLayout choose_layout(const Problem& problem, const Scheme& scheme, const SchemeOptions& options,
                           const Work& work);

/// "8 of 18 devices: cloud×8; tp 1, pp 8, dp 1, micro-batch 2"; "64 devices; tp 1, pp 4, dp 11–21,
/// micro-batch 1, skips 1 of 4"; "8 stages of 64 peers, micro-batch 1"
std::string format_shape(const Problem& problem, const ChosenLayout& chosen);

/// Default number of iterations of a run, and of optimizer steps of a swarm. With small batches, the
/// micro-batches of several steps are in flight, and the steps finish in bursts. With eight steps in flight,
/// the rates over 100 and 2,000 steps differ by 0.5 % (tests/cli/compare.py accepts 5 %).
inline constexpr int default_iterations = 3, default_swarm_steps = 100;
/// Steps of the simulations that choose the number of stages of a swarm.
inline constexpr int swarm_trial_steps = 20;

/// The options for runs of the layout, with `sync_every` times the iterations of `options`. Throws Error for
/// too many. The layout must outlive the options.
sim::SimOptions layout_options(const Layout& layout, sim::SimOptions options);

/// Simulates the chosen layout or swarm under a scenario, for `sync_every` times the iterations of the
/// options. The iterations of a swarm are the steps that all stages have completed, each from the end of the
/// previous one; its memory is not simulated. Throws Error as simulate and simulate_swarm do.
sim::SimReport simulate_chosen(const Problem& problem, const ChosenLayout& chosen,
                               const sim::Scenario& scenario, const sim::SimOptions& options);

// The rows of the table.

/// Megatron-LM (arXiv 2104.04473): ranks in the order of devices; rank t + T (d + D p) is device t of stage p
/// of replica d. Tries every tensor degree T that fits in hosts and divides the heads, every depth P that
/// divides the layers, and every number of replicas D that divides the micro-batches.
std::vector<Layout> megatron_layouts(const Problem& problem, const SchemeOptions& options);
/// The same with ranks in random order, in which the devices of a stage stay together.
std::vector<Layout> megatron_random_layouts(const Problem& problem, const SchemeOptions& options);
/// DeepSpeed's PipelineModule: ranks in the order of devices; rank d + D p is stage p of replica d. Tries
/// every depth P and every number of replicas D that divides the micro-batches.
std::vector<Layout> deepspeed_layouts(const Problem& problem, const SchemeOptions& options);
/// GPipe with the job's gradient synchronization, devices in random order, every depth and number of
/// replicas, and as many pipeline flushes as the memory requires.
std::vector<Layout> gpipe_random_layouts(const Problem& problem, const SchemeOptions& options);
/// One replica on every device.
std::vector<Layout> data_parallel_layouts(const Problem& problem, const SchemeOptions& options);
/// A replica on every device, with ZeRO stages 2 and 3 (Rajbhandari et al., arXiv 1910.02054), ZeRO-Offload,
/// or HSDP.
std::vector<Layout> zero2_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> zero_offload_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> zero3_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> hsdp_layouts(const Problem& problem, const SchemeOptions& options);
/// Replicas of every depth, each of consecutive devices, which synchronize their parameters
/// every 16 iterations (local SGD: Lin et al., arXiv 1808.07217), or every 500 (DiLoCo: Douillard et al.,
/// arXiv 2311.08105).
std::vector<Layout> local_sgd_layouts(const Problem& problem, const SchemeOptions& options);
std::vector<Layout> diloco_layouts(const Problem& problem, const SchemeOptions& options);
/// SkipPipe (arXiv 2502.19913): every depth that divides the layers. Micro-batches skip a share of the
/// stages, rounded down to whole stages; they visit at least the first stage, the last, and one in between.
/// The number of devices of a stage is proportional to its visits, and they are either consecutive or spread
/// over all devices.
std::vector<Layout> skip_pipe_layouts(const Problem& problem, const SchemeOptions& options);
/// A single device, of each kind.
std::vector<Layout> single_gpu_layouts(const Problem& problem, const SchemeOptions& options);

// Swarms (swarm_scheme.cpp).

/// Chooses the number of stages with which a swarm is fastest, among those that divide the layers and fit the
/// memory of every device; if the job gives a number, which need not divide the layers, only that one. Of the
/// micro-batches that the job lists, chooses the fastest; of an automatic one, takes one sequence. A
/// verifying swarm prefers numbers with which every stage has at least two peers. Activations are sent from
/// peer to peer, and at most one peer migrates every 300 s.
ChosenLayout choose_swarm(const Problem& problem, const SchemeOptions& options, const Work& work);
/// A run of a swarm, and the part of its results that all runs have.
struct SwarmResult {
  sim::SwarmReport swarm;
  sim::SimReport report;
};

/// Like simulate_chosen. If the run takes too long to complete its iterations, the report says so in
/// `stopped`. `observe` is called for every event.
SwarmResult simulate_as_swarm(const Problem& problem, const sim::SwarmSetup& setup,
                              const sim::Scenario& scenario, const sim::SimOptions& options,
                              const std::function<void(const sim::SwarmEvent&)>& observe = {});

}  // namespace dtfm::api
