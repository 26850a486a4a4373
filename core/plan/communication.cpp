#include "core/plan/communication.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/cluster/topology.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/shards.hpp"

namespace dtfm {
namespace {

bool have_same_devices(const Plan& plan, const std::vector<int>& stages, const std::vector<int>& others) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i] == others[i]) continue;
    if (stages[i] == no_index || others[i] == no_index) return false;
    const std::vector<int>&a = devices_of(plan.pipelines[i], at(stages[i])),
          &b = devices_of(plan.pipelines[i], at(others[i]));
    if (&a != &b && a != b) return false;
  }
  return true;
}

/// The stage that holds the layer; no_index if none does.
int stage_with(const StageLayers& layers, int layer) {
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    if (layers[stage].first <= layer && layer < layers[stage].second) return static_cast<int>(stage);
  return no_index;
}

}  // namespace

LayerBytes::LayerBytes(const Job& job, const ExecutionConfig& execution)
    : token_parts_(execution.token_parts()),
      divides_messages_(divides_messages(job.parallelism)),
      divides_heads_(traits(execution.context_exchange).divides_heads),
      recomputation_(traits(execution.recomputation)),
      expert_imbalance_(execution.expert_imbalance) {
  const ParameterBytes bytes = parameter_bytes(job.training);
  gradient_ = bytes.synced;
  weight_ = bytes.weights;
  elements_ = expert_elements_ = tied_ = quantized_copies_ = expert_copies_ = {0};
  if (const auto* transformer = std::get_if<Transformer>(&job.model)) experts_ = transformer->experts;
  const double copy = quantized_copy_bytes(job.training.matmul);
  for (const Layer& layer : layer_chain(job)) {
    const bool apart = execution.expert > 1;
    const double experts = apart ? layer.expert_parameters : 0,
                 expert_matrices = std::min(experts, layer.matrix_parameters);
    elements_.push_back(elements_.back() + layer.parameters - experts);
    expert_elements_.push_back(expert_elements_.back() + experts);
    tied_.push_back(tied_.back() + layer.tied_parameters);
    quantized_copies_.push_back(quantized_copies_.back() +
                                (layer.matrix_parameters - expert_matrices) * copy);
    expert_copies_.push_back(expert_copies_.back() + expert_matrices * copy);
    const Bytes exchanged =
        divides_heads_ ? (layer.keys_values + layer.queries_outputs) / 4 : layer.keys_values;
    keys_values_.push_back(execution.context > 1 ? exchanged.value() * execution.micro_batch : 0);
    expert_tokens_.push_back(
        apart ? layer.dispatched.value() * execution.expert_imbalance * execution.micro_batch : 0);
    all_reduces_.push_back(apart && layer.routed_mlps > 0 ? 1 : 2);
    output_.push_back(layer.output.value() * execution.micro_batch);
  }
}

namespace {

/// Adds `it` for one group: `size` devices of the stage, every `step`-th one from number `first` on.
void add_group(Communication it, int first, int size, int step, const Stage& stage,
               std::vector<Communication>& result) {
  for (int i = 0; i < size; ++i) it.devices.push_back(stage.devices[at(first + i * step)]);
  it.pipelines.assign(at(size), it.pipelines.front());
  it.stages.assign(at(size), it.stages.front());
  result.push_back(std::move(it));
}

/// Adds the all-to-alls of an expert-parallel group, which begins at device number `first` of the stage.
void add_dispatch(const Topology& topology, const LayerBytes& bytes, const ExecutionConfig& execution,
                  const Communication& it, int first, const Stage& stage,
                  std::vector<Communication>& result) {
  const int expert = execution.expert,
            hosts = dispatching_hosts(topology, execution,
                                      std::span(stage.devices).subspan(at(first), at(expert))),
            on_host = expert / hosts;
  Communication within = it, between = it;
  within.payload = hosts > 1 ? Payload::host_tokens : Payload::expert_tokens;
  between.bytes *= hosts * bytes.vectors_per_visit(hosts);
  if (execution.expert_dispatch == ExpertDispatch::hierarchical)
    within.bytes *= expert * bytes.vectors_per_visit(expert);
  for (int rank = 0; hosts > 1 && rank < on_host; ++rank)
    add_group(between, first + rank, hosts, on_host, stage, result);
  for (int host = 0; on_host > 1 && host < hosts; ++host)
    add_group(within, first + host * on_host, on_host, 1, stage, result);
}

/// What the devices of a stage send each other for a layer in a pass.
void add_exchanges(const Topology& topology, const LayerBytes& bytes, const Plan& plan, int pipeline,
                   int number, int layer, Pass pass, std::vector<Communication>& result) {
  const Stage& stage = plan.pipelines[at(pipeline)].stages[at(number)];
  const StageMesh mesh = stage_mesh(plan.execution, stage.devices.size());
  const auto [begin, end] = stage.layers;
  const bool recomputed = layer - begin < recomputed_layers(plan.execution, stage, end - begin);
  Communication it{.payload = Payload::partial_sums,
                   .moment = Moment::after_pass,
                   .pass = pass,
                   .layers = {layer, layer + 1},
                   .pipelines = {pipeline},
                   .stages = {number},
                   .algorithm = tensor_all_reduce,
                   .count = bytes.all_reduces(layer, pass, recomputed)};
  it.bytes = bytes.output(layer) / mesh.token_parts();
  for (int first = 0; mesh.tensor > 1 && first < mesh.devices(); first += mesh.tensor)
    add_group(it, first, mesh.tensor, 1, stage, result);
  it.count = bytes.key_rounds(layer, pass, recomputed);
  it.payload = Payload::keys_values;
  it.collective = bytes.divides_heads() ? Collective::all_to_all : Collective::all_gather;
  it.bytes =
      bytes.keys_values(layer) / (mesh.tensor * mesh.data * (bytes.divides_heads() ? mesh.context : 1));
  for (int first = 0; it.count > 0 && first < mesh.devices(); ++first)
    if (first / mesh.tensor % mesh.context == 0)
      add_group(it, first, mesh.context, mesh.tensor, stage, result);
  it.payload = Payload::expert_tokens;
  it.collective = Collective::all_to_all;
  it.count = bytes.all_to_alls(layer, pass, recomputed);
  it.bytes = bytes.expert_tokens(layer) / mesh.devices();
  for (int first = 0; it.count > 0 && first < mesh.devices(); first += mesh.expert)
    add_dispatch(topology, bytes, plan.execution, it, first, stage, result);
}

/// The messages from a stage to the next one, or to the one before.
void add_messages(const LayerBytes& bytes, const Plan& plan, int pipeline, int from, int to,
                  std::vector<Communication>& result) {
  const std::vector<Stage>& stages = plan.pipelines[at(pipeline)].stages;
  const std::vector<int>&senders = stages[at(from)].devices, &receivers = stages[at(to)].devices;
  const int last_layer = std::max(0, stages[at(std::min(from, to))].layers.second - 1),
            parts = parts_between(senders, receivers);
  for (int part = 0; part < parts; ++part)
    result.push_back(
        {.payload = Payload::activations,
         .moment = Moment::after_pass,
         .pass = from < to ? Pass::forward : Pass::backward,
         .layers = stages[at(from)].layers,
         .devices = {device_of_part(senders, part, parts), device_of_part(receivers, part, parts)},
         .pipelines = {pipeline, pipeline},
         .stages = {from, to},
         .part = part,
         .parts = parts,
         .collective = Collective::send,
         .bytes = bytes.message(last_layer, parts)});
}

}  // namespace

int dispatching_hosts(const Topology& topology, const ExecutionConfig& execution,
                      std::span<const int> group) {
  if (execution.expert_dispatch == ExpertDispatch::flat) return 1;
  const auto host_of = [&](std::size_t i) { return topology.devices[at(group[i])].host; };
  std::size_t on_host = 1;
  while (on_host < group.size() && host_of(on_host) == host_of(0)) ++on_host;
  if (group.size() % on_host != 0) return 1;
  std::set<int> hosts;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (host_of(i) != host_of(i / on_host * on_host)) return 1;
    hosts.insert(host_of(i));
  }
  const std::size_t blocks = group.size() / on_host;
  return hosts.size() == blocks ? static_cast<int>(blocks) : 1;
}

std::vector<Communication> pipeline_communications(const Topology& topology, const LayerBytes& bytes,
                                                   const Plan& plan, int pipeline) {
  std::vector<Communication> result;
  const std::vector<Stage>& stages = plan.pipelines[at(pipeline)].stages;
  for (int stage = 0; at(stage) < stages.size(); ++stage) {
    const std::pair<int, int> layers = stages[at(stage)].layers;
    for (int layer = layers.first; layer < layers.second; ++layer)
      for (const Pass pass : {Pass::forward, Pass::backward})
        add_exchanges(topology, bytes, plan, pipeline, stage, layer, pass, result);
    if (at(stage) + 1 < stages.size()) add_messages(bytes, plan, pipeline, stage, stage + 1, result);
    if (stage > 0) add_messages(bytes, plan, pipeline, stage, stage - 1, result);
  }
  return result;
}

void find_gradient_buckets(const Plan& plan, std::span<const StageLayers* const> layers, int layer_count,
                           std::vector<GradientBucket>& buckets) {
  std::size_t count = 0;
  std::vector<std::size_t> next(layers.size());  // [pipeline]: its first stage with layers from `layer` on
  for (int layer = 0; layer < layer_count;) {
    if (count == buckets.size()) buckets.emplace_back();
    GradientBucket& it = buckets[count];
    it.stages.resize(layers.size());
    int end = plan.execution.overlap ? layer + 1 : layer_count;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const StageLayers& its = *layers[i];
      std::size_t& stage = next[i];
      while (stage < its.size() && its[stage].second <= layer) ++stage;
      const bool exists = stage < its.size(), holds = exists && its[stage].first <= layer;
      it.stages[i] = holds ? static_cast<int>(stage) : no_index;
      if (exists) end = std::min(end, holds ? its[stage].second : its[stage].first);
    }
    if (!plan.execution.overlap && count > 0 &&
        have_same_devices(plan, buckets[count - 1].stages, it.stages)) {
      buckets[count - 1].layers.second = end;
    } else {
      it.layers = {layer, end};
      it.holds_first = have_same_devices(plan, it.stages, buckets.front().stages);
      ++count;
    }
    layer = end;
  }
  buckets.resize(count);
}

namespace {

/// The largest number of shards that a stage of the bucket has.
int most_shards(const Plan& plan, const GradientBucket& bucket, bool experts) {
  int most = 1;
  for (std::size_t i = 0; i < bucket.stages.size(); ++i)
    if (bucket.stages[i] != no_index) {
      const std::vector<int>& devices = devices_of(plan.pipelines[i], at(bucket.stages[i]));
      most = std::max(most, stage_mesh(plan.execution, devices.size()).shards(experts));
    }
  return most;
}

/// Adds a communication for each of `it.parts` parts, among all devices of the bucket that have it.
void add_parts(const Plan& plan, const GradientBucket& bucket, Communication it,
               std::vector<Communication>& result) {
  for (it.part = 0; it.part < it.parts; ++it.part) {
    Communication& sync = result.emplace_back(it);
    for (std::vector<int>* values : {&sync.devices, &sync.pipelines, &sync.stages})
      values->reserve(bucket.stages.size());
    for (std::size_t i = 0; i < bucket.stages.size(); ++i) {
      if (bucket.stages[i] == no_index) continue;
      const std::vector<int>& devices = devices_of(plan.pipelines[i], at(bucket.stages[i]));
      const int shards = stage_mesh(plan.execution, devices.size()).shards(it.experts);
      for (std::size_t rank = at(rank_of_part(it.part, it.parts, shards)); rank < devices.size();
           rank += at(shards)) {
        sync.devices.push_back(devices[rank]);
        sync.pipelines.push_back(static_cast<int>(i));
        sync.stages.push_back(bucket.stages[i]);
      }
    }
  }
}

}  // namespace

std::vector<Communication> gradient_syncs(const LayerBytes& bytes, const Plan& plan,
                                          const GradientBucket& bucket) {
  const bool is_scattered = traits(plan.execution.optimizer_sharding).optimizer &&
                            !traits(plan.execution.messaging).all_reduces_shards;
  std::vector<Communication> syncs;
  for (const bool experts : {false, true}) {
    if (experts && bytes.expert_elements(bucket.layers) == 0) continue;
    Communication sync{.payload = Payload::gradients,
                       .moment = Moment::after_last_backward,
                       .layers = bucket.layers,
                       .experts = experts,
                       .parts = most_shards(plan, bucket, experts),
                       .algorithm = plan.execution.gradient_sync,
                       .collective = is_scattered ? Collective::reduce_scatter : Collective::all_reduce,
                       .overlaps = plan.execution.overlap};
    sync.bytes = bytes.gradients(bucket.layers, bucket.holds_first, experts) / sync.parts;
    syncs.reserve(syncs.size() + at(sync.parts));
    add_parts(plan, bucket, sync, syncs);
  }
  return syncs;
}

Communication parameter_gather(const LayerBytes& bytes, const Communication& gradients, bool holds_first) {
  Communication gather = gradients;
  gather.payload = Payload::parameters;
  gather.moment = Moment::after_update;
  gather.collective = Collective::all_gather;
  gather.bytes = bytes.parameters(gather.layers, holds_first, gather.experts) / gather.parts;
  gather.overlaps = false;
  return gather;
}

std::vector<Communication> tied_syncs(const LayerBytes& bytes, const Plan& plan,
                                      std::span<const StageLayers* const> layers, int sharing) {
  // FSDP2 has reduce-scattered the gradients before, so each replica sends only its shard.
  const bool are_scattered =
      traits(plan.execution.optimizer_sharding).optimizer && plan.execution.messaging == Messaging::torch;
  const double copies = !are_scattered
                            ? plan.execution.token_parts()
                            : 1 / (sharing > 0 ? sharing : static_cast<double>(plan.pipelines.size()));
  std::vector<Communication> syncs;
  syncs.reserve(layers.size());
  for (int layer = 1; layer < bytes.layers(); ++layer)
    for (int i = 0; bytes.tied_gradients(layer) > 0 && at(i) < layers.size(); ++i) {
      const int first = stage_with(*layers[at(i)], 0), last = stage_with(*layers[at(i)], layer);
      if (first == no_index || last == no_index) continue;
      const std::vector<int>&ours = devices_of(plan.pipelines[at(i)], at(first)),
            &theirs = devices_of(plan.pipelines[at(i)], at(last));
      if (ours == theirs) continue;
      const int parts = parts_between(ours, theirs);
      for (int part = 0; part < parts; ++part)
        syncs.push_back({.payload = Payload::tied_gradients,
                         .moment = Moment::after_gradient_sync,
                         .layers = {layer, layer + 1},
                         .devices = {device_of_part(ours, part, parts), device_of_part(theirs, part, parts)},
                         .pipelines = {i, i},
                         .stages = {first, last},
                         .part = part,
                         .parts = parts,
                         .algorithm = pair_all_reduce,
                         .bytes = bytes.tied_gradients(layer) * copies / parts});
    }
  return syncs;
}

std::vector<Communication> partition_communications(const LayerBytes& bytes,
                                                    const ExecutionConfig& execution) {
  const OptimizerShardingTraits& sharding = traits(execution.optimizer_sharding);
  std::vector<Communication> result;
  result.reserve(3 * at(bytes.layers()) + 1);
  const auto add = [&](Payload payload, Moment moment, Pass pass, std::pair<int, int> layers) {
    const bool gathers = payload == Payload::parameters;
    result.push_back({.payload = payload,
                      .moment = moment,
                      .pass = pass,
                      .layers = layers,
                      .algorithm = execution.gradient_sync,
                      .collective = gathers ? Collective::all_gather : Collective::reduce_scatter,
                      .bytes = gathers ? bytes.parameters(layers, true) : bytes.gradients(layers, true)});
  };
  for (int layer = 0; layer < bytes.layers(); ++layer) {
    for (const Pass pass : {Pass::forward, Pass::backward})
      if (sharding.parameters) add(Payload::parameters, Moment::before_pass, pass, {layer, layer + 1});
    add(Payload::gradients, Moment::after_pass, Pass::backward, {layer, layer + 1});
  }
  if (!sharding.parameters)
    add(Payload::parameters, Moment::after_update, Pass::backward, {0, bytes.layers()});
  return result;
}

std::vector<Communication> replica_communications(const LayerBytes& bytes, const Plan& plan, int sharing) {
  if (traits(plan.execution.optimizer_sharding).gradients) {
    std::vector<Communication> all = partition_communications(bytes, plan.execution);
    for (Communication& it : all)
      for (int i = 0; at(i) < plan.pipelines.size(); ++i) {
        it.devices.push_back(plan.pipelines[at(i)].stages.front().devices.front());
        it.pipelines.push_back(i);
        it.stages.push_back(0);
      }
    return all;
  }
  std::vector<StageLayers> held;
  for (const Pipeline& pipeline : plan.pipelines) {
    held.emplace_back();
    for (const Stage& stage : pipeline.stages) held.back().push_back(stage.layers);
  }
  std::vector<const StageLayers*> layers;
  for (const StageLayers& it : held) layers.push_back(&it);

  std::vector<Communication> syncs, gathers;
  if (traits(plan.execution.gradient_sync).messages) {
    std::vector<GradientBucket> buckets;
    find_gradient_buckets(plan, layers, bytes.layers(), buckets);
    for (std::size_t number = buckets.size(); number-- > 0;)  // the last layers have their gradients first
      for (Communication& it : gradient_syncs(bytes, plan, buckets[number])) {
        if (traits(plan.execution.optimizer_sharding).optimizer)
          gathers.push_back(parameter_gather(bytes, it, buckets[number].holds_first));
        syncs.push_back(std::move(it));
      }
    const auto by_part = [](const Communication& a, const Communication& b) {
      return std::pair(a.experts, a.part) < std::pair(b.experts, b.part);
    };
    std::stable_sort(syncs.begin(), syncs.end(), by_part);
    std::stable_sort(gathers.begin(), gathers.end(), by_part);
  }
  if (plan.execution.tied_embedding_sync)
    for (Communication& it : tied_syncs(bytes, plan, layers, sharing)) syncs.push_back(std::move(it));
  std::move(gathers.begin(), gathers.end(), std::back_inserter(syncs));
  return syncs;
}

}  // namespace dtfm
