#include "cli/measure_layers.hpp"
#include "planner/io/gpu_catalogue.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

std::string name_in_catalogue(const std::string& device) {
  const std::vector<Gpu> gpus = built_in_gpus();
  const Gpu* gpu = catalogued(gpus, device);
  return gpu ? gpu->name : "";
}

}  // namespace

TEST_CASE("what drivers call a GPU is found in the catalogue") {
  CHECK(name_in_catalogue("Tesla V100-SXM2-16GB") == "V100-16GB");
  CHECK(name_in_catalogue("Tesla V100-PCIE-32GB") == "V100-32GB");
  CHECK(name_in_catalogue("NVIDIA A100-SXM4-80GB") == "A100-80GB");
  CHECK(name_in_catalogue("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(name_in_catalogue("NVIDIA H200") == "H200");
  CHECK(name_in_catalogue("NVIDIA GH200 480GB") == "GH200");
  CHECK(name_in_catalogue("NVIDIA L40S") == "L40S");
  CHECK(name_in_catalogue("NVIDIA L4") == "L4");
  CHECK(name_in_catalogue("NVIDIA GeForce RTX 2080 Ti") == "RTX-2080Ti");
  CHECK(name_in_catalogue("Quadro RTX 8000") == "RTX-8000");
}

TEST_CASE("a GPU that is like one of the catalogue is another one") {
  CHECK(name_in_catalogue("NVIDIA A10G").empty());
  CHECK(name_in_catalogue("NVIDIA L40").empty());
  CHECK(name_in_catalogue("").empty());
}
