#include "core/io/importers/network_measurements.hpp"

#include <fmt/format.h>

#include "core/cluster/topology.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/writers/topology_writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Returns iperf3 -J output of `flows` flows from 10.0.0.1 to 10.0.0.2 (`reverse`: in the other direction)
/// with two seconds of 90 and 110 Mbps after an omitted one; the minimum round-trip time is 40 ms.
std::string iperf3(double received, int flows = 1, int reverse = 0, const std::string& more = "") {
  return fmt::format(
      R"({{"start": {{"connected": [{{"local_host": "10.0.0.1", "remote_host": "10.0.0.2"}}],
  "test_start": {{"protocol": "TCP", "num_streams": {}, "reverse": {}}}}},
 "intervals": [{{"sum": {{"seconds": 1, "bits_per_second": 5e6, "omitted": true}}}},
  {{"sum": {{"seconds": 1, "bits_per_second": 90e6, "omitted": false}}}},
  {{"sum": {{"seconds": 1, "bits_per_second": 110e6, "omitted": false}}}},
  {{"sum": {{"seconds": 0.1, "bits_per_second": 1e6, "omitted": false}}}}],
 "end": {{"streams": [{{"sender": {{"min_rtt": 40000}}}}], "sum_received": {{"bits_per_second": {}}}}}{}}})",
      flows, reverse, received, more);
}

std::string measurement(const std::string& from, const std::string& to, const std::string& rest) {
  return fmt::format(R"({{"schema": "dtfm-measurement/1", "from": {{"name": "{}"}}, "to": {{"name": "{}"}},
 "time": "2026-01-31T12:00:00Z", "rtt_ms": [41, 40, 90], {}}})",
                     from, to, rest);
}

MeasurementSettings two_sites() {
  MeasurementSettings settings;
  settings.names = {{"10.0.0.1", "a"}, {"10.0.0.2", "b"}};
  return settings;
}

MeasurementSettings between_a_and_b() {
  MeasurementSettings settings;
  settings.between = {"a", "b"};
  settings.is_symmetric = true;
  return settings;
}

Topology topology_of(const NetworkMeasurements& measurements, const MeasurementSettings& settings,
                     const InventorySettings& inventory = {}) {
  InventorySettings named = inventory;
  named.name = "test";
  return parse_topology(format_topology(measurements, summarize_links(measurements, settings), named),
                        "test.yaml", {});
}

NetworkMeasurements from_iperf3(std::vector<MeasurementFile> files, const MeasurementSettings& settings) {
  return import_iperf3(files, settings);
}

NetworkMeasurements from_measurements(std::vector<MeasurementFile> files) {
  return import_measurements(files, {});
}

std::string iperf3_error(const std::string& text) {
  return error_message([&] { from_iperf3({{"r.json", text}}, two_sites()); });
}

std::string measurement_error(const std::string& text) {
  return error_message([&] { from_measurements({{"m.json", text}}); });
}

NetworkMeasurements matrices(const std::string& latency, const std::string& bandwidth) {
  MeasurementSettings settings;
  settings.latency_unit = time_unit("ms");
  settings.bandwidth_unit = rate_unit("Mbps");
  return import_matrices(std::vector<MeasurementFile>{{"l.csv", latency}, {"b.csv", bandwidth}}, settings);
}

/// Returns nccl-tests output of ranks on hosts h0, h1, …
std::string nccl(int ranks, const std::string& rows, const std::string& collective = "") {
  std::string text = collective.empty() ? "" : "# Collective test starting: " + collective + "\n";
  for (int i = 0; i < ranks; ++i)
    text += fmt::format("#  Rank  {0} Group  0 Pid   {0} on  h{0} device  0 [0x00] NVIDIA A100\n", i);
  return text +
         "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n" +
         rows;
}

std::string nccl_row(double bytes, double microseconds) {
  return fmt::format("{} 1 float sum -1 {} 0.1 0.1 0 {} 0.1 0.1 0\n", bytes, microseconds, 2 * microseconds);
}

NetworkMeasurements from_nccl(const std::string& text, const MeasurementSettings& settings = {}) {
  return import_nccl_tests(std::vector<MeasurementFile>{{"n.txt", text}}, settings);
}

}  // namespace

TEST_CASE("iperf3: sender and receiver and rate are read from one file or several") {
  const NetworkMeasurements measurements =
      from_iperf3({{"there.json", iperf3(100e6)}, {"back.json", iperf3(50e6, 1, 1)}}, two_sites());
  const Topology topology = topology_of(measurements, two_sites());
  REQUIRE(topology.size() == 2);
  CHECK(topology.devices[0].id == "a/0");
  CHECK(topology.link(0, 1).latency.value() == Approx(0.020));  // half of 40 ms
  CHECK(topology.link(0, 1).bandwidth.value() == Approx(100e6));
  CHECK(topology.link(1, 0).bandwidth.value() == Approx(50e6));  // reverse: the server sent
  CHECK(topology.link(0, 1).capacity == unlimited);              // not measured
}

TEST_CASE("iperf3: the deviation is that of complete intervals that are not omitted") {
  const NetworkMeasurements measurements = from_iperf3({{"r.json", iperf3(100e6)}}, two_sites());
  // √(2 · 10² ⁄ 1) = 14.14 for 90 and 110.
  CHECK(measurements.samples.at({0, 1}).front().spread->value() == Approx(14.1421e6));
}

TEST_CASE("iperf3: the deviation is the server's and keys that iperf3 3.12 writes twice are accepted") {
  const std::string server =
      R"(, "server_output_json": {"start": {"sock_bufsize": 0, "sock_bufsize": 0}, "intervals": [
 {"sum": {"seconds": 1, "bits_per_second": 99e6}}, {"sum": {"seconds": 1, "bits_per_second": 101e6}}]})";
  const NetworkMeasurements measurements =
      from_iperf3({{"r.json", iperf3(100e6, 1, 0, server)}}, two_sites());
  CHECK(measurements.samples.at({0, 1}).front().spread->value() == Approx(1.41421e6));  // √(2 · 1²)
}

TEST_CASE("iperf3: repeated runs give their median and several flows give the capacity") {
  std::vector<MeasurementFile> files;
  for (const double rate : {80e6, 300e6, 100e6}) files.push_back({"r.json", iperf3(rate)});
  files.push_back({"four.json", iperf3(250e6, 4)});
  files.push_back({"back.json", iperf3(100e6, 1, 1)});
  files.push_back({"back-four.json", iperf3(110e6, 4, 1)});
  const Topology topology = topology_of(from_iperf3(files, two_sites()), two_sites());
  CHECK(topology.link(0, 1).bandwidth.value() == Approx(100e6));
  CHECK(topology.link(0, 1).capacity.value() == Approx(250e6));
  // Four flows got 10 Mbps more than one, which is less than its deviation of 14: they share what one gets.
  CHECK(topology.link(1, 0).capacity.value() == Approx(100e6));
  // Each site was measured with one machine, which says nothing about what the eight machines of a site
  // share.
  InventorySettings eight;
  eight.hosts_of["a"] = 8;
  eight.within_site = LinkSettings{Seconds(1e-3), BitsPerSecond(1e9)};
  CHECK(topology_of(from_iperf3(files, two_sites()), two_sites(), eight).link(0, 8).capacity == unlimited);
}

TEST_CASE("a direction without measurement is an error unless it is declared symmetric") {
  MeasurementSettings settings = between_a_and_b();
  const NetworkMeasurements measurements = from_iperf3({{"r.json", iperf3(100e6)}}, settings);
  CHECK(topology_of(measurements, settings).link(1, 0).bandwidth.value() == Approx(100e6));
  CHECK_THAT(format_topology(measurements, summarize_links(measurements, settings), {}),
             contains("not measured: copied from the other direction"));
  settings.is_symmetric = false;
  CHECK_THAT(error_message([&] { summarize_links(measurements, settings); }),
             contains("no measurement from `b` to `a`; use --symmetric"));
}

TEST_CASE("a latency given by the user overrides measurements") {
  MeasurementSettings settings = between_a_and_b();
  settings.latency = Seconds(0.007);
  CHECK(
      topology_of(from_iperf3({{"r.json", iperf3(100e6)}}, settings), settings).link(0, 1).latency.value() ==
      Approx(0.007));
}

TEST_CASE("iperf3: unusable files are rejected with a reason") {
  CHECK_THAT(iperf3_error(R"({"start": {}, "error": "unable to connect"})"),
             contains("iperf3 failed: `unable to connect`"));
  CHECK_THAT(iperf3_error("{"), contains("r.json:1:"));
  CHECK_THAT(iperf3_error("{}"), contains("missing key `start`"));
  CHECK_THAT(iperf3_error(iperf3(0)), contains("/end/sum_received/bits_per_second"));
  CHECK_THAT(iperf3_error(iperf3(1e6, 0)), contains("num_streams"));
  const auto with = [](const std::string& what, const std::string& instead) {
    std::string text = iperf3(1e6);
    return text.replace(text.find(what), what.size(), instead);
  };
  CHECK_THAT(iperf3_error(with("\"TCP\"", "\"UDP\"")), contains("expected TCP"));
  CHECK_THAT(iperf3_error(with("\"reverse\": 0", "\"bidir\": 1")), contains("disturb each other"));
  CHECK_THAT(iperf3_error("{\"event\":\"start\",\"data\":{}}\n{\"event\":\"end\",\"data\":{}}\n"),
             contains("--json-stream"));
  CHECK_THAT(iperf3_error(with("10.0.0.1", "::1")), contains("`::1` cannot be the name of a site"));
  const NetworkMeasurements several = from_iperf3({{"r.json", iperf3(1e6, 4)}}, between_a_and_b());
  CHECK_THAT(error_message([&] { summarize_links(several, between_a_and_b()); }),
             contains("no bandwidth of one flow from `a`"));
}

TEST_CASE("measurements give half the median ping and one and several flows and the date") {
  const std::string both = R"("one_flow": )" + iperf3(100e6) + R"(, "several_flows": )" + iperf3(400e6, 4);
  const std::string one = R"("one_flow": )" + iperf3(60e6);
  const NetworkMeasurements measurements =
      from_measurements({{"1.json", measurement("a", "b", both)}, {"2.json", measurement("b", "a", one)}});
  const std::string text = format_topology(measurements, summarize_links(measurements, {}), {});
  CHECK_THAT(text, contains("bandwidth ± 14.1421 Mbps, 2026-01-31T12:00:00Z"));
  const Topology topology = topology_of(measurements, {});
  CHECK(topology.link(0, 1).latency.value() == Approx(0.0205));  // of 40, 41 and 90 ms
  CHECK(topology.link(0, 1).capacity.value() == Approx(400e6));
  CHECK(topology.link(1, 0).bandwidth.value() == Approx(60e6));
}

TEST_CASE("machines of a site keep their names and what they share is not the capacity of the site") {
  std::vector<MeasurementFile> files;
  const std::vector<std::string> hosts{"lab/one", "lab/two", "far"};
  for (const auto& from : hosts)
    for (const auto& to : hosts)
      if (from != to)
        files.push_back({from + to, measurement(from, to,
                                                R"("one_flow": )" + iperf3(1e6) + R"(, "several_flows": )" +
                                                    iperf3(9e6, 4))});
  const Topology topology = topology_of(from_measurements(files), {});
  REQUIRE(topology.size() == 3);
  CHECK(topology.sites.size() == 2);
  CHECK(topology.devices[0].id == "one");
  CHECK(topology.devices[0].site == topology.devices[1].site);
  CHECK(topology.link(0, 2).capacity == unlimited);
}

TEST_CASE("GPUs and their number come from the measurements unless the user overrides them") {
  const auto file = [](const std::string& from, const std::string& to) {
    std::string text = measurement(from, to, R"("one_flow": )" + iperf3(1e6));
    const std::string a = R"({"name": "a"})";
    return MeasurementFile{
        from, text.replace(text.find(a), a.size(), R"({"name": "a", "gpu": "A100-80GB", "count": 2})")};
  };
  const NetworkMeasurements measurements = from_measurements({file("a", "b"), file("b", "a")});
  CHECK_THAT(error_message([&] { topology_of(measurements, {}); }), contains("--within-host: is required"));
  InventorySettings inventory;
  inventory.within_host = LinkSettings{Seconds(5e-6), BitsPerSecond(3e11)};
  inventory.gpu_of["b"] = "T4";
  const Topology topology = topology_of(measurements, {}, inventory);
  REQUIRE(topology.size() == 3);
  CHECK(topology.devices[1].id == "a/0:1");
  CHECK(topology.gpus[static_cast<std::size_t>(topology.devices[0].gpu)].name == "A100-80GB");
  CHECK(topology.gpus[static_cast<std::size_t>(topology.devices[2].gpu)].name == "T4");
  CHECK(topology.link(0, 1).bandwidth.value() == Approx(3e11));
  inventory.gpu_of = {{"c", "T4"}};
  CHECK_THAT(error_message([&] { topology_of(measurements, {}, inventory); }),
             contains("--gpu: no site `c` was measured"));
  inventory.gpu_of = {};
  inventory.gpu = "A100-80G";
  CHECK_THAT(error_message([&] { topology_of(measurements, {}, inventory); }),
             contains("did you mean `A100-80GB`?"));
  inventory.gpu = "T4";
  inventory.hosts = 2;
  CHECK_THAT(error_message([&] { topology_of(measurements, {}, inventory); }),
             contains("--within-site: is required"));
}

TEST_CASE("unusable measurements are rejected with a reason") {
  const std::string one = R"("one_flow": )" + iperf3(1e6);
  CHECK_THAT(measurement_error("{}"), contains("missing key `schema`"));
  CHECK_THAT(measurement_error(R"({"schema": "other/1"})"),
             contains("expected dtfm-measurement/1; found `other/1`"));
  CHECK_THAT(measurement_error(measurement("a", "a", one)), contains("from a host to itself"));
  const NetworkMeasurements mixed =
      from_measurements({{"1", measurement("lab", "lab/x", one)}, {"2", measurement("lab/x", "lab", one)}});
  CHECK_THAT(error_message([&] { topology_of(mixed, {}); }),
             contains("site `lab` was measured both as a whole and by its machine `x`"));
  CHECK_THAT(measurement_error(measurement("a/b/c", "d", one)), contains("`b/c` cannot be the name"));
  CHECK_THAT(measurement_error(measurement("*", "d", one)), contains("cannot be the name"));
  CHECK_THAT(measurement_error(measurement("a", "b", R"("one_flow": )" + iperf3(1e6, 3))),
             contains("expected one flow; found 3"));
  std::string text = measurement("a", "b", one);
  CHECK_THAT(measurement_error(text.replace(text.find("12:00:00Z"), 9, "12:00:00Z\\nx: y")),
             contains("expected a time such as"));
  text = measurement("a", "b", one);
  CHECK_THAT(measurement_error(text.replace(text.find("[41, 40, 90]"), 12, "[]")),
             contains("/rtt_ms: expected a round trip"));
}

TEST_CASE("names from untrusted files are preserved") {
  for (const std::string name :
       {"a\"b\\c", "# x", "é😀", "{y [z", "a, b", "yes", "1", "- a", "u\u2028\u2029v", "'", " x "}) {
    MeasurementSettings settings = between_a_and_b();
    settings.between->first = name;
    CAPTURE(name);
    CHECK(topology_of(from_iperf3({{"r.json", iperf3(1e6)}}, settings), settings).sites[0].name == name);
  }
  for (const std::string name : {"", "*", "host", "a/b", "a:b", "a\nb: c", "a\tb", "a\u0085b", "a\u202eb"}) {
    CAPTURE(name);
    CHECK_THAT(error_message([&] { check_endpoint_name(name, "f"); }), contains("f: "));
  }
}

TEST_CASE("matrices have a line of names and take their units from the user") {
  const NetworkMeasurements measurements = matrices(",x,y\nx,0,10\ny,30,0\n", "x,y\n-,100\n200,-\n");
  const Topology topology = topology_of(measurements, {});
  CHECK(topology.sites[1].name == "y");
  CHECK(topology.link(0, 1).latency.value() == Approx(0.010));
  CHECK(topology.link(1, 0).latency.value() == Approx(0.030));
  CHECK(topology.link(1, 0).bandwidth.value() == Approx(200e6));
  CHECK_THAT(error_message([] { matrices("0,1\n1,0\n", ""); }),
             contains("l.csv:1:1: expected a header with the names"));
  CHECK_THAT(error_message([] { matrices("x,y\n0,1\n1,0\n", "x,z\n0,1\n1,0\n"); }),
             contains("b.csv:1:3: expected `y`"));
  CHECK_THAT(error_message([] { matrices("x,y\n0,\n1,0\n", "x,y\n0,1\n1,0\n"); }),
             contains("l.csv:2:3: x → y is not measured"));
  CHECK_THAT(error_message([] { matrices("x,x\n0,1\n1,0\n", "x,x\n0,1\n1,0\n"); }),
             contains("two columns have the same name"));
  CHECK_THAT(error_message([] { matrices("", ""); }), contains("l.csv:1:1"));
  CHECK_THAT(error_message([] {
               import_matrices(std::vector<MeasurementFile>{{"l.csv", "x,y\n"}, {"b.csv", ""}}, {});
             }),
             contains("--latency-unit: is required"));
}

TEST_CASE("iperf3: bidirectional tests of all versions are rejected") {
  const auto ended_with = [](const std::string& more) {
    std::string text = iperf3(94e6);
    const std::string old = R"("sum_received")";
    return text.replace(text.find(old), old.size(), more + old);
  };
  // 3.7 has two streams, in opposite directions; later versions have keys for the second direction.
  const auto streams = [&](const char* first, const char* second) {
    std::string text = iperf3(94e6);
    const std::string old = R"([{"sender": {"min_rtt": 40000}}])";
    return text.replace(
        text.find(old), old.size(),
        fmt::format(R"([{{"sender": {{"sender": {}}}}}, {{"sender": {{"sender": {}}}}}])", first, second));
  };
  CHECK_THAT(iperf3_error(streams("true", "false")), contains("disturb each other"));
  CHECK(iperf3_error(streams("true", "true")) == "no error");
  CHECK(iperf3_error(streams("false", "false")) == "no error");
  CHECK_THAT(iperf3_error(ended_with(R"("sum_sent_bidir_reverse": {}, )")), contains("disturb each other"));
  CHECK_THAT(iperf3_error(ended_with(R"("sum_received_bidir_reverse": {}, )")),
             contains("disturb each other"));
}

TEST_CASE("nccl-tests: the fit recovers latency and bandwidth from times of the models") {
  // t = α + S / β with α = 40 ms, β = 100 MB/s: 1 MB takes 50 ms, 4 MB 80 ms.
  const std::string rows = nccl_row(1e6, 50e3) + nccl_row(2e6, 60e3) + nccl_row(4e6, 80e3);
  const Topology two = topology_of(from_nccl(nccl(2, rows, "sendrecv_perf")), {});
  CHECK(two.link(0, 1).latency.value() == Approx(0.040));
  CHECK(two.link(1, 0).bandwidth.value() == Approx(800e6));
  // t = 2 · 3 (α + S / (4 β)): the same times give α = 40 / 6 ms and β = 1.5 · 100 MB/s, which is NCCL's bus
  // bandwidth.
  const Topology four = topology_of(from_nccl(nccl(4, rows, "all_reduce_perf")), {});
  REQUIRE(four.size() == 4);
  CHECK(four.link(3, 1).latency.value() == Approx(0.040 / 6));
  CHECK(four.link(0, 2).bandwidth.value() == Approx(1200e6));
}

TEST_CASE("nccl-tests: the header determines the column of the time") {
  // Versions before `root` was added have one column less.
  std::string text =
      nccl(2, "1000000 1 float sum 50000 0.1 0.1 0\n4000000 1 float sum 80000 0.1 0.1 0\n", "sendrecv_perf");
  text.replace(text.find("  root"), 6, "");
  CHECK(topology_of(from_nccl(text), {}).link(1, 0).bandwidth.value() == Approx(800e6));
  text.replace(text.find("#       size"), 12, "# ");
  CHECK_THAT(error_message([&] { from_nccl(text); }), contains("n.txt:5:1: a row precedes the header"));
}

TEST_CASE("nccl-tests: a fit with a negative latency is replaced by the best fit through zero") {
  // S ⁄ t of 1 MB in 900 µs, 10 MB in 11 ms, 100 MB in 130 ms: 1111.1, 909.1 and 769.2 B/µs. Least squares of
  // relative errors through 0: β' = Σ S ⁄ t ÷ Σ (S ⁄ t)² = 2789.4 ÷ 2652730 µs/B, 951.0 MB/s.
  const Topology topology = topology_of(
      from_nccl(nccl(2, nccl_row(1e6, 900) + nccl_row(1e7, 11e3) + nccl_row(1e8, 130e3), "sendrecv_perf")),
      {});
  CHECK(topology.link(0, 1).latency.value() == 0);
  CHECK(topology.link(0, 1).bandwidth.value() == Approx(8 * 951.0e6).epsilon(1e-3));
}

TEST_CASE("nccl-tests: a row far from the fitted line is reported") {
  // The weights 1 ⁄ t² draw the line through (1, 2) and (3, 4) with little regard for (2, 6), which is
  // therefore the farthest row.
  const NetworkMeasurements measurements =
      from_nccl(nccl(2, nccl_row(1e6, 2) + nccl_row(2e6, 6) + nccl_row(3e6, 4), "sendrecv_perf"));
  // Normal equations of Σ (α ⁄ t + β' S ⁄ t − 1)² with S in MB and t in µs. The sums, times 144, are 49 for 1
  // ⁄ t², 71 for S ⁄ t², 133 for S² ⁄ t², 132 for 1 ⁄ t, and 228 for S ⁄ t. So β' = (49 · 228 − 71 · 132) ⁄
  // (49 · 133 − 71²) = 1.2195 and α = (132 − 71 β') ⁄ 49 = 0.9268. At S = 2 that is 3.3659, 44 % off 6.
  CHECK_THAT(measurements.description, contains("the largest error of a row is 44 %"));
}

TEST_CASE("nccl-tests: unusable output is rejected with a reason") {
  const std::string rows = nccl_row(1e6, 50e3) + nccl_row(2e6, 60e3);
  const auto refused = [](const std::string& text) { return error_message([&] { from_nccl(text); }); };
  CHECK_THAT(refused(nccl(2, rows)), contains("--collective"));
  CHECK_THAT(refused(nccl(2, rows, "broadcast_perf")),
             contains("expected sendrecv_perf or all_reduce_perf; found `broadcast`"));
  CHECK_THAT(refused(nccl(1, rows, "sendrecv_perf")), contains("expected one rank per host"));
  CHECK_THAT(refused(nccl(2, nccl_row(1e6, 50e3), "sendrecv_perf")), contains("rows of several sizes"));
  CHECK_THAT(refused(nccl(2, nccl_row(1e6, 50e3) + nccl_row(2e6, 20e3), "sendrecv_perf")),
             contains("with longer times for larger sizes"));
  CHECK_THAT(refused(nccl(2, "1000 nonsense\n", "sendrecv_perf")),
             contains("n.txt:5:1: expected the time in column 6; found 2 columns"));
  CHECK_THAT(refused("Segmentation fault\n"), contains("no rows of size and time"));
}

TEST_CASE("nccl-tests: output that measured nothing is rejected") {
  const std::string rows = nccl_row(1e6, 50e3) + nccl_row(2e6, 60e3);
  const auto refused = [](const std::string& text, const MeasurementSettings& settings = {}) {
    return error_message([&] { from_nccl(text, settings); });
  };
  const auto with = [](std::string text, const std::string& old, const std::string& now) {
    return text.replace(text.find(old), old.size(), now);
  };
  const std::string good = nccl(2, rows, "all_reduce_perf");
  CHECK_THAT(refused(with(good, "Rank  1", "Rank  0")),
             contains("n.txt:3:1: rank 0 is listed twice: each rank measured only itself"));
  // 2 (n − 1) ⁄ n of a single rank is 0.
  std::string alone = nccl(0, rows, "all_reduce_perf");
  for (std::size_t i = alone.find("0.1 0.1 0"); i != alone.npos; i = alone.find("0.1 0.1 0"))
    alone.replace(i, 9, "205 0.00 0");
  CHECK_THAT(refused(alone, between_a_and_b()),
             contains("n.txt: the bus bandwidth (busbw) of every row is 0"));
  CHECK_THAT(refused(with(good, "0.1 0.1 0", "0.1 0.1 524288")),
             contains("n.txt:5:1: 524288 results are wrong (#wrong)"));
  CHECK_THAT(refused(good + "# Out of bounds values : 50 FAILED\n"),
             contains("n.txt:7:1: nccl-tests found 50 wrong results"));
  CHECK_THAT(refused(good + "a: Test NCCL failure common.cu:958 'unhandled system error'\n"),
             contains("n.txt:7:1: nccl-tests failed, so its rows may be incomplete"));
  // Unchecked results, and small messages whose bandwidth is rounded to 0, are accepted.
  const std::string accepted = with(with(good, "0.1 0.1 0", "0.1 0.1 N/A"), "0.1 0.1 0", "0.00 0.00 0");
  CHECK(from_nccl(accepted + "# Out of bounds values : 0 OK\n").samples.size() == 2);
  // On slow links, all bandwidths may be rounded to 0.
  std::string slow = good;
  for (std::size_t i = slow.find("0.1 0.1 0"); i != slow.npos; i = slow.find("0.1 0.1 0"))
    slow.replace(i, 9, "0.00 0.00 0");
  CHECK(from_nccl(slow).samples.size() == 2);
}

// t = 2 (n − 1) (α + S / (n β)) with n = 4, α = 50 us, β = 100 GB/s: 6 (50 us + 250 us) = 1800 us for 100 MB,
// 3300 us for 200 MB.
TEST_CASE("a test of all GPUs of one host gives the link between them") {
  const std::string rows =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "   100000000      25000000     float     sum      -1     1800   55.56   83.33      0\n"
      "   200000000      50000000     float     sum      -1     3300   60.61   90.91      0\n";
  std::string ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks += fmt::format("#  Rank  {} Group  0 Pid  7 on  node device  {} [0x00] GPU\n", rank, rank);
  const LinkSample link = import_nccl_tests_of_host({"t", ranks + rows}, 4);
  CHECK(link.latency->value() == Approx(50e-6));
  CHECK(link.bandwidth->value() == Approx(800e9));
  CHECK(import_nccl_tests_of_host({"t", rows}, 4).bandwidth->value() == Approx(800e9));
  CHECK(error_message([&] {
          import_nccl_tests_of_host({"t", ranks + rows}, 8);
        }) == "t: expected 8 ranks; found 4");
  CHECK(error_message([&] { import_nccl_tests_of_host({"t", "error"}, 2); }).starts_with("t: no rows"));
}
