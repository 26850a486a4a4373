// How the devices of a stage divide its tokens and its parameters.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/error.hpp"
#include "core/model/model.hpp"
#include "core/plan/execution_config.hpp"

namespace dtfm {

/// The devices of a stage as a mesh of `data` × `context` × `tensor`; those of a tensor-parallel group follow
/// one another, and those with the same sequences.
///
/// `data` parts of the stage compute different sequences of every micro-batch. In each, `context` groups
/// compute different tokens of every sequence, and pass keys and values around a ring (Liu et al., arXiv
/// 2310.01889). All have the same parameters. The experts of a layer are divided among `expert` devices that
/// follow one another, whichever groups these belong to, each of which has whole experts (Megatron-Core's
/// parallel folding with expert tensor parallelism 1, arXiv 2504.14960). With `expert` 1, experts are divided
/// like all other parameters.
///
/// The device of rank r has shard r % tensor of the parameters outside of experts, and shard r % expert of
/// the experts.
struct StageMesh {
  int tensor = 1, context = 1, data = 1, expert = 1;
  double expert_imbalance = 1;

  int token_parts() const { return context * data; }
  int devices() const { return tensor * token_parts(); }
  bool divides_experts() const { return expert > 1; }
  /// Tokens routed to the busiest device's experts ÷ the mean; 1 if every device has all experts.
  double routed_load() const { return divides_experts() ? expert_imbalance : 1; }
  /// Into how many shards experts are divided, or other parameters.
  int shards(bool experts) const { return experts && divides_experts() ? expert : tensor; }
  /// Devices that have the same shard.
  int copies(bool experts) const { return devices() / shards(experts); }
  /// Parameters of a layer that one device has.
  double held_parameters(const Layer& layer) const {
    return (layer.parameters - layer.expert_parameters) / shards(false) +
           layer.expert_parameters / shards(true);
  }
};

/// The mesh of a stage of so many devices, which must be a multiple of the other degrees.
inline StageMesh stage_mesh(const ExecutionConfig& execution, std::size_t devices) {
  const int count = static_cast<int>(devices), parts = execution.token_parts();
  DTFM_ASSERT(count % parts == 0 && count % execution.expert == 0);
  return {count / parts, execution.context, execution.stage_data.value_or(1), execution.expert,
          execution.expert_imbalance};
}

struct Job;

/// Devices of a stage of the job.
int devices_per_stage(const Job& job);
/// Experts of each layer of the model that has them; 0 if none has.
int expert_count(const Model& model);
/// Vectors that a token sends to each of `parts` hosts, or devices, ÷ the number of experts it is routed to.
/// Parts have equally many experts, routing is random, and a part with any of a token's experts gets one
/// vector. (Routers that limit the hosts of a token send fewer.)
double vectors_per_visit(const Experts& experts, int parts);
/// Why the degrees of the job do not fit together or its model; empty if they do.
std::string mesh_obstacle(const Job& job);
/// Sets `stage_data` to the smallest number with which a stage has enough devices for `expert`.
void fit_stage_data(Job& job);

}  // namespace dtfm
