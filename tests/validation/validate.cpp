// Prints measured and simulated iteration times, measured and estimated layer times, and simulated and
// estimated iteration times.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <omp.h>

#include "core/base/error.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/calibration/prediction.hpp"
#include "tests/validation/cluster_runs.hpp"
#include "tests/validation/estimates.hpp"
#include "tests/validation/measured_all_reduces.hpp"
#include "tests/validation/measured_layers.hpp"
#include "tests/validation/measured_runs.hpp"
#include "tests/validation/published_runs.hpp"

namespace dtfm {
using namespace io;
using namespace sim;
namespace {

void print(const char* what, const Calibration& constants) {
  fmt::print(
      "{:16} compute scale {:.4f}, message overhead {:.3f} ms, network efficiency {:.4f}, "
      "iteration overhead {:.3f} s\n",
      what, constants.compute_scale, constants.message_overhead_s * 1e3, constants.network_efficiency,
      constants.iteration_overhead_s);
}

/// Prints what the profile of the runs should contain for a block: its time, scaled as by the fit.
void print_block(const MeasuredRun& run, double compute_scale) {
  const LayerProfile& profile = run.work->job.profiles.front();
  const double forward_s = profiled_time(profile, "block", 1, 1).forward_s;
  fmt::print("forward of a block on {}: {:.8f} s in its profile, {:.8f} s by the fit to all\n", profile.gpu,
             forward_s, forward_s * compute_scale);
}

/// Prints what a user's calibration with half of the runs predicts for the other half.
void print_halves(const std::vector<MeasuredRun>& runs, int threads) {
  const char* const names[] = {"rows 1, 3, 5, …", "rows 2, 4, 6, …"};
  const std::array<SplitFit, 2> halves = fit_to_halves(runs, threads);
  for (std::size_t half = 0; half < 2; ++half) {
    const SplitFit& it = halves[half];
    print(names[half], it.fit.constants);
    fmt::print("  micro-batch overhead {:.3f} ms, sync efficiency {:.3f}\n",
               it.fit.constants.micro_batch_overhead_s * 1e3, it.fit.constants.sync_efficiency);
    int outliers = 0;
    for (const RunFit& run : it.fit.runs) outliers += run.is_outlier;
    fmt::print(
        "  mean absolute error {:.1f} %, of the other half {:.1f} %; {} of its {} runs in their intervals; "
        "{} outliers not fitted; residual {:.1f} %\n",
        100 * mean_absolute(it.fitted), 100 * mean_absolute(it.others), it.inside, it.others.size(), outliers,
        100 * it.fit.residual);
  }
}

void validate_runs(const std::string& folder) {
  const std::vector<MeasuredRun> runs = read_measured_runs(folder);
  const int threads = omp_get_max_threads();
  const Calibration built_in = shipped_calibration("v100").constants;
  const std::vector<double> errors = relative_errors(runs, built_in, threads);
  fmt::print("{:12} {:42} {:>9} {:>10} {:>7}\n", "network", "run", "measured", "simulated", "error");
  for (std::size_t i = 0; i < runs.size(); ++i)
    fmt::print("{:12} {:42} {:7.2f} s {:8.2f} s {:+6.1f} %\n", runs[i].network, runs[i].name, runs[i].seconds,
               runs[i].seconds * (1 + errors[i]), 100 * errors[i]);
  fmt::print("\nmean absolute error {:.1f} %\n\n", 100 * mean_absolute(errors));
  print("in use", built_in);
  const KnownCalibration known = directly_measured_constants();
  const Calibration fitted = fit_calibration(runs, known, threads);
  print("fitted to all", fitted);
  print("all four fitted", fit_calibration(runs, {}, threads));
  for (const HeldOutErrors& left_out : cross_validation_errors(runs, known, threads)) {
    print("fitted without", left_out.constants);
    fmt::print("  {:14} mean absolute error there {:.1f} %\n", left_out.network,
               100 * mean_absolute(left_out.errors));
  }
  print_block(runs.front(), fitted.compute_scale);
  print_halves(runs, threads);
}

/// Prints runs of other trainers, simulated with the neutral constants, and how a calibration with every
/// third of them predicts the others.
void validate_published(const char* what, const std::vector<MeasuredRun>& runs) {
  const int threads = omp_get_max_threads();
  const std::vector<double> errors = relative_errors(runs, Calibration(), threads);
  fmt::print("\n{}, neutral constants\n", what);
  for (std::size_t i = 0; i < runs.size(); ++i)
    fmt::print("{:8} {:50} {:8.4f} s {:9.4f} s {:+6.1f} %\n", runs[i].network, runs[i].name, runs[i].seconds,
               runs[i].seconds * (1 + errors[i]), 100 * errors[i]);
  const auto worst = std::max_element(errors.begin(), errors.end(),
                                      [](double a, double b) { return std::abs(a) < std::abs(b); });
  fmt::print("{} runs, mean absolute error {:.1f} %, worst {:+.1f} %\n", runs.size(),
             100 * mean_absolute(errors), 100 * *worst);
  for (std::size_t first = 0; first < 3; ++first) {
    const SplitFit it = fit_to_every(3, first, runs, Calibration(), threads);
    fmt::print(
        "fitted to rows {}, {}, …: mean absolute error {:.1f} %, of the other rows {:.2f} %, {} of {} in "
        "their intervals;",
        first + 1, first + 4, 100 * mean_absolute(it.fitted), 100 * mean_absolute(it.others), it.inside,
        it.others.size());
    for (const CalibrationConstant& constant : calibration_constants)
      fmt::print(" {} {:.4g}", constant.name, it.fit.constants.*constant.value);
    fmt::print("\n");
  }
}

/// Prints the errors that a calibration with every `step`-th run states for runs that are left out of it, and
/// those of calibrations without them, where they differ by more than 10 % and 0.2 points.
void validate_left_out(const std::vector<MeasuredRun>& all, std::size_t step) {
  const int threads = omp_get_max_threads();
  std::vector<MeasuredRun> runs;
  for (std::size_t i = 0; i < all.size(); i += step) runs.push_back(all[i]);
  const CalibrationFit fit = calibrate(runs, {Calibration(), threads, {}});
  std::vector<double> stated, refitted;
  int equal = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<MeasuredRun> others = runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const CalibrationFit without = calibrate(others, {Calibration(), threads, {}});
    stated.push_back(fit.runs[i].leave_one_out_s / runs[i].seconds - 1);
    refitted.push_back(relative_errors({&runs[i], 1}, without.constants, threads).front());
    const double difference = std::abs(stated.back() - refitted.back());
    if (difference <= std::max(0.1 * std::abs(refitted.back()), 0.002))
      ++equal;
    else
      fmt::print("  {:50} left out: {:+.2f} % stated, {:+.2f} % refitted\n", runs[i].name,
                 100 * stated.back(), 100 * refitted.back());
  }
  fmt::print(
      "left out: {} of {} rows equal to refits; mean absolute error {:.2f} % stated, {:.2f} % refitted\n",
      equal, runs.size(), 100 * mean_absolute(stated), 100 * mean_absolute(refitted));
}

/// Prints the peak memory of the runs as predicted with the default constants.
void validate_memory(const std::vector<MeasuredRun>& runs) {
  const std::vector<double> predicted =
      predicted_peak_memory(runs, io::shipped_calibration("neutral").constants);
  fmt::print("\npeak memory\n");
  std::vector<double> errors;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    errors.push_back(predicted[i] / runs[i].peak_memory_bytes - 1);
    fmt::print("{:8} {:50} {:8.2f} GB {:9.2f} GB {:+6.1f} %\n", runs[i].network, runs[i].name,
               runs[i].peak_memory_bytes / 1e9, predicted[i] / 1e9, 100 * errors[i]);
  }
  fmt::print("{} runs, mean absolute error {:.1f} %\n", runs.size(), 100 * mean_absolute(errors));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void print_errors(const char* what, const std::vector<double>& errors) {
  if (errors.empty()) return;
  const double worst = *std::ranges::max_element(errors, {}, [](double it) { return std::abs(it); });
  fmt::print("{}: {} runs, mean absolute error {:.1f} %, bias {:+.1f} %, worst {:+.1f} %\n", what,
             errors.size(), 100 * mean_absolute(errors), 100 * mean(errors), 100 * worst);
}

/// Prints runs of a cluster estimated with neutral constants; the errors of those that the roofline is not
/// fitted to on a line of their own.
void validate_cluster(const char* what, const std::vector<MeasuredRun>& runs) {
  const std::vector<double> errors = estimate_errors(runs);
  fmt::print("\n{}, estimated with neutral constants\n", what);
  for (std::size_t i = 0; i < runs.size(); ++i)
    fmt::print("{:14} {:60} {:8.4f} s {:9.4f} s {:+6.1f} %\n", runs[i].network, runs[i].name, runs[i].seconds,
               runs[i].seconds * (1 + errors[i]), 100 * errors[i]);
  print_errors("all", errors);
  print_errors("every second, not fitted", estimate_errors(half_of(runs, 1)));
  int inside = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const PublishedErrors& kind =
        published_errors(runs[i].work->problem_with(Calibration()), runs[i].work->plan);
    inside += std::abs(std::log(1 + errors[i])) <= std::log(prediction_factor(kind)) ? 1 : 0;
  }
  fmt::print("{} of {} in their intervals\n", inside, runs.size());
}

/// Prints what calibrations with half of the runs on each network predict for the other half.
void validate_networks(const std::string& data) {
  const int threads = omp_get_max_threads();
  for (const GradientSync sync : {GradientSync::ring, GradientSync::hierarchical, GradientSync::sharded_ps,
                                  GradientSync::tree, GradientSync::central_ps}) {
    fmt::print("\n64 V100s, gradient_sync {}, calibrated with half of the runs of a network\n",
               name_of(sync));
    const std::vector<MeasuredRun> all = read_network_runs(data, sync);
    print_errors("neutral constants", relative_errors(all, Calibration(), threads));
    std::vector<double> errors;
    std::size_t inside = 0;
    for (const std::string& network : network_names(all)) {
      const std::vector<MeasuredRun> runs = runs_on(network, all);
      print_errors(("neutral constants, " + network).c_str(), relative_errors(runs, Calibration(), threads));
      for (const std::size_t first : {0U, 1U}) {
        const SplitFit half = fit_to_every(2, first, runs, {}, threads);
        print(network.c_str(), half.fit.constants);
        print_errors("other half", half.others);
        errors.insert(errors.end(), half.others.begin(), half.others.end());
        inside += half.inside;
      }
    }
    print_errors("all networks, other halves", errors);
    fmt::print("{} of {} in their intervals\n", inside, errors.size());
  }
}

void validate_memory(const char* what, const std::vector<ClusterRun>& runs) {
  fmt::print("\n{}, memory\n", what);
  const MemoryErrors errors = memory_errors(runs);
  print_errors("peak of the allocator", errors.peak);
  print_errors("weights, gradients and optimizer", errors.state);
  const RejectionCounts counts = count_rejections(runs);
  fmt::print("rejected: {} of {} that succeeded, {} of {} that ran out of memory\n", counts.falsely_rejected,
             counts.succeeded, counts.rejected, counts.out_of_memory);
}

void validate_published(const std::string& data) {
  if (!std::filesystem::exists(data + "/measured")) {
    fmt::print("\npublished runs: skipped, for there are none in {}\n", data);
    return;
  }
  const std::string one_host = data + "/measured/vtrain-one-host.csv",
                    many_hosts = data + "/measured/vtrain-many-hosts.csv";
  validate_published("vTrain, one host of A100", read_vtrain_runs(one_host));
  validate_left_out(read_vtrain_runs(one_host), 3);
  validate_published("Sailor, OPT-350M on GH200", read_gh200_runs(data));
  validate_left_out(read_gh200_runs(data), 1);
  validate_memory(read_gh200_runs(data));
  validate_published("vTrain, many hosts of A100", read_vtrain_runs(many_hosts));
  validate_left_out(read_vtrain_runs(many_hosts), 3);
  validate_cluster("vTrain, one host of A100", read_vtrain_runs(one_host));
  validate_cluster("vTrain, many hosts of A100", read_vtrain_runs(many_hosts));
  validate_cluster("nanotron, H100", timed_runs(read_nanotron_runs(data)));
  validate_cluster("SimuMax, B200", timed_runs(read_simumax_runs(data)));
  validate_cluster("llm-foundry, FSDP", timed_runs(read_fsdp_runs(data)));
  fmt::print("\nnanotron: estimated choice among the runs of a model on the same hosts\n");
  for (const RunChoice& it : estimated_choices(timed_runs(read_nanotron_runs(data))))
    fmt::print("{:28} {} runs, {:4.1f} % slower than the fastest\n", it.name, it.runs, 100 * it.excess);
  validate_networks(data);
  validate_memory("nanotron, H100", read_nanotron_runs(data));
  validate_memory("SimuMax, B200", read_simumax_runs(data));
  validate_memory("llm-foundry, FSDP", read_fsdp_runs(data));
}

/// Prints measured all-reduces, simulated without and with the transport of their library.
void validate_all_reduces(const std::string& file) {
  fmt::print("\nall-reduces over emulated wide-area networks, without and with transport\n");
  std::vector<double> without, with;
  for (const MeasuredAllReduce& run : read_measured_all_reduces(file)) {
    without.push_back(simulated_seconds(run, false) / run.seconds - 1);
    with.push_back(simulated_seconds(run, true) / run.seconds - 1);
    fmt::print("{:5} {:10} {} ranks {:4.0f} ms {:6.1f} Mbps {:4.0f} MB {:8.3f} s {:+6.1f} % {:+6.1f} %\n",
               run.library, name_of(run.algorithm), run.ranks, run.latency_s * 1e3, run.bytes_per_s * 8e-6,
               run.bytes / 1e6, run.seconds, 100 * without.back(), 100 * with.back());
  }
  fmt::print("{} rows, mean absolute error {:.1f} % and {:.1f} %\n", with.size(),
             100 * mean_absolute(without), 100 * mean_absolute(with));
}

void print(std::string_view what, const RooflineConstants& roofline) {
  fmt::print(
      "{:14} compute {:.3f}, attention {:.3f}, memory forward {:.3f}, backward {:.3f}, head {:.3f}, launch "
      "{:.3f} ms (× {:.3f} with sequence parallelism), update {:.3f}\n",
      what, roofline.compute, roofline.attention, roofline.memory_forward, roofline.memory_backward,
      roofline.memory_head, roofline.launch_s * 1e3, roofline.tensor_launch, roofline.update);
}

void print(const char* what, const Roofline::ByArchitecture& roofline) {
  fmt::print("{}\n", what);
  for (const ArchitectureTraits& row : architecture_table())
    print(row.name, roofline[static_cast<std::size_t>(row.kind)]);
}

void print(const std::string& what, const ErrorSummary& errors) {
  fmt::print("  {:58} {:3} times, mean absolute error {:4.1f} %, worst {:+6.1f} %\n", what, errors.count,
             100 * errors.mean, 100 * errors.worst);
}

/// Prints the errors of samples that the constants were not fitted to.
void print_others(const std::vector<LayerSample>& samples, const Roofline& roofline) {
  using Quantity = LayerSample::Quantity;
  const auto print_where = [&](const std::string& what, const auto& holds) {
    const ErrorSummary errors = summary(filter_samples(samples, holds), roofline);
    if (errors.count > 0) print(what, errors);
  };
  for (const char* kind : {"embedding", "head"})
    for (const Quantity what : {Quantity::forward, Quantity::backward})
      print_where(
          fmt::format("{}, {}", kind, what == Quantity::forward ? "forward" : "backward"),
          [&](const LayerSample& it) { return it.layer.name == kind && it.tensor == 1 && it.what == what; });
  for (const int tensor : {2, 4, 8})
    print_where(fmt::format("block, tensor degree {}", tensor),
                [&](const LayerSample& it) { return it.layer.name == "block" && it.tensor == tensor; });
}

/// Prints the errors of profiles that dtfm measured, to which no constant is fitted.
void print_held_out(const std::vector<LayerSample>& samples, const Roofline& roofline) {
  using Quantity = LayerSample::Quantity;
  struct Part {
    const char* label;
    bool (*holds)(const LayerSample&);
  };
  constexpr std::array parts = {
      Part{"block, forward",
           [](const LayerSample& it) { return it.layer.name == "block" && it.what == Quantity::forward; }},
      Part{"block, backward",
           [](const LayerSample& it) { return it.layer.name == "block" && it.what == Quantity::backward; }},
      Part{"head, forward",
           [](const LayerSample& it) { return it.layer.name == "head" && it.what == Quantity::forward; }},
      Part{"head, backward",
           [](const LayerSample& it) { return it.layer.name == "head" && it.what == Quantity::backward; }},
      Part{"embedding, both passes",
           [](const LayerSample& it) { return it.layer.name == "embedding" && it.what != Quantity::update; }},
      Part{"optimizer step", [](const LayerSample& it) { return it.what == Quantity::update; }}};
  std::set<std::string> profiles, gpus;
  for (const LayerSample& it : samples)
    if (it.is_held_out) {
      profiles.insert(it.profile);
      gpus.insert(it.gpu.name);
    }
  for (const std::string& profile : profiles)
    for (const Part& part : parts)
      print(fmt::format("{}: {}", profile, part.label),
            summary(filter_samples(samples,
                                   [&](const LayerSample& it) {
                                     return it.profile == profile && it.is_held_out && part.holds(it);
                                   }),
                    roofline));
  for (const std::string& gpu : gpus)
    print(fmt::format("{}: passes through blocks that launching does not bound", gpu),
          summary(filter_samples(samples,
                                 [&](const LayerSample& it) {
                                   return is_held_out_block(it) && it.gpu.name == gpu &&
                                          !is_launch_bound(it, roofline);
                                 }),
                  roofline));
}

void validate_roofline(const std::string& configs, const std::string& data) {
  if (!std::filesystem::exists(data)) {
    fmt::print("\nroofline: skipped, for there are no profiles of layers in {}\n", data);
    return;
  }
  const std::vector<LayerSample> samples = read_measured_layers(configs, data);
  const Roofline in_use = built_in_roofline();
  fmt::print("\nroofline\n");
  const double update = in_use.bits_32.front().update;
  print("16-bit, in use", in_use.bits_16);
  print("16-bit, fitted",
        fit_roofline(roofline_fit_runs(data), filter_samples(samples, is_used_in_16_bit_fit), update));
  const std::vector<LayerSample> fitted = filter_samples(samples, is_used_in_fit);
  print("V100, 16 bits", summary(filter_samples(samples, is_used_in_16_bit_fit), in_use));
  print("32-bit", in_use.bits_32.front());
  print("fitted", fit_roofline(fitted));
  for (const ProfileErrors& errors : errors_by_profile(samples)) {
    print(errors.profile, errors.fitted);
    print("  without this GPU", errors.without_gpu);
    print("  without this model", errors.without_model);
  }
  print("updates",
        summary(filter_samples(
                    fitted, [](const LayerSample& it) { return it.what == LayerSample::Quantity::update; }),
                in_use));
  fmt::print("not fitted:\n");
  print_others(filter_samples(samples, [](const LayerSample& it) { return !it.is_held_out; }), in_use);
  print_held_out(samples, in_use);
}

/// Returns the topologies of a folder with the default job, by name.
std::vector<std::pair<std::string, Problem>> problems_of(const std::string& folder, int global_batch) {
  std::vector<std::pair<std::string, Problem>> problems;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".yaml") continue;
    Problem problem{read_topology(file.path()), default_job(), shipped_calibration("v100").constants,
                    built_in_roofline()};
    problem.job.training.global_batch = global_batch;
    problems.emplace_back(file.path().stem(), std::move(problem));
  }
  std::sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return problems;
}

void print_row(const std::string& what, const EstimateError& error) {
  fmt::print("| {} | {:.3f} % | {:+.3f} % | {:.4f} |\n", what, 100 * error.mean, 100 * error.worst,
             error.rank_correlation);
}

/// Compares random plans for the default job on every topology, and for other training settings on the
/// topologies where these have the largest errors.
void validate_estimates(const std::string& folder) {
  constexpr int plans = 500, plans_of_others = 100, batch_of_others = 256;
  const int threads = omp_get_max_threads();
  fmt::print("\nestimated against simulated iteration times, {} random plans each\n", plans);
  fmt::print("| topology | mean error | worst | τ |\n|---|---|---|---|\n");
  const int batch = default_job().training.global_batch;
  for (const auto& [name, problem] : problems_of(folder, batch))
    print_row(name, estimate_error(problem, plans, 0, threads));

  const auto print_worst = [&](Schedule schedule, GradientSync sync, bool overlap) {
    std::pair<std::string, EstimateError> worst;
    for (auto& [name, problem] : problems_of(folder, batch_of_others)) {
      ExecutionConfig& execution = problem.job.execution;
      execution.schedule = schedule;
      execution.gradient_sync = sync;
      execution.overlap = overlap;
      if (execution.schedule == Schedule::interleaved) execution.chunks = 2;
      const EstimateError error = estimate_error(problem, plans_of_others, 0, threads);
      if (std::abs(error.worst) >= std::abs(worst.second.worst)) worst = {name, error};
    }
    print_row(fmt::format("{}, {}{} | {}", name_of(schedule), name_of(sync), overlap ? ", overlap" : "",
                          worst.first),
              worst.second);
  };
  fmt::print("\nthe topology with the farthest of {} random plans, global batch {}\n", plans_of_others,
             batch_of_others);
  fmt::print("| job | topology | mean error | worst | τ |\n|---|---|---|---|---|\n");
  for (const GradientSync sync :
       {GradientSync::central_ps, GradientSync::ring, GradientSync::tree, GradientSync::hierarchical})
    print_worst(Schedule::gpipe, sync, false);
  print_worst(Schedule::gpipe, GradientSync::sharded_ps, true);
  print_worst(Schedule::one_f_one_b, GradientSync::sharded_ps, false);
  print_worst(Schedule::one_f_one_b, GradientSync::sharded_ps, true);
  print_worst(Schedule::interleaved, GradientSync::sharded_ps, false);
}

/// Compares jobs in which all settings are random.
void validate_random_jobs() {
  constexpr int jobs = 1000;
  fmt::print("\nany plans of {} random jobs each, on random topologies\n", jobs);
  fmt::print("| schedule | capacities | mean error | worst | beyond 5 % |\n|---|---|---|---|---|\n");
  for (const bool shared : {false, true})
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
      const EstimateError error = random_job_error(schedule, jobs, shared, omp_get_max_threads());
      fmt::print("| {} | {} | {:.2f} % | {:+.1f} % | {:.1f} % |\n", name_of(schedule),
                 shared ? "shared" : "of pairs", 100 * error.mean, 100 * error.worst, 100 * error.far);
    }
}

/// Compares layouts that are regular, or almost.
void validate_regular_layouts() {
  fmt::print(
      "\npipelines from host to host, each of which has one uplink\n"
      "| schedule | speeds differ by | mean error | worst | beyond 5 % |\n|---|---|---|---|---|\n");
  for (const double speed_spread : {0.0, 0.1, 0.4})
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
      const EstimateError error = regular_layout_error(schedule, speed_spread);
      fmt::print("| {} | {:.0f} % | {:.2f} % | {:+.1f} % | {:.1f} % |\n", name_of(schedule),
                 100 * speed_spread, 100 * error.mean, 100 * error.worst, 100 * error.far);
    }
}

}  // namespace
}  // namespace dtfm

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("usage: dtfm_validate RUNS CONFIGS DATA TOPOLOGIES\n", stderr);
    return 2;
  }
  try {
    dtfm::validate_runs(arguments[1]);
    dtfm::validate_published(arguments[3]);
    dtfm::validate_all_reduces(arguments[1] + std::string("/../network/measured_collectives.csv"));
    dtfm::validate_roofline(arguments[2], arguments[3]);
    dtfm::validate_estimates(arguments[4]);
    dtfm::validate_random_jobs();
    dtfm::validate_regular_layouts();
  } catch (const dtfm::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
