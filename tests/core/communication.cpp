#include "core/plan/communication.hpp"

#include <map>
#include <set>

#include "core/plan/model_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Stages of `tensor` devices each, numbered pipeline by pipeline, with one layer per stage.
Plan tensor_plan(Job& job, int stages, int replicas, int tensor) {
  Plan plan = plan_of(job, stages, replicas, 2);
  int next = 0;
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      stage.devices.clear();
      for (int rank = 0; rank < tensor; ++rank) stage.devices.push_back(next++);
    }
  return plan;
}

}  // namespace

// arXiv 1909.08053, section 3: an all-reduce after the attention and one after the MLP, in each pass; full
// recomputation repeats the forward (arXiv 2205.05198, section 5). A micro-batch of 5 sequences has outputs
// of 5 · 1e6 bytes.
TEST_CASE("the devices of a stage all-reduce the output of every layer twice per pass") {
  for (const auto recomputation : {Recomputation::none, Recomputation::selective, Recomputation::full}) {
    Job job = chain_job(3, 1e6, 1e6);
    job.execution.micro_batch = 5;
    job.execution.recomputation = recomputation;
    const Plan plan = tensor_plan(job, 3, 2, 4);
    const LayerBytes bytes(job, job.execution);
    std::map<std::pair<Pass, int>, int> counts;  // by pass and layer
    for (const Communication& it : pipeline_communications(bytes, plan, 1)) {
      REQUIRE(it.payload == Payload::partial_sums);
      CHECK(it.moment == Moment::after_pass);
      CHECK(it.bytes == 5e6);
      CHECK(it.devices == plan.pipelines[1].stages[at(it.layers.first)].devices);
      CHECK(it.stages == std::vector<int>(4, it.layers.first));
      counts[{it.pass, it.layers.first}] += it.count;
    }
    for (int layer = 0; layer < 3; ++layer) {
      CHECK(counts[{Pass::forward, layer}] == 2);
      CHECK(counts[{Pass::backward, layer}] == (recomputation == Recomputation::full ? 4 : 2));
    }
  }
}

TEST_CASE("stages of one device all-reduce nothing") {
  Job job = chain_job(4, 1e6, 1e6);
  CHECK(pipeline_communications(LayerBytes(job, job.execution), plan_of(job, 2, 1, 2), 0).empty());
}
