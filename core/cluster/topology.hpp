// The machines and the network between them: immutable and validated once; sites and hosts are indices.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <Eigen/Core>

#include "core/cluster/architecture.hpp"
#include "core/cluster/calibration.hpp"
#include "core/cluster/transport.hpp"
#include "core/base/units.hpp"

namespace dtfm {

inline constexpr BitsPerSecond unlimited{std::numeric_limits<double>::infinity()};

struct Gpu {
  std::string name;
  Bytes memory;
  // Peak of dense matrix products: in 16 bits; in TF32 (GPUs that have it also compute bf16); in fp32 without
  // TF32; in fp8 and fp4. Empty if unknown or not supported.
  std::optional<FlopsPerSecond> peak = {}, peak_tf32 = {}, peak_fp32 = {}, peak_fp8 = {}, peak_fp4 = {};
  std::optional<BitsPerSecond> memory_bandwidth = {};
  std::optional<BitsPerSecond> interconnect = {};  // one direction, all links, else the PCIe slot
  std::optional<BitsPerSecond> host_link = {};     // one direction of the link to the CPU
  std::optional<DollarsPerHour> price = {};        // typical rental price
  std::vector<std::string> drivers = {};           // names that the driver reports; empty if unknown
  std::optional<BitsPerSecond> nvlink = {};        // one direction of a single NVLink
  Architecture architecture = Architecture::other;
};

struct Site {
  std::string name;
  BitsPerSecond uplink = unlimited, downlink = unlimited;  // for all traffic of the site
};

/// One GPU.
struct Device {
  std::string id;    // oregon/3, ohio/1:2 (host 1, GPU 2), or a given name
  int site = 0;      // index into Topology::sites
  int host = 0;      // unique in the whole topology
  int gpu = -1;      // index into Topology::gpus; −1: not given
  double speed = 1;  // factor on the compute rate
  /// Limits on all traffic to and from other hosts: of the device, and of all GPUs of its host together.
  BitsPerSecond uplink = unlimited, downlink = unlimited;
  BitsPerSecond host_uplink = unlimited, host_downlink = unlimited;
  std::optional<DollarsPerHour> price;
};

/// One direction of the connection between a pair of devices.
struct Link {
  Seconds latency;          // one way
  BitsPerSecond bandwidth;  // of a single flow without contention
  /// Shared by all flows of the site pair in this direction, whatever their entry.
  BitsPerSecond capacity = unlimited;
  bool shared_by_sender = false;  // all flows of one sender over this entry share one `bandwidth`
  DollarsPerByte egress = {};     // price that the sender pays
};

/// Links given by rules: a table over link classes, which are sets of devices that no rule distinguishes.
struct RuleLinks {
  std::vector<Link> links;
  std::vector<int> link_class;  // by device
  // Indices into `links` by pair of link classes (row = sender), −1: no such pair of devices; `same_host` is
  // for two devices of one host.
  Eigen::MatrixXi table, same_host;
};

/// Links as measured, by pair of devices (row = sender). The diagonals are meaningless.
struct MeasuredLinks {
  Eigen::MatrixXd latency;    // s, one way
  Eigen::MatrixXd bandwidth;  // bit/s
};

enum class Fairness { equal, rtt };

struct Topology {
  std::string name;
  std::vector<Gpu> gpus;
  std::vector<Site> sites;
  std::vector<Device> devices;
  std::variant<RuleLinks, MeasuredLinks> links;
  Fairness fairness = Fairness::equal;
  std::optional<FittedCalibration> calibration = {};  // of runs on these machines
  std::optional<Transport> transport = {};            // of messages between hosts; empty: none of its effects

  int size() const { return static_cast<int>(devices.size()); }
  /// Index into RuleLinks::links for messages from device `from` to device `to` ≠ `from`; 0 if links are
  /// measured.
  int link_index(int from, int to) const;
  /// The link of messages from device `from` to device `to` ≠ `from`.
  Link link(int from, int to) const;
  /// Narrowest bandwidth on the path from device `from` to device `to` ≠ `from`, without contention: the
  /// link, the capacity that this link's own entry gives the pair of sites, uplinks and downlinks. (Another
  /// entry may give the same pair of sites a lower capacity.)
  BitsPerSecond uncontended_bandwidth(int from, int to) const;
  /// The transport of messages from device `from` to device `to` ≠ `from`: none inside a host.
  const Transport* transport_between(int from, int to) const;
  /// Seconds until a byte sent from device `from` to device `to` ≠ `from` is acknowledged.
  Seconds round_trip(int from, int to) const;
  /// 16 hex digits over everything that matters for a plan: the devices with their GPU, memory, peak, speed
  /// and price, the sites, the effective links with their prices and which of them a sender shares. It does
  /// not cover the topology's name or how it was written down.
  std::string fingerprint() const;
};

/// Price of a device, from the topology or else the catalogue; empty if unknown.
std::optional<DollarsPerHour> price_of(const Topology& topology, int device);

}  // namespace dtfm
