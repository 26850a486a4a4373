// What the names of a scenario mean: devices, hosts, sites and "*" of a topology.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/topology.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

class DeviceNames {
 public:
  explicit DeviceNames(const Topology& topology);

  /// Throws Error at `value` for a name that is not there ("did you mean").
  int device(const YamlValue& value) const;
  /// Those of a site, in device order. Throws Error like `device`.
  std::vector<int> site(const YamlValue& value) const;
  /// Those of a device, a host, a site or "*", in device order.
  std::vector<int> devices(const YamlValue& value) const;
  /// The same of a list of names, each device once.
  std::vector<int> devices_of_list(const YamlValue& value) const;
  /// The same as `devices`, for each device whether it is one.
  std::vector<bool> membership(const YamlValue& value) const;

 private:
  const Topology& topology_;
  std::map<std::string, std::vector<int>, std::less<>> members_;  // of a name
  std::map<std::string, int, std::less<>> ids_;
};

}  // namespace dtfm::io
