#include "tests/validation/measured_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/csv_table.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm {
using namespace io;
using namespace sim;
namespace {

constexpr int stages = 8;

/// Returns a run of `pipelines` pipelines of `batch` sequences each.
MeasuredRun run_of(const std::string& network, const std::shared_ptr<const Topology>& topology, Job job,
                   int layers_a_stage, int batch, int pipelines, double seconds) {
  auto& chain = std::get<LayerChain>(job.model).layers;
  chain.resize(static_cast<std::size_t>(stages * layers_a_stage), chain.front());
  job.training.global_batch = batch * pipelines;
  Placement placement(stages, pipelines);
  for (int stage = 0; stage < stages; ++stage)
    for (int replica = 0; replica < pipelines; ++replica)
      placement.at(stage, replica) = replica * stages + stage;
  Plan plan = plan_from_placement(placement, job);
  return {fmt::format("{} layers a stage, batch {}, {} pipeline{}", layers_a_stage, batch, pipelines,
                      pipelines == 1 ? "" : "s"),
          network, std::make_shared<Workload>(Workload{topology, std::move(job), std::move(plan)}), seconds};
}

/// A topology of topologies/ as the runs on it emulated it: with 10 ms between the machines of a region.
std::shared_ptr<const Topology> emulated_network(const std::string& name) {
  Topology topology = read_topology(std::string(DTFM_SOURCE_DIR) + "/topologies/" + name + ".yaml");
  for (Link& link : std::get<RuleLinks>(topology.links).links)
    if (link.latency == Seconds(0.005)) link.latency = Seconds(0.01);
  return std::make_shared<const Topology>(std::move(topology));
}

}  // namespace

std::vector<MeasuredRun> read_network_runs(const std::string& data, GradientSync sync) {
  const std::string file = data + "/measured/dtfm-64-v100.csv",
                    maps_file = data + "/measured/dtfm-rank-maps.json";
  const std::string text = read_file(file, 1 << 20);
  const nlohmann::json maps = nlohmann::json::parse(read_file(maps_file, 1 << 20));
  constexpr std::array names = {"datacenter", "spot-10g", "universities", "regional", "worldwide"};
  std::array<std::shared_ptr<const Topology>, names.size()> networks;
  std::transform(names.begin(), names.end(), networks.begin(), emulated_network);
  Job job = read_job(std::string(DTFM_SOURCE_DIR) + "/tests/validation/job.yaml");
  job.profiles = default_job().profiles;
  job.execution.gradient_sync = sync;
  job.execution.flush = 64;
  std::vector<MeasuredRun> runs;
  CsvTable table(text, file);
  table.take_header();
  for (; table.has_row(); table.next()) {
    table.expect_cells(6);
    const auto count = [&](std::size_t cell) {
      return static_cast<int>(table.number(cell, Unit{"", 0}, "a count"));
    };
    const std::string system(table.cells()[3].text), seed(table.cells()[4].text);
    if (system != "scheduled" && system != "random") continue;  // Megatron-LM, DeepSpeed
    const auto network = static_cast<std::size_t>(count(0) - 1);
    Placement placement(stages, stages);
    for (int device = 0; device < stages * stages; ++device) {
      const int rank = system == "random" ? maps.at(seed).at(at(device)).get<int>() : device;
      placement.at(rank % stages, rank / stages) = device;
    }
    job.training.global_batch = count(2);
    runs.push_back(
        {fmt::format("{}, batch {}, seed {}", system, count(2), seed), names.at(network),
         std::make_shared<Workload>(Workload{networks.at(network), job, plan_from_placement(placement, job)}),
         table.number(5, Unit{"s", 0}, "the time")});
  }
  return runs;
}

std::vector<MeasuredRun> runs_on(const std::string& network, const std::vector<MeasuredRun>& runs) {
  std::vector<MeasuredRun> result;
  for (const MeasuredRun& run : runs)
    if (run.network == network) result.push_back(run);
  return result;
}

std::vector<MeasuredRun> read_measured_runs(const std::string& folder) {
  const std::string file = folder + "/measured.csv", text = read_file(file, 1 << 20);
  Job job = read_job(folder + "/job.yaml");
  job.profiles = default_job().profiles;  // configs/profiles/v100.json
  std::map<std::string, std::shared_ptr<const Topology>> topologies;
  std::vector<MeasuredRun> runs;
  CsvTable table(text, file);
  table.take_header();
  for (; table.has_row(); table.next()) {
    table.expect_cells(5);
    const std::string network(table.cells()[0].text);
    if (topologies.count(network) == 0)
      topologies.emplace(
          network, std::make_shared<Topology>(read_topology(folder + "/networks/" + network + ".yaml")));
    const auto count = [&](std::size_t cell) {
      return static_cast<int>(table.number(cell, Unit{"", 0}, "a count"));
    };
    runs.push_back(run_of(network, topologies.at(network), job, count(1), count(2), count(3),
                          table.number(4, Unit{"s", 0}, "the time")));
  }
  return runs;
}

KnownCalibration directly_measured_constants() {
  KnownCalibration known;
  known.message_overhead_s = 1.5e-3;
  return known;
}

double mean_absolute(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

std::vector<std::string> network_names(const std::vector<MeasuredRun>& runs) {
  std::vector<std::string> networks;
  for (const MeasuredRun& run : runs)
    if (networks.empty() || networks.back() != run.network) networks.push_back(run.network);
  return networks;
}

std::vector<HeldOutErrors> cross_validation_errors(const std::vector<MeasuredRun>& runs,
                                                   const KnownCalibration& known, int threads) {
  std::vector<HeldOutErrors> result;
  for (const std::string& network : network_names(runs)) {
    std::vector<MeasuredRun> kept, left_out;
    for (const MeasuredRun& run : runs) (run.network == network ? left_out : kept).push_back(run);
    const Calibration constants = fit_calibration(kept, known, threads);
    result.push_back({network, constants, relative_errors(left_out, constants, threads)});
  }
  return result;
}

SplitFit fit_to_every(std::size_t step, std::size_t first, const std::vector<MeasuredRun>& runs,
                      const Calibration& prior, int threads) {
  std::vector<MeasuredRun> fitted, others;
  for (std::size_t i = 0; i < runs.size(); ++i) (i % step == first ? fitted : others).push_back(runs[i]);
  SplitFit result;
  result.fit = calibrate(fitted, {prior, threads, {}});
  result.fitted = relative_errors(fitted, result.fit.constants, threads);
  result.others = relative_errors(others, result.fit.constants, threads);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const double factor =
        prediction_factor(result.fit.constants, result.fit.spread, [&](const Calibration& other) {
          return simulate_seconds(std::span(&others[i], 1), other, threads)[0];
        });
    if (std::abs(std::log1p(result.others[i])) <= std::log(factor)) ++result.inside;
  }
  return result;
}

std::array<SplitFit, 2> fit_to_halves(const std::vector<MeasuredRun>& runs, int threads) {
  Calibration prior;
  prior.message_overhead_s = *directly_measured_constants().message_overhead_s;
  return {fit_to_every(2, 0, runs, prior, threads), fit_to_every(2, 1, runs, prior, threads)};
}

}  // namespace dtfm
