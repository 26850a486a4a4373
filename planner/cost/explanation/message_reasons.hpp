// What limits the messages between the stages of a plan, and what hides or exposes them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// A rate on the path of a message.
struct RateLimit {
  enum class Kind : unsigned char {
    link,     // bandwidth of a single flow
    window,   // TCP window ÷ round trip, of a single flow
    sender,   // `shared_by_sender`: all flows of a sender over one link entry
    devices,  // uplink or downlink of a device
    hosts,    // of a host
    sites,    // of a site
    site_pair
  };
  Kind kind = Kind::link;
  bool is_up = true;       // uplink or downlink, for devices, hosts and sites
  int from = -1, to = -1;  // devices of a message that crosses it
  double bits_per_s = 0;   // that payload can use
  double busy_s = 0;       // per iteration, by the messages between stages of all pipelines
  bool is_of_flow() const { return kind == Kind::link || kind == Kind::window; }
};

/// The finite limits of messages from device `from` to device `to` ≠ `from`, the lowest first. Without
/// `busy_s`.
std::vector<RateLimit> rate_limits(const Topology& topology, const Calibration& constants, int from, int to);

/// Messages from stage `stage` to the next one, and of the gradients back, in a pipeline.
struct MessageReason {
  enum class Exposure : unsigned char {
    hidden,      // it delays at most the first and last micro-batch between two flushes
    busy_link,   // a link is busy for longer than any stage computes, so that no schedule hides it
    round_trip,  // 1F1B: a stage waits for the gradients of a micro-batch before it sends further ones
    blocking,    // devices wait while they send
    order        // the order of another schedule
  };
  int pipeline = -1, stage = -1;
  double trip_s = 0;     // of a micro-batch: there and back, under contention
  double latency_s = 0;  // part of `trip_s`
  double exposed_s = 0;  // that the pipeline would be shorter if these messages arrived at once
  Exposure exposure = Exposure::hidden;
  int warm_up = 0;  // micro-batches that the stage computes ahead of the next one, under (eager) 1F1B
  /// The slower direction: what limits a message alone, and the capacity on its path that is busy for longest
  /// and carries other messages, too; empty if there is none, or if it is busy for less time than the flow.
  RateLimit flow;
  std::optional<RateLimit> shared;
};

/// The same plan under eager-1f1b with the warm-ups that hide most.
struct LongerWarmUp {
  double saved_s = 0;    // if all devices had enough memory
  double fitting_s = 0;  // saved with the memory that they have
  int stage = -1;        // of pipeline `pipeline`, whose memory would be exceeded most; −1: it fits
  int pipeline = -1;
  int micro_batches = 0;  // more than now that this stage would hold
  double deficit_bytes = 0;
};

struct MessageReasons {
  std::vector<MessageReason> hops;             // of the slowest pipeline, in its order
  std::optional<LongerWarmUp> longer_warm_up;  // under 1F1B and eager-1F1B, if it saves time
};

MessageReasons message_reasons(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
