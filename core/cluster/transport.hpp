// What messages between hosts take beyond latency and bandwidth, because of TCP and of the library that sends
// them. Sources: docs/how-it-works.md.
#pragma once

#include <array>
#include <string_view>

#include "core/base/units.hpp"

namespace dtfm {

struct Transport {
  std::string_view library;
  /// Additional one-way latencies before a message is sent: for a request and its answer, which Open MPI
  /// omits for messages up to 64 KiB (`btl_tcp_eager_limit`), or for the notification that the receiver is
  /// ready.
  int handshakes = 0;
  /// Congestion window of a connection that was idle: 10 segments (RFC 6928) of 1,448 bytes of payload. It
  /// doubles every round trip.
  Bytes initial_window{14480};
  /// Maximum number of bytes in flight per connection. 2.8 MB were measured with Linux's defaults: at most 4
  /// MiB of `tcp_wmem`, 6 MiB of `tcp_rmem`.
  Bytes window{2.8e6};
  /// A send that fits in the window completes as soon as it begins, because the kernel buffers it; a longer
  /// one completes when it has arrived. This matters where a device waits for its sends before it computes.
  bool buffers_sends = false;
  /// Its reduce-scatter sends as many bytes as an all-reduce (ProcessGroupGloo, measured). Our runtime has
  /// reduce-scatters of its own.
  bool all_reduces_shards = false;

  friend bool operator==(const Transport&, const Transport&) = default;
};

/// The libraries that a topology can name: TCP alone, Open MPI and Gloo.
inline constexpr std::array transports = {
    Transport{"tcp", 0}, Transport{"mpi", 2},
    Transport{.library = "gloo", .handshakes = 1, .buffers_sends = true, .all_reduces_shards = true}};

}  // namespace dtfm
