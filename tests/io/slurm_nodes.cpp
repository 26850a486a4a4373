// Tests what is read from Slurm: lists of hosts, GPUs of nodes, switches.
#include "core/io/importers/slurm_nodes.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

using Names = std::vector<std::string>;

std::string list_error(const std::string& list) {
  return error_message([&] { expand_host_list(list, "s"); });
}

std::string sinfo_error(const std::string& text) {
  return error_message([&] { parse_sinfo(text, "s"); });
}

}  // namespace

TEST_CASE("lists of hosts are expanded, with leading zeros") {
  CHECK(expand_host_list("a", "s") == Names{"a"});
  CHECK(expand_host_list("n[08-11,3],login", "s") == Names{"n08", "n09", "n10", "n11", "n3", "login"});
  CHECK(expand_host_list("r[1-2]n[1-2].x", "s") == Names{"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"});
  CHECK(expand_host_list("n[001-128]", "s").size() == 128);
  for (const char* list :
       {"", ",", "n[", "n]", "n[]", "n[1-", "n[2-1]", "n[a]", "n[1-2", "(null)", "n[1--2]"})
    CHECK(list_error(list).starts_with("s: expected a list of hosts such as node[01-16]; found"));
  CHECK(list_error("n[1-8193]") == "s: more than 8192 hosts");
  CHECK(list_error("n[1-999][1-999]") == "s: more than 8192 hosts");
}

TEST_CASE("sinfo gives the types and counts of GPUs, and nodes without are left out") {
  const auto nodes = parse_sinfo(
      "n[1-2] gpu:nvidia_h100_80gb_hbm3:8(S:0-1)\n"
      "n3 craynetwork:4,gpu:2\n"
      "n4 gpu:a100:4(S:0,1),gpu:v100:2(S:0,1),shard:8\n"
      "n5 gpu\nn6 (null)\n",
      "s");
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[1].name == "n2");
  CHECK(nodes[1].gpus == std::vector<SlurmGpus>{{"nvidia_h100_80gb_hbm3", 8}});
  CHECK(nodes[2].gpus == std::vector<SlurmGpus>{{"", 2}});
  CHECK(nodes[3].gpus == std::vector<SlurmGpus>{{"a100", 4}, {"v100", 2}});
  CHECK(nodes[4].gpus == std::vector<SlurmGpus>{{"", 1}});
}

TEST_CASE("a header of sinfo says which columns count, and `|` may separate them") {
  const auto nodes = parse_sinfo("NODELIST|STATE|GRES\nn1|idle|gpu:t4:1\nn2|mix|gpu:t4:2\n", "s");
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[1].gpus == std::vector<SlurmGpus>{{"t4", 2}});
  CHECK(parse_sinfo("gpu:t4:1 n1\n", "s")[0].name == "n1");
  // A node of several partitions is listed once for each.
  CHECK(parse_sinfo("n1 gpu:t4:1\nn1 gpu:t4:1\n", "s").size() == 1);
}

TEST_CASE("an unusable list of nodes is an error") {
  CHECK(sinfo_error("") ==
        "s: lists no node with GPUs (`gpu:` in GRES): check with `sinfo -o \"%N %G\"`, or name the hosts "
        "instead of "
        "--slurm");
  CHECK(sinfo_error("n1\n") == "s:1: expected nodes and their GRES; found `n1`");
  CHECK(sinfo_error("n1 gpu:a:b:c\n") == "s:1: expected gpu:TYPE:COUNT; found `gpu:a:b:c`");
  CHECK(sinfo_error("n1 gpu:a:0\n") == "s:1: expected gpu:TYPE:COUNT; found `gpu:a:0`");
  CHECK(sinfo_error("n1 gpu:1\nn1 gpu:2\n") == "s:2: node `n1` has other GPUs than in an earlier line");
  CHECK(sinfo_error("n[1 gpu:1\n") == "s:1: expected a list of hosts such as node[01-16]; found `n[1`");
}

TEST_CASE("switches of level 0 and blocks have nodes") {
  const auto tree = parse_slurm_switches(
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n3\n"
      "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1]\n",
      "s");
  REQUIRE(tree.size() == 2);
  CHECK(tree[0].name == "s0");
  CHECK(tree[0].nodes == Names{"n0", "n1", "n2"});
  const auto blocks = parse_slurm_switches("BlockName=b1 BlockIndex=0 Nodes=n[01-18] BlockSize=18\n", "s");
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].nodes.size() == 18);
  CHECK(parse_slurm_switches("No topology information available\n", "s").empty());
  CHECK(parse_slurm_switches("", "s").empty());
  CHECK(error_message([] { parse_slurm_switches("slurm_load_topo error\n", "s"); }) ==
        "s:1: expected SwitchName= or BlockName=; found `slurm_load_topo error`");
}
