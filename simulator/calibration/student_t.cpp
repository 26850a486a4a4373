#include "simulator/calibration/student_t.hpp"

#include <cmath>

#include "core/base/error.hpp"

namespace dtfm::sim {
namespace {

/// The continued fraction of DLMF 8.17.22, evaluated backward; it converges fast for x < (a + 1) / (a + b +
/// 2).
double fraction(double x, double a, double b) {
  constexpr int terms = 400;
  double value = 1;
  for (int i = terms; i > 0; --i) {
    const double m = i / 2;
    const double numerator = i % 2 == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                        : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    value = 1 + numerator / value;
  }
  return 1 / value;
}

/// I(x; a, b), where `rest` is 1 − x.
double incomplete_beta(double x, double rest, double a, double b) {
  if (x <= 0) return 0;
  if (rest <= 0) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(rest, x, b, a);
  const double log_beta = std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  return std::exp(a * std::log(x) + b * std::log(rest) - log_beta) * fraction(x, a, b) / a;
}

}  // namespace

double student_two_sided_p(double t, double degrees) {
  DTFM_ASSERT(t >= 0 && degrees > 0);
  const double square = t * t;
  return incomplete_beta(degrees / (degrees + square), square / (degrees + square), degrees / 2, 0.5);
}

double student_critical_value(double tail_probability, double degrees) {
  DTFM_ASSERT(tail_probability > 0 && tail_probability < 1);
  double low = 0, high = 1;
  while (student_two_sided_p(high, degrees) > tail_probability && high < 1e100) high *= 2;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_two_sided_p(middle, degrees) > tail_probability ? low : high) = middle;
  }
  return high;
}

}  // namespace dtfm::sim
