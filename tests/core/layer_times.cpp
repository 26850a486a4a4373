#include "core/plan/layer_times.hpp"

#include "core/plan/model_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;

namespace {

/// h = 8, s = 16, a = 2, V = 100, two sequences per micro-batch.
Job tiny_job(Recomputation recomputation) {
  Job job;
  job.name = "tiny";
  job.model = Transformer{3, 8, 2, 16, 100};
  job.training.global_batch = 4;
  job.execution.micro_batch = 2;
  job.execution.recomputation = recomputation;
  return job;
}

const std::vector<int> all = {0, 1};

constexpr double forward_flops = 24 * 16 * 64 + 4 * 256 * 8, attention_flops = 4 * 256 * 8,
                 head_flops = 2 * 16 * 8 * 100;

/// Returns one GPU with 1 TFLOP/s and 100 GB/s.
Topology one_gpu() {
  Topology topology;
  Gpu gpu{"one", Bytes(16e9), FlopsPerSecond(1e12)};
  gpu.memory_bandwidth = BitsPerSecond(8 * 100e9);
  topology.gpus = {gpu};
  Device device;
  device.id = "d";
  device.gpu = 0;
  topology.devices = {device, device};
  topology.devices[1].speed = 0.5;
  return topology;
}

LayerProfile measured() {
  LayerProfile profile;
  profile.gpu = "one";
  profile.precision = Precision::fp16;
  profile.model = "tiny";
  profile.rows = {{"embedding", 2, 1, {0.25}, {0.5}, Timing{8}, {}, {}},
                  {"block", 2, 1, {1}, {2}, Timing{16}, {}, {}},
                  {"head", 2, 1, {4}, {6}, Timing{32}, {}, {}}};
  return profile;
}

}  // namespace

TEST_CASE("times come from the profile of the GPU for each kind of layer") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  const Topology topology = one_gpu();
  const Problem problem{topology, job, {}, {}};
  const LayerTimes times(problem, job.execution, {1});
  CHECK(times.of(0, 0, 1).forward_s == 1.25);
  CHECK(times.of(1, 0, 1).backward_s == 2);
  CHECK(times.of(2, 0, 1).forward_s == 5);
  CHECK(times.of(2, 0, 1).update_s == 48);
  CHECK(times.of(2, 1, 1).backward_s == 16);  // device 1 has half the speed
  CHECK(times.notes(all).empty());
}

/// Seconds of the roofline for the forward of a block of tiny_job in `sequences` sequences: F FLOPs, and a
/// memory traffic of s h (34 + 5 a s ÷ h) bytes per sequence and of 2 bytes for each of 12 h² + 13 h weights.
double block_forward_s(const RooflineConstants& constants, int sequences) {
  constexpr double activations = 16 * 8 * (34 + 5 * 2 * 16 / 8), weights = 2 * (12 * 64 + 13 * 8);
  return constants.compute * forward_flops * sequences / 1e12 +
         constants.memory_forward * (activations * sequences + weights) / 100e9;
}

// Measured at two sequences, 1 s; asked for at four.
TEST_CASE("a profile with one micro-batch size is scaled by the ratio of roofline estimates") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  job.execution.micro_batch = 4;
  const RooflineConstants constants{.compute = 1.5, .memory_forward = 2, .memory_backward = 3};
  const Topology topology = one_gpu();
  const Problem problem{topology, job, {}, uniform_roofline(constants)};
  const double forward_s = LayerTimes(problem, job.execution, {1}).of(1, 0, 1).forward_s;
  CHECK(forward_s == Approx(block_forward_s(constants, 4) / block_forward_s(constants, 2)));
  // The time to launch kernels is limited to the measured 1 and 2 s, and the work takes less at either size.
  RooflineConstants launches = constants;
  launches.launch_s = 5;
  const Problem launched{topology, job, {}, uniform_roofline(launches)};
  const LayerTime floor = LayerTimes(launched, job.execution, {1}).of(1, 0, 1);
  CHECK(floor.forward_s == Approx(1));
  CHECK(floor.backward_s == Approx(2));
  // Work of 0.3 s becomes one of 0.6 s, above a floor of 0.4 s, which `tensor_launch` raises in tensor groups
  // only.
  const RooflineConstants short_launch{.compute = 0.3e12 / (2 * forward_flops),
                                       .memory_forward = 0,
                                       .memory_backward = 0,
                                       .launch_s = 0.4,
                                       .tensor_launch = 3};
  const Problem above{topology, job, {}, uniform_roofline(short_launch)};
  CHECK(LayerTimes(above, job.execution, {1}).of(1, 0, 1).forward_s == Approx(0.6 / 0.4));
  // At a tensor degree that was not measured: half of that.
  CHECK(LayerTimes(problem, job.execution, {2}).of(1, 0, 2).forward_s == Approx(forward_s / 2));
  Topology unknown = topology;
  unknown.gpus[0].memory_bandwidth.reset();
  const Problem without{unknown, job, {}, uniform_roofline(constants)};
  CHECK(LayerTimes(without, job.execution, {1}).of(1, 0, 1).forward_s == 2);
}

TEST_CASE("recomputation is added to the backward pass") {
  Job job = tiny_job(Recomputation::full);
  job.profiles = {measured()};
  const Topology topology = one_gpu();
  // The head is not recomputed; the embedding has no operations.
  const Problem problem{topology, job, {}, {}};
  const LayerTimes full(problem, job.execution, {1});
  CHECK(full.of(0, 0, 1).backward_s == 0.5 + 2 + 1);
  CHECK(full.of(2, 0, 1).backward_s == 2 + 1 + 6);
  job.execution.recomputation = Recomputation::selective;
  const Problem selective{topology, job, {}};
  CHECK(LayerTimes(selective, job.execution, {1}).of(1, 0, 1).backward_s ==
        Approx(2 + attention_flops / forward_flops));
}

// compute · F ÷ peak + memory · M ÷ bandwidth, where M counts stored activations and weights; the
// backward pass has 2 F.
TEST_CASE("times come from the roofline model if there is no profile") {
  const Job job = tiny_job(Recomputation::none);
  const Topology topology = one_gpu();
  Roofline roofline = uniform_roofline(
      {.compute = 1.5, .memory_forward = 3, .memory_backward = 8, .memory_head = 5, .update = 4});
  const Problem problem{topology, job, {}, roofline};
  const LayerTimes times(problem, job.execution, {1, 2});
  const double activations = 2 * (34 * 128 + 5 * 2 * 256), weights = 2 * 872;
  const double compute = 1.5 * 2 * forward_flops / 1e12, traffic = (activations + weights) / 100e9;
  CHECK(times.of(1, 0, 1).forward_s == Approx(compute + 3 * traffic));
  CHECK(times.of(1, 0, 1).backward_s == Approx(2 * compute + 8 * traffic));
  CHECK(times.of(1, 0, 1).update_s == Approx(4 * 16 * 872 / 100e9));
  CHECK(times.of(1, 0, 2).forward_s == Approx((compute + 3 * traffic) / 2));
  // The embedding reads rows of its table: 8 s + s h bytes per sequence, no weights.
  CHECK(times.of(0, 0, 1).forward_s - times.of(1, 0, 1).forward_s ==
        Approx(5.0 * 2 * (8 * 16 + 16 * 8) / 100e9));
  // The head moves 4 s h + 4 s V bytes per sequence and V h + 2 h weights, equally often in both passes.
  const double head_traffic = (2 * (4 * 16 * 8 + 4 * 16 * 100) + 2 * 816) / 100e9;
  CHECK(times.of(2, 0, 1).backward_s - times.of(1, 0, 1).backward_s ==
        Approx(1.5 * 2 * 2 * head_flops / 1e12 + 5 * head_traffic));
  CHECK(times.notes(all) ==
        std::vector<std::string>{"times on GPU one are estimates: the job has no profile of it"});
}

// Of 4 s² h FLOPs of the core, a causal mask hides half; the backward has 2.5 times the rest. Other
// products use `compute`, and there is no memory traffic.
TEST_CASE("a fused core of attention skips what is masked and computes its scores again") {
  Job job = tiny_job(Recomputation::none);
  std::get<Transformer>(job.model).flash_attention = true;
  const Topology topology = one_gpu();
  const Problem problem{
      topology,
      job,
      {},
      uniform_roofline({.compute = 2, .attention = 3, .memory_forward = 0, .memory_backward = 0})};
  const LayerTime block = LayerTimes(problem, job.execution, {1}).of(1, 0, 1);
  const double products = 2 * 2 * (forward_flops - attention_flops) / 1e12,
               core = 2 * 3 * attention_flops / 2 / 1e12;
  CHECK(block.forward_s == Approx(products + core));
  CHECK(block.backward_s == Approx(2 * products + 2.5 * core));
  // With a window of w tokens the core has 4 s w h FLOPs, and w² ÷ 2 of s w pairs are masked.
  std::get<Transformer>(job.model).window = 4;
  const Problem windowed{topology, job, {}, problem.roofline};
  CHECK(LayerTimes(windowed, job.execution, {1}).of(1, 0, 1).forward_s ==
        Approx(products + 2 * 3 * 4 * (16 * 4 - 4 * 4 / 2) * 8 / 1e12));
}

TEST_CASE("estimates use the constants of the generation of the GPU") {
  const Job job = tiny_job(Recomputation::none);
  Topology topology = one_gpu();
  Roofline roofline = uniform_roofline({.compute = 2, .memory_forward = 0});
  roofline.bits_16[static_cast<std::size_t>(Architecture::hopper)].compute = 4;
  const auto forward_s = [&] {
    const Problem problem{topology, job, {}, roofline};
    return LayerTimes(problem, job.execution, {1}).of(1, 0, 1).forward_s;
  };
  const double other = forward_s();
  topology.gpus[0].architecture = Architecture::hopper;
  CHECK(forward_s() == Approx(2 * other));
}

TEST_CASE("sequence parallelism launches more kernels in tensor-parallel groups") {
  Job job = tiny_job(Recomputation::none);
  const Topology topology = one_gpu();
  const auto forward_s = [&](int tensor) {
    const Problem problem{topology, job, {}, uniform_roofline({.launch_s = 1, .tensor_launch = 1.5})};
    return LayerTimes(problem, job.execution, {tensor}).of(1, 0, tensor).forward_s;
  };
  CHECK(forward_s(1) == 1);
  CHECK(forward_s(2) == 1.5);
  job.parallelism.sequence_parallel = false;
  CHECK(forward_s(2) == 1);
}

TEST_CASE("a pass of a block takes no less than the launch of its kernels") {
  const Job job = tiny_job(Recomputation::none);
  const Topology topology = one_gpu();
  const auto block = [&](const Calibration& constants) {
    const Problem problem{topology, job, constants, uniform_roofline({.launch_s = 1})};
    return LayerTimes(problem, job.execution, {1}).of(1, 0, 1);
  };
  CHECK(block({}).forward_s == 1);
  CHECK(block({}).backward_s == 1);
  Calibration slower;
  slower.launch_scale = 2;
  slower.compute_scale = 3;
  CHECK(block(slower).forward_s == 2);
  slower.compute_scale = 1e12;
  CHECK(block(slower).forward_s > 100);
  CHECK(block(slower).backward_s > 1.2 * block(slower).forward_s);
  const Problem problem{topology, job, {}, uniform_roofline({.memory_backward = 1, .launch_s = 1})};
  const LayerTimes times(problem, job.execution, {1});
  CHECK(times.of(0, 0, 1).forward_s < 1.001);  // the embedding has none
}

TEST_CASE("with an efficiency a layer takes its FLOPs divided by that share of the peak") {
  Job job = tiny_job(Recomputation::full);
  job.efficiency = 0.25;
  const Topology topology = one_gpu();
  const Problem problem{topology, job, {}, {}};
  const LayerTimes times(problem, job.execution, {1, 4});
  CHECK(times.of(1, 0, 1).forward_s == Approx(2 * forward_flops / 0.25e12));
  CHECK(times.of(1, 0, 4).backward_s == Approx(3 * 2 * forward_flops / 1e12));
  CHECK(times.of(2, 0, 1).backward_s == Approx((3 * forward_flops + 2 * head_flops) * 2 / 0.25e12));
  CHECK(times.of(2, 0, 1).update_s == 0);
}

TEST_CASE("the peak depends on the precision") {
  Gpu old{"V", Bytes(16e9), FlopsPerSecond(125e12)};
  old.peak_fp32 = FlopsPerSecond(15.7e12);
  Gpu later = old;
  later.peak_tf32 = FlopsPerSecond(156e12);
  CHECK(peak_of(old, Precision::fp16)->value() == 125e12);
  CHECK(peak_of(old, Precision::bf16)->value() == 15.7e12);
  CHECK(peak_of(old, Precision::tf32)->value() == 15.7e12);
  CHECK(peak_of(later, Precision::bf16)->value() == 125e12);
  CHECK(peak_of(later, Precision::tf32)->value() == 156e12);
  CHECK(peak_of(later, Precision::fp32)->value() == 15.7e12);
  later.peak_fp32.reset();
  CHECK_FALSE(peak_of(later, Precision::fp32));
}

TEST_CASE("whether times contain all-reduces depends on the degree that was measured") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  for (const ProfileRow& row : measured().rows) {
    job.profiles.front().rows.push_back(row);
    job.profiles.front().rows.back().tensor = 2;
  }
  const Topology topology = one_gpu();
  const auto includes = [&](int tensor) {
    return LayerTimes({topology, job, {}}, job.execution, {tensor}).includes_all_reduces(0, tensor);
  };
  CHECK_FALSE(includes(2));
  job.profiles.front().includes_all_reduces = true;
  CHECK_FALSE(includes(1));
  CHECK(includes(2));
  CHECK(includes(4));  // from the times of two devices
}

TEST_CASE("times outside the profiled range are noted") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  job.execution.micro_batch = 4;
  const Topology topology = one_gpu();
  const Problem problem{topology, job, {}, {}};
  const LayerTimes times(problem, job.execution, {1});
  const RooflineConstants neutral;
  CHECK(times.of(1, 0, 1).forward_s == Approx(block_forward_s(neutral, 4) / block_forward_s(neutral, 2)));
  CHECK(times.notes(all) == std::vector<std::string>{"times on GPU one are extrapolated: its profile does "
                                                     "not contain micro-batch 4 at tensor degree 1"});
}

TEST_CASE("the note on extrapolated times names the layers if the profile covers others") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  job.profiles.front().rows.push_back({"block", 4, 1, {2}, {4}, Timing{16}, {}, {}});
  job.execution.micro_batch = 4;
  const Topology topology = one_gpu();
  CHECK(
      LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
      std::vector<std::string>{"times on GPU one are extrapolated for embedding, head: its profile does not "
                               "contain micro-batch 4 at tensor degree 1"});
}

// The GPU computes 1e12 FLOP/s.
TEST_CASE("implausible times and estimates and degrees that do not divide the heads are noted") {
  Job job = tiny_job(Recomputation::none);
  const Topology topology = one_gpu();
  job.profiles = {measured()};
  job.profiles.front().source = LayerProfile::Source::estimated;
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
        std::vector<std::string>{"times on GPU one are estimates: its profile was estimated, not measured"});
  job.profiles = {measured()};
  job.profiles.front().rows[1].forward.median_s = job.profiles.front().rows[1].backward.median_s = 0;
  CHECK(
      LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
      std::vector<std::string>{"times on GPU one for block are shorter than its peak allows: its profile is "
                               "incomplete or for another model"});
  job.profiles.clear();
  job.efficiency = 0.5;
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1, 3}).notes(all) ==
        std::vector<std::string>{
            "trainers cannot divide 2 attention heads evenly among 3 tensor-parallel devices"});
}

TEST_CASE("update times that are unknown or of another optimizer are noted") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  job.training.optimizer = Optimizer::host_offload;
  const Topology topology = one_gpu();
  const auto notes = [&] { return LayerTimes({topology, job, {}}, job.execution, {1}).notes(all); };
  CHECK(notes() ==
        std::vector<std::string>{"optimizer steps on GPU one take the time in its profile, which is that "
                                 "of Adam; the time of host-offload is unknown"});
  job.profiles[0].source = LayerProfile::Source::imported;
  CHECK(notes() ==
        std::vector<std::string>{"optimizer steps on GPU one take the time in its profile, which does not "
                                 "name the optimizer; the time of host-offload is unknown"});
  // Updates have no time of their own: the profile says that they are counted elsewhere.
  for (ProfileRow& row : job.profiles[0].rows) row.update = Timing{};
  CHECK(notes().empty());
  job.training.optimizer = Optimizer::adam_16;
  job.profiles[0].rows[1].update.reset();
  CHECK(notes() == std::vector<std::string>{
                       "the profile of GPU one has no times of optimizer steps, which are counted as 0"});
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).of(1, 0, 1).update_s == 0);
}

// A block has 872 parameters, of which a device of two has half. 8 bytes of each cross a link of 64 GB/s; the
// host, on which there are two devices, takes 0.22 ns for each. Its profile has the times of other updates.
TEST_CASE("hosts update offloaded parameters after they have crossed the link") {
  Job job = tiny_job(Recomputation::none);
  job.training.optimizer = Optimizer::adam_offload;
  Topology topology = one_gpu();
  CHECK(
      error_message([&] {
        return LayerTimes({topology, job, {}}, job.execution, {1}).of(1, 0, 1);
      }) ==
      "device d: the update time of optimizer adam-offload cannot be estimated: GPU one has no `host_link`; "
      "add it to the GPU catalogue");
  topology.gpus[0].host_link = BitsPerSecond(8 * 64e9);
  const double seconds = 872 * (8 / 64e9 + 2 * 0.22e-9);
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).of(1, 0, 1).update_s == Approx(seconds));
  CHECK(LayerTimes({topology, job, {}}, job.execution, {2}).of(1, 0, 2).update_s == Approx(seconds / 2));
  job.profiles = {measured()};
  const Problem problem{topology, job, {}};
  const LayerTimes profiled(problem, job.execution, {1});
  CHECK(profiled.of(1, 0, 1).update_s == Approx(seconds));
  CHECK(profiled.notes(all).empty());
}

TEST_CASE("a profile in a precision that the target does not run is not used") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};  // in fp16
  job.training.precision = Precision::bf16;
  job.target = Target::torchtitan;
  Topology topology = one_gpu();
  topology.gpus[0].peak_tf32 = FlopsPerSecond(0.5e12);  // has bf16
  const auto forward_s = [&] {
    return LayerTimes({topology, job, {}}, job.execution, {1}).of(1, 0, 1).forward_s;
  };
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
        std::vector<std::string>{
            "times on GPU one are estimates: its profile is in fp16, which target torchtitan does not run"});
  const double estimate_s = forward_s();
  job.profiles.clear();
  CHECK(forward_s() == estimate_s);
  job.profiles = {measured()};
  job.target = Target::megatron;  // runs fp16, too
  CHECK_THAT(error_message([&] {
               LayerTimes({topology, job, {}}, job.execution, {1});
             }),
             contains("its precision is fp16, but the job's is bf16"));
}

TEST_CASE("a profile of another model or precision is rejected and so are unknown times") {
  Job job = tiny_job(Recomputation::none);
  job.profiles = {measured()};
  Topology topology = one_gpu();
  job.profiles[0].precision = Precision::bf16;
  CHECK(error_message([&] {
          LayerTimes({topology, job, {}}, job.execution, {1});
        }) ==
        "the profile of GPU one (tiny) does not match the job: its precision is bf16, but the job's is fp16; "
        "set "
        "`precision: bf16`, or use another profile or `profile: {analytic: true, efficiency: SHARE}`");
  job.profiles[0].precision = Precision::fp16;
  job.profiles[0].shape = Transformer{3, 16, 2, 16, 100};
  CHECK_THAT(error_message([&] {
               LayerTimes({topology, job, {}}, job.execution, {1});
             }),
             contains("its transformer has different sizes"));
  // The number of layers is irrelevant, as are tied weights and defaults that are written out.
  Transformer same{99, 8, 2, 16, 100};
  same.kv_heads = 2;
  same.head_dim = 4;
  same.feed_forward = 32;
  same.tied = false;
  job.profiles[0].shape = same;
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).of(1, 0, 1).forward_s == 1);
  // The attention implementation is the measured one.
  job.profiles[0].shape->flash_attention = true;
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
        std::vector<std::string>{
            "the profile of GPU one is for another kind of attention than job tiny; memory is estimated for "
            "the attention of the job"});
  job.profiles[0].source = LayerProfile::Source::imported;
  CHECK_THAT(error_message([&] {
               LayerTimes({topology, job, {}}, job.execution, {1});
             }),
             contains("its transformer has different sizes"));
  job.profiles[0].shape->flash_attention = false;

  job.profiles[0].rows.pop_back();
  CHECK_THAT(error_message([&] {
               LayerTimes({topology, job, {}}, job.execution, {1}).of(0, 0, 1);
             }),
             contains("device d: the profile of GPU one has no layer `head`"));
  job.profiles.clear();
  topology.gpus[0].memory_bandwidth.reset();
  CHECK_THAT(error_message([&] {
               LayerTimes({topology, job, {}}, job.execution, {1}).of(0, 0, 1);
             }),
             contains("has no `memory_bandwidth`"));
  topology.devices[0].gpu = -1;
  CHECK(error_message([&] {
          LayerTimes({topology, job, {}}, job.execution, {1}).of(0, 0, 1);
        }) == "the speed of device d is unknown: it has no `gpu` in the topology");
}

TEST_CASE("a profile of heterogeneous layers is matched by layer names") {
  Job job = tiny_job(Recomputation::none);
  Layer wide, narrow;
  wide.name = narrow.name = "layer";
  wide.forward = Flops(2);
  narrow.forward = Flops(1);
  job.model = LayerChain{1, {wide, narrow, wide}};
  LayerProfile profile = measured();
  profile.model = "resnet";
  profile.rows = {{"layer", 2, 1, {1}, {2}, {}, {}, {}}, {"narrow", 2, 1, {4}, {8}, {}, {}, {}}};
  job.profiles = {profile};
  Topology topology = one_gpu();
  CHECK(error_message([&] {
          LayerTimes({topology, job, {}}, job.execution, {1});
        }) ==
        "different layers of the model have the name `layer`, so the profile of GPU one cannot distinguish "
        "them; give them different names");
  narrow.name = "narrow";
  job.model = LayerChain{1, {wide, narrow, wide}};
  const Problem problem{topology, job, {}, {}};
  const LayerTimes times(problem, job.execution, {1});
  CHECK(times.of(1, 0, 1).forward_s == 4);
  CHECK(times.of(2, 0, 1).forward_s == 1);
  CHECK(times.notes(all) ==
        std::vector<std::string>{"the profile of GPU one is for model resnet, which is assumed to be that of "
                                 "job tiny"});
  // A profile of a GPU that no device has is ignored.
  job.profiles[0].precision = Precision::bf16;
  job.profiles[0].gpu = "another";
  CHECK(LayerTimes({topology, job, {}}, job.execution, {1}).notes(all) ==
        std::vector<std::string>{"times on GPU one are estimates: the job has no profile of it, "
                                 "only of another"});
}
