#include "core/plan/stage_mesh.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <variant>

#include <fmt/format.h>

#include "core/plan/job.hpp"
#include "core/plan/target.hpp"

namespace dtfm {

int devices_per_stage(const Job& job) {
  const long long devices = 1LL * job.parallelism.tensor * job.execution.token_parts();
  return static_cast<int>(std::min<long long>(devices, std::numeric_limits<int>::max()));
}

int expert_count(const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  return transformer != nullptr ? transformer->experts.count : 0;
}

double vectors_per_visit(const Experts& experts, int parts) {
  const double elsewhere = experts.count - static_cast<double>(experts.count) / parts;
  double none = 1;  // probability that a token visits no expert of a part
  for (int visit = 0; visit < experts.per_token; ++visit)
    none *= std::max(0.0, elsewhere - visit) / (experts.count - visit);
  return (1 - none) / experts.per_token;
}

namespace {

/// Why the heads of attention cannot be divided among the devices of a context-parallel group.
std::string head_obstacle(const Job& job, const Transformer& model) {
  const int parts = job.parallelism.tensor * job.execution.context;
  const int key_heads = model.latent.kv_rank > 0 ? model.heads : kv_head_count(model);
  for (const auto& [what, heads] : {std::pair("attention", model.heads), std::pair("key-value", key_heads)})
    if (heads % parts != 0)
      return fmt::format(
          "{} {} heads are not a multiple of tensor {} × context {}, as context_exchange all-to-all requires",
          heads, what, job.parallelism.tensor, job.execution.context);
  return "";
}

}  // namespace

std::string mesh_obstacle(const Job& job) {
  const int data = job.execution.stage_data.value_or(1), expert = job.execution.expert,
            context = job.execution.context, experts = expert_count(job.model);
  if (expert > 1 && experts == 0)
    return fmt::format("expert-parallel degree {} requires a model with experts", expert);
  if (expert > 1 && experts % expert != 0)
    return fmt::format("expert-parallel degree {} does not divide the {} experts of the model", expert,
                       experts);
  if (devices_per_stage(job) % expert != 0)
    return fmt::format(
        "expert-parallel degree {} does not divide the devices of a stage, tensor {} × "
        "context {} × stage_data {}",
        expert, job.parallelism.tensor, context, data);
  if (job.execution.micro_batch % data != 0)
    return fmt::format("micro_batch {} is not a multiple of stage_data {}{}", job.execution.micro_batch, data,
                       expert > 1 ? fmt::format(", which expert {} requires with tensor {} and context {}",
                                                expert, job.parallelism.tensor, context)
                                  : "");
  if (context == 1) return "";
  const auto* model = std::get_if<Transformer>(&job.model);
  if (model == nullptr || has_block(*model, Mixer::mamba_2) || has_block(*model, Mixer::delta_net))
    return fmt::format("context-parallel degree {} requires a transformer with attention in all blocks",
                       context);
  // The first and the last of 2 c parts are computed by one device, and so on, so that all have equally much
  // to do with a causal mask.
  if (model->sequence % (2 * context) != 0)
    return fmt::format("sequence {} is not a multiple of 2 × context {}", model->sequence, context);
  if (std::string what = job.target ? context_obstacle(traits(*job.target), job) : ""; !what.empty())
    return what;
  return traits(job.execution.context_exchange).divides_heads ? head_obstacle(job, *model) : "";
}

void fit_stage_data(Job& job) {
  const long long own = 1LL * job.parallelism.tensor * job.execution.context;
  const int data = static_cast<int>(std::lcm(own, job.execution.expert) / own);
  job.execution.stage_data.reset();
  if (data > 1) job.execution.stage_data = data;
}

}  // namespace dtfm
