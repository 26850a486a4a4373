// Resolves the names in a scenario: devices, hosts and sites of a topology, and "*".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

class DeviceNames {
 public:
  explicit DeviceNames(const Topology& topology);

  /// The number of a device. Throws Error at `value` for an unknown name, with a suggestion.
  int device(const YamlValue& value) const;
  /// The devices of a site, ascending. Throws Error like `device`.
  std::vector<int> site(const YamlValue& value) const;
  /// The devices of a device name, host, site or "*", ascending. Throws Error like `device`.
  std::vector<int> devices(const YamlValue& value) const;
  /// The devices of a list of such names, each device once. Throws Error like `device`.
  std::vector<int> devices_of_list(const YamlValue& value) const;
  /// For each device of the topology, whether `devices` contains it.
  std::vector<bool> membership(const YamlValue& value) const;

 private:
  const Topology& topology_;
  std::map<std::string, std::vector<int>, std::less<>> members_;  // devices by name of host, site or device
  std::map<std::string, int, std::less<>> ids_;
};

}  // namespace dtfm::io
