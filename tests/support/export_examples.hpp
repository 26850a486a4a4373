// Plans to export: the worked example, and random ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "planner/export/exporter.hpp"
#include "planner/export/read_export_bundle.hpp"
#include "tests/support/llama.hpp"
#include "tests/support/arbitrary_plan.hpp"

namespace dtfm {
using namespace exporter;

/// Hosts ga (2 GPUs), gb (1) and gc (3); two pipelines of three stages, with seven layers split 3/2/2 and
/// devices deliberately out of order; 8 micro-batches of 2 sequences per pipeline.
inline const std::string worked_example = R"({"schema": "dtfm-plan/1",
 "job": {"version": 1, "name": "worked", "model": {"kind": "transformer", "layers": 7, "hidden": 2048, "heads": 16,
   "sequence": 2048, "vocabulary": 50304, "tied": false},
  "training": {"global_batch": 32, "micro_batch": 2, "precision": "fp16"}, "parallelism": {"schedule": "1f1b"}},
 "pipelines": [
  {"micro_batches": 8, "stages": [{"layers": [0, 3], "devices": ["gc:1"]}, {"layers": [3, 5], "devices": ["ga:0"]},
                                  {"layers": [5, 7], "devices": ["gc:0"]}]},
  {"micro_batches": 8, "stages": [{"layers": [0, 3], "devices": ["gb:0"]}, {"layers": [3, 5], "devices": ["gc:2"]},
                                  {"layers": [5, 7], "devices": ["ga:1"]}]}]})";

inline bool requires_llama(std::string_view target) {
  return target == "torchtitan" || target == "petals";
}

/// The worked example for a target: some run only models like Llama.
inline std::string example_for(std::string_view target) {
  std::string plan = worked_example;
  if (!requires_llama(target)) return plan;
  const std::string_view end = "\"tied\": false}";
  plan.replace(
      plan.find(end), end.size(),
      "\"tied\": false, \"gated\": true, \"biases\": false, \"norm\": \"rms\", \"positions\": \"rotary\", "
      "\"attention\": \"flash\"}");
  return plan;
}

/// Returns the exported files of these targets.
inline ExportFiles make_export_files(const std::string& plan, std::vector<std::string> names,
                                     ExportChoices choices = {}, std::optional<RankOrder> order = {}) {
  std::vector<const Exporter*> targets;
  for (const std::string& name : names) targets.push_back(&find_exporter(name));
  choices.order = choose_rank_order(targets, order);
  return export_files(run_on_trainer(read_export_bundle({"plan.json", plan}, std::nullopt, choices), targets),
                      targets);
}

/// Which properties of the pipelines of a random plan are fixed.
struct PlanConstraints {
  bool is_uniform = true;  // same depth, layers, micro-batches and tensor degree
  int max_tensor = 1;
  bool is_llama = false;  // otherwise a GPT
};

/// Returns a random plan of a model of 24 layers on machines with 1 to 4 GPUs, in any order.
inline ExportBundle arbitrary_bundle(Rng& rng, const PlanConstraints& kind, RankOrder order) {
  const auto below = [&](int bound) {
    return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound)));
  };
  ExportBundle bundle;
  bundle.job.name = "any";
  bundle.job.model = kind.is_llama ? llama_of(24) : Transformer{24, 1024, 16, 512, 50257};
  bundle.job.execution.micro_batch = 1 + below(3);
  bundle.job.execution.schedule = below(2) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
  const int replicas = 1 + below(4), depth = 2 + below(5);
  const int tensor = 1 << below(kind.max_tensor);
  int assignments = 0, all = 0;
  Plan& plan = bundle.plan;
  for (int p = 0; p < replicas; ++p) {
    if (kind.is_uniform && p > 0) {
      plan.pipelines.push_back(plan.pipelines.front());
    } else {
      const int stages = kind.is_uniform ? depth : 2 + below(5);
      Pipeline pipeline{2 * (1 + below(8)), {}};
      const auto layers = random_split(rng, 24, stages, 1);
      for (int s = 0; s < stages; ++s) pipeline.stages.push_back({layers[at(s)], {}});
      plan.pipelines.push_back(pipeline);
    }
    for (Stage& stage : plan.pipelines.back().stages) {
      const int degree = kind.is_uniform ? tensor : 1 << below(kind.max_tensor);
      stage.devices.resize(at(degree));
      for (int& device : stage.devices) device = assignments++;
    }
    all += plan.pipelines.back().micro_batches;
  }
  bundle.job.training.global_batch = all * bundle.job.execution.micro_batch;
  std::vector<int> locations(at(assignments));
  for (int host = 0, i = 0; i < assignments; ++host)
    for (int gpu = 0, gpus = 1 + below(4); gpu < gpus && i < assignments; ++gpu, ++i) {
      bundle.locations.push_back({fmt::format("h{}", host), fmt::format("h{}", host), gpu});
      locations[at(i)] = i;
    }
  rng.shuffle(std::span<int>(locations));
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) device = locations[at(device)];
  plan.execution = bundle.job.execution;
  bundle.order = order;
  bundle.assignments = assign_ranks(plan, bundle.job, order);
  return bundle;
}

}  // namespace dtfm
