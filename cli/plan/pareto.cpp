#include "cli/plan/summary.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "planner/api/pareto.hpp"

namespace dtfm::cli {

namespace {

/// Which point the summary shows. It need not be the fastest one: the planner chooses by its objective and,
/// of near-equal plans, the least sensitive one.
std::string format_shown_point(const api::ParetoFront& front, const std::vector<api::ParetoPoint>& points,
                               const Plan& summarized) {
  const auto point = std::find_if(points.begin(), points.end(), [&](const api::ParetoPoint& it) {
    return front.search.candidates[it.candidate].plan == summarized;
  });
  if (point == points.end()) return "The summary above shows a plan that is not in the front.\n";
  const auto index = point - points.begin();
  return fmt::format(
      "The summary above shows points[{}]{}.\n", index,
      index == 0 ? ", the fastest" : ", chosen by objective and sensitivity; the fastest is points[0]");
}

}  // namespace

std::string format_pareto_front(const api::ParetoFront& front, const Plan& summarized,
                                const std::string& file) {
  constexpr std::size_t max_shown = 8;
  const std::vector<api::ParetoPoint> points = api::pareto_points(front);
  const std::size_t count = points.size(), shown = std::min(max_shown, count);
  if (count == 0) return "";
  Rows rows = {{"iteration s", "USD", "devices", "stages × replicas", "recompute, schedule, gradient sync"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const api::ParetoPoint& costs = points[shown < 2 ? 0 : i * (count - 1) / (shown - 1)];
    const api::ParetoPoint::Cost& cost = costs.simulated ? *costs.simulated : costs.estimated;
    const Plan& plan = front.search.candidates[costs.candidate].plan;
    rows.push_back(
        {short_seconds(cost.iteration_s), cost.usd ? fmt::format("{:.4g}", *cost.usd) : "?",
         fmt::format("{}", costs.devices), format_shape(plan),
         fmt::format("{}, {}, {}{}", name_of(plan.execution.recomputation), name_of(plan.execution.schedule),
                     name_of(plan.execution.gradient_sync), format_sharding(plan.execution))});
  }
  return fmt::format(
      "{}\n{}{}",
      styled(Style::heading, fmt::format("Pareto front of time, cost and devices: {} in {}",
                                         format_count(static_cast<long long>(count), "plan"), file)),
      table(rows), format_shown_point(front, points, summarized));
}

}  // namespace dtfm::cli
