// What is trained and how: the job file of the contract as plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "planner/core/layer_profile.hpp"
#include "planner/core/model.hpp"
#include "planner/core/schedule.hpp"
#include "planner/core/units.hpp"

namespace dtfm {

struct Training {
  int global_batch = 0, micro_batch = 1;  // sequences
  std::string precision = "fp16", optimizer = "adam-16", recompute = "none";
};

/// Of an iteration: those of all pipelines.
inline int micro_batch_count(const Training& training) {
  return training.global_batch / training.micro_batch;
}

struct Parallelism {
  std::optional<int> pipeline, data;  // nothing: auto
  int tensor = 1;
  Schedule schedule = Schedule::gpipe;
  GradientSync gradient_sync = GradientSync::sharded_ps;
  std::optional<int> chunks;  // stages per device, of schedule interleaved
  std::optional<int> flush;   // micro-batches after which the pipeline drains; nothing: once an iteration
  bool uniform_pipelines = false;  // all pipelines have the same layers and as many micro-batches
  bool overlap = false;            // gradients of a layer are exchanged while others are still computed
};

/// Bytes sent ÷ bytes uncompressed.
struct Compression {
  double activations = 1, gradients = 1;
  std::optional<BitsPerSecond> throughput = {};  // of a device, uncompressed data in or out
  // Names of planner/core/compression.hpp that the ratios are of; empty: a ratio alone, which without a
  // throughput costs nothing.
  std::string activation_preset = {}, gradient_preset = {};
  /// Only what goes over links slower than this is compressed (planner/core/compression.hpp); nothing: all.
  std::optional<BitsPerSecond> bandwidth_threshold = {};
};

/// The two byte counts that objective comm-cost is made of.
struct CommVolumes {
  Bytes gradient;    // of one stage, one replica
  Bytes activation;  // over one stage boundary, one replica, one direction, an iteration
};

/// What the job leaves to the planner beside the numbers of stages and replicas: its key says `auto`. Until
/// it is decided, the job holds the first choice.
struct Automatic {
  bool tensor = false, micro_batch = false, recompute = false, schedule = false, gradient_sync = false;
  bool activations = false, gradients = false;  // of the compression

  friend bool operator==(const Automatic&, const Automatic&) = default;
};

struct Job {
  std::string name;
  Model model;
  Training training;
  Parallelism parallelism;
  Compression compression;
  Automatic automatic;
  std::vector<LayerProfile> profiles;  // measured, imported or estimated times of layers, of as many GPUs
  std::optional<double>
      efficiency;  // share of a GPU's peak, for GPUs without a profile; nothing: the roofline
  std::optional<CommVolumes> comm_cost;  // nothing: derived from the model by `comm_volumes`
  std::optional<int> comm_cost_stages;   // that they are of
};

/// Bytes of one number: 2 for fp16 and bf16, 4 for tf32 and fp32.
double bytes_per_element(const Training& training);

/// Of the job's model, in its precision.
std::vector<Layer> layer_chain(const Job& job);

/// The volumes of a job cut into `stages` equal stages and `replicas` replicas: those the job gives, or an
/// estimate from the model: gradients are the parameters of the fullest stage, times the bytes that the
/// optimizer exchanges of one; activations the largest output of a stage, times the sequences of the pipeline
/// with the most micro-batches; both times the compression ratio.
CommVolumes comm_volumes(const Job& job, int stages, int replicas);

}  // namespace dtfm
