// Tests which entry of `links` applies to a pair of devices.
#include "core/io/readers/link_rules.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/io/readers/link_rates.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Reads a topology with devices a/0:0 a/0:1 a/1:0 a/1:1, b/0 b/1, lab (in b), whose link entries begin in
/// line 7.
Topology read(const std::string& entries) {
  return parse_topology(
      "version: 1\ndevices:\n  - {site: a, hosts: 2, gpus_per_host: 2}\n"
      "  - {site: b, count: 2}\n  - {name: lab, site: b}\nlinks:\n" +
          entries,
      "t.yaml", ".");
}

std::string error_text(const std::string& entries) {
  try {
    read(entries);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Returns an entry that is identified by its bandwidth in Gbps.
std::string entry(const std::string& ends, int gbps) {
  return "  - {" + ends + ", latency: 1 ms, bandwidth: " + std::to_string(gbps) + " Gbps}\n";
}

int device(const Topology& topology, const std::string& id) {
  const auto found = std::find_if(topology.devices.begin(), topology.devices.end(),
                                  [&](const Device& d) { return d.id == id; });
  REQUIRE(found != topology.devices.end());
  return static_cast<int>(found - topology.devices.begin());
}

double gbps(const Topology& topology, const std::string& from, const std::string& to) {
  return topology.link(device(topology, from), device(topology, to)).bandwidth.value() / 1e9;
}

const std::string any = entry("between: [\"*\", \"*\"]", 99);

}  // namespace

TEST_CASE("a more specific entry wins regardless of the order in the file") {
  // All match one pair in one host; in ascending order of specificity as in link_rules.hpp.
  const std::vector<std::string> ascending = {"between: [\"*\", \"*\"]",
                                              "from: \"*\", to: \"*\"",
                                              "between: [a, \"*\"]",
                                              "from: \"*\", to: a",
                                              "within: \"*\"",
                                              "within: a",
                                              "from: a, to: a",
                                              "between: [\"*\", a/0]",
                                              "from: a/0, to: \"*\"",
                                              "between: [a, a/0]",
                                              "from: a/0, to: a",
                                              "within: host",
                                              "between: [a/0, a/0]",
                                              "from: a/0, to: a/0",
                                              "between: [\"*\", \"a/0:0\"]",
                                              "from: \"a/0:0\", to: \"*\"",
                                              "between: [\"a/0:0\", a]",
                                              "from: \"a/0:0\", to: a",
                                              "between: [\"a/0:0\", a/0]",
                                              "from: \"a/0:0\", to: a/0",
                                              "between: [\"a/0:0\", \"a/0:1\"]",
                                              "from: \"a/0:0\", to: \"a/0:1\""};
  for (std::size_t count = 1; count <= ascending.size(); ++count) {
    std::string forward, backward;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string text = entry(ascending[i], static_cast<int>(i) + 1);
      forward += text;
      backward = text + backward;
    }
    CAPTURE(ascending[count - 1]);
    CHECK(gbps(read(forward), "a/0:0", "a/0:1") == static_cast<double>(count));
    CHECK(gbps(read(backward), "a/0:0", "a/0:1") == static_cast<double>(count));
  }
}

TEST_CASE("entries apply only to the pairs that they name") {
  const Topology topology =
      read(entry("within: host", 1) + entry("within: \"*\"", 2) + entry("within: b", 3) +
           entry("between: [a, b]", 4) + entry("from: b/1, to: a/0", 5) + entry("between: [lab, \"*\"]", 6) +
           entry("from: \"a/1:1\", to: lab", 7));
  CHECK(gbps(topology, "a/0:0", "a/0:1") == 1);
  CHECK(gbps(topology, "a/0:0", "a/1:1") == 2);
  CHECK(gbps(topology, "b/0", "b/1") == 3);
  CHECK(gbps(topology, "a/0:0", "b/0") == 4);
  CHECK(gbps(topology, "b/0", "a/0:0") == 4);
  CHECK(gbps(topology, "b/1", "a/0:1") == 5);
  CHECK(gbps(topology, "b/1", "a/1:1") == 4);
  CHECK(gbps(topology, "a/0:1", "b/1") == 4);
  CHECK(gbps(topology, "lab", "b/0") == 6);
  CHECK(gbps(topology, "a/1:0", "lab") == 6);
  CHECK(gbps(topology, "a/1:1", "lab") == 7);
  CHECK(gbps(topology, "lab", "a/1:1") == 6);
}

TEST_CASE("a link has the values of its entry") {
  const Topology topology = read(
      "  - {from: a, to: b, rtt: 98 ms, bandwidth: 0.8 Gbps, capacity: 5 Gbps, shared: sender, "
      "egress: 0.09 USD/GB}\n"
      "  - {from: b, to: a, latency: 0 ms, bandwidth: 1 Gbps, shared: flow}\n" +
      any);
  const Link there = topology.link(0, 4), back = topology.link(4, 0);
  CHECK(there.latency.value() == 0.049);
  CHECK(there.bandwidth.value() == 0.8e9);
  CHECK(there.capacity.value() == 5e9);
  CHECK(there.shared_by_sender);
  CHECK(there.egress.value() == 0.09e-9);
  CHECK(back.latency.value() == 0);
  CHECK(back.capacity == unlimited);
  CHECK_FALSE(back.shared_by_sender);
  CHECK(back.egress.value() == 0);
}

// Rates of 2 ms + size ÷ 8 Gbps: 1 MB takes 3 ms, 4 MB 6 ms, 16 MB 18 ms.
TEST_CASE("latency and bandwidth are fitted to rates by message size") {
  const auto link_with = [](const std::string& rates) {
    return read("  - {between: [\"*\", \"*\"], bandwidth: [" + rates + "]}\n").link(0, 4);
  };
  const Link exact = link_with(
      "{size: 1 MB, rate: 333.333333333 MB/s}, {size: 16 MB, rate: 888.888888889 MB/s}, "
      "{size: 4 MB, rate: 666.666666667 MB/s}");
  CHECK(exact.latency.value() == Approx(2e-3));
  CHECK(exact.bandwidth.value() == Approx(8e9));
  // Changing either value by 0.1 % increases the sum of the squared relative errors.
  const std::vector<MeasuredRate> rates = {
      {Bytes(1e6), BitsPerSecond(1e9)}, {Bytes(8e6), BitsPerSecond(6e9)}, {Bytes(64e6), BitsPerSecond(7e9)}};
  const LinkTime fitted = fit_link_time(rates).value();
  const auto squares = [&](double latency, double bandwidth) {
    double sum = 0;
    for (const MeasuredRate& it : rates) {
      const double measured = (it.size / it.rate).value();
      sum += std::pow((latency + it.size.value() * 8 / bandwidth) / measured - 1, 2);
    }
    return sum;
  };
  const double latency = fitted.latency.value(), bandwidth = fitted.bandwidth.value();
  for (const double factor : {0.999, 1.001}) {
    CHECK(squares(latency, bandwidth) < squares(latency * factor, bandwidth));
    CHECK(squares(latency, bandwidth) < squares(latency, bandwidth * factor));
  }
  // If the rate falls with the size, the latency would be negative; it is 0 instead.
  const Link falling = link_with("{size: 1 MB, rate: 4 Gbps}, {size: 2 MB, rate: 2.5 Gbps}");
  CHECK(falling.latency.value() == 0);
  CHECK(falling.bandwidth.value() == Approx((16.0 + 6.25) / (4 + 2.5) * 1e9));
}

TEST_CASE("rates by message size are validated") {
  const auto bad = [](const std::string& text) { return error_text("  - {within: a, " + text + "}\n"); };
  CHECK(bad("latency: 1 ms, bandwidth: [{size: 1 MB, rate: 1 Gbps}, {size: 2 MB, rate: 1 Gbps}]") ==
        "t.yaml:7:26: `latency`: cannot be combined with rates by message size, which determine the latency");
  CHECK(bad("bandwidth: [{size: 1 MB, rate: 1 Gbps}]") ==
        "t.yaml:7:28: `bandwidth`: expected the rates of two or more message sizes, the largest at least "
        "twice the smallest");
  CHECK(bad("bandwidth: [{size: 10 MB, rate: 1 Gbps}, {size: 19 MB, rate: 1 Gbps}]") ==
        "t.yaml:7:28: `bandwidth`: expected the rates of two or more message sizes, the largest at least "
        "twice the smallest");
  for (const char* equal_times :
       {"{size: 1 MB, rate: 1 Gbps}, {size: 2 MB, rate: 2 Gbps}",
        "{size: 6 MB, rate: 6 Gbps}, {size: 20 MB, rate: 20 Gbps}, {size: 34 MB, rate: 34 Gbps}"})
    CHECK_THAT(bad(std::string("bandwidth: [") + equal_times + "]"), contains("do not grow with the size"));
  CHECK(bad("bandwidth: [{size: 1 MB, rate: 1 Gbps}, {size: 1000 kB, rate: 2 Gbps}]") ==
        "t.yaml:7:64: `size`: duplicate size");
  CHECK(bad("bandwidth: [{size: 0 MB, rate: 1 Gbps}, {size: 1000 kB, rate: 2 Gbps}]") ==
        "t.yaml:7:36: `size`: expected at least 1 B");
  CHECK(bad("bandwidth: [{size: 1 MB, rate: 1 Gbps}, {size: 2 MB, rate: 4 Gbps}]") ==
        "t.yaml:7:28: `bandwidth`: the measured times (size ÷ rate) do not grow with the size, so no "
        "bandwidth fits; check that "
        "each rate belongs to its size");
  CHECK(bad("bandwidth: [{size: 1 MB, rate: 1 Gbps}, {size: 10 MB, rate: 5 Gbps}, {size: 100 MB, rate: 9 "
            "Mbps}]") ==
        "t.yaml:7:28: `bandwidth`: no latency and bandwidth fit: 100 MB take 1.481 min, with the fitted ones "
        "96.42 ms; "
        "check the rates, or list only sizes near those that will be sent");
  CHECK(bad("bandwidth: [{size: 1 MB, rate: 1 Gbps}, {size: 2 MB, rate: 1.9999 Gbps}]") ==
        "t.yaml:7:28: `bandwidth`: the sizes are too small to determine the bandwidth, fitted as 20 Tbps; "
        "add larger "
        "messages");
  CHECK(bad("bandwidth: {size: 1 MB, rate: 1 Gbps}") ==
        "t.yaml:7:28: `bandwidth`: expected a data rate, or a list of `{size, rate}`");
  CHECK(bad("bandwidth: [{size: 1 MB}, {size: 2 MB, rate: 4 Gbps}]") == "t.yaml:7:29: missing key `rate`");
}

TEST_CASE("two equally specific entries for a pair are rejected unless a more specific one decides") {
  const std::string two = entry("between: [a, b]", 1) + entry("between: [b, a]", 2);
  CHECK(error_text(two + any) ==
        "t.yaml:8:5: the entries of lines 7 and 8 are equally specific for b/0 → a/0:0");
  CHECK(error_text(entry("within: host", 1) + any + entry("within: host", 2)) ==
        "t.yaml:9:5: the entries of lines 7 and 9 are equally specific for a/0:0 → a/0:1");
  CHECK(error_text(entry("between: [a, \"*\"]", 1) + entry("between: [b, \"*\"]", 2) + any) ==
        "t.yaml:8:5: the entries of lines 7 and 8 are equally specific for b/0 → a/0:0");
  CHECK(error_text(entry("within: a", 1) + entry("between: [a, a]", 2) + any) ==
        "t.yaml:8:5: the entries of lines 7 and 8 are equally specific for a/0:0 → a/0:1");
  CHECK(error_text(two + entry("from: a, to: b", 3) + entry("from: b, to: a", 4) + any) == "no error");
  CHECK(error_text(any + any + entry("from: a, to: b", 3)) ==
        "t.yaml:8:5: the entries of lines 7 and 8 are equally specific for a/0:0 → a/0:1");
}

TEST_CASE("a pair of sites has one capacity in each direction") {
  const auto entry_with = [](const std::string& ends, const std::string& capacity) {
    return "  - {" + ends + ", latency: 1 ms, bandwidth: 1 Gbps, capacity: " + capacity + "}\n";
  };
  const std::string sites = entry_with("between: [a, b]", "5 Gbps");
  CHECK(error_text(any + sites + entry_with("from: a, to: lab", "6 Gbps")) ==
        "t.yaml:9:5: the entries of lines 8 and 9 give different capacities from a to b; a `capacity` is "
        "shared by all flows from the one site to the other");
  CHECK(error_text(any + sites + entry_with("from: a, to: lab", "5 Gbps")) == "no error");
  CHECK(error_text(any + sites + entry("from: a, to: lab", 1)) == "no error");
  CHECK(error_text(any + entry_with("from: a, to: b", "5 Gbps") + entry_with("from: b, to: a", "6 Gbps")) ==
        "no error");
}

TEST_CASE("pairs without an entry are reported") {
  CHECK(error_text(entry("within: \"*\"", 1) + entry("from: a, to: b", 2)) ==
        "t.yaml:7:3: `links`: no entry matches b/0 → a/0:0 and 11 more pairs");
  CHECK(error_text(entry("within: \"*\"", 1) + entry("from: a, to: b", 2) + entry("from: b/0, to: a", 2) +
                   entry("from: b/1, to: a", 2) + entry("from: lab, to: a/0", 2) +
                   entry("from: lab, to: \"a/1:0\"", 2)) ==
        "t.yaml:7:3: `links`: no entry matches lab → a/1:1");
  CHECK(error_text(entry("between: [a/0, a/0]", 1)) ==
        "t.yaml:7:3: `links`: no entry matches a/0:0 → a/1:0 and 39 more pairs");
}

TEST_CASE("entries of links are validated") {
  const auto bad = [](const std::string& text) { return error_text("  - {" + text + "}\n"); };
  CHECK(bad("within: *, latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:15: not YAML: alias not found after *; write a literal star in quotes: \"*\"");
  CHECK(bad("latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:5: expected one of `within`, `between` and `from` with `to`");
  CHECK(bad("within: a, between: [a, b], latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:5: expected one of `within`, `between` and `from` with `to`");
  CHECK(bad("from: a, latency: 1 ms, bandwidth: 1 Gbps") == "t.yaml:7:5: missing key `to`");
  CHECK(bad("between: [a], latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:15: `between`: expected two ends; found 1");
  CHECK(bad("between: a, latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:15: `between`: expected a list; found `a`");
  CHECK(bad("within: a, bandwidth: 1 Gbps") ==
        "t.yaml:7:5: missing key `latency` (one way) or `rtt` (round trip)");
  CHECK(bad("within: a, latency: 1 ms, rtt: 2 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:5: give `latency` (one way) or `rtt` (round trip), not both");
  CHECK(bad("within: a, latency: 1 ms") == "t.yaml:7:5: missing key `bandwidth`");
  CHECK(bad("within: a, latency: 1 ms, bandwith: 1 Gbps") ==
        "t.yaml:7:32: unknown key `bandwith`; did you mean `bandwidth`?");
  CHECK(bad("within: a, latency: 1 ms, bandwidth: 1") ==
        "t.yaml:7:43: `bandwidth`: expected a data rate with its unit (bps, kbps, Mbps, Gbps, Tbps, B/s, "
        "kB/s, MB/s, "
        "GB/s, TB/s) such as `0.79 Gbps`; found `1`");
  CHECK(bad("within: a, latency: -1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:26: `latency`: must not be negative; found `-1 ms`");
  CHECK(bad("within: a, latency: 1 ms, bandwidth: 1 Gbps, shared: sendr") ==
        "t.yaml:7:59: `shared`: unknown `sendr`; did you mean `sender`?");
  CHECK(bad("within: hots, latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:14: expected `host`, a site or `*`; found `hots`; did you mean `host`?");
  CHECK(bad("within: lab, latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:14: expected `host`, a site or `*`; found `lab`; known: `host`, `*`, `a`, `b`");
  CHECK(bad("between: [a, lap], latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:19: unknown site or machine `lap`; did you mean `lab`?");
  CHECK(bad("between: [a, b/7], latency: 1 ms, bandwidth: 1 Gbps") ==
        "t.yaml:7:19: unknown host or device `b/7`; did you mean `b/0`?");
  CHECK(error_text("  {}\n") == "t.yaml:7:3: `links`: expected a list; found a map");
}
