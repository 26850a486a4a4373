// Reads the devices of a topology file: keys `gpus`, `sites` and `devices`.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

inline constexpr int max_devices = 8192;

struct DeviceInventory {
  std::vector<Gpu> gpus;
  std::vector<Site> sites;
  std::vector<Device> devices;
  std::vector<std::string> hosts;  // ids, by Device::host
};

/// Reads the devices, in file order. An entry of `devices` is one of
///   {site: x, count: n}                      n hosts with one GPU: x/0 … x/n−1
///   {site: x, hosts: n, gpus_per_host: g}    n hosts with g GPUs: x/0:0 … x/n−1:g−1 (no `:0` where g is 1)
///   {name: m, site: x}                       one machine m (with `gpus_per_host: g`: m:0 … m:g−1)
/// Host numbers continue over the entries of one site. Every entry may have gpu, speed, uplink, downlink and
/// price (per GPU), and host_uplink and host_downlink (for all GPUs of a host together). Sites need not be
/// declared; but if there is a list `sites: [{name, uplink, downlink}, …]` (or a map from names to {uplink,
/// downlink}), it must contain all of them. Throws Error at file:line:column.
DeviceInventory read_device_inventory(const YamlMap& topology);

}  // namespace dtfm::io
