// Student's t distribution.
#pragma once

namespace dtfm::sim {

/// The chance that |t| with `degrees` > 0 of freedom (any number) is larger than `t` ≥ 0: the regularised
/// incomplete beta function I(ν / (ν + t²); ν/2, 1/2) (DLMF 8.17), within 1e-12.
double student_two_sided_p(double t, double degrees);

/// The t beyond which, both ways, lie `tails` of the distribution, in (0, 1): 2.2281 for 0.05 and 10.
double student_critical_value(double tail_probability, double degrees);

}  // namespace dtfm::sim
