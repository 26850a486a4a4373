// Input of the exporters: a plan, the machines and GPUs of its devices, and the assignment of ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/target_settings.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/plan/target.hpp"

namespace dtfm::exporter {

/// A GPU, identified as launchers identify it.
struct GpuLocation {
  std::string host;     // machine name in the plan: `gc` for device gc:1, `oregon/3` for oregon/3
  std::string address;  // host name or IP address by which the other machines reach it
  int gpu = 0;          // CUDA index on its machine
};

/// The role of one rank. `pipeline` and `stage` are indices also if pipelines are heterogeneous.
struct RankAssignment {
  int device = 0;  // index into ExportBundle::locations
  /// Pipelines of the trainer: each of the `stage_data` parts of a stage belongs to another one.
  int pipeline = 0, stage = 0, shard = 0;
  /// Layers [first, last) of each virtual stage of the worker; more than one only with schedule interleaved.
  std::vector<std::pair<int, int>> layers;
  int context = 0;  // context-parallel group

  friend bool operator==(const RankAssignment&, const RankAssignment&) = default;
};

/// How a launcher starts ranks on a machine with several GPUs: with one agent per GPU, or with one agent per
/// machine, which requires consecutive ranks on each machine.
enum class AgentPer { gpu, host };

/// Settings of launchers that are not part of the plan.
struct LaunchSettings {
  AgentPer agents = AgentPer::gpu;
  int port = 29500;                           // port on which rank 0 listens
  int cores = 16;                             // CPU cores per machine, for launchers that bind ranks to cores
  bool any_gpu = false;                       // whether a rank may run on any GPU of its machine
  std::string image = "dtfm-trainer:latest";  // container image for Kubernetes
};

struct ExportBundle {
  std::string plan_text;  // as read
  Plan plan;              // its devices are indices into `locations`
  Job job;
  std::vector<TargetChange> changes;   // of plan and job, by the trainer
  std::vector<GpuLocation> locations;  // devices that the plan does not use come last
  RankOrder order = RankOrder::stage_major;
  std::vector<RankAssignment> assignments;  // indexed by rank
  std::vector<io::EstimatedMemory> memory;  // of the devices in use; empty if the plan file has none
  LaunchSettings launch;
  std::shared_ptr<const Topology> topology;  // null if not given
  std::vector<int> topology_device;          // topology index of each location; −1: none

  const GpuLocation& location(int rank) const {
    return locations[static_cast<std::size_t>(assignments[static_cast<std::size_t>(rank)].device)];
  }
  int world_size() const { return static_cast<int>(assignments.size()); }
  /// Address of the machine of rank 0.
  const std::string& master() const { return location(0).address; }
};

/// The role of each rank, indexed by rank.
std::vector<RankAssignment> assign_ranks(const Plan& plan, const Job& job, RankOrder order);

/// Number of micro-batches of each pipeline.
std::vector<int> micro_batch_counts(const Plan& plan);

/// The plan with its devices as indices into the topology of the bundle, which must have one.
Plan plan_on_topology(const ExportBundle& bundle);

/// Ranks on each machine in ascending order, keyed by address.
std::map<std::string, std::vector<int>> ranks_by_address(const ExportBundle& bundle);

}  // namespace dtfm::exporter
