// All-reduces that MPI and Gloo took over an emulated wide-area network (tests/network/README.md).
#pragma once

#include <string>
#include <vector>

#include "core/collectives/collective.hpp"

namespace dtfm {

struct MeasuredAllReduce {
  std::string library;  // mpi, gloo
  GradientSync algorithm = GradientSync::ring;
  int ranks = 0;
  double latency_s = 0, bytes_per_s = 0, bytes = 0;  // one way; of payload, of each pair; of a rank
  double seconds = 0;                                // mean of the repetitions
};

/// The rings, trees and sharded all-reduces of `file` with Linux's and Open MPI's default settings, in
/// networks that queue all packets of a round trip, and without repetitions that differ by more than 10 %.
std::vector<MeasuredAllReduce> read_measured_all_reduces(const std::string& file);

/// Seconds in the simulator, with the transport of the library or without any.
double simulated_seconds(const MeasuredAllReduce& run, bool with_transport);

}  // namespace dtfm
