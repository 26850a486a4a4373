// Student's t distribution.
#pragma once

namespace dtfm::sim {

/// The probability that |T| exceeds `t` ≥ 0, where T has `degrees` > 0 degrees of freedom, not necessarily
/// whole: the regularised incomplete beta function I(ν / (ν + t²); ν/2, 1/2) (DLMF 8.17), within 1e-12.
double student_two_sided_p(double t, double degrees);

/// The t for which P(|T| > t) is `tail_probability`, in (0, 1): 2.2281 for 0.05 and 10 degrees of freedom.
double student_critical_value(double tail_probability, double degrees);

}  // namespace dtfm::sim
