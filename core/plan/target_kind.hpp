// The trainers for which plans are made. The table of what they run is apart (core/plan/target.hpp), because
// jobs only name one.
#pragma once

namespace dtfm {

enum class Target : unsigned char {
  pytorch,  // the runtime of this project (python/)
  megatron,
  torchtitan,
  deepspeed,
  pytorch_pipelining,  // torch.distributed.pipelining
  dtfm
};

}  // namespace dtfm
