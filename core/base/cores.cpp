#include "core/base/cores.hpp"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace dtfm {

int online_cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines with more cores than the set has bits.
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return online_cores();
  return std::max(1, CPU_COUNT(&allowed));
}

}  // namespace dtfm
