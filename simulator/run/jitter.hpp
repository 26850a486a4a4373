// Random variation (jitter) of computation times.
#pragma once

#include "core/base/rng.hpp"

namespace dtfm::sim {

/// Generates normally distributed numbers of mean 0 and variance 1, two at a time: with u and v uniform in
/// [0, 1), √(−2 ln(1 − u)) times cos(2πv) and sin(2πv) are normal and independent (Box and Muller, A note on
/// the generation of random normal deviates, 1958).
class NormalNumbers {
 public:
  explicit NormalNumbers(const Rng& rng) : rng_(rng) {}
  double next();

 private:
  Rng rng_;
  double second_ = 0;
  bool has_second_ = false;
};

/// Generates lognormal numbers of mean 1 and standard deviation `cv` ≥ 0.
class JitterFactors {
 public:
  JitterFactors(const Rng& rng, double cv);
  double next();

 private:
  NormalNumbers normal_;
  double mu_, sigma_;
};

}  // namespace dtfm::sim
