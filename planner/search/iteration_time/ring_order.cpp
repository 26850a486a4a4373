#include "planner/search/iteration_time/ring_order.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <Eigen/Core>

#include "core/base/index.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"

namespace dtfm::search {
namespace {

// Up to so many pipelines a pass over all exchanges takes some milliseconds.
constexpr std::size_t max_ordered_pipelines = 128;
// Hops that occupy their senders for a, b, … seconds count like one of (a⁸ + b⁸ + …)^⅛ instead of the
// longest, so that it also pays to remove one of several long ones.
constexpr double norm = 8;
// Only the longest of several paths through the rounds determines the time. A share of the others is added,
// so that it also pays to shorten them. Chosen by hand, like the norm.
constexpr double length_guidance = 0.05;
constexpr double min_gain = 1e-9;  // as a fraction, above rounding errors

/// A guide for the order, which is then evaluated in full: it does not know that the devices of a host follow
/// one another and send together (HostChannels). For the message of one round from each pipeline to each
/// other one: the seconds for which it occupies its sender, to the power of `norm`, and the seconds until it
/// has arrived.
struct Hops {
  Eigen::MatrixXd occupancy, total_s;
};

Hops hops_of(const cost::IterationModel& model, const Plan& plan) {
  const auto n = static_cast<int>(plan.pipelines.size());
  const double replicas = n;
  Hops hops{Eigen::MatrixXd::Zero(n, n), Eigen::MatrixXd::Zero(n, n)};
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      if (from == to) continue;
      double occupancy_s = 0, latency_s = 0;
      for (const Stage& sender : plan.pipelines[at(from)].stages)
        for (const Stage& receiver : plan.pipelines[at(to)].stages) {
          const std::pair layers{std::max(sender.layers.first, receiver.layers.first),
                                 std::min(sender.layers.second, receiver.layers.second)};
          if (layers.first >= layers.second) continue;
          const double bytes =
              model.stages_of(sender.devices.size()).gradient_bytes(layers, false) / replicas;
          const cost::MessageCost message =
              model.network.message(sender.devices.front(), receiver.devices.front());
          occupancy_s = std::max(occupancy_s, message.occupancy_s(bytes));
          latency_s = std::max(latency_s, message.latency_s);
        }
      hops.occupancy(from, to) = std::pow(occupancy_s, norm);
      hops.total_s(from, to) = occupancy_s + latency_s;
    }
  return hops;
}

}  // namespace

Plan order_ring(const cost::IterationModel& model, Plan plan) {
  const std::size_t n = plan.pipelines.size();
  if (n < 3) return plan;
  const Hops hops = hops_of(model, plan);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto pipeline = [&](std::size_t place) { return order[place % n]; };
  // In 2 (n − 1) rounds, data go around the ring twice, or once while they wait at the slowest hop in the
  // other rounds, or wait there in all of them.
  const auto members = static_cast<double>(n), rounds = 2 * (members - 1);
  const auto seconds = [&](double occupancy, double total_s) {
    const double slowest_s = std::pow(std::max(0.0, occupancy), 1 / norm);
    const double around_s = 2 * total_s, waiting_s = rounds * slowest_s;
    return std::max({around_s, total_s + (rounds - members) * slowest_s, waiting_s}) +
           length_guidance * (around_s + waiting_s);
  };
  const auto sum = [&](const Eigen::MatrixXd& of) {
    double all = 0;
    for (std::size_t i = 0; i < n; ++i) all += of(pipeline(i), pipeline(i + 1));
    return all;
  };
  double occupancy = sum(hops.occupancy), total_s = sum(hops.total_s);
  // Exchanges the pipelines at places [a, b) with those at [b, c), which changes three hops. The first one
  // can stay where it is, because the ring is closed.
  for (bool has_improved = true; has_improved;) {
    has_improved = false;
    for (std::size_t a = 1; a + 1 < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        for (std::size_t c = b + 1; c <= n; ++c) {
          const auto change = [&](const Eigen::MatrixXd& of) {
            return of(pipeline(a - 1), pipeline(b)) + of(pipeline(c - 1), pipeline(a)) +
                   of(pipeline(b - 1), pipeline(c)) - of(pipeline(a - 1), pipeline(a)) -
                   of(pipeline(b - 1), pipeline(b)) - of(pipeline(c - 1), pipeline(c));
          };
          const double more_occupancy = change(hops.occupancy), more_total_s = change(hops.total_s);
          if (more_occupancy >= 0 && more_total_s >= 0) continue;
          const double limit_s = (1 - min_gain) * seconds(occupancy, total_s);
          if (!(seconds(occupancy + more_occupancy, total_s + more_total_s) < limit_s)) continue;
          // Differences of such powers are not exact, so that the sums decide.
          const std::vector<int> before = order;
          const auto begin = order.begin();
          std::rotate(begin + static_cast<long>(a), begin + static_cast<long>(b),
                      begin + static_cast<long>(c));
          const double new_occupancy = sum(hops.occupancy), new_total_s = sum(hops.total_s);
          if (!(seconds(new_occupancy, new_total_s) < limit_s)) {
            order = before;
            continue;
          }
          occupancy = new_occupancy;
          total_s = new_total_s;
          has_improved = true;
        }
  }
  std::vector<Pipeline> ordered;
  for (const int i : order) ordered.push_back(std::move(plan.pipelines[at(i)]));
  plan.pipelines = std::move(ordered);
  return plan;
}

PlanCandidate order_pipelines(const PlanCandidate& candidate, const PlanScore& score) {
  const bool is_ring = traits(candidate.plan.execution.gradient_sync).roles == MemberRoles::ring;
  if (!is_ring || candidate.plan.pipelines.size() > max_ordered_pipelines) return candidate;
  return evaluate_plan(candidate.job, order_ring(candidate.job->model, candidate.plan), score);
}

}  // namespace dtfm::search
