// Plans to hand over: the worked example, and any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/core/rng.hpp"
#include "planner/export/exporter.hpp"
#include "planner/export/read_handover.hpp"
#include "tests/support/any_plan.hpp"

namespace dtfm {
using namespace exporter;

/// Hosts ga (2 GPUs), gb (1) and gc (3); two pipelines of three stages, seven layers cut 3/2/2, on purpose
/// out of order. 8 micro-batches of 2 each.
inline const std::string worked_example = R"({"schema": "dtfm-plan/1",
 "job": {"version": 1, "name": "worked", "model": {"kind": "transformer", "layers": 7, "hidden": 2048, "heads": 16,
   "sequence": 2048, "vocabulary": 50304, "tied": false},
  "training": {"global_batch": 32, "micro_batch": 2, "precision": "fp16"}, "parallelism": {"schedule": "1f1b"}},
 "pipelines": [
  {"micro_batches": 8, "stages": [{"layers": [0, 3], "devices": ["gc:1"]}, {"layers": [3, 5], "devices": ["ga:0"]},
                                  {"layers": [5, 7], "devices": ["gc:0"]}]},
  {"micro_batches": 8, "stages": [{"layers": [0, 3], "devices": ["gb:0"]}, {"layers": [3, 5], "devices": ["gc:2"]},
                                  {"layers": [5, 7], "devices": ["ga:1"]}]}]})";

/// The files for these targets.
inline ExportFiles handed_over(const std::string& plan, std::vector<std::string> names,
                               HandoverChoices choices = {}, std::optional<RankOrder> order = {}) {
  std::vector<const Exporter*> targets;
  for (const std::string& name : names) targets.push_back(&exporter_named(name));
  choices.order = common_order(targets, order);
  return exported(read_handover({"plan.json", plan}, std::nullopt, choices), targets);
}

/// What a plan's pipelines have in common, and what they differ in.
struct PlanKind {
  bool is_alike = true;           // depth, layers, micro-batches, tensor degree
  bool has_equal_stages = false;  // as many layers in each
  int most_tensor = 1;
};

/// Any plan of a GPT of 24 layers on machines of 1 to 4 GPUs, in any order.
inline Handover any_handover(Rng& rng, const PlanKind& kind, RankOrder order) {
  const auto below = [&](int bound) {
    return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound)));
  };
  Handover handover;
  handover.job.name = "any";
  handover.job.model = Transformer{24, 1024, 16, 512, 50257};
  handover.job.training = {0, 1 + below(3)};
  handover.job.parallelism.schedule = below(2) == 0 ? "gpipe" : "1f1b";
  const int replicas = 1 + below(4), depth = kind.has_equal_stages ? 1 << below(4) : 2 + below(5);
  const int tensor = 1 << below(kind.most_tensor);
  int seats = 0, all = 0;
  Plan& plan = handover.plan;
  for (int p = 0; p < replicas; ++p) {
    if (kind.is_alike && p > 0) {
      plan.pipelines.push_back(plan.pipelines.front());
    } else {
      const int stages = kind.is_alike ? depth : 2 + below(5);
      Pipeline pipeline{2 * (1 + below(8)), {}};
      const auto layers = random_split(rng, 24, stages, kind.has_equal_stages ? 24 / stages : 1);
      for (int s = 0; s < stages; ++s) pipeline.stages.push_back({layers[at(s)], {}});
      plan.pipelines.push_back(pipeline);
    }
    for (Stage& stage : plan.pipelines.back().stages) {
      const int degree = kind.is_alike ? tensor : 1 << below(kind.most_tensor);
      stage.devices.resize(at(degree));
      for (int& device : stage.devices) device = seats++;
    }
    all += plan.pipelines.back().micro_batches;
  }
  handover.job.training.global_batch = all * handover.job.training.micro_batch;
  std::vector<int> places(at(seats));
  for (int host = 0, i = 0; i < seats; ++host)
    for (int gpu = 0, gpus = 1 + below(4); gpu < gpus && i < seats; ++gpu, ++i) {
      handover.places.push_back({fmt::format("h{}", host), fmt::format("h{}", host), gpu});
      places[at(i)] = i;
    }
  rng.shuffle(std::span<int>(places));
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) device = places[at(device)];
  handover.order = order;
  handover.seats = seats_of(plan, handover.job, order);
  return handover;
}

}  // namespace dtfm
