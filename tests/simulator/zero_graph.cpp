#include "simulator/iteration/zero_graph.hpp"

#include <map>
#include <set>
#include <string>

#include "core/plan/compression.hpp"
#include "core/plan/model_state.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double parameters = 5e7;  // per layer: 1e8 bytes

/// Returns devices that compute all layers, over links of `bytes_per_s` without latency.
Problem zero_problem(int devices, int layers, double bytes_per_s, OptimizerSharding sharding) {
  Problem problem{flat_topology({devices}, link_of(0, bytes_per_s), link_of(0, bytes_per_s)),
                  chain_job(layers, parameters, 1e6), Calibration{1, 0, 1, 0}};
  problem.job.execution.gradient_sync = GradientSync::ring;
  problem.job.execution.optimizer_sharding = sharding;
  return problem;
}

double seconds(const Problem& problem, int micro_batches) {
  const int devices = problem.topology->size();
  return replay_makespan(iteration_graph(problem, plan_of(problem.job, 1, devices, micro_batches)));
}

std::map<int, double> sent_bytes(const Problem& problem, const Plan& plan) {
  const LabelledGraph lowered = iteration_graph(problem, plan);
  std::map<int, double> bytes;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.graph.tasks[i].kind == TaskKind::flow)
      bytes[lowered.labels[i].device] += lowered.graph.tasks[i].amount;
  return bytes;
}

}  // namespace

// arXiv 1910.02054, section 7: 2 Ψ for sharded gradients and optimizer states, 3 Ψ for sharded parameters as
// well; a ring of G sends (G − 1) / G of each.
TEST_CASE("every device sends the bytes stated in the ZeRO paper") {
  for (const int devices : {2, 3, 8}) {
    const double psi = 4 * 2 * parameters, part = psi * (devices - 1) / devices;
    for (const auto& [sharding, once, again] :
         {std::tuple(OptimizerSharding::zero2, 2, 1), std::tuple(OptimizerSharding::zero3, 3, 3)})
      for (const int micro_batches : {1, 3}) {
        CAPTURE(devices, sharding, micro_batches);
        const Problem problem = zero_problem(devices, 4, 1e9, sharding);
        const auto sent = sent_bytes(problem, plan_of(problem.job, 1, devices, micro_batches));
        REQUIRE(sent.size() == at(devices));
        for (const auto& [device, bytes] : sent)
          CHECK(bytes == Approx((once + again * (micro_batches - 1)) * part).epsilon(1e-12));
      }
  }
}

// Two devices, two layers of 1 s forward and 2 s backward. A collective of a layer is one step of 5e7 bytes:
// g.
//   g = 0.5 s: gathers 0–0.5, 0.5–1; F0 0.5–1.5, F1 1.5–2.5; gathers 1.5–2 (layer 1), 2.5–3 (layer 0);
//   B1 2.5–4.5, B0 4.5–6.5; the last gradients 6.5–7.
//   g = 3 s: gathers 0–3, 3–6, 6–9, 9–12; F0 3–4, F1 6–7, B1 9–11, B0 12–14; gradients 11–14, 14–17.
TEST_CASE("zero3 gathers the parameters of the next layer while one is computed") {
  CHECK(seconds(zero_problem(2, 2, 1e8, OptimizerSharding::zero3), 1) == Approx(7));
  CHECK(seconds(zero_problem(2, 2, 5e7 / 3, OptimizerSharding::zero3), 1) == Approx(17));
}

// F 0–2, B1 2–4, B0 4–6; gradients of layer 0 6–6.5; parameters of both layers 6.5–7.5.
TEST_CASE("zero2 gathers parameters once at the end") {
  CHECK(seconds(zero_problem(2, 2, 1e8, OptimizerSharding::zero2), 1) == Approx(7.5));
  // One more micro-batch: 6 s of computations, which hide the gradient synchronization of the first one.
  CHECK(seconds(zero_problem(2, 2, 1e8, OptimizerSharding::zero2), 2) == Approx(13.5));
}

// G = 3 devices, one layer: 2 steps of a third each, each 1e8 / 3 bytes and 0.1 s of latency.
TEST_CASE("a collective takes G − 1 steps around the ring") {
  Problem problem = zero_problem(3, 1, 1e8, OptimizerSharding::zero2);
  problem.topology = flat_topology({3}, link_of(0.1, 1e8), link_of(0.1, 1e8));
  CHECK(seconds(problem, 1) == Approx(3 + 2 * 2 * (1.0 / 3 + 0.1)));
}

/// Returns hosts of `on_host` devices each, with links of `inside` bytes per second within hosts and `across`
/// between hosts, for each device.
Problem hosts_problem(int hosts, int on_host, int layers, double inside, double across,
                      OptimizerSharding sharding) {
  Problem problem = zero_problem(hosts * on_host, layers, inside, sharding);
  problem.topology.edit().links =
      MeasuredLinks{Eigen::MatrixXd::Zero(hosts * on_host, hosts * on_host),
                    Eigen::MatrixXd::Constant(hosts * on_host, hosts * on_host, 8 * inside)};
  for (int device = 0; device < hosts * on_host; ++device) {
    Device& it = problem.topology.edit().devices[at(device)];
    it.host = device / on_host;
    it.uplink = it.downlink = BitsPerSecond(8 * across);
  }
  return problem;
}

// Each of 2 hosts has 2 devices. One ring would take 3 steps of 1e8 / 4 bytes at 1e7 B/s: 7.5 s. Each of two
// rings has half of that and leaves a host through a different device; transfers inside a host take no time.
TEST_CASE("there is one ring per device of a host") {
  const Problem problem = hosts_problem(2, 2, 1, 1e12, 1e7, OptimizerSharding::zero2);
  CHECK(seconds(problem, 1) == Approx(1 + 2 + 2 * 3.75).epsilon(1e-3));
  Problem uneven = hosts_problem(2, 2, 1, 1e12, 1e7, OptimizerSharding::zero2);
  uneven.topology.edit().devices[1].host = 1;  // hosts 1 and 3: one ring
  CHECK(seconds(uneven, 1) == Approx(1 + 2 + 2 * 7.5).epsilon(1e-3));
}

TEST_CASE("with several rings every device sends and receives as much as with one") {
  for (const auto& [hosts, on_host] : {std::pair(2, 2), std::pair(3, 4), std::pair(1, 4), std::pair(4, 1)}) {
    CAPTURE(hosts, on_host);
    const Problem problem = hosts_problem(hosts, on_host, 3, 1e10, 1e9, OptimizerSharding::zero3);
    const int devices = hosts * on_host;
    const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, 1, devices, 2));
    std::map<int, double> sent, got, left;
    for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
      const TaskLabel& label = lowered.labels[i];
      if (lowered.graph.tasks[i].kind != TaskKind::flow) continue;
      sent[label.device] += lowered.graph.tasks[i].amount;
      got[label.peer] += lowered.graph.tasks[i].amount;
      if (label.device / on_host != label.peer / on_host) left[label.device] += lowered.graph.tasks[i].amount;
    }
    const double all = 2 * 3 * 3 * 2 * parameters * (devices - 1) / devices;  // 2 micro-batches of 3 Ψ
    for (int device = 0; device < devices; ++device) {
      CHECK(sent[device] == Approx(all).epsilon(1e-12));
      CHECK(got[device] == Approx(all).epsilon(1e-12));
      CHECK(left[device] == Approx(hosts > 1 ? all / on_host : 0).epsilon(1e-12));
    }
  }
}

/// Two sites of two devices each, which partition states inside sites.
Problem hybrid_problem(int layers, double inside, double across) {
  Problem problem = zero_problem(4, layers, inside, OptimizerSharding::zero3);
  problem.topology = flat_topology({2, 2}, link_of(0, inside), link_of(0, across));
  problem.job.execution.gradient_sync = GradientSync::hierarchical;
  return problem;
}

// In every micro-batch, a device sends 3 Ψ / 2 inside its site, and all-reduces half of the gradients with
// the device that has the same part in the other site: twice a half of that.
TEST_CASE("hybrid sharding partitions inside sites and all-reduces across them") {
  const Problem problem = hybrid_problem(3, 1e9, 1e8);
  const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, 1, 4, 2));
  std::map<int, double> inside, across;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    const TaskLabel& label = lowered.labels[i];
    if (lowered.graph.tasks[i].kind != TaskKind::flow) continue;
    const bool is_inside = label.device / 2 == label.peer / 2;
    (is_inside ? inside : across)[label.device] += lowered.graph.tasks[i].amount;
    if (!is_inside) CHECK(label.device % 2 == label.peer % 2);
  }
  const double psi = 3 * 2 * parameters;
  for (int device = 0; device < 4; ++device) {
    CHECK(inside[device] == Approx(2 * 3 * psi / 2).epsilon(1e-12));
    CHECK(across[device] == Approx(2 * 2 * psi / 2 / 2).epsilon(1e-12));
  }
}

// F 0–1, B 1–3, transfers inside take no time; 5e7 bytes are all-reduced in two steps of half of them, 3–8.
TEST_CASE("the all-reduce across sites follows the reduce-scatter inside them") {
  CHECK(seconds(hybrid_problem(1, 1e15, 1e7), 1) == Approx(8));
  // With sites of different size there are no equal groups.
  Problem uneven = hybrid_problem(1, 1e15, 1e7);
  uneven.topology = flat_topology({3, 2}, link_of(0, 1e15), link_of(0, 1e7));
  CHECK(error_message([&] { iteration_graph(uneven, plan_of(uneven.job, 1, 5, 1)); }) ==
        "zero3 with gradient_sync hierarchical requires that the replicas of every site are a multiple of "
        "those of "
        "the smallest");
}

TEST_CASE("with an offloaded optimizer a device holds its weights only, and hosts update") {
  Problem problem = zero_problem(2, 4, 1e9, OptimizerSharding::zero2);
  const auto load_of = [&] {
    const Plan plan = plan_of(problem.job, 1, 2, 1);
    return LoadModel(problem, plan).of(plan.pipelines.front().stages.front());
  };
  const StageLoad on_device = load_of();
  problem.job.execution.optimizer_offload = true;
  const StageLoad offloaded = load_of();
  CHECK(offloaded.state_bytes == 4 * parameters * 2);
  CHECK(offloaded.state_bytes < on_device.state_bytes);
  CHECK(offloaded.working_bytes == on_device.working_bytes);
  CHECK(offloaded.update_s == Approx(4 * parameters * 0.22e-9));
  // Both devices update one half.
  problem.job.execution.optimizer_offload = false;
  const double difference_s = (offloaded.update_s - on_device.update_s) / 2, before_s = seconds(problem, 1);
  problem.job.execution.optimizer_offload = true;
  CHECK(seconds(problem, 1) == Approx(before_s + difference_s));
}

// F 0–1, B 1–3; 1 s to compress 1e8 bytes and half of that for a part of them, 3–4.5; half of the bytes of a
// part 4.5–4.75; parameters 4.75–5.25.
TEST_CASE("compressed gradients take device time and fewer bytes") {
  Problem problem = zero_problem(2, 1, 1e8, OptimizerSharding::zero2);
  problem.job.execution.compression = {1, 0.5, BitsPerSecond(8e8)};
  CHECK(seconds(problem, 1) == Approx(5.25));
  Problem alone = zero_problem(1, 1, 1e8, OptimizerSharding::zero2);
  alone.job.execution.compression = problem.job.execution.compression;
  CHECK(seconds(alone, 1) == Approx(3));
}

TEST_CASE("a device holds its part of the state and gathered layers while it computes") {
  const double resident =
      parameter_bytes(zero_problem(1, 1, 1, OptimizerSharding::zero3).job.training).resident;
  REQUIRE(resident == 16);
  for (const auto& [sharding, whole, gathered] :
       {std::tuple(OptimizerSharding::zero2, 2.0, 2.0), std::tuple(OptimizerSharding::zero3, 0.0, 6.0)}) {
    const Problem problem = zero_problem(4, 5, 1e9, sharding);
    const Plan plan = plan_of(problem.job, 1, 4, 1);
    const StageLoad load = LoadModel(problem, plan).of(plan.pipelines[0].stages[0]);
    CHECK(load.state_bytes == Approx(5 * parameters * (whole + (resident - whole) / 4)));
    CHECK(load.working_bytes == Approx(parameters * gathered));
    const SimReport report = simulate(problem, plan, {}, SimOptions());
    CHECK(report.devices.front().peak_memory_bytes ==
          Approx(load.state_bytes + load.working_bytes + load.activation_bytes));
  }
}

TEST_CASE("error feedback keeps the whole gradients that a device does not send") {
  Problem problem = zero_problem(4, 5, 1e9, OptimizerSharding::zero3);
  problem.topology.edit().gpus.front().memory_bandwidth = BitsPerSecond(8e12);
  Plan plan = plan_of(problem.job, 1, 4, 1);
  const auto load = [&] { return LoadModel(problem, plan).of(plan.pipelines[0].stages[0]); };
  const StageLoad before = load();
  compress_gradients(problem.job, {CompressionMethod::top_k, 1});
  plan.execution = problem.job.execution;
  CHECK(load().state_bytes == Approx(before.state_bytes + 5 * parameters * 2));
  // gradients of a layer before they are sharded
  CHECK(load().working_bytes == Approx(before.working_bytes));
}

TEST_CASE("devices with fewer micro-batches take part in all collectives") {
  const Problem problem = zero_problem(2, 2, 1e8, OptimizerSharding::zero3);
  Plan plan = plan_of(problem.job, 1, 2, 2);
  plan.pipelines[1].micro_batches = 1;
  const auto sent = sent_bytes(problem, plan);
  CHECK(sent.at(0) == Approx(sent.at(1)));
  CHECK(replay_makespan(iteration_graph(problem, plan)) <= seconds(problem, 2) + 1e-9);
  CHECK(replay_makespan(iteration_graph(problem, plan)) > seconds(problem, 1));
}

TEST_CASE("every ZeRO task has a unique name and comes after its predecessors") {
  const Problem problem = zero_problem(3, 2, 1e8, OptimizerSharding::zero3);
  const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, 1, 3, 2));
  std::set<std::string> names;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
    REQUIRE(names.insert(format_label(lowered.labels[i])).second);
    const Task& task = lowered.graph.tasks[i];
    for (int k = 0; k < task.after_count; ++k)
      REQUIRE(lowered.graph.after[at(task.first_after + k)] < static_cast<int>(i));
  }
}

TEST_CASE("plans that ZeRO does not support are rejected") {
  const Problem problem = zero_problem(4, 4, 1e8, OptimizerSharding::zero3);
  CHECK(error_message([&] { iteration_graph(problem, plan_of(problem.job, 2, 2, 1)); }) ==
        "zero3 requires that every pipeline is one stage on one device");
  CHECK(error_message([&] {
          seconds(problem, 200'000);
        }).find("messages per iteration, more than the limit of 2e+07") != std::string::npos);
}
