// Rate and slow start of TCP connections.
#pragma once

#include <algorithm>

namespace dtfm::sim {

/// One direction of the path of a connection.
struct TcpPath {
  double bytes_per_s = 0, latency_s = 0, round_trip_s = 0;
};

/// The rate that a connection reaches with at most `window` bytes in flight. If both ends send,
/// acknowledgements wait behind the data of the other end for up to a latency (Zhang, Shenker and Clark,
/// SIGCOMM 1991), and slow start has ended at one bandwidth-delay product in flight (the acknowledgement
/// train of HyStart in Linux's CUBIC). Measured for messages of 0.4 MB: 62 to 64 % of the line rate, where
/// this gives two thirds (tests/network/README.md). Later growth of the window is not modelled.
inline double connection_rate(const TcpPath& path, double window, bool both_ends_send) {
  if (path.round_trip_s == 0) return path.bytes_per_s;
  if (!both_ends_send) return std::min(path.bytes_per_s, window / path.round_trip_s);
  const double in_flight = std::min(window, path.bytes_per_s * path.round_trip_s),
               waiting_s = std::clamp(in_flight / path.bytes_per_s - path.latency_s, 0.0, path.latency_s);
  return std::min(path.bytes_per_s, in_flight / (path.round_trip_s + waiting_s));
}

/// The congestion window of a connection: it starts small and doubles in each round trip until the path is
/// full (RFC 5681, section 3.1). Until then the sender waits in each round trip. It halves for each
/// retransmission timeout in which nothing is sent, down to its initial size (Linux, tcp_cwnd_restart).
class SlowStart {
 public:
  SlowStart(double initial_window_bytes, double round_trip_s)
      : initial_window_(initial_window_bytes), window_(initial_window_bytes), round_trip_s_(round_trip_s) {}

  /// How much longer a message that is sent at `date` (s) takes than at full rate. The next message starts
  /// with the enlarged window.
  double stall_s(double bytes, double bytes_per_s, double date) {
    const double timeout_s = round_trip_s_ + min_timeout_s + queue_s_, path = bytes_per_s * round_trip_s_;
    for (double idle_s = date - last_use_; idle_s > timeout_s && window_ > initial_window_;
         idle_s -= timeout_s)
      window_ = std::max(window_ / 2, initial_window_);
    double seconds = 0, rest = bytes;
    while (window_ < path && rest > window_) {
      seconds += round_trip_s_ - window_ / bytes_per_s;
      rest -= window_;
      window_ *= 2;
    }
    if (bytes == 0) return 0;
    // What is left leaves in one burst, whose end waits in the queue of the link. Acknowledgements of it
    // enlarge the window, to at most twice what was in flight (Linux, tcp_is_cwnd_limited).
    const double burst = std::min(rest, path);
    queue_s_ = burst / bytes_per_s;
    window_ = std::max(window_, std::min(window_ + burst, 2 * burst));
    return seconds;
  }
  /// Its last byte was sent at `date`.
  void use(double date) { last_use_ = date; }
  /// Shifts the time of the last use.
  void shift(double seconds) { last_use_ += seconds; }

 private:
  /// Linux's retransmission timeout is this plus the round-trip time that it has measured last, which
  /// includes queues (RFC 6298, with TCP_RTO_MIN).
  static constexpr double min_timeout_s = 0.2;
  double initial_window_, window_, round_trip_s_, queue_s_ = 0, last_use_ = 0;
};

}  // namespace dtfm::sim
