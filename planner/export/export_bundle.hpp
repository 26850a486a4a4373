// What an exporter is given: a plan, where its devices are, and which rank each of them has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "planner/io/readers/plan_reader.hpp"

namespace dtfm::exporter {

/// A GPU as launchers see it.
struct GpuLocation {
  std::string host;     // what the plan calls its machine: `gc` of gc:1, `oregon/3` of oregon/3
  std::string address;  // a name or IP address that the machines know it by
  int gpu = 0;          // CUDA index in its machine
};

/// The two orders in which trainers number their workers, t counting the devices of a stage:
///   stage_major     t + T (d + D p): Megatron-LM's own, DeepSpeed, torchtitan
///   pipeline_major  t + T (p + P d): DT-FM, Megatron-LM with --use-tp-pp-dp-mapping, FlashFlex, Varuna
enum class RankOrder { stage_major, pipeline_major };

/// As users name it.
std::string_view rank_order_name(RankOrder order);

/// One worker. Where pipelines differ, d and p still count pipelines and their stages.
struct RankAssignment {
  int device = 0;  // index into Handover::places
  int pipeline = 0, stage = 0, shard = 0;
  /// Layers [first, last) of each virtual stage that it has: one, but with schedule interleaved.
  std::vector<std::pair<int, int>> layers;

  friend bool operator==(const RankAssignment&, const RankAssignment&) = default;
};

/// How ranks are started on machines of several GPUs: one agent of the launcher for each GPU, or one for a
/// machine, whose ranks must then follow each other.
enum class AgentPer { gpu, host };

/// What launchers are told beside the plan.
struct LaunchSettings {
  AgentPer agents = AgentPer::gpu;
  int port = 29500;                           // on which rank 0 listens
  int cores = 16;                             // CPU cores of a machine, for launchers that bind to them
  bool any_gpu = false;                       // ranks may get any GPU of their machine
  std::string image = "dtfm-trainer:latest";  // of the containers that Kubernetes starts
};

struct ExportBundle {
  Plan plan;  // devices are indices into `places`
  Job job;
  std::vector<GpuLocation> locations;  // those that the plan leaves out come last
  RankOrder order = RankOrder::stage_major;
  std::vector<RankAssignment> assignments;              // by rank
  std::vector<io::EstimatedMemory> memory;  // of the devices in use; empty: the plan file does not say
  LaunchSettings launch;
  std::shared_ptr<const Topology> topology;  // nothing: it is not there
  std::vector<int> topology_device;          // of each place: its index there; −1: it has no such device

  const GpuLocation& location(int rank) const {
    return locations[static_cast<std::size_t>(assignments[static_cast<std::size_t>(rank)].device)];
  }
  int world_size() const { return static_cast<int>(assignments.size()); }
  /// Of the machine of rank 0.
  const std::string& master() const { return location(0).address; }
};

/// The worker of each rank.
std::vector<RankAssignment> assign_ranks(const Plan& plan, const Job& job, RankOrder order);

/// Of each pipeline.
std::vector<int> micro_batch_counts(const Plan& plan);

/// The ranks on each machine, by address, in ascending order.
std::map<std::string, std::vector<int>> ranks_by_address(const ExportBundle& bundle);

}  // namespace dtfm::exporter
