#include "cli/plan_diff.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/main_guard.hpp"
#include "cli/output_check.hpp"
#include "cli/plan_words.hpp"
#include "cli/put_out.hpp"
#include "cli/warm_start.hpp"
#include "cli/words.hpp"
#include "planner/core/index.hpp"
#include "planner/io/calibration_reader.hpp"
#include "planner/io/job_reader.hpp"
#include "planner/io/json_text.hpp"
#include "planner/io/roofline_reader.hpp"
#include "planner/io/topology_reader.hpp"
#include "planner/io/units.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;

/// What a device does in a plan; pipelines have no names but their devices.
struct Role {
  int stage = 0, rank = 0, micro_batches = 0;
  std::pair<int, int> layers;
  std::vector<std::string> before, after;  // devices of the stages next to it

  bool is_other_work(const Role& other) const {
    return stage != other.stage || rank != other.rank || layers != other.layers;
  }
  friend bool operator==(const Role&, const Role&) = default;
};

struct Decision {
  std::string name, first, second;
};

struct PlanDiff {
  std::vector<Decision> decisions;  // that differ
  std::vector<std::string> enter, leave;
  struct Change {
    std::string id;
    Role first, second;
  };
  std::vector<Change> changes;
  std::string no_moving;  // why nothing is said of it; empty: it is
  PlanRecord::Moving moving;

  bool is_same() const { return decisions.empty() && enter.empty() && leave.empty() && changes.empty(); }
};

std::map<std::string, Role> roles(const NamedPlan& named) {
  std::map<std::string, Role> result;
  const auto ids = [&](const std::vector<Stage>& stages, std::size_t stage) {
    std::vector<std::string> names;
    if (stage < stages.size())
      for (const int device : stages[stage].devices) names.push_back(named.ids[at(device)]);
    return names;
  };
  for (const Pipeline& pipeline : named.plan.pipelines) {
    const auto& stages = pipeline.stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto devices = ids(stages, s);
      for (std::size_t rank = 0; rank < devices.size(); ++rank)
        result[devices[rank]] = {static_cast<int>(s),
                                 static_cast<int>(rank),
                                 pipeline.micro_batches,
                                 stages[s].layers,
                                 s == 0 ? std::vector<std::string>{} : ids(stages, s - 1),
                                 ids(stages, s + 1)};
    }
  }
  return result;
}

std::vector<Decision> decisions(const RunningPlan& first, const RunningPlan& second) {
  std::vector<Decision> result;
  const auto add = [&](const char* name, const auto& value) {
    const std::string a = fmt::format("{}", value(first)), b = fmt::format("{}", value(second));
    if (a != b) result.push_back({name, a, b});
  };
  add("stages", [](const auto& it) { return depth(it.named.plan); });
  add("pipelines", [](const auto& it) { return it.named.plan.pipelines.size(); });
  add("tensor", [](const auto& it) { return it.named.plan.tensor; });
  add("schedule", [](const auto& it) { return it.job.parallelism.schedule; });
  add("chunks", [](const auto& it) { return it.job.parallelism.chunks.value_or(1); });
  add("flush", [](const auto& it) { return it.job.parallelism.flush.value_or(0); });
  add("gradient_sync", [](const auto& it) { return it.job.parallelism.gradient_sync; });
  add("global_batch", [](const auto& it) { return it.job.training.global_batch; });
  add("micro_batch", [](const auto& it) { return it.job.training.micro_batch; });
  add("recompute", [](const auto& it) { return it.job.training.recompute; });
  add("precision", [](const auto& it) { return it.job.training.precision; });
  add("optimizer", [](const auto& it) { return it.job.training.optimizer; });
  add("compression of activations", [](const auto& it) { return it.job.compression.activations; });
  add("compression of gradients", [](const auto& it) { return it.job.compression.gradients; });
  return result;
}

/// The devices of both plans, between which nothing takes time.
Topology bare_topology(const RunningPlan& first, const RunningPlan& second) {
  Topology topology;
  topology.name = "of both plans";
  topology.sites = {{"all"}};
  Link link;
  link.bandwidth = unlimited;
  RuleLinks rules{{link}, {}, Eigen::MatrixXi::Zero(1, 1), Eigen::MatrixXi::Constant(1, 1, -1)};
  std::map<std::string, int> known;
  for (const RunningPlan* plan : {&first, &second})
    for (const std::string& id : plan->named.ids) {
      if (!known.emplace(id, topology.size()).second) continue;
      Device device;
      device.id = id;
      device.host = topology.size();
      topology.devices.push_back(device);
      rules.port.push_back(0);
    }
  topology.links = std::move(rules);
  return topology;
}

void check_devices(const RunningPlan& running, const Plan& plan, const Topology& topology) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s)
      for (std::size_t i = 0; i < plan.pipelines[p].stages[s].devices.size(); ++i)
        if (plan.pipelines[p].stages[s].devices[i] == no_device) {
          const int device = running.named.plan.pipelines[p].stages[s].devices[i];
          throw Error(running.file,
                      fmt::format("/pipelines/{}/stages/{}/devices/{}: topology {} has no device {}; "
                                  "only the first plan may be for machines that are gone",
                                  p, s, i, topology.name, running.named.ids[at(device)]));
        }
}

PlanRecord::Moving moving(const RunningPlan& first, const RunningPlan& second, const Topology& topology) {
  const Problem problem{topology, second.job, built_in_calibration(), built_in_roofline()};
  const Plan before = warm_start(first, problem, 0).plan, after = warm_start(second, problem, 0).plan;
  check_devices(second, after, topology);
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  std::vector<std::string> ids;
  for (const Device& device : topology.devices) ids.push_back(device.id);
  const MovingCost cost(problem, network, before, stage_chunks(first.job));
  return moving_record(cost.of(after, stage_chunks(second.job)), ids);
}

PlanDiff diff_of(const RunningPlan& first, const RunningPlan& second,
                 const std::optional<Topology>& topology) {
  PlanDiff diff;
  diff.decisions = decisions(first, second);
  const auto before = roles(first.named), after = roles(second.named);
  for (const auto& [id, role] : before)
    if (!after.contains(id)) diff.leave.push_back(id);
  for (const auto& [id, role] : after) {
    const auto then = before.find(id);
    if (then == before.end())
      diff.enter.push_back(id);
    else if (then->second != role)
      diff.changes.push_back({id, then->second, role});
  }
  diff.no_moving = model_difference(first.job, second.job);
  if (!diff.no_moving.empty()) {
    diff.no_moving = "the models differ, and nothing of the first is of use to the second: " + diff.no_moving;
    diff.decisions.push_back({"model", first.job.name, second.job.name});
    return diff;
  }
  diff.moving = moving(first, second, topology ? *topology : bare_topology(first, second));
  if (topology) return diff;
  diff.moving.seconds.reset();
  for (auto& device : diff.moving.devices) device.from.clear();  // from whom it is fast, nobody knows
  return diff;
}

ordered_json role_json(const Role& role) {
  return {{"stage", role.stage},
          {"rank", role.rank},
          {"layers", {role.layers.first, role.layers.second}},
          {"micro_batches", role.micro_batches},
          {"before", role.before},
          {"after", role.after}};
}

std::string diff_json(const PlanOptions& options, const PlanDiff& diff) {
  ordered_json json = {{"schema", "dtfm-plan-diff/1"}, {"plans", *options.diff}, {"same", diff.is_same()}};
  json["decisions"] = ordered_json::object();
  for (const auto& [name, first, second] : diff.decisions) json["decisions"][name] = {first, second};
  json["enter"] = diff.enter;
  json["leave"] = diff.leave;
  json["changes"] = ordered_json::array();
  for (const auto& [id, first, second] : diff.changes)
    json["changes"].push_back({{"device", id}, {"first", role_json(first)}, {"second", role_json(second)}});
  if (diff.no_moving.empty())
    json["moving"] = moving_json(diff.moving);
  else
    json["no_moving"] = diff.no_moving;
  return json_text(json);
}

std::string listed(const std::vector<std::string>& ids) {
  return fmt::format("{} ({})", counted(static_cast<long long>(ids.size()), "device"),
                     shortened(fmt::format("{}", fmt::join(ids, " ")), 80));
}

std::string work(const Role& role) {
  return fmt::format("stage {}, layers {}{}", role.stage, layers_in_words(role.layers),
                     role.rank > 0 ? fmt::format(", rank {}", role.rank) : "");
}

std::string changes_text(const PlanDiff& diff) {
  Rows rows = {{"device", "before", "after"}};
  std::size_t all = 0, neighbours = 0;
  for (const auto& [id, first, second] : diff.changes) {
    if (!first.is_other_work(second)) {
      ++neighbours;
      continue;
    }
    if (++all <= most_rows) rows.push_back({id, work(first), work(second)});
  }
  std::string text = all > 0 ? short_table(rows, all, "devices") : "";
  if (neighbours > 0)
    text += fmt::format("{} with the same layers, but other neighbours or micro-batches\n",
                        counted(static_cast<long long>(neighbours), "device"));
  return text;
}

std::string moving_summary(const PlanDiff& diff) {
  if (!diff.no_moving.empty()) return "Moves: " + diff.no_moving + "\n";
  const PlanRecord::Moving& moving = diff.moving;
  if (moving.devices.empty()) return "Nothing moves.\n";
  std::string text = "Moves: " + format_bytes(Bytes(moving.bytes));
  if (moving.seconds) text += fmt::format(", in {}", format_seconds(Seconds(*moving.seconds)));
  if (moving.checkpoint_bytes > 0)
    text += fmt::format("; from a checkpoint {}, which no device holds any more{}",
                        format_bytes(Bytes(moving.checkpoint_bytes)),
                        moving.seconds ? " (its time is not counted)" : "");
  return text + "\n" + moving_text(moving);
}

std::string diff_text(const PlanOptions& options, const PlanDiff& diff) {
  const auto& [first, second] = *options.diff;
  if (diff.is_same()) return fmt::format("{} and {} are the same plan\n", first, second);
  Rows rows = {{"decision", first, second}};
  for (const auto& [name, before, after] : diff.decisions) rows.push_back({name, before, after});
  std::string devices;
  if (!diff.leave.empty()) devices += "Leave: " + listed(diff.leave) + "\n";
  if (!diff.enter.empty()) devices += "Enter: " + listed(diff.enter) + "\n";
  return joined_blocks(
      {rows.size() > 1 ? table(rows) : "", devices, changes_text(diff), moving_summary(diff)});
}

}  // namespace

int run_plan_diff(const PlanOptions& options) {
  const auto& [first_file, second_file] = options.diff.value();
  std::optional<Topology> topology;
  if (!options.topology.empty()) topology = read_topology(options.topology);
  const RunningPlan first = read_running_plan(first_file, default_job());
  const RunningPlan second = read_running_plan(second_file, default_job());
  if (options.output)
    check_outputs(std::array{options.topology, first_file, second_file}, std::array{*options.output});
  const PlanDiff diff = diff_of(first, second, topology);
  put_out(options.output, options.format, diff_json(options, diff), diff_text(options, diff));
  return exit_code::done;
}

}  // namespace dtfm
