#include "core/io/importers/cpu_kind.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm::io;

TEST_CASE("lscpu of old and new versions gives the vendor and the model of a CPU") {
  const CpuKind old = parse_lscpu(
      "Architecture:        x86_64\nVendor ID:           AuthenticAMD\nCPU family:          23\n"
      "Model:               49\nModel name:          AMD EPYC 7742 64-Core Processor\n",
      "x");
  CHECK(old.vendor == "AuthenticAMD");
  CHECK(old.model == 49);
  const CpuKind indented = parse_lscpu(
      "Architecture: x86_64\nVendor ID: GenuineIntel\n  Model name: Intel(R) Xeon(R) Platinum 8480C\n"
      "    CPU family: 6\n    Model: 143\n",
      "x");
  CHECK(indented.vendor == "GenuineIntel");
  CHECK(indented.model == 143);
}

TEST_CASE("text of lscpu without vendor or model is rejected") {
  for (const char* text :
       {"", "Vendor ID: GenuineIntel\n", "Model: 143\n", "Vendor ID: GenuineIntel\nModel: x\n"})
    CHECK(dtfm::error_message([&] { parse_lscpu(text, "x"); }) ==
          "x: has no `Vendor ID` and `Model` of a CPU");
}
