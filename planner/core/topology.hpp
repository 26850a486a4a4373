// The machines and the network between them: immutable, validated once, sites and hosts by index.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <Eigen/Core>

#include "planner/core/shared_matrix.hpp"
#include "planner/core/units.hpp"

namespace dtfm {

inline constexpr BitsPerSecond unlimited{std::numeric_limits<double>::infinity()};

struct Gpu {
  std::string name;
  Bytes memory;
  // Of dense matrix products: in 16 bits; in TF32 (GPUs that have it compute bf16 too); in fp32 without it.
  // Nothing: not known, or not there.
  std::optional<FlopsPerSecond> peak = {}, peak_tf32 = {}, peak_fp32 = {};
  std::optional<BitsPerSecond> memory_bandwidth = {};
  std::optional<BitsPerSecond> interconnect = {};  // one direction, all links of the GPU: NVLink, else PCIe
  std::optional<DollarsPerHour> price = {};        // typical, to rent
  std::string driver = {};                         // what its driver calls it; empty: not known
};

struct Site {
  std::string name;
  BitsPerSecond uplink = unlimited, downlink = unlimited;  // of everything the site sends or receives
};

/// One GPU: a worker.
struct Device {
  std::string id;  // oregon/3, ohio/1:2 (host 1, GPU 2) or a name of its own
  int site = 0;    // index into Topology::sites
  int host = 0;    // unique over the whole topology
  int gpu = -1;    // index into Topology::gpus, −1: not given
  double speed = 1;
  /// Of everything it sends to other hosts, or gets from them; and the same of all GPUs of its host together.
  BitsPerSecond uplink = unlimited, downlink = unlimited;
  BitsPerSecond host_uplink = unlimited, host_downlink = unlimited;
  std::optional<DollarsPerHour> price;
};

/// What one direction of a pair of devices offers.
struct Link {
  Seconds latency;          // one way
  BitsPerSecond bandwidth;  // of one flow that competes with nothing
  BitsPerSecond capacity =
      unlimited;                  // of all flows of the site pair in this direction, whatever their entry
  bool shared_by_sender = false;  // all flows of one sender over this entry share one `bandwidth`
  DollarsPerByte egress = {};     // what is sent costs its sender
};

/// Links given by rules: a table over "ports", which are sets of devices that no rule tells apart.
struct RuleLinks {
  std::vector<Link> links;
  std::vector<int> link_class;  // of each device
  // ports × ports (row = sender): index into `links`, −1: no such pair of devices; and the same for two
  // devices of one host.
  SharedMatrix<Eigen::MatrixXi> table, same_host;
};

/// Links as measured, device by device; row = sender. The diagonals mean nothing.
struct MeasuredLinks {
  SharedMatrix<Eigen::MatrixXd> latency;    // s, one way
  SharedMatrix<Eigen::MatrixXd> bandwidth;  // bit/s
};

enum class Fairness { equal, rtt };

struct Topology {
  std::string name;
  std::vector<Gpu> gpus;
  std::vector<Site> sites;
  std::vector<Device> devices;
  std::variant<RuleLinks, MeasuredLinks> links;
  Fairness fairness = Fairness::equal;

  int size() const { return static_cast<int>(devices.size()); }
  /// The entry of RuleLinks::links for messages from device `from` to device `to` ≠ `from`; 0 where the links
  /// are measured.
  int link_index(int from, int to) const;
  /// The link that a message from device `from` to device `to` ≠ `from` takes.
  Link link(int from, int to) const;
  /// What a message from device `from` to device `to` ≠ `from` passes, the narrowest: its link, the capacity
  /// that this link's own entry gives the pair of sites, and uplinks and downlinks. (Another entry may give
  /// the same pair of sites a lower capacity.)
  BitsPerSecond uncontended_bandwidth(int from, int to) const;
  /// 16 hex digits over all that matters for a plan: the devices with their GPU, memory, peak, speed and
  /// price, the sites, the effective links with their prices and which of them a sender shares; not the
  /// topology's name or how it was written down.
  std::string fingerprint() const;
};

/// USD/h of a device, by the topology or the catalogue; nothing: not known.
std::optional<DollarsPerHour> price_of(const Topology& topology, int device);

}  // namespace dtfm
