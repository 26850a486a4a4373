// The gradients of the stages of a swarm: they accumulate at the peers that computed them until the stage has
// a global batch. Then an all-reduce averages them, and the stage makes an optimizer step.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "simulator/swarm/butterfly.hpp"
#include "simulator/swarm/peers.hpp"
#include "simulator/swarm/swarm_network.hpp"

namespace dtfm::sim {

class OptimizerSteps {
 public:
  /// The arguments must outlive this.
  OptimizerSteps(SwarmContext& run, SwarmNetwork& network, Peers& peers)
      : run_(run), network_(network), peers_(peers), stages_(at(run.setup.stages)) {
    for (Stage& stage : stages_) stage.held_by.resize(at(run.devices()));
    for (Stage& stage : stages_) stage.averaging_by.resize(at(run.devices()));
  }

  /// `peer` has computed the gradient of a micro-batch for its stage in `seconds`. Returns the epoch to which
  /// the gradient belongs: the number of all-reduces of the stage before it.
  int add(long long micro_batch, int peer, double seconds) {
    const int number = peers_[peer].stage, samples = run_.costs.samples();
    Stage& stage = stages_[at(number)];
    const int epoch = stage.epoch;
    stage.held_by[at(peer)].samples += samples;
    stage.held_by[at(peer)].seconds += seconds;
    stage.held += samples;
    run_.emit(SwarmEvent::Kind::gradient, micro_batch, number, peer);
    if (has_batch(stage) && !stage.averaging) begin_averaging(number);
    return epoch;
  }
  /// Whether gradients of that epoch have not been applied yet, so that they are lost with their peers.
  bool is_pending(int stage, int epoch) const {
    const Stage& it = stages_[at(stage)];
    return epoch == it.epoch || (it.averaging && epoch + 1 == it.epoch);
  }
  void on_averaged(int number) {
    Stage& stage = stages_[at(number)];
    stage.all_reduce.for_each_site_pair(
        [&](int from, int to, double bytes) { network_.end_traffic(from, to, bytes); });
    stage.averaging = false;
    long long samples = 0;
    for (HeldGradients& it : stage.averaging_by) {
      samples += it.samples;
      it = {};
    }
    if (samples > 0) {
      stage.accepted += samples;
      std::vector<SwarmStep>& steps = run_.report.steps;
      if (steps.size() <= at(stage.steps)) steps.push_back({stage.began, run_.now});
      SwarmStep& step = steps[at(stage.steps)];
      step.start_s = std::min(step.start_s, stage.began);
      step.end_s = std::max(step.end_s, run_.now);
      ++stage.steps;
      run_.emit(SwarmEvent::Kind::stepped, -1, number, no_index);
    }
    if (has_batch(stage)) begin_averaging(number);
    if (!stage.averaging) peers_.resume(number);
  }
  /// Loses the peer's gradients of all stages, both those that it holds and those being averaged.
  void lose(int peer) {
    for (int number = 0; number < run_.setup.stages; ++number) {
      Stage& stage = stages_[at(number)];
      HeldGradients &held = stage.held_by[at(peer)], &averaged = stage.averaging_by[at(peer)];
      const int samples = held.samples + averaged.samples;
      if (samples == 0) continue;
      stage.held -= held.samples;
      stage.lost += samples;
      run_.report.lost_work_s += held.seconds + averaged.seconds;
      held = averaged = {};
      run_.emit(SwarmEvent::Kind::lost, -1, number, peer);
    }
  }

  int count(int stage) const { return stages_[at(stage)].steps; }
  /// Fills in stages, steps and useful samples of the report.
  void add_to_report() const {
    SwarmReport& report = run_.report;
    report.useful_samples = std::numeric_limits<long long>::max();
    for (int number = 0; number < run_.setup.stages; ++number) {
      const Stage& stage = stages_[at(number)];
      SwarmStage& it = report.stages.emplace_back();
      it.layers = run_.costs.layers(number);
      it.steps = stage.steps;
      it.accepted = stage.accepted;
      it.lost = stage.lost;
      it.held = stage.held;
      for (const HeldGradients& held : stage.averaging_by) it.held += held.samples;
      report.useful_samples = std::min(report.useful_samples, it.accepted + it.held);
      report.steps.resize(std::min(report.steps.size(), at(it.steps)));
    }
  }

 private:
  struct HeldGradients {
    int samples = 0;
    double seconds = 0;  // compute time
  };
  struct Stage {
    int steps = 0, epoch = 0;
    long long held = 0, accepted = 0, lost = 0;  // samples
    bool averaging = false;
    std::vector<HeldGradients> held_by, averaging_by;  // [device]
    double began = 0;                                  // s, the last all-reduce
    StageAllReduce all_reduce;
  };

  /// Averages all gradients held for the stage among the peers that hold some and all peers that serve it.
  void begin_averaging(int number) {
    Stage& stage = stages_[at(number)];
    std::vector<int> members;
    double update_s = 0;
    for (int device = 0; device < run_.devices(); ++device) {
      if (!peers_[device].serves(number) && stage.held_by[at(device)].samples == 0) continue;
      members.push_back(device);
      update_s =
          std::max(update_s, run_.costs.update_s(run_.costs.kind(device), number) / peers_[device].factor);
    }
    if (members != stage.all_reduce.members)
      stage.all_reduce = StageAllReduce(run_.problem, std::move(members), run_.costs.gradient_bytes(number),
                                        run_.costs.gradient_compression_s(number));
    stage.averaging_by.swap(stage.held_by);
    std::fill(stage.held_by.begin(), stage.held_by.end(), HeldGradients{});
    stage.held = 0;
    stage.averaging = true;
    stage.began = run_.now;
    ++stage.epoch;
    if (!run_.setup.delayed_update) peers_.pause(number);
    run_.emit(SwarmEvent::Kind::averaging, -1, number, no_index);
    stage.all_reduce.for_each_site_pair([&](int from, int to, double) { network_.begin_traffic(from, to); });
    const double seconds = stage.all_reduce.seconds + update_s + run_.problem.constants.iteration_overhead_s;
    run_.push(run_.now + seconds, {QueueEvent::Kind::averaged, number});
  }
  bool has_batch(const Stage& stage) const { return stage.held >= run_.problem.job.training.global_batch; }

  SwarmContext& run_;
  SwarmNetwork& network_;
  Peers& peers_;
  std::vector<Stage> stages_;
};

}  // namespace dtfm::sim
