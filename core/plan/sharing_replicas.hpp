// How many replicas partition the state of a layer.
#pragma once

#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// Number n of replicas among which the optimizer sharding of `plan` partitions the state of every layer: all
/// of them. With `hierarchical` (HSDP: PyTorch's HYBRID_SHARD, arXiv 2304.11277), replicas share only with
/// those of their own site, and n is the smallest number of replicas that any layer has in a site that holds
/// it. If a site holds more, only n of them have optimizer state. With `hierarchical-ring`, n is the largest
/// number that divides the pipelines into equal instances, each with pipelines of the same sites
/// (pipeline_sites). 1 if nothing is sharded.
int sharing_replicas(const Topology& topology, const Plan& plan);

/// Which of these n shares of the state of a layer each replica has. All devices of a pipeline have the same
/// number, except with `hierarchical`, where replicas are numbered among those of their site.
class StateShares {
 public:
  using Layers = std::pair<int, int>;
  /// The arguments must outlive this. The stages of `plan` are those that are computed.
  StateShares(const Topology& topology, const Plan& plan);
  int count() const { return count_; }
  /// The layers of a stage, cut where the number of its share changes, for the device of a rank, with that
  /// number; no_index for layers of which the device has none.
  std::vector<std::pair<Layers, int>> of(int pipeline, int stage, int rank) const;

 private:
  int share_of_layer(int pipeline, int stage, int rank, int layer) const;

  const Topology& topology_;
  const Plan& plan_;
  int count_;
  bool is_numbered_by_site_ = false;
  std::vector<int> of_pipeline_;  // [pipeline], unless numbered by site
};

/// The site of every device, stage by stage.
std::vector<int> pipeline_sites(const Topology& topology, const Pipeline& pipeline);

}  // namespace dtfm
