#include "planner/io/plan_notes.hpp"

#include <limits>
#include <string>
#include <vector>

#include "planner/api/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

using Notes = std::vector<std::string>;

/// Two sites of three devices each, and a chain of four layers with eight micro-batches.
Problem small_problem() {
  Problem problem{flat_topology({3, 3}, link_of(1e-4, 1e9), link_of(0.05, 1e8)), chain_job(4, 1e7, 1e7),
                  Calibration{1, 0, 1, 0}};
  problem.job.training.global_batch = 8;
  return problem;
}

/// The notes besides the first one, which is on layer times.
Notes further_notes(const api::PlanAnswer& answer) {
  Notes notes = io::notes_of(answer);
  REQUIRE_FALSE(notes.empty());
  CHECK(notes.front() == "times on GPU one are estimates: the job has no profile of it");
  notes.erase(notes.begin());
  return notes;
}

/// A plan that was searched for and simulated, without anything else to note.
api::PlanAnswer found_answer() {
  api::PlanRequest request{small_problem()};
  request.options.common.evaluations = 500;
  return api::plan(request);
}

}  // namespace

TEST_CASE("a plan that a search found needs no further notes") {
  CHECK(further_notes(found_answer()) == Notes{});
}

TEST_CASE("notes on a search say what ended it, and which devices it did not use") {
  api::PlanAnswer answer = found_answer();
  answer.search->stopped = search::Stopped::time_limit;
  answer.search->unpriced = {1, 2};
  answer.search->unusable = {{0, "no times"}};
  answer.search->proves = true;
  answer.simulation = api::SimulationStatus::late;
  answer.unfinished.target_times = true;
  const std::vector<Device>& devices = answer.problem.topology->devices;
  CHECK(
      further_notes(answer) ==
      Notes{
          "stopped by --time-limit: another run may give another plan",
          "2 devices without a price not used, " + devices[1].id +
              " first; set it in the topology: `price: 1.2 USD/h`",
          "1 device cannot be used, " + devices[0].id + " first: no times",
          "no finalist could be simulated within the time limit: this is the plan with the best estimate",
          "the plan is not proven optimal; --prove supports only small problems with iteration_barrier true, "
          "without --scenario",
          "there was not enough time to simulate the plan in trainers"});
}

TEST_CASE("notes on a plan that exceeds memory say what would make one fit") {
  api::PlanAnswer answer = found_answer();
  answer.finalists.front().candidate.deficit_bytes = 1e9;
  answer.estimate->memory = {{0, 3e9, 16e9}, {1, 17.5e9, 16e9}};
  const std::string deficit =
      "; in the plan with the smallest deficit, " + answer.problem.topology->devices[1].id +
      " needs 17.5 GB and has 16 GB; the difference is within the error of predictions, 12.9 %";
  CHECK(further_notes(answer) ==
        Notes{"no plan that fits the memory of the devices was found before the search ended" + deficit});
  const auto change = [&](search::FeasibleChange it) { answer.feasible_changes = {std::move(it)}; };
  using Kind = search::FeasibleChange::Kind;
  change({.kind = Kind::shape, .frees_stages = true, .frees_replicas = true, .shape = {2, 4}});
  CHECK(further_notes(answer) ==
        Notes{"no plan that fits the memory of the devices was found" + deficit,
              "it would fit with --pipeline auto --data auto: a plan of 2 × 4 was found"});
  const auto offload = name_of(Optimizer::host_offload);
  change({.kind = Kind::settings,
          .settings = {{Setting::recompute, name_of(Recomputation::full)},
                       {Setting::optimizer, offload},
                       {Setting::micro_batch, 1}}});
  CHECK(further_notes(answer).back() ==
        "it would fit with recompute: full and optimizer: " + std::string(offload) +
            " (its state on the host) and micro_batch: 1");
  const Topology& topology = answer.problem.topology;
  change({.kind = Kind::hosts, .hosts = 2, .like = 0});
  CHECK(further_notes(answer).back() == "it would fit with 2 more hosts like that of " +
                                            topology.devices[0].id + " (1 × " + topology.gpus[0].name + ")");
  change({.kind = Kind::memory, .gigabytes = 24});
  CHECK(further_notes(answer).back() == "it would fit with GPUs of at least 24 GB");
}

TEST_CASE("the proof that no plan fits in memory is stated in numbers") {
  api::PlanAnswer answer = found_answer();
  answer.finalists.front().candidate.deficit_bytes = 1e9;
  answer.estimate->memory = {{0, 3e9, 1e9}};
  cost::MemoryNeed& need = answer.shortage.emplace();
  need.needed_bytes = 7.4e12;
  need.state_bytes = 7.3e12;
  need.available_bytes = 880e9;
  need.devices = answer.problem.topology->size();
  need.parameters = 405.9e9;
  need.state_bytes_per_parameter = 18;
  const std::string all = "all " + std::to_string(need.devices) + " devices have ";
  CHECK(
      further_notes(answer).front() ==
      "no plan fits the memory of the devices: the state of 405.9 B parameters needs 7.3 TB at 18 bytes per "
      "parameter; " +
          all + "880 GB");
  need.available_bytes = 7.35e12;
  CHECK(
      further_notes(answer).front() ==
      "no plan fits the memory of the devices: the state of 405.9 B parameters at 18 bytes per parameter and "
      "the activations of one micro-batch need 7.4 TB; " +
          all + "7.35 TB");
  need.kind = cost::MemoryNeed::Kind::layer;
  need.layer = 3;
  need.needed_bytes = 30e9;
  need.available_bytes = 24e9;
  need.devices = 4;
  CHECK(
      further_notes(answer).front() ==
      "no plan fits the memory of the devices: layer 3 alone needs 30 GB on each of 4 devices, and no device "
      "that can hold it has more than 24 GB");
}

TEST_CASE("notes on scenarios say under which the plan makes no progress") {
  api::PlanAnswer answer = found_answer();
  constexpr double never = std::numeric_limits<double>::infinity();
  answer.finalists.front().simulated = {
      {"calm", 1, 1, 1}, {"storm", never, never, never, "a device left"}, {"gusts", 2, 2, never}};
  CHECK(
      further_notes(answer) ==
      Notes{
          "simulated under scenario storm, the plan completes no iteration: a device left",
          "simulated under scenario gusts, the plan deadlocks before the horizon; its mean is over the whole "
          "horizon"});
}

TEST_CASE("notes on a given plan begin with those of its reader") {
  const Problem problem = small_problem();
  api::GivenPlan given{plan_of(problem.job, 1, 1, 1)};
  given.notes = {"a flag was ignored"};
  api::PlanRequest request{problem};
  request.options.common.stop = [] { return true; };
  CHECK(further_notes(api::score(request, given)) ==
        Notes{"a flag was ignored", "the pipelines compute 1 micro-batches, but job chain has 8",
              "interrupted before the plan was simulated"});
}
