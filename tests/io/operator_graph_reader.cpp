#include "core/io/readers/operator_graph_reader.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "core/io/readers/job_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

const std::string block = R"({
  "nodes": [
    {"name": "in", "flops": 0, "parameters": 0, "output_bytes": 64},
    {"name": "conv", "flops": 2.5e9, "parameters": 9408, "output_bytes": 128},
    {"name": "norm", "flops": 10, "backward_flops": 5, "parameters": 128, "output_bytes": 32, "activation_bytes": 7},
    {"name": "add", "flops": 0, "parameters": 0, "output_bytes": 16}
  ],
  "edges": [["in", "conv"], ["conv", "norm"], ["norm", "add"], ["in", "add"]]
})";

std::string error_in(const std::string& text) {
  return error_message([&] { parse_operator_graph(text, "ops.json"); });
}

/// Returns the error message for `block` with one part replaced.
std::string wrong(const std::string& before, const std::string& after) {
  std::string text = block;
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return error_in(text.replace(at, before.size(), after));
}

}  // namespace

TEST_CASE("an operator graph is read as written") {
  const OperatorGraph graph = parse_operator_graph(block, "ops.json");
  REQUIRE(graph.operators.size() == 4);
  CHECK(graph.operators[1] == Operator{"conv", 9408, Flops(2.5e9), Flops(5e9), Bytes(128), {}});
  CHECK(graph.operators[2] == Operator{"norm", 128, Flops(10), Flops(5), Bytes(32), Bytes(7)});
  CHECK(graph.edges == std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}, {0, 3}});
}

TEST_CASE("an invalid operator graph is reported with position and reason") {
  CHECK(wrong("[\"in\", \"conv\"]", "[\"in\", \"cov\"]") ==
        "ops.json:8:20: unknown node `cov`; did you mean `conv`?");
  CHECK(wrong("[\"in\", \"conv\"]", "[\"in\"]") ==
        "ops.json:8:13: expected the names of two nodes, [from, to]; found 1");
  CHECK(wrong("\"name\": \"norm\"", "\"name\": \"conv\"") ==
        "ops.json:5:5: node `conv` is given twice, first at ops.json:4:5");
  CHECK(wrong("[\"in\", \"add\"]", "[\"norm\", \"conv\"]") ==
        "ops.json:4:5: the edges form a cycle: `conv` → `norm` → `conv`");
  CHECK(wrong("[\"in\", \"add\"]", "[\"norm\", \"norm\"]") ==
        "ops.json:5:5: the edges form a cycle: `norm` → `norm`");
  CHECK(wrong("[\"in\", \"conv\"], [\"conv\", \"norm\"], [\"norm\", \"add\"], [\"in\", \"add\"]",
              "[\"in\", \"add\"], [\"conv\", \"norm\"]") ==
        "ops.json:4:5: node `conv` is not connected to `in`, the first node");
  CHECK(wrong("2.5e9", "-1") == "ops.json:4:31: `flops`: must not be negative; found `-1`");
  CHECK(wrong("9408", "-1") == "ops.json:4:52: `parameters`: expected a number from 0 to 1e+18; found `-1`");
  CHECK(wrong("64", "-64") == "ops.json:3:65: `output_bytes`: must not be negative; found `-64`");
  CHECK(wrong("2.5e9", "1e25") ==
        "ops.json:4:31: `flops`: `1e25` is out of range: a FLOP count must be from 0.001 to 1e+24 FLOP");
  CHECK(wrong("2.5e9", "9e23") ==
        "ops.json:2:12: `nodes`: 1.8e+24 FLOPs backward in total; at most 1e+24 are supported");
  CHECK(wrong("\"flops\": 10", "\"flop\": 10") == "ops.json:5:22: unknown key `flop`; did you mean `flops`?");
  CHECK(wrong("\"flops\": 10, ", "") == "ops.json:5:5: missing key `flops`");
  CHECK(error_in("[]") == "ops.json:1:1: expected an operator graph: {\"nodes\": […], \"edges\": […]}");
  CHECK(error_in("{\"nodes\": [], \"edges\": []}") == "ops.json:1:11: `nodes`: must not be empty");
  // Truncated files.
  CHECK(error_in(block.substr(0, 100)) == "ops.json:4:17: not YAML: illegal EOF in scalar");
  CHECK(error_in(block.substr(0, 300)) ==
        "ops.json:1:1: expected a key: a word followed by a colon; or the bracket here is never closed");
  CHECK_THAT(error_in(block.substr(0, block.size() - 1)), contains("ops.json:1:1: "));
}

TEST_CASE("graphs have limits") {
  std::string nodes;
  for (int i = 0; i <= 50'000; ++i) nodes += "1,";
  CHECK(error_in("{\"nodes\": [" + nodes + "1], \"edges\": []}") ==
        "ops.json:1:11: `nodes`: 50002 nodes; at most 50000 are supported");
  CHECK_THAT(wrong("conv", std::string(61, 'x')), contains("is longer than 60 bytes"));
  // A long cycle is abbreviated in the message.
  std::string ring = R"({"nodes": [{"name": "n0", "flops": 1, "parameters": 1, "output_bytes": 1})", edges;
  for (int i = 1; i < 20; ++i) {
    const std::string name = "\"n" + std::to_string(i) + "\"";
    ring += ", {\"name\": " + name + ", \"flops\": 1, \"parameters\": 1, \"output_bytes\": 1}";
    edges += "[\"n" + std::to_string(i - 1) + "\", " + name + "], ";
  }
  CHECK(error_in(ring + "], \"edges\": [" + edges + "[n19, n0]]}") ==
        "ops.json:1:12: the edges form a cycle: `n0` → `n1` → `n2` → `n3` → `n4` → `n5` → `n6` → `n7` → 12 "
        "more → "
        "`n0`");
}

TEST_CASE("a job names the file of its operator graph which becomes a chain of layers") {
  const TemporaryFolder folder;
  folder.write("ops.json", block);
  const auto job_with = [&](const std::string& model) {
    return parse_job("version: 1\nname: g\nmodel: " + model + "\ntraining: {global_batch: 1}\n",
                     (folder.path() / "job.yaml").string());
  };
  const Job job = job_with("{kind: graph, file: ops.json, sequence: 7}");
  const std::vector<Layer> layers = layer_chain(job);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "in");
  CHECK(layers[0].output.value() == 64);
  CHECK(layers[1].name == "conv…add");
  CHECK(layers[1].parameters == 9408 + 128);
  CHECK(layers[1].forward.value() == 2.5e9 + 10);
  CHECK(layers[1].backward.value() == 5e9 + 5);
  CHECK(layers[1].output.value() == 16);
  // conv reads `in`, norm has its activations given as 7, add reads norm and `in`.
  CHECK(layers[1].activation_memory.value() == 64 + 7 + 32);
  CHECK(sequence_length(job.model) == 7);
  CHECK(layer_count(job_with("{kind: graph, file: ops.json, live_tensors: 2}").model) == 4);
  // A plan contains the chain and no longer needs the file.
  const std::string json = job_json(job).dump();
  CHECK(parse_job(json, "elsewhere.json").model == job.model);
  CHECK_THAT(error_message([&] { job_with("{kind: graph, file: ../ops.json}"); }),
             contains("`file`: `../ops.json` is outside the folder of this file"));
  CHECK_THAT(error_message([&] { job_with("{kind: graph, file: none.json}"); }), contains("none.json"));
}
