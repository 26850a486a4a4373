// What is trained and how: the job file of the contract as plain values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/units.hpp"

namespace dtfm {

/// A GPT-like decoder: `layers` equal blocks between an embedding and a head.
struct Transformer {
  int layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
};

/// One layer of a chain. Sizes and operations are those of one sequence.
struct Layer {
  std::string name;
  double parameters = 0;
  double tied_parameters = 0;  // of them, a copy of the first layer's; one is enough where both are
  Flops forward, backward;     // backward without what is computed again
  Flops attention;             // of the forward, what selective recomputation does again
  Flops head;                  // of the forward, what no recomputation does again: final norm, head, loss
  Bytes output;                // goes to the next layer
  Bytes activation_memory;     // kept from forward to backward without recomputation, the input among it
  Bytes attention_memory;      // of that, what selective recomputation does not keep

  friend bool operator==(const Layer&, const Layer&) = default;
};

/// A model given layer by layer.
struct LayerChain {
  int sequence = 1;  // tokens of a sequence
  std::vector<Layer> layers;
};

using Model = std::variant<Transformer, LayerChain>;

struct Training {
  int global_batch = 0, micro_batch = 1;  // sequences
  std::string precision = "fp16", optimizer = "adam-16", recompute = "none";
};

struct Parallelism {
  std::optional<int> pipeline, data;  // nothing: auto
  int tensor = 1;
  std::string schedule = "gpipe", gradient_sync = "sharded-ps";
  std::optional<int> chunks;  // stages per device, of schedule interleaved
  std::optional<int> flush;   // micro-batches after which the pipeline drains; nothing: once an iteration
  bool overlap = false;       // gradients of a layer are exchanged while others are still computed
};

/// Bytes sent ÷ bytes uncompressed.
struct Compression {
  double activations = 1, gradients = 1;
  std::optional<BitsPerSecond> throughput = {};  // of a device, uncompressed data in or out; nothing: no cost
};

/// The two byte counts that objective comm-cost is made of.
struct CommVolumes {
  Bytes gradient;    // of one stage, one replica
  Bytes activation;  // over one stage boundary, one replica, one direction, an iteration
};

/// Where the times of layers come from: a file of dtfm-profile, or an estimate from the peak of the GPU.
struct ProfileSource {
  std::string file;         // empty: the estimate
  double efficiency = 0.4;  // of the peak, for the estimate
};

struct Job {
  std::string name;
  Model model;
  Training training;
  Parallelism parallelism;
  Compression compression;
  std::optional<ProfileSource> profile;
  std::optional<CommVolumes> comm_cost;  // nothing: derived from the model by `comm_volumes`
};

int layer_count(const Model& model);
/// Tokens of one sequence.
int sequence_length(const Model& model);

/// The layers of a job's model, the first one with the embedding (and learned positions), the last one with
/// the head. A transformer's block has 12 h² + 13 h parameters (Narayanan et al., arXiv 2104.04473), a
/// forward of 24 s h² + 4 s² h FLOPs (no saving for the causal mask), backward twice that, and s h (34 + 5 a
/// s ÷ h) bytes of activations, of which 5 a s² are the attention core's (Korthikanti et al., arXiv
/// 2205.05198, for 16-bit numbers; twice as many for fp32); the head 2 s h V FLOPs and 4 s h + 4 s V bytes;
/// embedding and head are tied. The norms' few parameters outside the blocks are left out.
std::vector<Layer> layer_chain(const Job& job);

/// Of layers [first, second) of a chain, tied ones once.
double parameters_of(const std::vector<Layer>& chain, std::pair<int, int> layers);

/// The volumes of a job cut into `stages` equal stages and `replicas` replicas: those the job gives, or an
/// estimate from the model: gradients are the parameters of the fullest stage, times the bytes of the
/// precision; activations the largest output of a stage, times the sequences of the pipeline with the most
/// micro-batches; both times the compression ratio.
CommVolumes comm_volumes(const Job& job, int stages, int replicas);

/// Bytes of one number: 2 for fp16 and bf16, 4 for fp32.
double bytes_per_number(const Training& training);

}  // namespace dtfm
