// Bytes of the messages of a swarm, for both transports.
#pragma once

#include <vector>

#include "core/plan/job.hpp"

namespace dtfm::sim {

/// What a peer receives and sends for one visit (the forward or backward pass of a micro-batch at a stage),
/// in bytes as they are sent. The transport determines who sends it:
///
/// | from → to       | relay                                       | peer_to_peer                    |
/// |-----------------|---------------------------------------------|---------------------------------|
/// | trainer → peer  | samples, activations and gradient, together | samples                         |
/// | peer → peer     | nothing                                     | activations; gradient           |
/// | peer → trainer  | output                                      | output that no other peer needs |
///
/// The first stage embeds token ids, and the last stage contains the head and computes the loss. Therefore
/// the trainer sends inputs to the first stage and labels to the last one, gets a loss back, and asks for the
/// backward pass, which starts from that loss without another gradient. The gradient of the inputs is not
/// needed: the last reply says only that the backward pass is complete. Between stages, `relay` sends what
/// the released code sends: forward in a, out a; backward in 2 a, out a.
///
/// Backward passes recompute their forward passes and therefore have the same samples and activations. With
/// peer_to_peer, a peer that computed the forward pass does not receive them again.
struct VisitBytes {
  double samples = 0;      // of the first stage: inputs; of the last stage: labels
  double activations = 0;  // output of the previous stage; none for the first stage
  double gradient = 0;     // backward: gradient of the stage's output; none for the last stage
  double output = 0;       // forward: activations, or the loss; backward: gradient of `activations`
};

struct StageTraffic {
  VisitBytes forward, backward;
};

/// The mean loss of a micro-batch, in fp32.
inline constexpr double loss_bytes = 4;

/// The traffic of each stage if the layers are split as evenly as possible. Only activations and their
/// gradients are compressed.
std::vector<StageTraffic> swarm_traffic(const Job& job, int stages);

}  // namespace dtfm::sim
