// Reads the devices of a topology file: keys `gpus`, `sites` and `devices`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

inline constexpr int max_devices = 8192;

/// The links that a kind of host of configs/hosts.yaml brings along.
struct TemplateLinks {
  std::string where;           // of the first entry of `devices` with these links
  std::optional<Link> inside;  // between its GPUs; empty if it has one
  Link to_site;                // from it to other such hosts of its site
};

struct DeviceInventory {
  std::vector<Gpu> gpus;
  std::vector<Site> sites;
  std::vector<Device> devices;
  std::vector<std::string> hosts;  // ids, by Device::host
  std::vector<TemplateLinks> template_links;
  std::vector<int> template_of_host;  // by Device::host: index into `template_links`; −1: none
};

/// Reads the devices, in file order. An entry of `devices` is one of
///   {site: x, count: n}                      n hosts with one GPU: x/0 … x/n−1
///   {site: x, hosts: n, gpus_per_host: g}    n hosts with g GPUs: x/0:0 … x/n−1:g−1 (no `:0` where g is 1)
///   {name: m, site: x}                       one machine m (with `gpus_per_host: g`: m:0 … m:g−1)
///   {site: x, hosts: n, host: h}             n hosts (default 1) of the kind h of configs/hosts.yaml
///   {name: m, site: x, host: h}              one machine m of the kind h
/// Host numbers continue over the entries of one site. Every entry may have gpu, speed, uplink, downlink and
/// price (per GPU), and host_uplink and host_downlink (for all GPUs of a host together); beside `host`, these
/// and `gpus_per_host` replace the values of that kind of host. Sites need not be declared; but if there is a
/// list `sites: [{name, uplink, downlink}, …]` (or a map from names to {uplink, downlink}), it must contain
/// all of them. Throws Error at file:line:column.
DeviceInventory read_device_inventory(const YamlMap& topology);

}  // namespace dtfm::io
