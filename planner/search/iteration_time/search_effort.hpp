// How much a search by iteration time does if nothing else limits it.
#pragma once

#include <cstddef>

namespace dtfm::search {

/// Few devices, whose estimates are fast, get more evolution and less annealing, which finds better plans in
/// the same time.
struct SearchEffort {
  std::size_t chains = 0;  // of the first round of annealing
  double moves = 0;        // of all annealing
  double children = 0;     // of the evolution, if all of its epochs find better plans
};

/// `devices` is the number of devices of the topology.
SearchEffort default_effort(int devices);

/// How many evaluations a search does until a plan fits in memory, if nothing else limits it: fewer with many
/// devices, whose estimates are slow.
long long max_unfit_evaluations(int devices);

}  // namespace dtfm::search
