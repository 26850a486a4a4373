// The plans of a Pareto search that no other plan dominates by simulated times.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/api/plan_answer.hpp"

namespace dtfm::api {

struct ParetoPoint {
  struct Cost {
    double iteration_s = 0;
    std::optional<double> usd;  // per iteration; empty if a price is unknown
  };
  std::size_t candidate = 0;  // index into the candidates of the search, and into their results
  Cost estimated;
  std::optional<Cost> simulated;
  int devices = 0;
};

/// The undominated candidates, sorted by time, then price, then devices. Without simulated results, the front
/// is based on estimates. Plans that exceed memory or complete no iteration are left out.
std::vector<ParetoPoint> pareto_points(const ParetoFront& front);

}  // namespace dtfm::api
