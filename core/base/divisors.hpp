// Divisors of numbers of micro-batches and sequences, which may be large.
#pragma once

#include <algorithm>

#include "core/base/error.hpp"

namespace dtfm {

/// The largest divisor of `number` that is at most `most`. Takes no more steps than twice the square root of
/// `number`: it tries quotients first, and then the divisors below that root.
inline int largest_divisor(int number, int most) {
  DTFM_ASSERT(number > 0 && most > 0);
  if (most >= number) return number;
  int quotient = number / most;
  for (; quotient <= number / quotient; ++quotient)
    if (number % quotient == 0 && number / quotient <= most) return number / quotient;
  int divisor = std::min(most, number / quotient);
  while (number % divisor != 0) --divisor;
  return divisor;
}

}  // namespace dtfm
