#include "core/io/readers/gpu_catalogue.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Rate of 16-bit formats ÷ that of TF32, of GPUs that have both. It is 2 according to NVIDIA's white papers
/// from Ampere to Blackwell and AMD's of CDNA 3. CDNA 2 and 4, which have bf16 but no TF32, compute it in
/// fp32, a TPU in three passes of bf16.
double ratio_to_tf32(const Gpu& gpu) {
  if (gpu.name == "MI355X") return 16;
  if (gpu.name.starts_with("MI250") || gpu.name == "Gaudi-3") return 4;
  if (gpu.name.starts_with("TPU")) return 3;
  return gpu.name == "Trainium-2" ? 1 : 2;
}

/// Whether the GPU computes fp8, as Ada, Hopper, CDNA 3 and their successors do, and Gaudi 3 and Trainium 2.
bool has_fp8(const Gpu& gpu) {
  static const std::set<std::string> names = {
      "L4",      "L40S",       "L20",          "RTX-4090", "RTX-4090D", "RTX-5090",  "RTX-PRO-6000",
      "H100",    "H20",        "H200",         "H800",     "GH200",     "H100-PCIe", "H100-NVL",
      "B200",    "B300",       "GB200",        "GB300",    "MI300X",    "MI325X",    "MI355X",
      "Gaudi-3", "Trainium-2", "RTX-6000-Ada", "H200-NVL"};
  return names.contains(gpu.name);
}

/// Whether the GPU computes fp4, as Blackwell and CDNA 4 do.
bool has_fp4(const Gpu& gpu) {
  static const std::set<std::string> names = {"RTX-5090", "RTX-PRO-6000", "B200",  "B300",
                                              "GB200",    "GB300",        "MI355X"};
  return names.contains(gpu.name);
}

std::string error_text(const std::string& text) {
  try {
    parse_gpu_catalogue(text, "g.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

double memory_of(const std::vector<Gpu>& gpus, const std::string& name) {
  const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.name == name; });
  return gpu == gpus.end() ? 0 : gpu->memory.value();
}

}  // namespace

// The first generation with tensor cores is Volta, with TF32 Ampere, with fp8 Ada, with fp4 Blackwell.
TEST_CASE("the generations of NVIDIA's GPUs have the formats that they introduced") {
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    const Architecture it = gpu.architecture;
    const bool is_nvidia = !gpu.drivers.empty() && gpu.name != "K80" && !gpu.name.starts_with("P100");
    CHECK((it != Architecture::other) == is_nvidia);
    if (it == Architecture::other) continue;
    CHECK(gpu.peak_tf32.has_value() == (it >= Architecture::ampere));
    CHECK(gpu.peak_fp8.has_value() == (it >= Architecture::ada));
    CHECK(gpu.peak_fp4.has_value() == (it >= Architecture::blackwell));
  }
}

TEST_CASE("the built-in catalogue has the common GPUs") {
  constexpr double gib = 1024.0 * 1024 * 1024;
  const auto gpus = built_in_gpus();
  CHECK(memory_of(gpus, "V100-16GB") == Approx(15.78 * gib));
  CHECK(memory_of(gpus, "A100-80GB") == Approx(79.35 * gib));
  CHECK(memory_of(gpus, "H200") == Approx(139.81 * gib));
  for (const char* name :
       {"K80",          "P100-16GB", "V100-32GB",    "T4",      "RTX-2080",       "RTX-2080Ti",
        "Titan-RTX",    "RTX-3090",  "RTX-4090",     "A10",     "A10G",           "A40",
        "L4",           "A100-40GB", "L40S",         "H100",    "H100-PCIe",      "GH200",
        "RTX-5090",     "MI250",     "MI250X",       "GB200",   "GB300",          "B300",
        "H20",          "H800",      "A800",         "L20",     "MI325X",         "MI355X",
        "Gaudi-3",      "TPU-v5e",   "TPU-v5p",      "TPU-v6e", "Trainium-2",     "RTX-4090D",
        "RTX-PRO-6000", "RTX-A6000", "RTX-6000-Ada", "A30",     "A100-PCIe-80GB", "V100-PCIe-16GB",
        "H200-NVL"})
    CHECK(memory_of(gpus, name) > 0);
  CHECK(memory_of(gpus, "H100-NVL") == 94e9);
  CHECK(memory_of(gpus, "B200") == Approx(178.36 * gib));
  CHECK(memory_of(gpus, "MI300X") == 192e9);
}

TEST_CASE("every GPU of the built-in catalogue has a peak") {
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    REQUIRE(gpu.peak);
    // The range from a Kepler GPU to CDNA 4 without sparsity.
    CHECK(gpu.peak->value() > 1e12);
    CHECK(gpu.peak->value() <= 2.52e15);
    if (gpu.name == "V100-16GB") CHECK(gpu.peak->value() == 125e12);
  }
  CHECK_FALSE(parse_gpu_catalogue("version: 1\ngpus: [{name: A, memory: 1 GB}]\n", "g.yaml")[0].peak);
}

TEST_CASE("peaks do not fall with fewer bits and bandwidths match existing memory and slots") {
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    REQUIRE(gpu.peak_fp32);
    CHECK(gpu.peak_fp32->value() >= 4e12);
    CHECK(gpu.peak_fp32->value() <= gpu.peak->value());
    if (gpu.peak_tf32) {
      CHECK(gpu.peak_fp32->value() <= gpu.peak_tf32->value());
      CHECK(gpu.peak_tf32->value() <= gpu.peak->value());
      CHECK(gpu.peak->value() / gpu.peak_tf32->value() == Approx(ratio_to_tf32(gpu)).epsilon(0.02));
      if (gpu.name.starts_with("MI250") || gpu.name == "MI355X") CHECK(gpu.peak_tf32 == gpu.peak_fp32);
    }
    REQUIRE(gpu.memory_bandwidth);  // from half a K80's GDDR5 to a B200's HBM3e
    CHECK(gpu.memory_bandwidth->value() / bits_per_byte >= 240e9);
    CHECK(gpu.memory_bandwidth->value() / bits_per_byte <= 8000e9);
    // Links inside a board of CDNA 2 and between boards differ.
    REQUIRE(gpu.interconnect.has_value() == !gpu.name.starts_with("MI250"));
    if (gpu.interconnect) {  // from 16 lanes of PCIe 3 to NVLink 5
      CHECK(gpu.interconnect->value() / bits_per_byte >= 16e9);
      CHECK(gpu.interconnect->value() / bits_per_byte <= 900e9);
      CHECK(gpu.interconnect->value() < gpu.memory_bandwidth->value());
    }
    if (gpu.host_link) {  // a slot, or NVLink-C2C
      const double bytes_per_s = gpu.host_link->value() / bits_per_byte;
      CHECK((bytes_per_s == 16e9 || bytes_per_s == 32e9 || bytes_per_s == 64e9 || bytes_per_s == 450e9));
      if (gpu.interconnect) CHECK(bytes_per_s <= gpu.interconnect->value() / bits_per_byte);
    }
    if (gpu.nvlink) {  // NVLink 3 of GA10x, NVLink 2 to 4, NVLink 5
      const double bytes_per_s = gpu.nvlink->value() / bits_per_byte;
      CHECK((bytes_per_s == 14.0625e9 || bytes_per_s == 25e9 || bytes_per_s == 50e9));
    }
    if (gpu.price) CHECK(gpu.price->value() < 20);
  }
}

// Tensor cores double their rate with half the bits, from 16 to 8 and from 8 to 4; those of a Gaudi 3 do not.
// From 8 to 4 bits, Blackwell Ultra (B300, GB300) triples it, and GeForce cards quadruple it, because their
// rates with fp32 accumulation are halved in 16 and 8 bits only.
TEST_CASE("GPUs have rates of fp8 and fp4 if their architecture has the formats") {
  const auto fp4_ratio = [](const Gpu& gpu) {
    if (gpu.name == "RTX-5090") return 4;
    return gpu.name.ends_with("B300") ? 3 : 2;
  };
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    REQUIRE(gpu.peak_fp8.has_value() == has_fp8(gpu));
    REQUIRE(gpu.peak_fp4.has_value() == has_fp4(gpu));
    if (gpu.peak_fp8)
      CHECK(gpu.peak_fp8->value() / gpu.peak->value() == Approx(gpu.name == "Gaudi-3" ? 1 : 2).epsilon(0.03));
    if (gpu.peak_fp4)
      CHECK(gpu.peak_fp4->value() / gpu.peak_fp8->value() == Approx(fp4_ratio(gpu)).epsilon(0.02));
  }
}

TEST_CASE("a GPU has the values of its row") {
  const Gpu gpu = parse_gpu_catalogue(
      "version: 1\ngpus:\n"
      "  - {name: A, memory: 1 GB, peak: 4 TFLOP/s, peak_tf32: 2 TFLOP/s, peak_fp32: 1 TFLOP/s,\n"
      "     peak_fp8: 8 TFLOP/s, peak_fp4: 16 TFLOP/s, memory_bandwidth: 9 GB/s, interconnect: 5 GB/s,\n"
      "     host_link: 3 GB/s, nvlink: 1 GB/s, price: 2 USD/h, driver: Board A}\n",
      "g.yaml")[0];
  CHECK(gpu.peak->value() == 4e12);
  CHECK(gpu.peak_tf32->value() == 2e12);
  CHECK(gpu.peak_fp32->value() == 1e12);
  CHECK(gpu.peak_fp8->value() == 8e12);
  CHECK(gpu.peak_fp4->value() == 16e12);
  CHECK(gpu.memory_bandwidth->value() == 72e9);
  CHECK(gpu.interconnect->value() == 40e9);
  CHECK(gpu.host_link->value() == 24e9);
  CHECK(gpu.price->value() == 2);
  CHECK(gpu.nvlink->value() == 8e9);
  CHECK(gpu.drivers == std::vector<std::string>{"Board A"});
}

// Ampere and later have TF32, and so has CDNA 3; Kepler to Turing have neither TF32 nor bf16. Without
// `peak_tf32`, bf16 would run at the rate of fp32: CDNA 2 and 4 and TPUs, which have only bf16, have the key
// too.
TEST_CASE("GPUs have a rate of TF32 if their architecture has bf16") {
  const std::set<std::string> before = {"K80",      "P100-16GB",      "V100-16GB",     "V100-32GB",
                                        "T4",       "RTX-2080",       "RTX-2080Ti",    "Titan-RTX",
                                        "RTX-8000", "V100-PCIe-16GB", "V100-PCIe-32GB"};
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    CHECK(gpu.peak_tf32.has_value() == (before.count(gpu.name) == 0));
  }
}

TEST_CASE("a catalogue is extended and overridden by name") {
  const std::vector<Gpu> gpus =
      merge_gpus({{"A", Bytes(1)}, {"B", Bytes(2)}}, {{"B", Bytes(3)}, {"C", Bytes(4)}});
  CHECK(gpus.size() == 3);
  CHECK(memory_of(gpus, "A") == 1);
  CHECK(memory_of(gpus, "B") == 3);
  CHECK(memory_of(gpus, "C") == 4);
}

TEST_CASE("an invalid catalogue is rejected") {
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 1 GB}, {name: A, memory: 2 GB}]\n") ==
        "g.yaml:2:40: GPU `A` is given twice, first at g.yaml:2:15");
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 0 GB}]\n") ==
        "g.yaml:2:26: `memory`: must be above zero");
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 1 GB, peak: 0 TFLOP/s}]\n") ==
        "g.yaml:2:38: `peak`: must be above zero; found `0 TFLOP/s`");
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 1 GB, host_link: 0 GB/s}]\n") ==
        "g.yaml:2:43: `host_link`: must be above zero; found `0 GB/s`");
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 1 GB, peak: 125}]\n") ==
        "g.yaml:2:38: `peak`: expected a compute rate with its unit (FLOP/s, kFLOP/s, MFLOP/s, GFLOP/s, "
        "TFLOP/s, PFLOP/s) such as `125 TFLOP/s`; found `125`");
  CHECK(error_text("version: 1\ngpus: [{name: A}]\n") == "g.yaml:2:8: missing key `memory`");
  CHECK(error_text("version: 1\n") == "g.yaml:1:1: missing key `gpus`");
}

TEST_CASE("a GPU is found by any of its driver's names, of old and new drivers and of Slurm") {
  const auto gpus = built_in_gpus();
  const auto find = [&](const char* name) {
    const Gpu* gpu = find_gpu_by_driver_name(gpus, name);
    return gpu ? gpu->name : "none";
  };
  CHECK(find("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(find("nvidia_h100_80gb_hbm3") == "H100");
  CHECK(find("A100-SXM4-40GB") == "A100-40GB");
  CHECK(find("GeForce RTX 3090") == "RTX-3090");
  CHECK(find("NVIDIA Tesla T4") == "T4");
  CHECK(find("Tesla V100-SXM3-32GB") == "V100-32GB");
  CHECK(find("NVIDIA GH200 120GB") == "GH200");
  CHECK(find("NVIDIA A100-PCIE-40GB") == "A100-PCIe-40GB");
  CHECK(find("NVIDIA A100 80GB PCIe") == "A100-PCIe-80GB");
  CHECK(find("NVIDIA A100X") == "none");
  CHECK(find("NVIDIA") == "none");
  CHECK(find("") == "none");
  CHECK(find_gpu_by_similar_name(gpus, "rtx_3090")->name == "RTX-3090");
  CHECK(find_gpu_by_similar_name(gpus, "a100") == nullptr);
  CHECK(error_text("version: 1\ngpus: [{name: A, memory: 1 GB, driver: []}]\n") ==
        "g.yaml:2:40: `driver`: expected a name; found none");
}

TEST_CASE("the NVLinks of a GPU follow from its rates") {
  const auto gpus = built_in_gpus();
  const auto links = [&](const char* name) {
    return built_in_nvlinks(*find_gpu_by_similar_name(gpus, name)).value_or(0);
  };
  CHECK(links("V100-16GB") == 6);
  CHECK(links("A100-80GB") == 12);
  CHECK(links("H800") == 8);
  CHECK(links("H200") == 18);
  CHECK(links("B200") == 18);
  for (const char* name : {"RTX-3090", "A40", "RTX-2080Ti", "H100-NVL", "T4", "MI300X"})
    CHECK(links(name) == 0);
}
