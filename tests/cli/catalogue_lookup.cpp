#include "cli/profile/measure_layers.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::cli;
using namespace dtfm::io;

namespace {

/// Returns the catalogue name for a device with `gib` · 2^30 bytes, as counted by NVIDIA's tools.
std::string catalogue_name(const std::string& device, double gib) {
  return find_in_catalogue(built_in_gpus(), device, Bytes(gib * 1024 * 1024 * 1024)).name;
}

std::string rejection_message(const std::string& device, double gib) {
  return error_message([&] { catalogue_name(device, gib); });
}

}  // namespace

// Memory as printed by nvidia-smi: less than nominal if error correction takes its part.
TEST_CASE("a driver's name of a GPU is found in the catalogue") {
  CHECK(catalogue_name("Tesla V100-SXM2-16GB", 15.77) == "V100-16GB");
  CHECK(catalogue_name("Tesla V100-SXM2-32GB", 31.73) == "V100-32GB");
  CHECK(catalogue_name("NVIDIA A100-SXM4-80GB", 79.15) == "A100-80GB");
  CHECK(catalogue_name("NVIDIA H100 80GB HBM3", 79.18) == "H100");
  CHECK(catalogue_name("NVIDIA H200", 139.8) == "H200");
  CHECK(catalogue_name("NVIDIA GH200 480GB", 95.6) == "GH200");
  CHECK(catalogue_name("NVIDIA L40S", 44.99) == "L40S");
  CHECK(catalogue_name("NVIDIA L4", 22.49) == "L4");
  CHECK(catalogue_name("NVIDIA GeForce RTX 2080 Ti", 10.75) == "RTX-2080Ti");
  CHECK(catalogue_name("NVIDIA GeForce RTX 3090", 24) == "RTX-3090");
  CHECK(catalogue_name("Quadro RTX 8000", 47.46) == "RTX-8000");
  CHECK(catalogue_name("NVIDIA A10G", 22.49) == "A10G");
  CHECK(catalogue_name("NVIDIA H100 PCIe", 79.65) == "H100-PCIe");
  CHECK(catalogue_name("NVIDIA H100 NVL", 93.58) == "H100-NVL");
  CHECK(catalogue_name("NVIDIA B200", 179.06) == "B200");
  CHECK(catalogue_name("NVIDIA H20", 95.58) == "H20");
  CHECK(catalogue_name("NVIDIA GeForce RTX 4090 D", 23.99) == "RTX-4090D");
}

TEST_CASE("names of older drivers are found in the catalogue") {
  CHECK(catalogue_name("A100-SXM4-80GB", 79.15) == "A100-80GB");
  CHECK(catalogue_name("GeForce RTX 3090", 24) == "RTX-3090");
  CHECK(catalogue_name("NVIDIA Tesla V100-SXM2-16GB", 15.77) == "V100-16GB");
}

// dtfm-profile measures GPUs of NVIDIA; those of other vendors have no driver name.
TEST_CASE("every NVIDIA GPU of the catalogue has a unique driver name") {
  const std::vector<Gpu> gpus = built_in_gpus();
  for (const Gpu& gpu : gpus) {
    CAPTURE(gpu.name);
    const std::string& name = gpu.name;
    REQUIRE(gpu.drivers.empty() == (name.starts_with("MI") || name.starts_with("TPU") ||
                                    name.starts_with("Gaudi") || name.starts_with("Trainium")));
    for (const std::string& driver : gpu.drivers)
      CHECK(find_in_catalogue(gpus, driver, gpu.memory).name == gpu.name);
  }
}

TEST_CASE("a GPU that resembles one of the catalogue is reported as different") {
  CHECK(rejection_message("NVIDIA H200 X", 139.8) ==
        "--gpu: is missing: `NVIDIA H200 X` is not in the catalogue, whose H200 is a different one, `NVIDIA "
        "H200`; give the name to use in profiles");
  struct Other {
    const char* device;
    double gib;
    const char* like;
  };
  for (const Other& other :
       {Other{"Tesla V100-DGXS-16GB", 15.77, "V100-16GB"},
        Other{"NVIDIA H100 PCIe MIG 1g.10gb", 9.75, "H100-PCIe"},
        Other{"NVIDIA GeForce RTX 2080 SUPER", 8, "RTX-2080"},
        Other{"NVIDIA GeForce RTX 5090 D", 32, "RTX-5090"},
        Other{"NVIDIA GeForce RTX 2080 Ti Laptop GPU", 10.75, "RTX-2080Ti"},
        Other{"NVIDIA GeForce RTX 3090 Ti", 24, "RTX-3090"}, Other{"NVIDIA H20-3e", 140, "H20"},
        Other{"NVIDIA GeForce RTX 4090 Laptop GPU", 16, "RTX-4090"},
        Other{"NVIDIA A100-SXM-40GB LS", 39.6, "A100-40GB"}, Other{"NVIDIA GH200 144G HBM3e", 140, "GH200"},
        Other{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.75, "A100-40GB"}}) {
    CAPTURE(other.device);
    CHECK_THAT(rejection_message(other.device, other.gib),
               contains(std::string("whose ") + other.like + " is a different one"));
  }
  for (const char* device : {"NVIDIA A16", "NVIDIA L40", ""})
    CHECK_THAT(rejection_message(device, 24), contains("is not in the catalogue; give"));
}

TEST_CASE("a slice of a GPU is not treated as the GPU") {
  CHECK(
      rejection_message("NVIDIA H100 80GB HBM3", 9.75) ==
      "--gpu: is missing: `NVIDIA H100 80GB HBM3` has 10.47 GB here, but the catalogue's H100 has 84.94 GB; "
      "give "
      "the name to use in profiles");
}
