#include "simulator/run/jitter.hpp"

#include <cmath>
#include <numbers>

namespace dtfm::sim {

double NormalNumbers::next() {
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  const double radius = std::sqrt(-2 * std::log1p(-rng_.uniform()));
  const double angle = 2 * std::numbers::pi * rng_.uniform();
  second_ = radius * std::sin(angle);
  has_second_ = true;
  return radius * std::cos(angle);
}

/// If Z is standard normal, exp(μ + σZ) has the mean exp(μ + σ²/2) and the variance (exp(σ²) − 1) · mean².
/// Mean 1 and standard deviation cv therefore need σ² = ln(1 + cv²) and μ = −σ²/2.
JitterFactors::JitterFactors(const Rng& rng, double cv)
    : normal_(rng), mu_(-std::log1p(cv * cv) / 2), sigma_(std::sqrt(std::log1p(cv * cv))) {}

double JitterFactors::next() {
  return std::exp(mu_ + sigma_ * normal_.next());
}

}  // namespace dtfm::sim
