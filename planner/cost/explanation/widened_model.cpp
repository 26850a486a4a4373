#include "planner/cost/explanation/widened_model.hpp"

#include <algorithm>

#include "core/plan/compression.hpp"
#include "core/base/error.hpp"
#include "core/plan/roofline.hpp"

namespace dtfm::cost {
namespace {

/// Factors by which times are multiplied.
struct Growth {
  double forward = 1, backward = 1, update = 1;
};

double ratio(double wide, double narrow) {
  return narrow > 0 ? wide / narrow : 1;
}

ProfileRow estimated(const Problem& problem, const Gpu& gpu, const Layer& kind, const ProfileRow& row) {
  const Job& job = problem.job;
  RooflineConstants roofline = problem.roofline.of(gpu, job.training);
  roofline.launch_s = 0;  // so that the ratio of two estimates is that of the device's work
  return job.efficiency
             ? analytic_row(gpu, kind, job.training, *job.efficiency, row.micro_batch, {.tensor = row.tensor})
             : estimated_row(gpu, kind, job.training, roofline, row.micro_batch, {.tensor = row.tensor},
                             job.parallelism.sequence_parallel);
}

Growth growth_of(const Problem& problem, const Gpu* gpu, const Layer& narrow, const Layer& wide,
                 const ProfileRow& row) {
  if (gpu != nullptr) try {
      const ProfileRow before = estimated(problem, *gpu, narrow, row),
                       after = estimated(problem, *gpu, wide, row);
      const double update_before = before.update.value_or(Timing{}).median_s,
                   update_after = after.update.value_or(Timing{}).median_s;
      return {ratio(after.forward.median_s, before.forward.median_s),
              ratio(after.backward.median_s, before.backward.median_s),
              update_before > 0 ? update_after / update_before : ratio(wide.parameters, narrow.parameters)};
    } catch (const Error&) {  // the catalogue does not give the GPU's peak or memory bandwidth
    }
  return {ratio(wide.forward.value(), narrow.forward.value()),
          ratio(wide.backward.value(), narrow.backward.value()), ratio(wide.parameters, narrow.parameters)};
}

Transformer wider(Transformer model, int multiple) {
  for (int* width : {&model.hidden, &model.heads, &model.kv_heads, &model.feed_forward, &model.experts.width,
                     &model.experts.shared_width, &model.latent.kv_rank, &model.latent.query_rank,
                     &model.mamba.heads, &model.delta_net.key_heads, &model.delta_net.value_heads})
    *width *= multiple;
  return model;
}

const Layer* kind_named(const LayerKinds& kinds, const std::string& name) {
  const auto found = std::find_if(kinds.kinds.begin(), kinds.kinds.end(),
                                  [&](const Layer& kind) { return kind.name == name; });
  return found == kinds.kinds.end() ? nullptr : &*found;
}

void widen(LayerProfile& profile, const Problem& problem, const LayerKinds& narrow, const LayerKinds& wide,
           int multiple) {
  const auto& gpus = problem.topology->gpus;
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.name == profile.gpu; });
  const Gpu* gpu = found == gpus.end() ? nullptr : &*found;
  profile.source = LayerProfile::Source::estimated;
  if (profile.shape) profile.shape = wider(*profile.shape, multiple);
  for (ProfileRow& row : profile.rows) {
    const Layer *before = kind_named(narrow, row.kind), *after = kind_named(wide, row.kind);
    if (before == nullptr || after == nullptr) continue;
    const Growth growth = growth_of(problem, gpu, *before, *after, row);
    row.forward.median_s *= growth.forward;
    row.backward.median_s *= growth.backward;
    if (row.update) row.update->median_s *= growth.update;
  }
}

}  // namespace

Problem widen_model(const Problem& problem, int multiple) {
  const auto* model = std::get_if<Transformer>(&problem.job.model);
  if (model == nullptr) throw Error("", "only transformers have a hidden size that can be widened");
  Problem result = problem;
  result.job.model = wider(*model, multiple);
  if (const auto preset = result.job.execution.compression.gradient_preset)
    compress_gradients(result.job, *preset);  // low-rank ratios depend on matrix sizes
  const ActivationBytes bytes = activation_bytes(problem.job.training);
  const LayerKinds narrow = layer_kinds(problem.job.model, bytes),
                   wide = layer_kinds(result.job.model, bytes);
  for (LayerProfile& profile : result.job.profiles) widen(profile, problem, narrow, wide, multiple);
  return result;
}

}  // namespace dtfm::cost
