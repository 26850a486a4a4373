#include "tests/validation/cluster_runs.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "tests/validation/csv_rows.hpp"
#include "tests/validation/published_runs.hpp"

namespace dtfm {
using namespace io;
using namespace sim;
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr int gpus_per_host = 8;

std::shared_ptr<const Topology> hosts_of(std::string_view host, int count) {
  return published_topology(
      fmt::format("version: 1\ndevices: [{{site: lab, hosts: {}, host: {}}}]\n", count, host));
}

/// Hosts whose network cards together carry the bus bandwidth that NCCL reached, with this latency between
/// them.
std::shared_ptr<const Topology> measured_hosts(std::string_view host, int count, double gb_per_s,
                                               int latency_us) {
  if (count == 1 || gb_per_s == 0) return hosts_of(host, count);
  return published_topology(fmt::format(
      R"(version: 1
devices:
  - {{site: lab, hosts: {0}, host: {1}, uplink: {2} Gbps, downlink: {2} Gbps, host_uplink: {3} Gbps, host_downlink: {3} Gbps}}
links: [{{within: lab, latency: {4} us, bandwidth: {2} Gbps}}]
)",
      count, host, gb_per_s * bits_per_byte / gpus_per_host, gb_per_s * bits_per_byte, latency_us));
}

/// 0 for an empty cell.
double number_or_zero(const CsvTable& table, std::size_t cell) {
  return table.cells()[cell].text.empty() ? 0 : table.number(cell, Unit{"", 0}, "a number");
}

std::vector<int> equal_ends(int layers, int stages) {
  std::vector<int> ends;
  for (int p = 1; p <= stages; ++p) ends.push_back(layers * p / stages);
  return ends;
}

/// nanotron's cut: a stage ends where the sum of costs, counted by weights, reaches its share (build_model of
/// nanotron/trainer.py). Here every stage has at least one layer, so the last stages can differ from
/// nanotron's.
std::vector<int> ends_by_cost(int layers, int stages, double block, double head) {
  const double total = block * layers + head;
  std::vector<int> ends;
  for (int p = 1, end = 0; p < stages; ++p) {
    do ++end;
    while (block * end < total * p / stages);
    end = std::min(end, layers - (stages - p));
    ends.push_back(end);
  }
  ends.push_back(layers);
  return ends;
}

std::string degrees_name(const Degrees& degrees) {
  return fmt::format("{} × {} × {}", degrees.tensor, degrees.data, degrees.pipeline);
}

}  // namespace

// The columns of nanotron-h100.csv from 2: hosts, gpus, tensor, data, pipeline, micro_batch, micro_batches,
// global_batch, sequence, layers, hidden, feed_forward, heads, kv_heads, vocabulary, tied, zero_stage,
// precision, status, tokens_per_s_gpu, seconds, allocated_gib, reserved_gib, all_reduce_gb_s.
std::vector<ClusterRun> read_nanotron_runs(const std::string& data, int latency_us) {
  // Healthy networks reach 158 to 206 GB/s on 4 or more hosts, and 290 to 440 on 2.
  constexpr double slow_gb_s = 120;
  std::vector<ClusterRun> runs;
  for_each_row(data + "/measured/nanotron-h100.csv", 31, [&](const CsvTable& table, const auto& count) {
    const Degrees degrees{count(4), count(5), count(6)};
    const int hosts = count(2), layers = count(11), hidden = count(12), feed_forward = count(13),
              vocabulary = count(16), zero_stage = count(18);
    Job job = parse_job(
        fmt::format(
            R"(version: 1
name: nanotron
model: {{kind: transformer, layers: {}, hidden: {}, feed_forward: {}, heads: {}, kv_heads: {}, sequence: {}, vocabulary: {}, tied: {}, gated: true, norm: rms, positions: rotary, biases: false, dropout: false, attention: flash, kernels: eager}}
training: {{global_batch: {}, micro_batch: {}, precision: bf16, optimizer: adam-20-fp32, recompute: none}}
parallelism: {{schedule: 1f1b-blocking, gradient_sync: ring, optimizer_sharding: {}, overlap: true, tied_embedding_sync: {}, tensor: {}}}
)",
            layers, hidden, feed_forward, count(14), count(15), count(10), vocabulary, table.cells()[17].text,
            count(9), count(7), zero_stage == 1 ? "zero1" : "none", degrees.pipeline > 1, degrees.tensor),
        "nanotron.yaml");
    const double h = hidden;
    Plan plan = published_plan(
        job, degrees,
        ends_by_cost(layers, degrees.pipeline, 4 * h * h + 3 * h * feed_forward, h * vocabulary));
    const double network = number_or_zero(table, 25);
    runs.push_back(
        {published_run(fmt::format("{} {} hosts, batch {} by {}, {}, zero{}", table.cells()[1].text, hosts,
                                   count(9), count(7), degrees_name(degrees), zero_stage),
                       fmt::format("{} H100", count(3)),
                       measured_hosts("dgx-h100", hosts, network, latency_us), std::move(job),
                       std::move(plan), number_or_zero(table, 22)),
         hosts > 1 && network > 0 && network < slow_gb_s, gib * number_or_zero(table, 24),
         gib * number_or_zero(table, 23), true});
  });
  return runs;
}

// The columns of simumax-dense.csv from 4: tensor, data, pipeline, micro_batch, micro_batches, global_batch,
// sequence, layers, hidden, feed_forward, heads, kv_heads, vocabulary, zero_stage, precision, seconds,
// allocated_gib, reserved_gib.
std::vector<ClusterRun> read_simumax_runs(const std::string& data) {
  std::vector<ClusterRun> runs;
  for_each_row(data + "/measured/simumax-dense.csv", 24, [&](const CsvTable& table, const auto& count) {
    const Degrees degrees{count(4), count(5), count(6)};
    const int layers = count(11), padding = 128 * degrees.tensor,
              vocabulary = (count(16) + padding - 1) / padding * padding;
    Job job = parse_job(fmt::format(
                            R"(version: 1
name: simumax
model: {{kind: transformer, layers: {}, hidden: {}, feed_forward: {}, heads: {}, kv_heads: {}, sequence: {}, vocabulary: {}, tied: false, gated: true, norm: rms, positions: rotary, biases: false, dropout: false, attention: flash}}
training: {{global_batch: {}, micro_batch: {}, precision: bf16, optimizer: adam-18, recompute: none}}
parallelism: {{schedule: 1f1b, gradient_sync: ring, optimizer_sharding: zero1, tensor: {}}}
)",
                            layers, count(12), count(13), count(14), count(15), count(10), vocabulary,
                            count(9), count(7), degrees.tensor),
                        "simumax.yaml");
    Plan plan = published_plan(job, degrees, equal_ends(layers, degrees.pipeline));
    runs.push_back(
        {published_run(std::string(table.cells()[0].text), "8 B200", hosts_of("dgx-b200", 1), std::move(job),
                       std::move(plan), table.number(19, Unit{"s", 0}, "the time")),
         false, gib * number_or_zero(table, 20)});
  });
  return runs;
}

// The columns of llm-foundry-fsdp.csv: model, gpu, hosts, gpus, micro_batch, micro_batches, global_batch,
// sequence, layers, hidden, heads, vocabulary, parameters, sharding, mixed, precision, recompute,
// tokens_per_s, seconds.
std::vector<ClusterRun> read_fsdp_runs(const std::string& data) {
  std::vector<ClusterRun> runs;
  for_each_row(data + "/measured/llm-foundry-fsdp.csv", 19, [&](const CsvTable& table, const auto& count) {
    const auto text = [&](std::size_t cell) { return table.cells()[cell].text; };
    const int hosts = count(2), layers = count(8);
    const Degrees degrees{1, count(3), 1};
    Job job = parse_job(fmt::format(
                            R"(version: 1
name: mpt
model: {{kind: transformer, layers: {}, hidden: {}, heads: {}, sequence: {}, vocabulary: {}, tied: true, dropout: false, attention: flash}}
training: {{global_batch: {}, micro_batch: {}, precision: bf16, optimizer: {}, recompute: {}}}
parallelism: {{schedule: 1f1b, gradient_sync: ring, optimizer_sharding: {}, overlap: true}}
)",
                            layers, count(9), count(10), count(7), count(11), count(6), count(4),
                            text(14) == "PURE"         ? "adam-16"
                            : text(13) == "FULL_SHARD" ? "adam-16-fp32"
                                                       : "adam-18",
                            text(16), text(13) == "FULL_SHARD" ? "zero3" : "zero2"),
                        "mpt.yaml");
    const std::string_view gpu = text(1);
    Plan plan = published_plan(job, degrees, {layers});
    runs.push_back(
        {published_run(fmt::format("{} {} {} by {}, sequence {}, {}", text(0), gpu, count(3), count(4),
                                   count(7), text(13)),
                       fmt::format("{} {}", count(3), gpu),
                       hosts_of(gpu == "H100"        ? "dgx-h100"
                                : gpu == "A100-40GB" ? "nd-a100-v4"
                                                     : "dgx-a100",
                                hosts),
                       std::move(job), std::move(plan), table.number(18, Unit{"s", 0}, "the time")),
         false});
  });
  return runs;
}

namespace {

std::vector<cost::DeviceMemory> predicted_memory(const ClusterRun& it) {
  const Problem problem = it.run.work->problem_with(shipped_calibration("neutral").constants);
  return cost::device_memory(cost::IterationModel(problem, it.run.work->plan.tensor), it.run.work->plan);
}

cost::DeviceMemory highest(const std::vector<cost::DeviceMemory>& devices) {
  return *std::ranges::max_element(devices, {}, &cost::DeviceMemory::needed);
}

}  // namespace

MemoryErrors memory_errors(const std::vector<ClusterRun>& runs) {
  MemoryErrors errors;
  for (const ClusterRun& it : runs) {
    const std::vector<cost::DeviceMemory> devices = predicted_memory(it);
    const cost::DeviceMemory& first = devices.front();
    if (it.peak_bytes > 0)
      errors.peak.push_back((it.is_first_stage ? first : highest(devices)).reserved() / it.peak_bytes - 1);
    if (it.state_bytes > 0) errors.state.push_back(first.state / it.state_bytes - 1);
  }
  return errors;
}

RejectionCounts count_rejections(const std::vector<ClusterRun>& runs) {
  RejectionCounts counts;
  for (const ClusterRun& it : runs) {
    const cost::DeviceMemory memory = highest(predicted_memory(it));
    const int rejected = memory.needed > memory.capacity ? 1 : 0;
    const bool succeeded = it.run.seconds > 0;
    (succeeded ? counts.succeeded : counts.out_of_memory) += 1;
    (succeeded ? counts.falsely_rejected : counts.rejected) += rejected;
  }
  return counts;
}

std::vector<MeasuredRun> timed_runs(const std::vector<ClusterRun>& runs) {
  std::vector<MeasuredRun> timed;
  for (const ClusterRun& it : runs)
    if (it.run.seconds > 0 && !it.has_slow_network) timed.push_back(it.run);
  return timed;
}

std::vector<MeasuredRun> half_of(const std::vector<MeasuredRun>& runs, std::size_t first) {
  std::vector<MeasuredRun> half;
  for (std::size_t i = first; i < runs.size(); i += 2) half.push_back(runs[i]);
  return half;
}

std::vector<MeasuredRun> read_unprofiled_runs(const std::string& data) {
  std::vector<MeasuredRun> all;
  for (std::vector<MeasuredRun>& runs : std::array{
           read_vtrain_runs(data + "/measured/vtrain-one-host.csv"),
           read_vtrain_runs(data + "/measured/vtrain-many-hosts.csv"), timed_runs(read_nanotron_runs(data)),
           timed_runs(read_simumax_runs(data)), timed_runs(read_fsdp_runs(data))})
    all.insert(all.end(), runs.begin(), runs.end());
  return all;
}

std::vector<double> estimate_errors(const std::vector<MeasuredRun>& runs) {
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) {
    const Problem problem = run.work->problem_with(Calibration());
    const cost::IterationModel model(problem, run.work->plan.tensor);
    errors.push_back(cost::estimate_iteration(model, run.work->plan).iteration_s / run.seconds - 1);
  }
  return errors;
}

std::vector<RunChoice> estimated_choices(const std::vector<MeasuredRun>& runs) {
  const std::vector<double> errors = estimate_errors(runs);
  std::map<std::string, std::vector<std::size_t>> groups;  // by all of the name before the micro-batch
  for (std::size_t i = 0; i < runs.size(); ++i)
    groups[runs[i].name.substr(0, runs[i].name.find(" by "))].push_back(i);
  std::vector<RunChoice> choices;
  for (const auto& [name, members] : groups) {
    if (members.size() < 2) continue;
    const auto measured_s = [&](std::size_t i) { return runs[i].seconds; };
    const auto estimated_s = [&](std::size_t i) { return runs[i].seconds * (1 + errors[i]); };
    const std::size_t best = *std::ranges::min_element(members, {}, measured_s),
                      chosen = *std::ranges::min_element(members, {}, estimated_s);
    choices.push_back(
        {name, static_cast<int>(members.size()), runs[chosen].seconds / runs[best].seconds - 1});
  }
  return choices;
}

std::vector<std::vector<MeasuredRun>> roofline_fit_runs(const std::string& data) {
  constexpr int max_devices = 16;
  std::vector<std::vector<MeasuredRun>> sets = {
      read_vtrain_runs(data + "/measured/vtrain-one-host.csv"), timed_runs(read_nanotron_runs(data)),
      timed_runs(read_simumax_runs(data)), timed_runs(read_fsdp_runs(data))};
  for (std::vector<MeasuredRun>& runs : sets) {
    runs = half_of(runs, 0);
    std::erase_if(runs, [](const MeasuredRun& run) { return run.work->topology->size() > max_devices; });
  }
  std::vector<MeasuredRun> many = half_of(read_vtrain_runs(data + "/measured/vtrain-many-hosts.csv"), 0);
  std::erase_if(many, [](const MeasuredRun& run) { return run.work->plan.tensor > gpus_per_host; });
  sets.push_back(std::move(many));
  return sets;
}

}  // namespace dtfm
