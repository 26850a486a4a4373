#include "tests/validation/published_runs.hpp"

#include <charconv>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/text_file.hpp"
#include "tests/validation/csv_rows.hpp"

namespace dtfm {
using namespace io;
using namespace sim;
namespace {

constexpr int gpus_per_host = 8;  // of the machines with A100s

/// Every host has four cards of 200 Gbps, of which a flow uses one.
std::shared_ptr<const Topology> vtrain_topology(int gpus) {
  if (gpus <= gpus_per_host)
    return published_topology(fmt::format(
        "version: 1\ndevices: [{{site: lab, hosts: 1, host: nd-a100-v4, gpus_per_host: {}}}]\n", gpus));
  return published_topology(
      fmt::format("version: 1\ndevices: [{{site: lab, hosts: {}, host: dgx-a100, host_uplink: 800 Gbps, "
                  "host_downlink: 800 "
                  "Gbps}}]\n",
                  gpus / gpus_per_host));
}

/// Several hosts of four GH200. Inside a host and between the GPUs of two hosts: the largest rates of the
/// measured curves.
std::shared_ptr<const Topology> gh200_topology(int hosts) {
  return published_topology(fmt::format(R"(version: 1
devices:
  - {{site: lab, hosts: {}, gpus_per_host: 4, gpu: GH200, host_uplink: 740.8 Gbps, host_downlink: 740.8 Gbps}}
links:
  - {{within: host, latency: 5 us, bandwidth: 2004.8 Gbps}}
  - {{within: lab, latency: 5 us, bandwidth: 183.2 Gbps}}
)",
                                        hosts));
}

/// The last blocks of the stages. `text` has the layers of each stage, separated by spaces; it counts the
/// embedding, which is first, and the head, which is last.
std::vector<int> block_ends(std::string_view text) {
  std::vector<int> ends;
  for (int end = -1; !text.empty();) {
    int layers = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), layers);
    end += layers;
    ends.push_back(end);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  --ends.back();
  return ends;
}

}  // namespace

Plan published_plan(const Job& job, const Degrees& degrees, const std::vector<int>& layer_ends) {
  Plan plan;
  plan.tensor = degrees.tensor;
  plan.execution = job.execution;
  for (int d = 0; d < degrees.data; ++d) {
    Pipeline pipeline{micro_batch_count(job) / degrees.data, {}};
    for (int p = 0; p < degrees.pipeline; ++p) {
      Stage stage{{p == 0 ? 0 : layer_ends[at(p - 1)], layer_ends[at(p)]}, {}};
      for (int t = 0; t < degrees.tensor; ++t)
        stage.devices.push_back(t + degrees.tensor * (d + degrees.data * p));
      pipeline.stages.push_back(std::move(stage));
    }
    plan.pipelines.push_back(std::move(pipeline));
  }
  return plan;
}

std::shared_ptr<const Topology> published_topology(const std::string& text) {
  static std::map<std::string, std::shared_ptr<const Topology>> known;
  auto& topology = known[text];
  if (!topology) topology = std::make_shared<const Topology>(parse_topology(text, "published.yaml", ""));
  return topology;
}

MeasuredRun published_run(std::string name, std::string network, std::shared_ptr<const Topology> topology,
                          Job job, Plan plan, double seconds) {
  return {std::move(name), std::move(network),
          std::make_shared<Workload>(
              Workload{std::move(topology), std::move(job), std::move(plan), built_in_roofline()}),
          seconds};
}

std::vector<MeasuredRun> read_vtrain_runs(const std::string& file) {
  std::vector<MeasuredRun> runs;
  for_each_row(file, 11, [&](const CsvTable& table, const auto& count) {
    const int gpus = count(0), layers = count(5);
    const Degrees degrees{count(7), count(8), count(9)};
    Job job = parse_job(fmt::format(
                            R"(version: 1
name: vtrain
model: {{kind: transformer, layers: {}, hidden: {}, heads: {}, sequence: {}, vocabulary: 51200}}
training: {{global_batch: {}, micro_batch: {}, precision: fp16, optimizer: adam-16, recompute: full}}
parallelism: {{schedule: 1f1b, gradient_sync: ring, tensor: {}, sequence_parallel: false, scatter_gather: true}}
)",
                            layers, count(3), count(4), count(6), count(1), count(2), degrees.tensor),
                        "vtrain.yaml");
    std::vector<int> ends;
    for (int p = 1; p <= degrees.pipeline; ++p) ends.push_back(layers / degrees.pipeline * p);
    Plan plan = published_plan(job, degrees, ends);
    runs.push_back(
        published_run(fmt::format("{} layers of {}, batch {} by {}, {} × {} × {}", layers, count(3), count(1),
                                  count(2), degrees.tensor, degrees.data, degrees.pipeline),
                      fmt::format("{} GPUs", gpus), vtrain_topology(gpus), std::move(job), std::move(plan),
                      table.number(10, Unit{"s", 0}, "the time")));
  });
  return runs;
}

std::vector<MeasuredRun> read_gh200_runs(const std::string& data) {
  const auto job_of = [](int batch, int micro_batch, int tensor) {
    return parse_job(fmt::format(R"(version: 1
name: opt-350m
model: {{kind: transformer, layers: 24, hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50272, positions: 2050, tied: false, attention_dropout: false}}
training: {{global_batch: {}, micro_batch: {}, precision: fp32, optimizer: adam-20, recompute: none}}
parallelism: {{schedule: 1f1b-blocking, gradient_sync: ring, tensor: {}, sequence_parallel: false}}
)",
                                 batch, micro_batch, tensor),
                     "opt-350m.yaml");
  };
  const std::string profile_file = data + "/layer-profiles/sailor/OPT-350/GH-96/profile.json";
  const ImportFile profile_text{profile_file, read_file(profile_file, 16 << 20)};
  const LayerProfile profile = import_sailor(std::span(&profile_text, 1), {"GH200", job_of(1, 1, 1), {}, {}});
  std::vector<MeasuredRun> runs;
  for_each_row(data + "/measured/sailor-opt350-gh200.csv", 12, [&](const CsvTable& table, const auto& count) {
    const Degrees degrees{count(2), count(3), count(4)};
    Job job = job_of(count(6), count(5), degrees.tensor);
    job.profiles = {profile};
    const double first = table.number(8, Unit{"s", 0}, "a time"),
                 second = table.number(9, Unit{"s", 0}, "a time");
    Plan plan = published_plan(job, degrees, block_ends(table.cells()[7].text));
    runs.push_back(published_run(fmt::format("batch {} by {}, {} × {} × {}", count(6), count(5),
                                             degrees.tensor, degrees.data, degrees.pipeline),
                                 fmt::format("{} hosts", count(0)), gh200_topology(count(0)), std::move(job),
                                 std::move(plan), (first + second) / 2));
    runs.back().peak_memory_bytes = table.number(11, Unit{"B", 0}, "the memory");
  });
  return runs;
}

}  // namespace dtfm
