#include "planner/cost/pipeline_time.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {
namespace {

int stages_of(const PipelineWork& work) {
  return static_cast<int>(work.forward_s.size());
}

/// Stations one after the other: the sum and the maximum of their times so far.
struct Line {
  double sum = 0, most = 0;
  void pass(double station_s) {
    sum += station_s;
    most = std::max(most, station_s);
  }
  void pass(const HopTime& hop) {
    sum += hop.occupancy_s + hop.latency_s;
    most = std::max(most, hop.steady_s());
  }
  double done_s(int messages) const { return sum + (messages - 1) * most; }
};

PipelineTime gpipe_time(const PipelineWork& work) {
  const int stages = stages_of(work), messages = work.micro_batches;
  PipelineTime time;
  time.backward_s.resize(at(stages));
  time.gradients_s.resize(at(stages));
  Line forward, backward;
  for (int stage = 0; stage < stages; ++stage) {
    forward.pass(work.forward_s[at(stage)]);
    if (stage + 1 < stages) forward.pass(work.forward_hops[at(stage)]);
  }
  const double turn = forward.done_s(messages);
  for (int stage = stages - 1; stage >= 0; --stage) {
    backward.pass(work.backward_s[at(stage)]);
    time.end_s = time.backward_s[at(stage)] = turn + backward.done_s(messages);
    if (stage > 0) backward.pass(work.backward_hops[at(stage - 1)]);
    time.gradients_s[at(stage)] = turn + backward.done_s(messages);
  }
  time.steady_s = forward.most + backward.most;
  return time;
}

/// Messages over one boundary, sent one after the other. Each moves as fast as it can alone, and no more of
/// them do than the shared links let pass in the long run.
class Sender {
 public:
  /// When the message that is ready at `ready` arrives.
  double arrival(double ready, const HopTime& hop) {
    const double start = std::max(free_, ready);
    free_ = start + hop.steady_s();
    return start + hop.occupancy_s + hop.latency_s;
  }

 private:
  double free_ = 0;
};

/// The largest mean of a cycle of events, a micro-batch.
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

/// Every micro-batch by the definition. In round i stage s, which is s' = stages − 1 − s stages before the
/// last, computes forward i and then backward i − s'; what either of them waits for is of this round or one
/// before.
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

void go_on(PipelineTime& time, double seconds) {
  for (double& backward : time.backward_s) backward += seconds;
  for (double& gradients : time.gradients_s) gradients += seconds;
  time.end_s += seconds;
}

/// What a message takes that meets others: alone it would take x of the time that one micro-batch more takes,
/// and the others on its link take a share ρ of that. Where they share evenly and come at random, it takes x
/// ÷ (1 − ρ) in the mean (Kleinrock, Queueing Systems II, 4.4: processor sharing), and at most as long as all
/// together. Few micro-batches are in flight at a time, so this holds up the pipeline.
HopTime in_company(const HopTime& hop, double steady_s) {
  HopTime met = hop;
  const double others = (hop.steady_s() - hop.occupancy_s) / steady_s;
  if (others > 0) met.occupancy_s = std::min(hop.steady_s(), hop.occupancy_s / std::max(1e-9, 1 - others));
  return met;
}

/// The longer a micro-batch takes, the less messages meet: the mean of both is taken until they agree.
PipelineWork in_company(const PipelineWork& work) {
  constexpr int rounds = 12;
  PipelineWork met = work;
  const auto is_alone = [](const HopTime& hop) { return hop.shared_s <= hop.occupancy_s; };
  if (std::all_of(work.forward_hops.begin(), work.forward_hops.end(), is_alone) &&
      std::all_of(work.backward_hops.begin(), work.backward_hops.end(), is_alone))
    return met;
  double steady = one_f_one_b_steady_s(work);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < work.forward_hops.size(); ++i) {
      met.forward_hops[i] = in_company(work.forward_hops[i], steady);
      met.backward_hops[i] = in_company(work.backward_hops[i], steady);
    }
    steady = (steady + one_f_one_b_steady_s(met)) / 2;
  }
  return met;
}

PipelineTime one_f_one_b_time(const PipelineWork& alone) {
  const PipelineWork work = in_company(alone);
  const int settled = 3 * stages_of(work) + 4;  // micro-batches after which the steady state is there
  const double steady = one_f_one_b_steady_s(work);
  PipelineWork first = work;
  first.micro_batches = std::min(work.micro_batches, settled);
  PipelineTime time = one_f_one_b_paths(first);
  go_on(time, (work.micro_batches - first.micro_batches) * steady);
  time.steady_s = steady;
  return time;
}

struct Step {
  bool forward = true;
  int stage = 0, message = 0;
};

/// What device `device` of `devices` computes one after the other.
std::vector<Step> interleaved_steps(const PipelineWork& work, int devices, int device) {
  const int chunks = work.chunks, all = work.micro_batches * chunks;
  const int ahead = std::min(all, 2 * (devices - 1 - device) + (chunks - 1) * devices);
  const auto step = [&](bool forward, int number) {  // the number-th forward or backward
    const int chunk = number / devices % chunks;
    return Step{forward, (forward ? chunk : chunks - 1 - chunk) * devices + device,
                number / (devices * chunks) * devices + number % devices};
  };
  std::vector<Step> steps;
  for (int i = 0; i < all + ahead; ++i) {
    if (i < all) steps.push_back(step(true, i));
    if (i >= ahead) steps.push_back(step(false, i - ahead));
  }
  return steps;
}

/// Every micro-batch by the definition: each device goes as far as it can, again and again.
class InterleavedPaths {
 public:
  InterleavedPaths(const PipelineWork& work, int devices)
      : work_(work), stages_(stages_of(work)), devices_(devices), there_(at(devices)), back_(at(devices)) {
    arrived_.assign(
        2, std::vector<std::vector<double>>(at(stages_), std::vector<double>(at(work.micro_batches), -1)));
    for (double& start : arrived_[0][0]) start = 0;
  }

  PipelineTime time() {
    std::vector<std::vector<Step>> steps;
    for (int device = 0; device < devices_; ++device)
      steps.push_back(interleaved_steps(work_, devices_, device));
    std::vector<std::size_t> next(at(devices_));
    std::vector<double> free(at(devices_));
    time_.backward_s.assign(at(stages_), 0);
    time_.gradients_s.assign(at(stages_), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int device = 0; device < devices_; ++device)
        for (std::size_t& i = next[at(device)];
             i < steps[at(device)].size() && compute(steps[at(device)][i], free[at(device)]); ++i)
          moved = true;
    }
    return time_;
  }

 private:
  double& arrived(bool forward, int stage, int message) {
    return arrived_[forward ? 0 : 1][at(stage)][at(message)];
  }

  bool compute(const Step& step, double& now) {
    const double arrival = arrived(step.forward, step.stage, step.message);
    if (arrival < 0) return false;
    now = std::max(now, arrival) + (step.forward ? work_.forward_s : work_.backward_s)[at(step.stage)];
    time_.end_s = std::max(time_.end_s, now);
    if (step.forward) {
      const bool last = step.stage + 1 == stages_;
      arrived(!last, last ? step.stage : step.stage + 1, step.message) =
          last ? now : there_[at(step.stage % devices_)].arrival(now, work_.forward_hops[at(step.stage)]);
      return true;
    }
    double& gradients = time_.gradients_s[at(step.stage)];
    gradients = time_.backward_s[at(step.stage)] = now;
    if (step.stage > 0)
      gradients = arrived(false, step.stage - 1, step.message) =
          back_[at(step.stage % devices_)].arrival(now, work_.backward_hops[at(step.stage - 1)]);
    return true;
  }

  const PipelineWork& work_;
  int stages_, devices_;
  std::vector<std::vector<std::vector<double>>> arrived_;  // [forward, backward][stage][message], −1: not yet
  std::vector<Sender> there_, back_;
  PipelineTime time_;
};

PipelineTime interleaved_time(const PipelineWork& work) {
  const int devices = stages_of(work) / work.chunks;
  if (work.micro_batches % devices != 0)
    throw Error("",
                fmt::format("schedule interleaved needs micro-batches in multiples of the {} devices of a "
                            "pipeline; there are {}",
                            devices, work.micro_batches));
  const int settled = 5 * devices, before = 3 * devices;
  if (work.micro_batches <= settled) {
    PipelineTime time = InterleavedPaths(work, devices).time();
    time.steady_s = time.end_s / work.micro_batches;
    return time;
  }
  PipelineWork first = work;
  first.micro_batches = before;
  const double earlier = InterleavedPaths(first, devices).time().end_s;
  first.micro_batches = settled;
  PipelineTime time = InterleavedPaths(first, devices).time();
  time.steady_s = (time.end_s - earlier) / (settled - before);
  go_on(time, (work.micro_batches - settled) * time.steady_s);
  return time;
}

PipelineTime undrained_time(PipelineSchedule schedule, const PipelineWork& work) {
  if (work.micro_batches == 0)
    return {std::vector<double>(work.forward_s.size()), std::vector<double>(work.forward_s.size()), 0, 0};
  if (schedule == PipelineSchedule::gpipe) return gpipe_time(work);
  if (schedule == PipelineSchedule::one_f_one_b) return one_f_one_b_time(work);
  return interleaved_time(work);
}

}  // namespace

PipelineSchedule pipeline_schedule(std::string_view name) {
  if (name == "gpipe") return PipelineSchedule::gpipe;
  if (name == "1f1b") return PipelineSchedule::one_f_one_b;
  if (name == "interleaved") return PipelineSchedule::interleaved;
  throw Error("", fmt::format("there is no schedule `{}`", name));
}

/// Rounds follow each other without overlap: the first stage is the last to end one, and begins the next.
PipelineTime pipeline_time(PipelineSchedule schedule, const PipelineWork& work) {
  if (work.flush <= 0 || work.flush >= work.micro_batches) return undrained_time(schedule, work);
  PipelineWork round = work;
  round.micro_batches = work.flush;
  const int full = (work.micro_batches - 1) / work.flush;  // rounds before the last
  const PipelineTime of_full = undrained_time(schedule, round);
  round.micro_batches = work.micro_batches - full * work.flush;
  PipelineTime time = undrained_time(schedule, round);
  go_on(time, full * of_full.end_s);
  time.steady_s = of_full.end_s / work.flush;
  return time;
}

int most_in_flight(PipelineSchedule schedule, int stages, int stage, int chunks, int micro_batches) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return micro_batches;
    case PipelineSchedule::one_f_one_b:
      return std::min(micro_batches, stages - stage);
    case PipelineSchedule::interleaved:
      break;
  }
  const int devices = stages / chunks, device = stage % devices;
  return std::min(micro_batches * chunks, 2 * (devices - 1 - device) + (chunks - 1) * devices + 1);
}

}  // namespace dtfm
