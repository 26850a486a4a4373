// Peers that join a stage download its weights and optimizer state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "simulator/swarm/peers.hpp"
#include "simulator/swarm/swarm_network.hpp"

namespace dtfm::sim {

/// The source is the peer of the stage that sends the fewest states (ties go to the lowest device number);
/// without one, the scenario's checkpoint.
class StateDownloads {
 public:
  /// The arguments must outlive this.
  StateDownloads(SwarmContext& run, SwarmNetwork& network, const Peers& peers)
      : run_(run), network_(network), peers_(peers), downloads_(at(run.devices())) {}

  /// `device` starts to download the state of its stage. Returns false if it need not wait for that.
  bool start(int device) {
    Download& it = downloads_[at(device)];
    const int stage = peers_[device].stage;
    const double bytes = run_.costs.state_bytes(stage);
    const std::optional<Checkpoint>& checkpoint = run_.scenario.checkpoint;
    const auto download_from = [&](int source) {
      it.message = network_.send(source, device, bytes, device, SwarmNetwork::Purpose::state_download);
      return true;
    };
    it.donor = best_donor(stage);
    if (it.donor != no_index) return download_from(it.donor);
    if (checkpoint && checkpoint->device) return download_from(*checkpoint->device);
    if (checkpoint && checkpoint->bandwidth > 0) {
      run_.push(run_.now + bytes * bits_per_byte / checkpoint->bandwidth,
                {QueueEvent::Kind::fetched, device, ++it.generation});
      return true;
    }
    if (!checkpoint)
      run_.note(fmt::format("no peer has the weights of stage {}: it starts again from the seed", stage));
    return false;
  }
  /// Whether the event is the end of a read from the checkpoint that has not been cancelled.
  bool is_current(const QueueEvent& event) const {
    return downloads_[at(event.id)].generation == event.generation;
  }
  /// The download of `device`, if there is one, is complete.
  void end(int device) { downloads_[at(device)].message = no_index; }
  /// Cancels the download of `device`, if there is one.
  void cancel(int device) {
    Download& it = downloads_[at(device)];
    if (it.message != no_index) network_.cancel(it.message);
    it.message = no_index;
    ++it.generation;
  }
  /// The devices that download from `donor`, ascending.
  std::vector<int> from(int donor) const {
    std::vector<int> devices;
    for (int device = 0; device < run_.devices(); ++device)
      if (downloads_[at(device)].message != no_index && downloads_[at(device)].donor == donor)
        devices.push_back(device);
    return devices;
  }

 private:
  struct Download {
    int message = no_index, donor = no_index;
    std::uint32_t generation = 0;  // of reads from the checkpoint
  };
  int best_donor(int stage) const {
    std::vector<int> uploads(downloads_.size());  // [device]
    for (const Download& it : downloads_)
      if (it.message != no_index && it.donor != no_index) ++uploads[at(it.donor)];
    int best = no_index;
    for (int device = 0; device < run_.devices(); ++device)
      if (peers_[device].serves(stage) && (best == no_index || uploads[at(device)] < uploads[at(best)]))
        best = device;
    return best;
  }

  SwarmContext& run_;
  SwarmNetwork& network_;
  const Peers& peers_;
  std::vector<Download> downloads_;  // [device]
};

}  // namespace dtfm::sim
