// How often tests repeat what differs only in random numbers or in the time of an event.
#pragma once

namespace dtfm {

/// Returns `count`, or a fifth of it under AddressSanitizer: it slows the code down ten times, and a memory
/// error shows without every repetition. Other builds run all.
constexpr int repetitions(int count) {
#if DTFM_ADDRESS_SANITIZER
  return (count + 4) / 5;
#else
  return count;
#endif
}

}  // namespace dtfm
