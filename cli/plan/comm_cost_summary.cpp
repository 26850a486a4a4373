#include "cli/plan/summary.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::cli {
namespace {

constexpr double proven_gap = 1e-9;

/// Returns the number of decimals that shows ten significant digits of `largest`.
int decimals_for(double largest) {
  const int before = largest > 0 ? static_cast<int>(std::floor(std::log10(largest))) + 1 : 1;
  return std::clamp(10 - before, 0, 15);
}

class CommCostWriter {
 public:
  explicit CommCostWriter(const api::PlanAnswer& answer)
      : answer_(answer), s_(answer.comm_cost.value()), topology_(answer.problem.topology) {}

  std::string title() const {
    std::string text = fmt::format("{}, job {}\n{} × {}", format_topology_size(topology_),
                                   s_.problem.job.name, format_count(s_.placement.stages(), "stage"),
                                   format_count(s_.placement.replicas(), "replica"));
    if (!answer_.search) return text + ", scored as given\n";
    return text + fmt::format(", strategy {}, seed {}, {}\n", answer_.search->strategy, answer_.search->seed,
                              io::format_search_end(answer_));
  }

  std::string costs() const {
    const auto& cost = s_.cost;
    const int decimals = decimals_for(cost.total());
    const auto row = [&](std::string_view name, double value, const std::string& note) {
      const std::string number = fmt::format("{:.{}f}", value, decimals);
      return fmt::format("  {:<20}{:>18} s{}{}\n", name, number, note.empty() ? "" : "  ", note);
    };
    std::string text = styled(Style::heading, "Communication cost of an iteration") + "\n";
    text += row("data parallel", cost.data_parallel,
                size_note(s_.problem.volumes.gradient, "gradients per stage"));
    text += row("pipeline parallel", cost.pipeline_parallel,
                size_note(s_.problem.volumes.activation, "activations a hop"));
    text += row("total", cost.total(), "");
    if (answer_.lower_bound) text += row("lower bound", answer_.lower_bound->value, bound_note());
    if (s_.best_deployment)
      text += row("at best", s_.best_deployment->total(), "the same groups, ordered and matched best");
    return text;
  }

  std::string groups() const {
    Rows rows = {{"stage", "layers", "sync s", "devices"}};
    for (int stage = 0; stage < s_.placement.stages() && rows.size() <= max_rows; ++stage) {
      const auto group = s_.placement.group(stage);
      rows.push_back({fmt::format("{}", stage), layers(stage),
                      short_seconds(s_.steps.syncs[at(stage)].seconds),
                      site_composition(topology_, {group.begin(), group.end()})});
    }
    return truncated_table(rows, at(s_.placement.stages()), "stages");
  }

  std::string hops() const {
    if (s_.steps.hops.empty()) return "";
    Rows rows = {{"hop", "cost s", "slowest link", "latency", "bandwidth"}};
    for (std::size_t stage = 0; stage < s_.steps.hops.size() && rows.size() <= max_rows; ++stage) {
      const auto& [seconds, pipeline, ends] = s_.steps.hops[stage];
      const Link link = topology_.link(ends.first, ends.second);
      rows.push_back({fmt::format("{} → {}", stage, stage + 1), short_seconds(seconds), pair(ends),
                      io::format_seconds(link.latency), io::format_rate(link.bandwidth)});
    }
    return truncated_table(rows, s_.steps.hops.size(), "hops");
  }

  /// The slowest gradient synchronization and the slowest hop, which determine the two parts of the cost.
  std::string slowest() const { return slowest_gradient_sync() + slowest_hop(); }

 private:
  const std::string& id(int device) const { return topology_.devices[at(device)].id; }
  std::string pair(const std::pair<int, int>& link) const { return id(link.first) + " → " + id(link.second); }

  static std::string size_note(Bytes size, std::string_view what) {
    return io::format_bytes(size) + " of " + std::string(what);
  }

  std::string bound_note() const {
    const double gap = answer_.lower_bound->gap();
    if (gap <= proven_gap) return styled(Style::good, "proven optimal");
    return fmt::format("gap {:.2f} % ({})", 100 * gap, answer_.lower_bound->method);
  }

  std::string layers(int stage) const {
    return format_layers(
        layers_by_stage(answer_.plan.pipelines.front(), stage_chunks(s_.problem.job))[at(stage)]);
  }

  std::string format_link(const std::pair<int, int>& ends) const {
    const Link link = topology_.link(ends.first, ends.second);
    return fmt::format("{} ({}, {})", pair(ends), io::format_seconds(link.latency),
                       io::format_rate(link.bandwidth));
  }

  /// The number of the slowest step; the first of equal ones.
  template <class Step>
  static std::size_t slowest_of(const std::vector<Step>& steps) {
    const auto by_seconds = [](const Step& a, const Step& b) { return a.seconds < b.seconds; };
    return static_cast<std::size_t>(std::max_element(steps.begin(), steps.end(), by_seconds) - steps.begin());
  }

  std::string slowest_gradient_sync() const {
    if (s_.placement.replicas() < 2) return "";
    const std::size_t stage = slowest_of(s_.steps.syncs);
    const auto& [seconds, device, link] = s_.steps.syncs[stage];
    return fmt::format(
        "Slowest gradient synchronization: stage {}, {} is last after {} s; its slowest link is {}\n", stage,
        id(device), short_seconds(seconds), format_link(link));
  }

  std::string slowest_hop() const {
    if (s_.steps.hops.empty()) return "";
    const std::size_t stage = slowest_of(s_.steps.hops);
    const auto& [seconds, pipeline, link] = s_.steps.hops[stage];
    return fmt::format("Slowest hop: stage {} → {} in pipeline {}, {} s over {}\n", stage, stage + 1,
                       pipeline, short_seconds(seconds), format_link(link));
  }

  const api::PlanAnswer& answer_;
  const api::CommCostAnswer& s_;
  const Topology& topology_;
};

}  // namespace

std::string format_comm_cost_summary(const api::PlanAnswer& answer) {
  const CommCostWriter writer(answer);
  return join_blocks({writer.title() + format_remarks("warning", io::notes_of(answer)), writer.costs(),
                      writer.groups(), writer.hops(), format_pipelines(answer.problem.topology, answer.plan),
                      writer.slowest()});
}

}  // namespace dtfm::cli
