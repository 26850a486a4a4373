#include "cli/plan/comm_cost_summary.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "cli/plan/iteration_summary.hpp"
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
                              format_search_end(answer_));
  }

  std::string costs() const {
    const cost::CommCost& cost = s_.cost;
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
    for (int stage = 0; stage < s_.placement.stages() && rows.size() <= max_rows; ++stage)
      rows.push_back({fmt::format("{}", stage), layers(stage),
                      short_seconds(cost::sync_cost(s_.problem.model, s_.placement.group(stage))),
                      site_composition(
                          topology_, {s_.placement.group(stage).begin(), s_.placement.group(stage).end()})});
    return truncated_table(rows, static_cast<std::size_t>(s_.placement.stages()), "stages");
  }

  std::string hops() const {
    if (s_.placement.stages() < 2) return "";
    Rows rows = {{"hop", "cost s", "slowest link", "latency", "bandwidth"}};
    for (int stage = 0; stage + 1 < s_.placement.stages() && rows.size() <= max_rows; ++stage) {
      const int replica = slowest_replica(stage);
      const auto [from, to] =
          slower_direction(s_.placement.at(stage, replica), s_.placement.at(stage + 1, replica),
                           s_.problem.volumes.activation);
      const Link link = topology_.link(from, to);
      rows.push_back({fmt::format("{} → {}", stage, stage + 1), short_seconds(hop_cost(stage, replica)),
                      pair(from, to), io::format_seconds(link.latency), io::format_rate(link.bandwidth)});
    }
    return truncated_table(rows, static_cast<std::size_t>(s_.placement.stages()) - 1, "hops");
  }

  /// The slowest gradient synchronization and the slowest hop, which determine the two parts of the cost.
  std::string slowest() const { return slowest_gradient_sync() + slowest_hop(); }

 private:
  const std::string& id(int device) const { return topology_.devices[static_cast<std::size_t>(device)].id; }
  std::string pair(int from, int to) const { return id(from) + " → " + id(to); }

  static std::string size_note(Bytes size, std::string_view what) {
    return io::format_bytes(size) + " of " + std::string(what);
  }

  std::string bound_note() const {
    const double gap = answer_.lower_bound->gap();
    if (gap <= proven_gap) return styled(Style::good, "proven optimal");
    return fmt::format("gap {:.2f} % ({})", 100 * gap, answer_.lower_bound->method);
  }

  std::string layers(int stage) const {
    return format_layers(layers_by_stage(answer_.plan.pipelines.front(),
                                         stage_chunks(s_.problem.job))[static_cast<std::size_t>(stage)]);
  }

  double hop_cost(int stage, int replica) const {
    return s_.problem.model.hop(s_.placement.at(stage, replica), s_.placement.at(stage + 1, replica));
  }

  int slowest_replica(int stage) const {
    int slowest = 0;
    for (int replica = 1; replica < s_.placement.replicas(); ++replica)
      if (hop_cost(stage, replica) > hop_cost(stage, slowest)) slowest = replica;
    return slowest;
  }

  /// Returns the two devices in the direction of the slower of the two links between them.
  std::pair<int, int> slower_direction(int a, int b, Bytes size) const {
    const auto time = [&](int from, int to) {
      const Link link = topology_.link(from, to);
      return link.latency + size / link.bandwidth;
    };
    return time(b, a) > time(a, b) ? std::pair(b, a) : std::pair(a, b);
  }

  std::string format_link(int from, int to) const {
    const Link link = topology_.link(from, to);
    return fmt::format("{} ({}, {})", pair(from, to), io::format_seconds(link.latency),
                       io::format_rate(link.bandwidth));
  }

  double sync_seconds(std::span<const int> members, int device) const {
    double sum = 0;
    for (const int other : members)
      if (other != device) sum += s_.problem.model.sync(device, other);
    return sum;
  }

  std::string slowest_gradient_sync() const {
    if (s_.placement.replicas() < 2) return "";
    int stage = 0;
    for (int other = 1; other < s_.placement.stages(); ++other)
      if (cost::sync_cost(s_.problem.model, s_.placement.group(other)) >
          cost::sync_cost(s_.problem.model, s_.placement.group(stage)))
        stage = other;
    const auto members = s_.placement.group(stage);
    const int last = *std::max_element(members.begin(), members.end(), [&](int a, int b) {
      return sync_seconds(members, a) < sync_seconds(members, b);
    });
    const int peer = *std::max_element(members.begin(), members.end(), [&](int a, int b) {
      return (a == last ? -1 : s_.problem.model.sync(last, a)) <
             (b == last ? -1 : s_.problem.model.sync(last, b));
    });
    const auto [from, to] =
        slower_direction(last, peer, s_.problem.volumes.gradient / s_.placement.replicas());
    return fmt::format(
        "Slowest gradient synchronization: stage {}, {} is last after {} s; its slowest link is {}\n", stage,
        id(last), short_seconds(sync_seconds(members, last)), format_link(from, to));
  }

  std::string slowest_hop() const {
    if (s_.placement.stages() < 2) return "";
    int stage = 0;
    for (int other = 1; other + 1 < s_.placement.stages(); ++other)
      if (hop_cost(other, slowest_replica(other)) > hop_cost(stage, slowest_replica(stage))) stage = other;
    const int replica = slowest_replica(stage);
    const auto [from, to] = slower_direction(
        s_.placement.at(stage, replica), s_.placement.at(stage + 1, replica), s_.problem.volumes.activation);
    return fmt::format("Slowest hop: stage {} → {} in pipeline {}, {} s over {}\n", stage, stage + 1, replica,
                       short_seconds(hop_cost(stage, replica)), format_link(from, to));
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
