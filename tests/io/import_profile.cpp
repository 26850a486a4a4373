#include "core/io/importers/import_profile.hpp"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Returns settings for a model of three blocks, of which profilers list five layers.
ImportSettings three_blocks() {
  ImportSettings settings;
  settings.gpu = "one";
  settings.job.name = "tiny";
  settings.job.model = Transformer{3, 8, 2, 16, 100};
  settings.job.training.global_batch = 1;
  settings.job.training.precision = Precision::tf32;
  return settings;
}

ImportSettings of_one_size() {
  ImportSettings settings = three_blocks();
  settings.micro_batch = 4;
  settings.tensor = 2;
  return settings;
}

LayerProfile from_sailor(const std::string& text) {
  return import_sailor(std::vector{ImportFile{"p.json", text}}, three_blocks());
}

const std::string layers =
    R"("0": [0.5, 0, 9], "1": [1, 2, 9], "2": [3, 4, 9], "3": [2, 9, 9], "4": [0.25, 0.75, 7])";

ImportFile metis(int tensor, int micro_batch, const std::string& text) {
  return {"runs/DeviceType.A100_tp" + std::to_string(tensor) + "_bs" + std::to_string(micro_batch) + ".json",
          text};
}

LayerProfile from_metis(std::vector<ImportFile> files) {
  return import_metis(files, three_blocks());
}

std::string event(const std::string& category, const std::string& name, double begin, double duration,
                  const std::string& more = "") {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
         R"(", "pid": 1, "tid": 1, "ts": )" + std::to_string(begin) + R"(, "dur": )" +
         std::to_string(duration) + more + "},\n";
}

std::string launch(int correlation, double begin) {
  return event("cuda_runtime", "cudaLaunchKernel", begin, 1,
               R"(, "args": {"correlation": )" + std::to_string(correlation) + "}");
}

std::string kernel(int correlation, double begin, double duration, const std::string& name = "gemm") {
  return event("kernel", name, begin, duration,
               R"(, "args": {"stream": 7, "correlation": )" + std::to_string(correlation) + "}");
}

std::string trace(const std::string& events) {
  return "{\"schemaVersion\": 1, \"traceEvents\": [\n" + events + "{\"ph\": \"i\"}], \"traceName\": \"t\"}";
}

LayerProfile from_kineto(const std::string& events) {
  return import_kineto(std::vector{ImportFile{"t.json", trace(events)}}, of_one_size());
}

/// Returns a step of annotations that last 10 µs each and launch no kernels.
std::string annotations(double begin) {
  std::string events;
  for (const char* name :
       {"embedding.fwd", "layer.0.fwd", "head.fwd", "head.bwd", "layer.0.bwd", "embedding.bwd"}) {
    events += event("user_annotation", name, begin, 10);
    begin += 10;
  }
  return events;
}

const ProfileRow& row_of(const LayerProfile& profile, const std::string& kind) {
  for (const ProfileRow& row : profile.rows)
    if (row.kind == kind) return row;
  throw Error("", "no row of " + kind);
}

bool reads_back(const LayerProfile& profile) {
  return parse_profile(format_json(profile_json(profile)), "again.json") == profile;
}

}  // namespace

TEST_CASE("Sailor: the first layer is the embedding and the last the head and the others are summarized") {
  const LayerProfile profile = from_sailor(R"({"10": {"1": {)" + layers + R"(}}, "2": {"4": {)" + layers +
                                           R"(}, "1": {)" + layers + "}}}");
  CHECK(profile.source == LayerProfile::Source::imported);
  CHECK(profile.gpu == "one");
  CHECK(profile.precision == Precision::tf32);
  CHECK_THAT(profile.derivation, contains("Sailor format, `p.json`"));
  REQUIRE(profile.rows.size() == 9);
  std::vector<std::tuple<std::string, int, int>> order;
  for (const ProfileRow& row : profile.rows) order.emplace_back(row.kind, row.tensor, row.micro_batch);
  CHECK(order[0] == std::tuple{"embedding", 1, 2});
  CHECK(order[1] == std::tuple{"embedding", 1, 10});
  CHECK(order[2] == std::tuple{"embedding", 4, 2});
  const ProfileRow& block = row_of(profile, "block");
  // 1, 2, 3 have the median 2 and percentiles 1.2 and 2.8; 2, 4, 9 have the median 4 and percentiles 2.4 and
  // 8.
  CHECK(block.forward.median_s == 2);
  CHECK(block.forward.spread_s == Approx(1.6));
  CHECK(block.backward.median_s == 4);
  CHECK(block.backward.spread_s == Approx(5.6));
  CHECK(block.update == Timing{9, 0});
  CHECK(row_of(profile, "head").forward == Timing{0.25, 0});
  CHECK(row_of(profile, "embedding").backward == Timing{0, 0});
  CHECK(profile.includes_all_reduces);
  CHECK(reads_back(profile));
  CHECK_FALSE(from_sailor(R"({"2": {"1": {)" + layers + "}}}").includes_all_reduces);
}

TEST_CASE("Sailor: a file of another model or format is rejected") {
  const auto [text, message] = GENERATE(table<std::string, std::string>(
      {{R"({"1": {"1": {"0": [1, 1, 1]}}})",
        "p.json: /1/1: expected 5 layers, including embedding and head; found 1"},
       {R"({"x": {"1": {)" + layers + "}}}",
        "p.json: /x: expected a micro-batch from 1 to 1000000; found `x`"},
       {R"({"0": {"1": {)" + layers + "}}}",
        "p.json: /0: expected a micro-batch from 1 to 1000000; found `0`"},
       {R"({"1": {"1.0": {)" + layers + "}}}", "p.json: /1/1.0: expected a tensor degree"},
       {R"({"1": {"1": {"5": [1, 1, 1], )" + layers.substr(layers.find("\"1\"")) + "}}}",
        "p.json: /1/1/5: expected a layer from 0 to 4; found `5`"},
       {R"({"1": {"1": {"0": [1, 1], )" + layers.substr(layers.find("\"1\"")) + "}}}",
        "p.json: /1/1/0: expected the times of forward, backward and update"},
       {R"({"1": {"1": {"0": [-1, 1, 1], )" + layers.substr(layers.find("\"1\"")) + "}}}",
        "p.json: /1/1/0/0: expected a number from 0 to 1000000; found the number -1"},
       {R"({"1": {"1": {)" + layers + ", " + layers + "}}}", "p.json:1:"},
       {"{\n\"1\": ", "p.json:2:"},
       {"{}", "p.json: no times of layer `embedding`"}}));
  CHECK_THAT(error_message([&, faulty = text] { from_sailor(faulty); }), contains(message));
}

TEST_CASE("Sailor: a published profile can be imported", "[data]") {
  const std::filesystem::path file =
      DTFM_SHARED_DATA "/layer-profiles/sailor/GPT-Neo-2.7/V100-16/profile.json";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: " << file << " is not there");
    return;
  }
  ImportSettings settings = three_blocks();
  settings.job.model = Transformer{32, 2560, 20, 2048, 50257};
  const LayerProfile profile = import_profile(import_formats()[0], std::vector{file}, settings);
  // 3 kinds at tensor degrees 1, 2, 4 and micro-batches 1, 2, 4, 8, except 8 at degree 1.
  CHECK(profile.rows.size() == 3 * (3 + 4 + 4));
  CHECK(row_of(profile, "block").forward.median_s == Approx(0.027493));
  CHECK(row_of(profile, "block").backward.median_s == Approx(0.059348));
  CHECK(row_of(profile, "head").forward.median_s == Approx(0.000361));
  // 0.010849 s for every layer, even for the lookup of an embedding, is not the time of a layer.
  for (const ProfileRow& row : profile.rows) CHECK_FALSE(row.update);
}

TEST_CASE("Metis: layer times are split 1 : 2 and the optimizer's time by parameters") {
  const std::string text = R"({"model": {"parameters": {"parameters_per_layer_bytes": [10, 20, 20, 20, 30]}},
    "execution_time": {"optimizer_time_ms": 100, "layer_compute_total_ms": [3, 30, 60, 90, 6]}})";
  const LayerProfile profile = from_metis({metis(1, 2, text), metis(4, 1, text)});
  REQUIRE(profile.rows.size() == 6);
  const ProfileRow& block = row_of(profile, "block");
  CHECK(block.micro_batch == 2);
  CHECK(block.tensor == 1);
  CHECK(block.forward.median_s == Approx(0.020));
  CHECK(block.backward.median_s == Approx(0.040));
  CHECK(block.update.value().median_s == Approx(0.020));
  CHECK(row_of(profile, "embedding").backward.median_s == Approx(0.002));
  CHECK(row_of(profile, "head").update.value().median_s == Approx(0.030));
  CHECK(profile.rows[1].tensor == 4);
  CHECK_THAT(profile.derivation, contains("assumed to be split 1 : 2") && contains("and 1 more file") &&
                                     contains("that of the file (Metis itself counts it twice)"));
  CHECK(profile.includes_all_reduces);
  CHECK(reads_back(profile));

  const LayerProfile without =
      from_metis({metis(1, 1, R"({"execution_time": {"layer_compute_total_ms": [3, 1, 1, 1, 6]}})")});
  CHECK_FALSE(row_of(without, "block").update);
  CHECK_FALSE(without.includes_all_reduces);
  CHECK_THAT(without.derivation, contains("update times are unknown"));
}

TEST_CASE("Metis: files that contradict the model or the format or each other are rejected") {
  const std::string good = R"({"execution_time": {"layer_compute_total_ms": [3, 1, 1, 1, 6]}})";
  const auto name = metis(1, 1, "").name;
  const auto [files, message] = GENERATE_COPY(table<std::vector<ImportFile>, std::string>(
      {{{{"a100.json", good}}, "a100.json: expected a file name such as DeviceType.A100_tp2_bs4.json"},
       {{metis(0, 1, good)}, "expected a file name such as"},
       {{metis(1, 1, good), metis(1, 1, good)},
        name + ": is the second file for tensor degree 1 and micro-batch 1"},
       {{metis(1, 1, good), {"DeviceType.T4_tp1_bs2.json", good}},
        "is for GPU `T4`, but the first file is for `A100`"},
       {{metis(1, 1, "{}")}, name + ": /: missing key `execution_time`"},
       {{metis(1, 1, R"({"execution_time": {"layer_compute_total_ms": [3]}})")},
        name + ": /execution_time/layer_compute_total_ms: expected 5 layers"},
       {{metis(1, 1, R"({"execution_time": {"layer_compute_total_ms": [3, 1, "x", 1, 6]}})")},
        name + ": /execution_time/layer_compute_total_ms/2: expected a number"}}));
  CHECK_THAT(error_message([&, faulty = files] { from_metis(faulty); }), contains(message));
}

TEST_CASE("Kineto: a time is the union of the kernels that an annotation launched on its thread") {
  std::string events;
  double begin = 0;
  int correlation = 1;
  for (const char* name : {"embedding.fwd", "embedding.bwd", "head.fwd", "head.bwd", "layer.0.bwd"}) {
    events += event("user_annotation", name, begin, 10) + launch(correlation, begin + 1) +
              kernel(correlation, begin + 500, 7);
    ++correlation;
    begin += 10;
  }
  // 20 … 50 and 40 … 60 on two streams are 40 µs; 80 … 90 adds 10. A kernel launched outside the annotation
  // and one of NCCL's do not count.
  events += event("user_annotation", "layer.2.fwd", 1000, 10);
  for (const int i : {20, 21, 22, 24}) events += launch(i, 1001 + i % 10);
  events += launch(23, 1011);
  events += kernel(20, 2020, 30) + kernel(21, 2040, 20) + kernel(22, 2080, 10) + kernel(23, 2100, 99) +
            kernel(24, 2200, 99, "ncclDevKernel_AllReduce");
  const LayerProfile profile = from_kineto(events);
  CHECK(row_of(profile, "block").forward.median_s == Approx(50e-6));
  CHECK(row_of(profile, "block").backward.median_s == Approx(7e-6));
  CHECK(row_of(profile, "block").micro_batch == 4);
  CHECK(row_of(profile, "block").tensor == 2);
  CHECK_THAT(profile.derivation, contains("NCCL kernels are excluded"));
  CHECK(reads_back(profile));
}

TEST_CASE("Kineto: a forward within a backward counts as a forward sample") {
  // 10 µs forward, and 30 µs backward that include 12 µs of forward.
  const LayerProfile profile = from_kineto(
      event("user_annotation", "embedding.fwd", 0, 1) + event("user_annotation", "embedding.bwd", 2, 1) +
      event("user_annotation", "head.fwd", 4, 1) + event("user_annotation", "head.bwd", 6, 1) +
      event("user_annotation", "ProfilerStep#3", 0, 200) + event("user_annotation", "layer.1.bwd", 100, 30) +
      event("user_annotation", "layer.1.fwd", 101, 12) + event("user_annotation", "layer.1.fwd", 20, 10));
  CHECK(row_of(profile, "block").backward.median_s == Approx(18e-6));
  CHECK(row_of(profile, "block").forward.median_s == Approx(11e-6));
  CHECK_THAT(profile.derivation, contains("because the trace has no kernels"));
}

TEST_CASE("Kineto: the first of several steps is warm-up") {
  const std::string slow = event("user_annotation", "layer.1.fwd", 60, 30);
  const std::string steps =
      event("user_annotation", "ProfilerStep#0", 0, 99) + event("user_annotation", "ProfilerStep#1", 100, 99);
  // With marked steps, the whole first step is skipped.
  CHECK(row_of(from_kineto(annotations(0) + slow + annotations(100) + steps), "block").forward ==
        Timing{1e-5, 0});
  // Without, the first event of each name is skipped: one of two for layer.0.fwd, the only one for
  // layer.1.fwd.
  const LayerProfile unmarked = from_kineto(annotations(0) + slow + annotations(100));
  CHECK(row_of(unmarked, "block").forward.median_s == Approx(20e-6));
  // A single step counts.
  CHECK(
      row_of(from_kineto(annotations(0) + slow + event("user_annotation", "ProfilerStep#0", 0, 99)), "block")
          .forward.median_s == Approx(20e-6));
}

TEST_CASE("Kineto: layers of a chain are matched by their number") {
  ImportSettings settings = of_one_size();
  LayerChain chain;
  for (const char* name : {"conv", "linear", "conv"}) {
    Layer layer;
    layer.name = name;
    layer.forward = Flops(name[0] == 'c' ? 5 : 7);
    chain.layers.push_back(layer);
  }
  settings.job.model = chain;
  std::string events;
  for (const int layer : {0, 1, 2})
    for (const char* phase : {"fwd", "bwd"})
      events += event("user_annotation", "layer." + std::to_string(layer) + "." + phase,
                      100 * layer + (phase[0] == 'b' ? 50 : 0), 10 + layer * layer);
  const LayerProfile profile = import_kineto(std::vector{ImportFile{"t.json", trace(events)}}, settings);
  REQUIRE(profile.rows.size() == 2);
  CHECK(row_of(profile, "conv").forward.median_s == Approx(12e-6));  // the median of 10 and 14
  CHECK(row_of(profile, "linear").forward.median_s == Approx(11e-6));
}

TEST_CASE("Kineto: a trace without the required events is rejected") {
  const auto [text, message] = GENERATE(table<std::string, std::string>(
      {{"[]", "t.json: /: expected an object"},
       {"{\"events\": []}", "t.json: /: missing key `traceEvents`"},
       {"{\"traceEvents\": 7}", "t.json: /traceEvents: expected an array of events; found the number 7"},
       {"{\"traceEvents\": [7]}", "t.json: /traceEvents/0: expected an object; found the number 7"},
       {"{\"traceEvents\": [\n{\"ph\": }]}", "t.json:2:8: "},
       {trace(""), "t.json: expected annotations like `layer.0.fwd`"},
       {trace(annotations(0) + event("user_annotation", "layer.3.fwd", 0, 1)),
        "t.json: /traceEvents/6: the model has 3 layers, numbered from 0; found `layer.3`"},
       {trace(event("user_annotation", "layer.0.fwd", 0, 1)), "t.json: no backward times of layer `block`"},
       {trace(event("user_annotation", "layer.0.fwd", 0, -1)),
        "t.json: /traceEvents/0/dur: expected a number from 0 to"},
       {trace(annotations(0) + launch(1, 11) + kernel(1, 11, 5)),
        "t.json: no kernel was launched within `embedding.fwd` at 0 us on its thread"}}));
  const ImportFile file{"t.json", text};
  CHECK_THAT(error_message([&] { import_kineto(std::vector{file}, of_one_size()); }), contains(message));
}

TEST_CASE("importer settings must be given exactly if the files do not contain them") {
  const TemporaryFolder folder;
  folder.write("trace.json", "\x1f\x8b\x08");
  const std::filesystem::path path = folder.path() / "trace.json";
  const std::vector one{path};
  const auto formats = import_formats();
  CHECK(error_message([&] {
          import_profile(formats[0], std::vector{path, path}, three_blocks());
        }) == "--import: sailor reads one profile.json; found 2 files");
  CHECK(error_message([&] { import_profile(formats[0], one, of_one_size()); }) ==
        "--micro-batch: cannot be set, because sailor files contain it");
  CHECK(error_message([&] { import_profile(formats[2], one, three_blocks()); }) ==
        "--micro-batch: is required, because kineto files do not contain it");
  CHECK_THAT(error_message([&] { import_profile(formats[2], one, of_one_size()); }),
             contains("is compressed: unpack it first (gunzip)"));
  std::filesystem::remove(path);
}
