#include "core/plan/communication.hpp"

#include <map>
#include <utility>
#include <vector>

#include "core/plan/model_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// As plan_of, but with stages of so many devices, numbered stage by stage and pipeline by pipeline.
Plan tensor_plan(const Job& job, int replicas, const std::vector<int>& degrees) {
  Plan plan = plan_of(job, static_cast<int>(degrees.size()), replicas, 2);
  int next = 0;
  for (Pipeline& pipeline : plan.pipelines)
    for (std::size_t stage = 0; stage < degrees.size(); ++stage) {
      pipeline.stages[stage].devices.clear();
      for (int rank = 0; rank < degrees[stage]; ++rank) pipeline.stages[stage].devices.push_back(next++);
    }
  return plan;
}

std::vector<Communication> communications_of(const Job& job, const Plan& plan) {
  const LayerBytes bytes(job, plan.execution);
  std::vector<Communication> all = replica_communications(bytes, plan);
  for (int i = 0; at(i) < plan.pipelines.size(); ++i)
    for (Communication& it : pipeline_communications(Topology(), bytes, plan, i))
      all.push_back(std::move(it));
  return all;
}

/// Bytes that each device sends in an iteration in which every pipeline computes so many micro-batches.
std::map<int, double> sent_bytes(const std::vector<Communication>& all, int micro_batches) {
  std::map<int, double> bytes;
  for (const Communication& it : all) {
    const bool is_repeated = it.moment == Moment::before_pass || it.moment == Moment::after_pass;
    const double times = it.count * (is_repeated ? micro_batches : 1);
    if (it.collective == Collective::send) {
      bytes[it.devices[0]] += times * it.bytes;
      continue;
    }
    std::vector<CollectiveMember> members;
    for (const int device : it.devices) members.push_back({.host = device});
    const CollectiveMessages list = collective_messages(it.algorithm, members, {it.collective});
    for (const CollectivePhase& phase : list.phases)
      for (const CollectiveMessage& message : phase.messages)
        bytes[it.devices[at(message.from)]] +=
            times * it.bytes / list.shards / (message.chunk == no_index ? 1 : list.chunks);
  }
  return bytes;
}

/// A transformer whose embedding and head share V · h = 500 · 16 parameters.
Job tied_job() {
  Job job = chain_job(1, 0, 0);
  job.model = Transformer{.layers = 4, .hidden = 16, .heads = 4, .sequence = 8, .vocabulary = 500};
  return job;
}

}  // namespace

// arXiv 1909.08053, section 3: an all-reduce after the attention and one after the MLP, in each pass; full
// recomputation repeats the forward, that of MLPs the second one (arXiv 2205.05198, section 5). A ring of t =
// 4 sends 2 (t − 1) / t of the output of a layer each time (Patarasu and Yuan, 2009). A micro-batch of 5
// sequences has S = 5 · 1e6 bytes; a stage has one layer.
TEST_CASE("the devices of a stage all-reduce the output of every layer twice per pass") {
  for (const auto& [recomputation, count] : {std::pair(Recomputation::none, 4),
                                             {Recomputation::selective, 4},
                                             {Recomputation::mlp, 5},
                                             {Recomputation::full, 6}}) {
    Job job = chain_job(3, 1e6, 1e6);
    job.execution.micro_batch = 5;
    job.execution.recomputation = recomputation;
    const Plan plan = tensor_plan(job, 1, {4, 4, 4});
    const auto sent =
        sent_bytes(pipeline_communications(Topology(), LayerBytes(job, job.execution), plan, 0), 7);
    REQUIRE(sent.size() == 12);
    // The stages in the middle also send activations and their gradients, the others one of them.
    for (const auto& [device, bytes] : sent)
      CHECK(bytes == Approx(7 * 5e6 * (count * 2 * 3.0 / 4 + (device / 4 == 1 ? 2 : 1) / 4.0)));
  }
}

// Of S bytes, each of t devices sends S / t (arXiv 2205.05198), or all without sequence parallelism. From 2
// to 4 devices there are 4 messages (core/plan/shards.hpp).
TEST_CASE("a boundary is sent in as many messages as the larger stage has devices") {
  for (const bool divides : {true, false}) {
    Job job = chain_job(2, 1e6, 1e6);
    job.parallelism.sequence_parallel = divides;
    const Plan plan = tensor_plan(job, 2, {2, 4});
    std::map<Pass, std::vector<std::vector<int>>> pairs;
    for (const Communication& it :
         pipeline_communications(Topology(), LayerBytes(job, job.execution), plan, 1)) {
      if (it.payload != Payload::activations) continue;
      CHECK(it.bytes == 1e6 / (divides ? 4 : 1));
      pairs[it.pass].push_back(it.devices);
    }
    CHECK(pairs[Pass::forward] == std::vector<std::vector<int>>{{6, 8}, {6, 9}, {7, 10}, {7, 11}});
    CHECK(pairs[Pass::backward] == std::vector<std::vector<int>>{{8, 6}, {9, 6}, {10, 7}, {11, 7}});
  }
}

// arXiv 1910.02054, section 7: with P bytes of weights and G of gradients, n devices send per iteration of
// one micro-batch 2 (n − 1) G / n bytes, (n − 1) (G + P) / n with zero1 and zero2, and (n − 1) (G + 2 P) / n
// with zero3. zero2 repeats its reduce-scatters, and zero3 everything, for every micro-batch. DeepSpeed's
// pipelines all-reduce gradients with zero1.
TEST_CASE("replicas send the bytes stated in the ZeRO paper") {
  struct Case {
    OptimizerSharding sharding;
    double gradients, parameters, repeated_gradients, repeated_parameters;
    Messaging messaging = Messaging::ahead;
  };
  for (const Case& it :
       {Case{OptimizerSharding::none, 2, 0, 0, 0}, Case{OptimizerSharding::zero1, 1, 1, 0, 0},
        Case{OptimizerSharding::zero1, 2, 1, 0, 0, Messaging::deepspeed},
        Case{OptimizerSharding::zero2, 0, 1, 1, 0}, Case{OptimizerSharding::zero3, 0, 0, 1, 2}})
    for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps})
      for (const int n : {2, 3, 8})
        for (const int micro_batches : {1, 3}) {
          CAPTURE(it.sharding, sync, n, micro_batches);
          Job job = chain_job(4, 1e6, 0);
          job.training.optimizer = Optimizer::adam_18;  // gradients in fp32
          job.execution.gradient_sync = sync;
          job.execution.optimizer_sharding = it.sharding;
          job.execution.messaging = it.messaging;
          const double g = 4 * 1e6 * 4, p = 4 * 1e6 * 2, m = micro_batches;
          const auto sent = sent_bytes(communications_of(job, plan_of(job, 1, n, 2)), micro_batches);
          REQUIRE(sent.size() == at(n));
          for (const auto& [device, bytes] : sent)
            CHECK(bytes == Approx((n - 1.0) / n *
                                  ((it.gradients + m * it.repeated_gradients) * g +
                                   (it.parameters + m * it.repeated_parameters) * p)));
        }
}

TEST_CASE("layers between two cuts of any pipeline are synchronized together, the last ones first") {
  Job job = chain_job(6, 1e6, 0);
  Plan plan = plan_of(job, 2, 2, 2);  // devices 0, 1 and 2, 3
  plan.pipelines[1].stages[0].layers.second = plan.pipelines[1].stages[1].layers.first = 4;
  using Sync = std::pair<std::pair<int, int>, std::vector<int>>;
  const auto syncs_of = [&](const Plan& of) {
    std::vector<Sync> syncs;
    for (const Communication& it : replica_communications(LayerBytes(job, job.execution), of)) {
      CHECK(it.bytes == 2e6 * (it.layers.second - it.layers.first));
      syncs.push_back({it.layers, it.devices});
    }
    return syncs;
  };
  CHECK(syncs_of(plan) == std::vector<Sync>{{{4, 6}, {1, 3}}, {{3, 4}, {1, 2}}, {{0, 3}, {0, 2}}});
  plan.execution.overlap = true;
  CHECK(syncs_of(plan) == std::vector<Sync>{{{5, 6}, {1, 3}},
                                            {{4, 5}, {1, 3}},
                                            {{3, 4}, {1, 2}},
                                            {{2, 3}, {0, 2}},
                                            {{1, 2}, {0, 2}},
                                            {{0, 1}, {0, 2}}});
  plan.execution.gradient_sync = GradientSync::none;
  CHECK(syncs_of(plan).empty());
}

TEST_CASE("pipelines that skip layers do not synchronize them") {
  const Job job = chain_job(3, 1e6, 0);
  Plan plan = plan_of(job, 3, 2, 2);
  plan.pipelines[1].stages.erase(plan.pipelines[1].stages.begin() + 1);
  const auto all = replica_communications(LayerBytes(job, job.execution), plan);
  REQUIRE(all.size() == 3);
  CHECK(all[0].devices == std::vector{2, 5});
  CHECK(all[1].devices == std::vector{1});
  CHECK(all[1].pipelines == std::vector{0});
  CHECK(all[2].devices == std::vector{0, 3});
}

// Of two layers on a device, one interleaved stage each, both are synchronized by the same devices.
TEST_CASE("virtual stages of the same devices are synchronized together only if they are neighbours") {
  Job job = chain_job(4, 1e6, 0);
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  const auto count = [&](int stages) {
    return replica_communications(LayerBytes(job, job.execution),
                                  expand_virtual_stages(plan_of(job, stages, 2, 2)))
        .size();
  };
  CHECK(count(1) == 1);
  CHECK(count(2) == 4);
}

// Parts of a layer are held as core/plan/shards.hpp says.
TEST_CASE("gradients are synchronized in as many parts as the largest stage has devices") {
  const Job job = chain_job(1, 1e6, 0);
  Plan plan = tensor_plan(job, 2, {4});
  plan.pipelines[1].stages[0].devices = {4, 5};
  std::vector<std::vector<int>> members;
  for (const Communication& it : replica_communications(LayerBytes(job, job.execution), plan)) {
    CHECK(it.part == static_cast<int>(members.size()));
    CHECK(it.parts == 4);
    CHECK(it.bytes == 2e6 / 4);
    members.push_back(it.devices);
  }
  CHECK(members == std::vector<std::vector<int>>{{0, 4}, {1, 4}, {2, 5}, {3, 5}});
}

// The embedding and the head share V · h parameters, whose fp32 gradients have 4 · 500 · 16 bytes.
TEST_CASE("the ends of every pipeline all-reduce the gradients of tied embeddings") {
  Job job = tied_job();
  job.training.optimizer = Optimizer::adam_18;
  job.execution.tied_embedding_sync = true;
  const double parameters = parameters_of(layer_chain(job), {0, 4});
  std::vector<std::vector<int>> tied;
  double synchronized = 0;
  for (const Communication& it : communications_of(job, tensor_plan(job, 2, {2, 1, 4}))) {
    if (it.payload == Payload::gradients) synchronized += it.bytes;
    if (it.payload != Payload::tied_gradients) continue;
    CHECK(it.moment == Moment::after_gradient_sync);
    CHECK(it.bytes == 4 * 500 * 16 / 4.0);
    CHECK(it.layers == std::pair(3, 4));
    tied.push_back(it.devices);
  }
  CHECK(tied ==
        std::vector<std::vector<int>>{{0, 3}, {0, 4}, {1, 5}, {1, 6}, {7, 10}, {7, 11}, {8, 12}, {8, 13}});
  CHECK(synchronized == 4 * (parameters + 500 * 16));  // both copies

  // FSDP2 leaves half of the gradients on each of two replicas.
  Job sharded = job;
  sharded.execution.optimizer_sharding = OptimizerSharding::zero1;
  sharded.execution.gradient_sync = GradientSync::ring;
  sharded.execution.messaging = Messaging::torch;
  int pairs = 0;
  for (const Communication& it : communications_of(sharded, plan_of(sharded, 2, 2, 2))) {
    if (it.payload != Payload::tied_gradients) continue;
    CHECK(it.bytes == 4 * 500 * 16 / 2.0);
    ++pairs;
  }
  CHECK(pairs == 2);

  synchronized = 0;
  for (const Communication& it : communications_of(job, plan_of(job, 1, 2, 2))) {
    CHECK(it.payload == Payload::gradients);
    synchronized += it.bytes;
  }
  CHECK(synchronized == 4 * parameters);
}
