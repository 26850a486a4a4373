#include "core/io/writers/cluster_text.hpp"

#include <filesystem>

#include "core/cluster/topology.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

Topology cluster(std::string_view gpus, const std::vector<std::string>& links = {}) {
  return parse_topology(format_cluster(gpus, links), "--gpus", "");
}

std::string problem(std::string_view gpus, const std::vector<std::string>& links = {}) {
  return error_message([&] { format_cluster(gpus, links); });
}

std::vector<std::string> ids(const Topology& topology) {
  std::vector<std::string> ids;
  for (const Device& device : topology.devices) ids.push_back(device.id);
  return ids;
}

}  // namespace

TEST_CASE("a cluster of one line has machines, sites and links") {
  const Topology topology = cluster("2xH100@oregon, 2x2xA100-80GB@us-east-1",
                                    {"oregon-us-east-1: 40 ms 2 Gbps", "us-east-1: 100us 25 Gbps"});
  CHECK(ids(topology) == std::vector<std::string>{"oregon/0:0", "oregon/0:1", "us-east-1/0:0",
                                                  "us-east-1/0:1", "us-east-1/1:0", "us-east-1/1:1"});
  CHECK(topology.gpus[static_cast<std::size_t>(topology.devices[0].gpu)].name == "H100");
  // NVLink of H100: 450 GB/s in each direction (configs/gpus.yaml), of which 0.8 is reached; 3.4 us
  // (configs/hosts.yaml).
  CHECK(topology.link(0, 1).bandwidth == BitsPerSecond(0.8 * 450e9 * 8));
  CHECK(topology.link(0, 1).latency == Seconds(3.4e-6));
  CHECK(topology.link(2, 3).bandwidth == BitsPerSecond(0.8 * 300e9 * 8));
  CHECK(topology.link(2, 4).bandwidth == BitsPerSecond(25e9));
  CHECK(topology.link(2, 4).latency == Seconds(100e-6));
  CHECK(topology.link(5, 0).bandwidth == BitsPerSecond(2e9));
  CHECK(topology.link(5, 0).latency == Seconds(40e-3));
}

TEST_CASE("GPUs in slots of a machine have the latency of PCIe") {
  const Topology topology = cluster("4xRTX-4090");
  CHECK(topology.sites[0].name == "local");
  CHECK(topology.link(0, 3).latency == Seconds(5.7e-6));
  CHECK(topology.link(0, 3).bandwidth == BitsPerSecond(32e9 * 8));
}

TEST_CASE("machines of configs/hosts.yaml bring their links") {
  const Topology topology = cluster("2xp4d.24xlarge@ohio");
  CHECK(topology.size() == 16);
  CHECK(cluster("dgx-h100").size() == 8);
  CHECK(cluster("1xT4").size() == 1);
}

TEST_CASE("a star stands for all other links") {
  const Topology topology = cluster("1xT4@a, 1xT4@b, 1xT4@c", {"a-b: 1 ms 10 Gbps", "*: 50 ms 1 Gbps"});
  CHECK(topology.link(0, 1).bandwidth == BitsPerSecond(10e9));
  CHECK(topology.link(0, 2).latency == Seconds(50e-3));
}

TEST_CASE("a link from a site to itself is between its machines") {
  const Topology topology = cluster("2x1xT4@a, 1xT4@b", {"a-a: 1 ms 10 Gbps", "a-b: 5 ms 1 Gbps"});
  CHECK(topology.link(0, 1).bandwidth == BitsPerSecond(10e9));
  CHECK(topology.link(1, 2).bandwidth == BitsPerSecond(1e9));
}

TEST_CASE("wrong text about a cluster is refused") {
  CHECK(problem("4xH1000@a") == "--gpus: unknown GPU or host `H1000`; did you mean `H100`?");
  CHECK(problem("").starts_with("--gpus: expected GPUSxGPU@SITE"));
  CHECK(problem("0xT4") == "--gpus: expected numbers from 1 to 8192; found 0");
  CHECK(problem("2x2xdgx-h100") == "--gpus: `dgx-h100` is a kind of host, which has its own number of GPUs");
  CHECK(problem("1xT4@a, 1xT4@b") ==
        "--link: is missing between a and b: add --link \"a-b: LATENCY BANDWIDTH\"");
  CHECK(problem("2x1xT4@a") ==
        "--link: is missing between the machines of a: add --link \"a: LATENCY BANDWIDTH\"");
  CHECK(problem("1xT4@a, 1xT4@b", {"a-c: 1 ms 1 Gbps"}) ==
        "--link: unknown site or pair of sites `a-c`; known: `a`, `b`");
  CHECK(
      problem("1xT4@a, 1xT4@b", {"a-b: 1 ms"}).starts_with("--link: expected SITE-SITE: LATENCY BANDWIDTH"));
  CHECK(problem("1xT4@a, 1xT4@b", {"a-b: 1 ms 0 Gbps"}) ==
        "--link: expected a latency of at least zero and a bandwidth above zero; found `a-b: 1 ms 0 Gbps`");
  CHECK(problem("1xT4@a, 1xT4@b", {"a-b: 1 ms 1 Gbps", "b-a: 1 ms 1 Gbps"}) ==
        "--link: `b-a: 1 ms 1 Gbps` is given twice");
  CHECK(problem("1xT4@a-b, 1xT4@b-c, 1xT4@a, 1xT4@c, 1xT4@b", {"a-b-c: 1 ms 1 Gbps"}) ==
        "--link: `a-b-c: 1 ms 1 Gbps` may mean several pairs of sites; rename a site");
}
