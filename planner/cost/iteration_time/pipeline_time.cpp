#include "planner/cost/iteration_time/pipeline_time.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "planner/cost/iteration_time/pipeline_unroll.hpp"

namespace dtfm::cost {
namespace {

int stages_of(const PipelineWork& work) {
  return static_cast<int>(work.forward_s.size());
}

/// Chain of resources (stages and hops) that all messages pass in order: the sum of their times so far, and
/// the largest. A link that is crossed several times is one resource: while one message is between two
/// crossings, others use the link.
class ResourceChain {
 public:
  explicit ResourceChain(int messages) : messages_(messages) {}
  void append(double resource_s) {
    sum_ += resource_s;
    max_ = std::max(max_, resource_s);
    update();
  }
  void append(const HopTime& hop) {
    const double before = sum_;
    sum_ += hop.occupancy_s + hop.latency_s;
    max_ = std::max(max_, hop.occupancy_s);
    if (hop.shared_s > hop.occupancy_s) {
      auto link = std::find_if(links_.begin(), links_.end(),
                               [&](const Link& it) { return it.number == hop.shared_link; });
      if (link == links_.end())
        link = links_.insert(link, {hop.shared_link, hop.shared_s, before, before, 0});
      link->own_s += hop.occupancy_s;
      link->left_s = before + hop.occupancy_s;
    }
    update();
  }
  double done_s() const { return done_s_; }
  double steady_s() const {
    double steady = max_;
    for (const Link& it : links_) steady = std::max(steady, it.all_s);
    return steady;
  }

 private:
  struct Link {
    int number = -1;
    double all_s = 0;                  // of all traffic that crosses it per message of this pipeline
    double reached_s = 0, left_s = 0;  // sums before its first crossing and after its last one
    double own_s = 0;                  // of all crossings of one message
  };
  void update() {
    const double others = messages_ - 1;
    done_s_ = std::max(done_s_, sum_ + others * max_);
    for (const Link& it : links_)
      done_s_ = std::max(done_s_, it.reached_s + it.own_s + others * it.all_s + sum_ - it.left_s);
  }
  int messages_;
  double sum_ = 0, max_ = 0, done_s_ = 0;
  std::vector<Link> links_;
};

PipelineTime gpipe_time(const PipelineWork& work) {
  const int stages = stages_of(work);
  PipelineTime time;
  time.backward_s.resize(at(stages));
  time.gradients_s.resize(at(stages));
  ResourceChain forward(work.micro_batches), backward(work.micro_batches);
  for (int stage = 0; stage < stages; ++stage) {
    forward.append(work.forward_s[at(stage)]);
    if (stage + 1 < stages) forward.append(work.forward_hops[at(stage)]);
  }
  const double forward_end = forward.done_s();
  for (int stage = stages - 1; stage >= 0; --stage) {
    backward.append(work.backward_s[at(stage)]);
    time.end_s = time.backward_s[at(stage)] = forward_end + backward.done_s();
    if (stage > 0) backward.append(work.backward_hops[at(stage - 1)]);
    time.gradients_s[at(stage)] = forward_end + backward.done_s();
  }
  time.steady_s = forward.steady_s() + backward.steady_s();
  return time;
}

/// Sends messages over one boundary, one after the other.
class Sender {
 public:
  /// Arrival time of a message that is ready at `ready`.
  double arrival(double ready, const HopTime& hop) {
    free_ = std::max(free_, ready) + hop.occupancy_s;
    return free_ + hop.latency_s;
  }

 private:
  double free_ = 0;
};

/// Maximum cycle mean of the graph of events, per micro-batch.
double one_f_one_b_steady_s(const PipelineWork& work) {
  const int stages = stages_of(work);
  double most = 0;
  for (int first = 0; first < stages; ++first) {
    double sum = 0;
    for (int last = first; last < stages; ++last) {
      if (last > first) {
        const HopTime &there = work.forward_hops[at(last - 1)], &back = work.backward_hops[at(last - 1)];
        sum += there.occupancy_s + there.latency_s + back.occupancy_s + back.latency_s;
        most = std::max({most, there.steady_s(), back.steady_s()});
      }
      sum += work.forward_s[at(last)] + work.backward_s[at(last)];
      most = std::max(most, sum / (last - first + 1));
    }
  }
  return most;
}

/// Evaluates every micro-batch by the definition of the schedule. In round i, stage s, which is s' = stages −
/// 1 − s stages before the last one, computes forward i and then backward i − s'. Both depend only on this
/// round and earlier ones.
PipelineTime one_f_one_b_paths(const PipelineWork& work) {
  const int stages = stages_of(work), messages = work.micro_batches;
  PipelineTime time;
  time.backward_s.assign(at(stages), 0);
  time.gradients_s.assign(at(stages), 0);
  std::vector<double> free(at(stages)), forward_arrived(at(stages));
  std::vector<std::vector<double>> backward_arrived(at(stages), std::vector<double>(at(messages)));
  std::vector<Sender> there(at(stages)), back(at(stages));
  for (int round = 0; round < messages + stages - 1; ++round) {
    for (int stage = 0; round < messages && stage < stages; ++stage) {
      double& now = free[at(stage)];
      now = std::max(now, forward_arrived[at(stage)]) + work.forward_s[at(stage)];
      if (stage + 1 < stages)
        forward_arrived[at(stage + 1)] = there[at(stage)].arrival(now, work.forward_hops[at(stage)]);
      else
        backward_arrived[at(stage)][at(round)] = now;
    }
    for (int stage = stages - 1; stage >= 0; --stage) {
      const int message = round - (stages - 1 - stage);
      if (message < 0 || message >= messages) continue;
      double& now = free[at(stage)];
      now = std::max(now, backward_arrived[at(stage)][at(message)]) + work.backward_s[at(stage)];
      time.end_s = std::max(time.end_s, now);
      time.backward_s[at(stage)] = now;
      if (stage == 0) {
        time.gradients_s[0] = now;
        continue;
      }
      const double arrival = back[at(stage)].arrival(now, work.backward_hops[at(stage - 1)]);
      backward_arrived[at(stage - 1)][at(message)] = arrival;
      time.gradients_s[at(stage)] = arrival;
    }
  }
  return time;
}

void add_seconds(PipelineTime& time, double seconds) {
  for (double& backward : time.backward_s) backward += seconds;
  for (double& gradients : time.gradients_s) gradients += seconds;
  time.end_s += seconds;
}

void scale_occupancy(HopTime& hop, double slower) {
  hop.occupancy_s *= slower;
  hop.occupancy_while_sending_s *= slower;
  hop.occupancy_while_receiving_s *= slower;
}

HopTime with_contention(const HopTime& hop, double steady_s) {
  HopTime contended = hop;
  scale_occupancy(contended, std::max(1.0, contended_message_s(hop, steady_s) / hop.occupancy_s));
  return contended;
}

bool any_hop(const PipelineWork& work, bool (*holds)(const HopTime&)) {
  return std::any_of(work.forward_hops.begin(), work.forward_hops.end(), holds) ||
         std::any_of(work.backward_hops.begin(), work.backward_hops.end(), holds);
}

/// The longer a micro-batch takes, the weaker the contention. This fixed point is approached by averaging the
/// previous and the new time of a micro-batch, which `steady_s` computes.
PipelineWork with_contention(const PipelineWork& work, double (*steady_s)(const PipelineWork&)) {
  constexpr int rounds = 12;
  PipelineWork contended = work;
  if (!any_hop(work, [](const HopTime& hop) { return hop.background_s > 0; })) return contended;
  double steady = steady_s(work);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < work.forward_hops.size(); ++i) {
      if (work.forward_hops[i].background_s > 0)
        contended.forward_hops[i] = with_contention(work.forward_hops[i], steady);
      if (work.backward_hops[i].background_s > 0)
        contended.backward_hops[i] = with_contention(work.backward_hops[i], steady);
    }
    steady = (steady + steady_s(contended)) / 2;
  }
  return contended;
}

/// Extrapolates from a few unrolled micro-batches: after `warm_up` of them the pipeline is in steady state,
/// which repeats after `steady` more. The cool-down is as long as the warm-up.
PipelineTime unrolled_time(Schedule schedule, const PipelineWork& work, int warm_up, int steady) {
  PipelineWork first = work;
  first.micro_batches = std::min(work.micro_batches, 2 * warm_up + steady);
  UnrolledPipeline unrolled = unroll_pipeline(schedule, first);
  PipelineTime& time = unrolled.time;
  if (first.micro_batches < 2 * warm_up + steady) {
    time.steady_s = time.end_s / work.micro_batches;
    return time;
  }
  const double grown =
      unrolled.micro_batch_done_s[at(warm_up + steady - 1)] - unrolled.micro_batch_done_s[at(warm_up - 1)];
  time.steady_s = std::max(grown / steady, busiest_s(work));
  add_seconds(time, (work.micro_batches - first.micro_batches) * time.steady_s);
  return time;
}

PipelineTime one_f_one_b_time(const PipelineWork& alone) {
  const PipelineWork work = with_contention(alone, one_f_one_b_steady_s);
  const int stages = stages_of(work);
  if (any_hop(work, [](const HopTime& hop) {
        return hop.occupancy_while_sending_s > 0 || hop.occupancy_while_receiving_s > 0;
      }))
    return unrolled_time(Schedule::one_f_one_b, work, stages, stages + 4);
  const int steady_after = 3 * stages + 4;  // micro-batches until the steady state
  PipelineWork first = work;
  first.micro_batches = std::min(work.micro_batches, steady_after);
  PipelineTime time = one_f_one_b_paths(first);
  time.steady_s = one_f_one_b_steady_s(work);
  add_seconds(time, (work.micro_batches - first.micro_batches) * time.steady_s);
  return time;
}

PipelineTime interleaved_time(const PipelineWork& alone) {
  const int devices = stages_of(alone) / alone.chunks;
  return unrolled_time(Schedule::interleaved, with_contention(alone, busiest_s), 2 * devices, 2 * devices);
}

/// Lower bound by the busiest link, if this pipeline causes all of its traffic: its first message must reach
/// the link, the link must carry all messages, and the last one must be processed. Otherwise 0, because the
/// times at which others begin and end are unknown.
double link_bound_s(const PipelineWork& work) {
  const int stages = stages_of(work);
  HopTime busiest;
  for (const auto* hops : {&work.forward_hops, &work.backward_hops})
    for (const HopTime& hop : *hops)
      if (hop.shared_s > busiest.shared_s) busiest = hop;
  double sum = 0, own = 0, reached = 0, left = 0;
  const auto append = [&](const HopTime& hop) {
    const bool is_on_it = busiest.shared_s > 0 && hop.shared_link == busiest.shared_link;
    if (is_on_it && own == 0) reached = sum;
    sum += hop.occupancy_s;
    if (is_on_it) {
      own += hop.occupancy_s;
      left = sum;
    }
    sum += hop.latency_s;
  };
  for (int stage = 0; stage < stages; ++stage) {
    sum += work.forward_s[at(stage)];
    if (stage + 1 < stages) append(work.forward_hops[at(stage)]);
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    sum += work.backward_s[at(stage)];
    if (stage > 0) append(work.backward_hops[at(stage - 1)]);
  }
  constexpr double rounding = 1e-9;
  if (own < busiest.shared_s * (1 - rounding)) return 0;
  return reached + work.micro_batches * busiest.shared_s + sum - left;
}

/// Pipelines that always send at the same time contend in every micro-batch, not at random.
PipelineWork with_synchronized_sends(PipelineWork work) {
  for (auto* hops : {&work.forward_hops, &work.backward_hops})
    for (HopTime& hop : *hops)
      if (hop.synchronized_occupancy_s > hop.occupancy_s)
        scale_occupancy(hop, hop.synchronized_occupancy_s / hop.occupancy_s);
  return work;
}

/// The time of each schedule, without a flush before the end; those without a formula are unrolled.
PipelineTime schedule_time(Schedule schedule, const PipelineWork& work) {
  switch (schedule) {
    case Schedule::gpipe:
      return gpipe_time(work);
    case Schedule::one_f_one_b:
      return one_f_one_b_time(work);
    case Schedule::interleaved:
      return interleaved_time(work);
    default: {
      const int warm_up = 2 * stages_of(work);
      return unrolled_time(schedule, with_contention(work, busiest_s), warm_up, warm_up);
    }
  }
}

PipelineTime time_of_round(Schedule schedule, const PipelineWork& alone) {
  if (alone.micro_batches == 0)
    return {std::vector<double>(alone.forward_s.size()), std::vector<double>(alone.forward_s.size()), 0, 0};
  check_schedule(schedule, {stages_of(alone) / alone.chunks, 0, alone.chunks, alone.micro_batches});
  const PipelineWork work = with_synchronized_sends(alone);
  PipelineTime time = schedule_time(schedule, work);
  // The bound assumes that a micro-batch passes whole backwards.
  if (traits(schedule).forwards_first || traits(schedule).splits_backward) return time;
  add_seconds(time, std::max(0.0, link_bound_s(work) - time.end_s));
  return time;
}

}  // namespace

double contended_message_s(const HopTime& hop, double steady_s) {
  return std::min({hop.link_demand_s / std::max(1e-9, 1 - hop.background_s / steady_s),
                   hop.link_demand_s + hop.background_s, hop.link_demand_s * hop.concurrent_messages});
}

double busiest_s(const PipelineWork& work) {
  const std::size_t stages = work.forward_s.size(), devices = stages / at(work.chunks);
  double most = 0;
  for (std::size_t device = 0; device < devices; ++device) {
    double computing = 0, there = 0, back = 0;
    for (std::size_t stage = device; stage < stages; stage += devices) {
      computing += work.forward_s[stage] + work.backward_s[stage];
      if (stage + 1 < stages) there += work.forward_hops[stage].occupancy_s;
      if (stage > 0) back += work.backward_hops[stage - 1].occupancy_s;
    }
    most = std::max({most, computing, there, back});
  }
  for (std::size_t hop = 0; hop + 1 < stages; ++hop)
    most = std::max({most, work.forward_hops[hop].shared_s, work.backward_hops[hop].shared_s});
  return most;
}

/// Rounds between flushes do not overlap: the first stage is the last to end a round, and starts the next
/// one. If the backward is split, it does not wait for the weight gradients of others, so this is an upper
/// bound.
PipelineTime pipeline_time(Schedule schedule, const PipelineWork& work) {
  if (work.flush <= 0 || work.flush >= work.micro_batches) return time_of_round(schedule, work);
  PipelineWork round = work;
  round.micro_batches = work.flush;
  const int full = (work.micro_batches - 1) / work.flush;  // rounds before the last
  const PipelineTime of_full = time_of_round(schedule, round);
  round.micro_batches = work.micro_batches - full * work.flush;
  PipelineTime time = time_of_round(schedule, round);
  add_seconds(time, full * of_full.end_s);
  time.steady_s = of_full.end_s / work.flush;
  return time;
}

}  // namespace dtfm::cost
