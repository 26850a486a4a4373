#include "core/io/readers/gpu_catalogue.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Whether the GPU is of CDNA 2, which has bf16 but no TF32.
bool is_cdna_2(const Gpu& gpu) {
  return gpu.name == "MI250" || gpu.name == "MI250X";
}

/// Whether the GPU computes fp8, as Ada, Hopper, CDNA 3 and their successors do.
bool has_fp8(const Gpu& gpu) {
  static const std::set<std::string> names = {"L4",    "L40S",      "RTX-4090", "RTX-5090", "H100",  "H200",
                                              "GH200", "H100-PCIe", "H100-NVL", "B200",     "MI300X"};
  return names.contains(gpu.name);
}

/// Whether the GPU computes fp4, as Blackwell does.
bool has_fp4(const Gpu& gpu) {
  static const std::set<std::string> names = {"RTX-5090", "B200"};
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

TEST_CASE("the built-in catalogue has the common GPUs") {
  const auto gpus = built_in_gpus();
  CHECK(memory_of(gpus, "V100-16GB") == 16e9);
  CHECK(memory_of(gpus, "A100-80GB") == 80e9);
  CHECK(memory_of(gpus, "H200") == 141e9);
  for (const char* name :
       {"K80",      "P100-16GB", "V100-32GB", "T4",    "RTX-2080", "RTX-2080Ti", "Titan-RTX",
        "RTX-3090", "RTX-4090",  "A10",       "A10G",  "A40",      "L4",         "A100-40GB",
        "L40S",     "H100",      "H100-PCIe", "GH200", "RTX-5090", "MI250",      "MI250X"})
    CHECK(memory_of(gpus, name) > 0);
  CHECK(memory_of(gpus, "H100-NVL") == 94e9);
  CHECK(memory_of(gpus, "B200") == 180e9);
  CHECK(memory_of(gpus, "MI300X") == 192e9);
}

TEST_CASE("every GPU of the built-in catalogue has a peak") {
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    REQUIRE(gpu.peak);
    // The range from a Kepler GPU to Blackwell without sparsity.
    CHECK(gpu.peak->value() > 1e12);
    CHECK(gpu.peak->value() <= 2.25e15);
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
      // Tensor cores compute 16-bit formats at twice the rate of TF32, according to NVIDIA's white papers
      // from Ampere to Blackwell and AMD's of CDNA 3. CDNA 2 computes TF32 products in fp32, at a quarter.
      const double ratio = is_cdna_2(gpu) ? 4 : 2;
      CHECK(gpu.peak->value() / gpu.peak_tf32->value() == Approx(ratio).epsilon(0.02));
      if (is_cdna_2(gpu)) CHECK(gpu.peak_tf32->value() == gpu.peak_fp32->value());
    }
    REQUIRE(gpu.memory_bandwidth);  // from half a K80's GDDR5 to a B200's HBM3e
    CHECK(gpu.memory_bandwidth->value() / bits_per_byte >= 240e9);
    CHECK(gpu.memory_bandwidth->value() / bits_per_byte <= 8000e9);
    REQUIRE(gpu.interconnect.has_value() == !is_cdna_2(gpu));
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
    if (gpu.price) CHECK(gpu.price->value() < 20);
  }
}

// Tensor cores double their rate with half the bits, from 16 to 8 and from 8 to 4. GeForce cards quadruple it
// from 8 to 4, because their rates with fp32 accumulation are halved in 16 and 8 bits only.
TEST_CASE("GPUs have rates of fp8 and fp4 if their architecture has the formats") {
  for (const Gpu& gpu : built_in_gpus()) {
    CAPTURE(gpu.name);
    REQUIRE(gpu.peak_fp8.has_value() == has_fp8(gpu));
    REQUIRE(gpu.peak_fp4.has_value() == has_fp4(gpu));
    if (gpu.peak_fp8) CHECK(gpu.peak_fp8->value() / gpu.peak->value() == Approx(2).epsilon(0.03));
    if (gpu.peak_fp4)
      CHECK(gpu.peak_fp4->value() / gpu.peak_fp8->value() ==
            Approx(gpu.name == "RTX-5090" ? 4 : 2).epsilon(0.02));
  }
}

TEST_CASE("a GPU has the values of its row") {
  const Gpu gpu = parse_gpu_catalogue(
      "version: 1\ngpus:\n"
      "  - {name: A, memory: 1 GB, peak: 4 TFLOP/s, peak_tf32: 2 TFLOP/s, peak_fp32: 1 TFLOP/s,\n"
      "     peak_fp8: 8 TFLOP/s, peak_fp4: 16 TFLOP/s, memory_bandwidth: 9 GB/s, interconnect: 5 GB/s,\n"
      "     host_link: 3 GB/s, price: 2 USD/h, driver: Board A}\n",
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
  CHECK(gpu.driver == "Board A");
}

// Ampere and later have TF32, and so has CDNA 3; Kepler to Turing have neither TF32 nor bf16. Without
// `peak_tf32`, bf16 would run at the rate of fp32: CDNA 2, which has only bf16, has the key too.
TEST_CASE("GPUs have a rate of TF32 if their architecture has bf16") {
  const std::set<std::string> before = {"K80",      "P100-16GB",  "V100-16GB", "V100-32GB", "T4",
                                        "RTX-2080", "RTX-2080Ti", "Titan-RTX", "RTX-8000"};
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
