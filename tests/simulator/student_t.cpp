#include "simulator/calibration/student_t.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

// Two-sided critical values of t from textbook tables.
TEST_CASE("critical values are those of the tables") {
  struct Row {
    double tail_probability, degrees, t;
  };
  for (const Row& row : {Row{0.05, 1, 12.7062}, Row{0.05, 2, 4.30265}, Row{0.05, 5, 2.57058},
                         Row{0.05, 10, 2.22814}, Row{0.05, 30, 2.04227}, Row{0.1, 10, 1.81246},
                         Row{0.01, 4, 4.60409}, Row{0.001, 20, 3.84952}, Row{0.05, 1e6, 1.95997}}) {
    CAPTURE(row.tail_probability, row.degrees);
    CHECK(student_critical_value(row.tail_probability, row.degrees) == Approx(row.t).epsilon(1e-5));
  }
}

// With one degree of freedom (Cauchy): 1 − 2/π · arctan t. With two: 1 − t / √(2 + t²).
TEST_CASE("tail probabilities are those of the closed formulas") {
  for (const double t : {0.0, 0.1, 1.0, 3.0, 50.0, 1e5}) {
    CAPTURE(t);
    CHECK(student_two_sided_p(t, 1) == Approx(1 - 2 / std::acos(-1.0) * std::atan(t)).margin(1e-10));
    CHECK(student_two_sided_p(t, 2) == Approx(1 - t / std::sqrt(2 + t * t)).margin(1e-10));
  }
}

TEST_CASE("critical values invert tail probabilities even for fractional degrees of freedom") {
  for (const double degrees : {1.2, 2.5, 7.3, 41.9, 999.5})
    for (const double tail_probability : {0.9, 0.5, 0.05, 1e-4, 1e-9}) {
      CAPTURE(degrees, tail_probability);
      CHECK(student_two_sided_p(student_critical_value(tail_probability, degrees), degrees) ==
            Approx(tail_probability).epsilon(1e-6));
    }
}
