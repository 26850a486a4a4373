#include "planner/search/iteration_time/pareto_front.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {
namespace {

bool is_as_good(const PlanObjectives& a, const PlanObjectives& b) {
  return a.iteration_s <= b.iteration_s && a.usd <= b.usd && a.devices <= b.devices;
}

auto by_time(const PlanObjectives& it) {
  return std::tuple(it.iteration_s, it.usd, it.devices);
}
auto by_price(const PlanObjectives& it) {
  return std::tuple(it.usd, it.iteration_s, it.devices);
}
auto by_devices(const PlanObjectives& it) {
  return std::tuple(it.devices, it.iteration_s, it.usd);
}

/// The largest ratio of any objective of two plans, as a logarithm.
double distance(const PlanObjectives& a, const PlanObjectives& b) {
  const auto apart = [](double x, double y) { return x == y ? 0 : std::abs(std::log(x / y)); };
  return std::max({apart(a.iteration_s, b.iteration_s), apart(a.usd, b.usd), apart(a.devices, b.devices)});
}

}  // namespace

bool dominates(const PlanObjectives& a, const PlanObjectives& b) {
  return is_as_good(a, b) && a != b;
}

std::vector<std::size_t> undominated(const std::vector<PlanObjectives>& measures) {
  std::vector<std::size_t> order(measures.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return by_time(measures[a]) < by_time(measures[b]); });
  std::vector<std::size_t> front;  // every plan comes after those that dominate it
  for (const std::size_t i : order)
    if (std::none_of(front.begin(), front.end(),
                     [&](std::size_t other) { return is_as_good(measures[other], measures[i]); }))
      front.push_back(i);
  return front;
}

PlanObjectives plan_objectives(const PlanCandidate& candidate, const Plan& plan) {
  const auto usd = usd_of(candidate.job->problem.topology, plan, candidate.iteration_s, candidate.egress_usd);
  return {candidate.iteration_s, usd.value_or(std::numeric_limits<double>::infinity()),
          static_cast<int>(pipeline_major(plan).size())};
}

bool ParetoFront::would_accept(const PlanObjectives& measure) const {
  return std::none_of(points_.begin(), points_.end(),
                      [&](const Point& it) { return is_as_good(it.measure, measure); });
}

void ParetoFront::offer(const PlanCandidate& candidate) {
  if (candidate.deficit_bytes > 0) return;
  const PlanObjectives measure = plan_objectives(candidate, candidate.plan);
  if (!would_accept(measure)) return;
  std::erase_if(points_, [&](const Point& it) { return dominates(measure, it.measure); });
  const auto position = std::find_if(points_.begin(), points_.end(),
                                     [&](const Point& it) { return by_time(measure) < by_time(it.measure); });
  points_.insert(position, {measure, candidate});
  if (points_.size() > limit_) drop_closest();
}

void ParetoFront::drop_closest() {
  const auto least = [&](const auto& order) {
    const auto it = std::min_element(points_.begin(), points_.end(), [&](const Point& a, const Point& b) {
      return order(a.measure) < order(b.measure);
    });
    return static_cast<std::size_t>(it - points_.begin());
  };
  const std::size_t ends[] = {least(by_time), least(by_price), least(by_devices)};
  std::size_t worst = points_.size();
  double closest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (std::find(std::begin(ends), std::end(ends), i) != std::end(ends)) continue;
    for (std::size_t k = 0; k < points_.size(); ++k) {
      if (k == i) continue;
      const double apart = distance(points_[i].measure, points_[k].measure);
      if (worst < points_.size() && apart >= closest) continue;
      closest = apart;
      worst = i;
    }
  }
  if (worst < points_.size()) points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(worst));
}

std::vector<PlanCandidate> ParetoFront::plans() const {
  std::vector<PlanCandidate> result;
  for (const Point& it : points_) result.push_back(it.candidate);
  return result;
}

}  // namespace dtfm::search
