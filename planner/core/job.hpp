// What is trained and how: the job file of the contract as plain values.
#pragma once

#include <optional>
#include <string>

#include "planner/core/units.hpp"

namespace dtfm {

/// A GPT-like decoder: `layers` equal blocks between an embedding and a head.
struct Transformer {
  int layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
};

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
};

/// Bytes sent ÷ bytes uncompressed.
struct Compression {
  double activations = 1, gradients = 1;
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
  Transformer model;
  Training training;
  Parallelism parallelism;
  Compression compression;
  std::optional<ProfileSource> profile;
  std::optional<CommVolumes> comm_cost;  // nothing: derived from the model by `comm_volumes`
};

/// The volumes of a job cut into `stages` equal stages and `replicas` replicas: those the job gives, or an
/// estimate from the model: gradients are the block parameters 12 h² + 13 h (Narayanan et al., arXiv
/// 2104.04473) of the fullest stage with its share of embedding and (tied) head; activations are sequences ·
/// tokens · hidden of the pipeline with the most micro-batches; times the bytes of the precision and the
/// compression ratio.
CommVolumes comm_volumes(const Job& job, int stages, int replicas);

/// Bytes of one number: 2 for fp16 and bf16, 4 for fp32.
double bytes_per_number(const Training& training);

}  // namespace dtfm
