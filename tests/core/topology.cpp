#include "core/cluster/topology.hpp"

#include <functional>
#include <map>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// Returns a device at a site with one host and one kind of GPU.
Device device(const std::string& id, int site) {
  Device result;
  result.id = id;
  result.site = result.host = result.gpu = site;
  return result;
}

/// Returns two sites, with a host of two GPUs in the first and a host of one in the second. Ports are sites.
Topology three_devices() {
  Topology topology;
  topology.name = "three";
  topology.gpus = {{"T4", Bytes(16e9)}, {"A10", Bytes(24e9)}};
  topology.sites = {{"oregon"}, {"ohio"}};
  topology.devices = {device("oregon/0:0", 0), device("oregon/0:1", 0), device("ohio/0", 1)};
  RuleLinks rules;
  rules.links = {{Seconds(0), BitsPerSecond(100e9)},
                 {Seconds(0.049), BitsPerSecond(1.1e9)},
                 {Seconds(0.050), BitsPerSecond(0.9e9), BitsPerSecond(5e9), true}};
  rules.link_class = {0, 0, 1};
  rules.table = Eigen::MatrixXi(2, 2);
  rules.table << -1, 1, 2, -1;
  rules.same_host = Eigen::MatrixXi(2, 2);
  rules.same_host << 0, -1, -1, -1;
  topology.links = rules;
  return topology;
}

/// Returns the same links pair by pair; a measured link has neither a capacity nor a shared sender.
Topology three_devices_measured() {
  Topology topology = three_devices();
  MeasuredLinks measured{Eigen::MatrixXd::Zero(3, 3), Eigen::MatrixXd::Zero(3, 3)};
  measured.latency << 0, 0, 0.049, 0, 0, 0.049, 0.050, 0.050, 0;
  measured.bandwidth << 0, 100e9, 1.1e9, 100e9, 0, 1.1e9, 0.9e9, 0.9e9, 0;
  topology.links = measured;
  return topology;
}

RuleLinks& rules(Topology& topology) {
  return std::get<RuleLinks>(topology.links);
}

using Change = std::function<void(Topology&)>;

std::string fingerprint_after(const Change& change) {
  Topology topology = three_devices();
  change(topology);
  return topology.fingerprint();
}

}  // namespace

TEST_CASE("rules give the links of devices by their ports separately for each direction") {
  const Topology topology = three_devices();
  CHECK(topology.size() == 3);
  CHECK(topology.link(0, 1).bandwidth.value() == 100e9);
  CHECK(topology.link(1, 0).latency.value() == 0);
  for (int device : {0, 1}) {
    CHECK(topology.link(device, 2).latency.value() == 0.049);
    CHECK(topology.link(device, 2).bandwidth.value() == 1.1e9);
    CHECK(topology.link(device, 2).capacity == unlimited);
    CHECK(!topology.link(device, 2).shared_by_sender);
    CHECK(topology.link(2, device).latency.value() == 0.050);
    CHECK(topology.link(2, device).bandwidth.value() == 0.9e9);
    CHECK(topology.link(2, device).capacity.value() == 5e9);
    CHECK(topology.link(2, device).shared_by_sender);
  }
}

TEST_CASE("a pair that no rule matches is a broken invariant") {
  Topology topology = three_devices();
  rules(topology).same_host(0, 0) = -1;
  CHECK_THROWS_AS(topology.link(0, 1), BrokenInvariant);
}

TEST_CASE("measured links come from the row of the sender") {
  const Topology topology = three_devices_measured();
  CHECK(topology.link(0, 2).latency.value() == 0.049);
  CHECK(topology.link(2, 0).latency.value() == 0.050);
  CHECK(topology.link(1, 2).bandwidth.value() == 1.1e9);
  CHECK(topology.link(2, 1).bandwidth.value() == 0.9e9);
  CHECK(topology.link(2, 1).capacity == unlimited);
  CHECK(!topology.link(2, 1).shared_by_sender);
}

TEST_CASE("a fingerprint changes with everything that matters for a plan and differs for each change") {
  const std::map<std::string, Change> changes = {
      {"id", [](Topology& t) { t.devices[1].id = "oregon/0:7"; }},
      {"site", [](Topology& t) { t.devices[1].site = 1; }},
      {"site name", [](Topology& t) { t.sites[1].name = "iowa"; }},
      {"site uplink", [](Topology& t) { t.sites[1].uplink = BitsPerSecond(1e9); }},
      {"site downlink", [](Topology& t) { t.sites[1].downlink = BitsPerSecond(1e9); }},
      {"host", [](Topology& t) { t.devices[2].host = 2; }},
      {"no GPU", [](Topology& t) { t.devices[2].gpu = -1; }},
      {"other GPU", [](Topology& t) { t.devices[2].gpu = 0; }},
      {"GPU memory", [](Topology& t) { t.gpus[1].memory = Bytes(48e9); }},
      {"GPU peak", [](Topology& t) { t.gpus[1].peak = FlopsPerSecond(71e12); }},
      {"GPU peak nothing", [](Topology& t) { t.gpus[1].peak = FlopsPerSecond(0); }},
      {"GPU TF32", [](Topology& t) { t.gpus[1].peak_tf32 = FlopsPerSecond(71e12); }},
      {"GPU fp32", [](Topology& t) { t.gpus[1].peak_fp32 = FlopsPerSecond(71e12); }},
      {"GPU memory bandwidth", [](Topology& t) { t.gpus[1].memory_bandwidth = BitsPerSecond(71e12); }},
      {"speed", [](Topology& t) { t.devices[0].speed = 0.5; }},
      {"uplink", [](Topology& t) { t.devices[0].uplink = BitsPerSecond(1e9); }},
      {"downlink", [](Topology& t) { t.devices[0].downlink = BitsPerSecond(1e9); }},
      {"host uplink", [](Topology& t) { t.devices[0].host_uplink = BitsPerSecond(1e9); }},
      {"host downlink", [](Topology& t) { t.devices[0].host_downlink = BitsPerSecond(1e9); }},
      {"price", [](Topology& t) { t.devices[0].price = DollarsPerHour(0.35); }},
      {"price nothing", [](Topology& t) { t.devices[0].price = DollarsPerHour(0); }},
      {"price of another", [](Topology& t) { t.devices[1].price = DollarsPerHour(0.35); }},
      {"fairness", [](Topology& t) { t.fairness = Fairness::rtt; }},
      {"latency", [](Topology& t) { rules(t).links[2].latency = Seconds(0.051); }},
      {"bandwidth", [](Topology& t) { rules(t).links[2].bandwidth = BitsPerSecond(0.8e9); }},
      {"capacity", [](Topology& t) { rules(t).links[2].capacity = unlimited; }},
      {"shared by sender", [](Topology& t) { rules(t).links[2].shared_by_sender = false; }},
      {"egress", [](Topology& t) { rules(t).links[2].egress = DollarsPerByte(9e-11); }},
      {"direction", [](Topology& t) { rules(t).table.transposeInPlace(); }},
      {"one device less", [](Topology& t) { t.devices.pop_back(); }},
      {"order of devices", [](Topology& t) { std::swap(t.devices[0].id, t.devices[1].id); }},
  };
  std::map<std::string, std::string> seen{{three_devices().fingerprint(), "nothing"}};
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    const auto [entry, is_new] = seen.emplace(fingerprint_after(change), what);
    CAPTURE(entry->second);
    CHECK(is_new);
  }
}

TEST_CASE(
    "a fingerprint distinguishes receivers that share a sender's rate from receivers with a rate of "
    "their own") {
  const auto entries = [](int to_second) {
    return fingerprint_after([=](Topology& t) {
      RuleLinks& by_device = rules(t);
      const Link shared{Seconds(0.1), BitsPerSecond(1e9), unlimited, true};
      by_device.links = {shared, shared, shared};
      by_device.link_class = {0, 1, 2};
      by_device.table = by_device.same_host = Eigen::MatrixXi::Constant(3, 3, 0);
      by_device.table(0, 2) = by_device.same_host(0, 2) = to_second;
    });
  };
  CHECK(entries(0) != entries(1));
  CHECK(entries(1) == entries(2));  // the index of an entry is irrelevant
}

TEST_CASE("a fingerprint does not depend on the notation") {
  const std::string fingerprint = three_devices().fingerprint();
  CHECK(fingerprint.size() == 16);
  CHECK(fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(fingerprint_after([](Topology& t) { t.name = "renamed"; }) == fingerprint);
  CHECK(fingerprint_after([](Topology& t) { t.gpus.push_back({"nobody's", Bytes(1)}); }) == fingerprint);
  CHECK(fingerprint_after([](Topology& t) {
          std::swap(t.gpus[0], t.gpus[1]);
          for (Device& device : t.devices) device.gpu = 1 - device.gpu;
        }) == fingerprint);
  CHECK(fingerprint_after([](Topology& t) {
          rules(t).links.push_back({Seconds(1), BitsPerSecond(1)});
        }) == fingerprint);
  CHECK(fingerprint_after([](Topology& t) {  // one port per device
          RuleLinks& by_device = rules(t);
          by_device.link_class = {0, 1, 2};
          by_device.table = Eigen::MatrixXi(3, 3);
          by_device.table << -1, -1, 1, -1, -1, 1, 2, 2, -1;
          by_device.same_host = Eigen::MatrixXi(3, 3);
          by_device.same_host << -1, 0, -1, 0, -1, -1, -1, -1, -1;
        }) == fingerprint);
}

TEST_CASE("equal links have the same fingerprint whether measured or given as rules") {
  const std::string by_rules = fingerprint_after([](Topology& t) {
    rules(t).links[2].capacity = unlimited;
    rules(t).links[2].shared_by_sender = false;
  });
  Topology measured = three_devices_measured();
  CHECK(measured.fingerprint() == by_rules);
  std::get<MeasuredLinks>(measured.links).latency(1, 1) = 7;  // the diagonal is irrelevant
  CHECK(measured.fingerprint() == by_rules);
}
