// What is trained and how: the contents of a job file (docs/files/job.md) as plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/cluster/calibration.hpp"
#include "core/model/layer_profile.hpp"
#include "core/model/matmul_format.hpp"
#include "core/model/model.hpp"
#include "core/model/optimizer.hpp"
#include "core/model/precision.hpp"
#include "core/plan/execution_config.hpp"
#include "core/plan/setting_set.hpp"
#include "core/plan/setting_value.hpp"
#include "core/plan/target_kind.hpp"

namespace dtfm {

struct Training {
  int global_batch = 0;  // sequences
  Precision precision = Precision::fp16;
  MatmulFormat matmul = MatmulFormat::precision;
  Optimizer optimizer = Optimizer::adam_16;
};

struct Parallelism {
  std::optional<int> pipeline, data;  // empty: auto
  int tensor = 1;
  /// The devices of a tensor-parallel group divide all activations (arXiv 2205.05198). Otherwise each holds
  /// Layer::replicated_memory and the boundaries of its stage whole, and sends them whole, unless
  /// `scatter_gather`: then it sends its part (arXiv 2104.04473, section 4.1).
  bool sequence_parallel = true, scatter_gather = false;
  bool uniform_pipelines = false;  // all pipelines have the same layers and equally many micro-batches
};

/// The message sizes that objective comm-cost depends on, per replica.
struct CommVolumes {
  Bytes gradient;    // of one stage
  Bytes activation;  // over one stage boundary in one direction, per iteration
};

struct Job {
  std::string name;
  /// The trainer that runs the plans. The other settings are what it runs (restrict_to_target). Empty: all
  /// plans are allowed.
  std::optional<Target> target;
  Model model;
  Training training;
  Parallelism parallelism;
  ExecutionConfig execution;
  /// Settings, besides the numbers of stages and replicas, that the job leaves to the planner by `auto`.
  /// Until the planner decides, the job has the first candidate as its value.
  SettingSet automatic;
  /// Lists of at least two values from which the planner chooses, numbers ascending. Erase the list of a
  /// setting that gets another value. Without a list, the planner chooses among what the target runs, or
  /// among its candidates.
  std::map<Setting, std::vector<SettingValue>> listed;
  /// Measured, imported or estimated layer times, one profile per GPU type.
  std::vector<LayerProfile> profiles;
  /// Share of the peak, for GPUs without a profile. Empty: the roofline.
  std::optional<double> efficiency;
  std::optional<FittedCalibration> calibration;  // of the trainer that runs the job
  std::optional<CommVolumes> comm_cost;          // empty: derived from the model by `comm_volumes`
  std::optional<int> comm_cost_stages;           // number of stages that `comm_cost` is valid for
};

/// Whether tensor-parallel devices each send a part of a boundary activation (core/plan/shards.hpp). If
/// not, every message carries all of it.
inline bool divides_messages(const Parallelism& parallelism) {
  return parallelism.sequence_parallel || parallelism.scatter_gather;
}

/// Number of micro-batches per iteration, of all pipelines together.
inline int micro_batch_count(const Job& job) {
  return job.training.global_batch / job.execution.micro_batch;
}

/// From what an automatic micro-batch is chosen, ascending: what the job lists, or the divisors of the global
/// batch up to 64.
std::vector<int> open_micro_batches(const Job& job);

/// Bytes of one weight, activation or gradient.
double bytes_per_element(const Training& training);
/// The same, and of the inputs of quantized products.
ActivationBytes activation_bytes(const Training& training);

/// The layers of the job's model in the job's precision.
std::vector<Layer> layer_chain(const Job& job);

/// Communication volumes with `stages` equal stages and `replicas` replicas: those of the job, if given,
/// otherwise an estimate from the model. Gradients are the parameters of the largest stage times the
/// synchronized bytes per parameter. Activations are the largest output of a stage times the sequences of the
/// pipeline with the most micro-batches. Both are multiplied by the compression ratio.
CommVolumes comm_volumes(const Job& job, int stages, int replicas);

}  // namespace dtfm
