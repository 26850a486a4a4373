#include "planner/api/pareto.hpp"

#include <cmath>
#include <limits>

#include "planner/search/iteration_time/pareto_front.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::api {
namespace {

ParetoPoint::Cost cost_of(const search::PlanCandidate& candidate, double iteration_s) {
  return {iteration_s,
          search::usd_of(candidate.job->problem.topology, candidate.plan, iteration_s, candidate.egress_usd)};
}

int device_count(const search::PlanCandidate& candidate) {
  return static_cast<int>(pipeline_major(candidate.plan).size());
}

}  // namespace

std::vector<ParetoPoint> pareto_points(const ParetoFront& front) {
  const auto& [search, results] = front;
  std::vector<ParetoPoint> known;
  std::vector<search::PlanObjectives> objectives;
  for (std::size_t i = 0; i < search.candidates.size(); ++i) {
    const search::PlanCandidate& it = search.candidates[i];
    const double seconds = results.empty() ? it.iteration_s : results[i].seconds;
    if (it.deficit_bytes > 0 || !std::isfinite(seconds)) continue;
    ParetoPoint point{i, cost_of(it, it.iteration_s), {}, device_count(it)};
    if (!results.empty()) point.simulated = cost_of(it, seconds);
    const ParetoPoint::Cost& cost = point.simulated ? *point.simulated : point.estimated;
    objectives.push_back(
        {cost.iteration_s, cost.usd.value_or(std::numeric_limits<double>::infinity()), point.devices});
    known.push_back(point);
  }
  std::vector<ParetoPoint> points;
  for (const std::size_t i : search::undominated(objectives)) points.push_back(known[i]);
  return points;
}

}  // namespace dtfm::api
