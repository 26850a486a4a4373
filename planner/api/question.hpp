// Questions about clusters that --objective asks instead of what a plan minimizes. Their answers need many
// searches, so they are no weights of the iteration time, as objectives are.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace dtfm::api {

enum class QuestionKind : unsigned char {
  smallest_cluster,  // the cheapest devices (by number, if a price is unknown) that are enough
  least_bandwidth    // the least bandwidth between two sites that is enough
};

struct QuestionTraits {
  QuestionKind kind;
  std::string_view name;
};
inline constexpr std::array question_table = {
    QuestionTraits{QuestionKind::smallest_cluster, "smallest-cluster"},
    QuestionTraits{QuestionKind::least_bandwidth, "least-bandwidth"}};

/// Without a maximum time, a bandwidth is enough for this share of the throughput with a link that is never
/// the bottleneck: the communication that is_compute_bound ignores.
inline constexpr double default_min_throughput = 0.95;

struct PlanQuestion {
  QuestionKind kind = QuestionKind::smallest_cluster;
  /// Seconds of an iteration that are enough. Empty: fitting in memory (smallest cluster), or
  /// `min_throughput` (least bandwidth).
  std::optional<double> max_iteration_s = {};
  double min_throughput = default_min_throughput;
  std::optional<std::pair<int, int>> sites = {};  // ends of the link; empty: those that the plan uses most
};

}  // namespace dtfm::api
