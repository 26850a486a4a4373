#include "simulator/io/device_names.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

template <class Value>
std::vector<std::string_view> names_of(const std::map<std::string, Value, std::less<>>& known) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : known) names.push_back(name);
  return names;
}

}  // namespace

DeviceNames::DeviceNames(const Topology& topology) : topology_(topology) {
  std::map<int, std::vector<int>> hosts;
  for (int i = 0; i < topology.size(); ++i) {
    const Device& device = topology.devices[at(i)];
    ids_.emplace(device.id, i);
    members_[topology.sites[at(device.site)].name].push_back(i);
    hosts[device.host].push_back(i);
  }
  for (const auto& [id, device] : ids_) members_.try_emplace(id, std::vector<int>{device});
  // The devices of a host with several GPUs are called HOST:0, HOST:1, …
  for (const auto& [host, gpus] : hosts) {
    const std::string& id = topology.devices[at(gpus.front())].id;
    if (const auto colon = id.rfind(':'); gpus.size() > 1 && colon != std::string::npos)
      members_.try_emplace(id.substr(0, colon), gpus);
  }
}

int DeviceNames::device(const YamlValue& value) const {
  const std::string name = value.text();
  if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
  throw value.error(fmt::format("unknown device {}; {}", quote(name), suggestion(name, names_of(ids_))));
}

std::vector<int> DeviceNames::site(const YamlValue& value) const {
  const std::string name = value.text();
  std::vector<std::string_view> sites;
  for (const Site& site : topology_.sites) sites.push_back(site.name);
  if (std::find(sites.begin(), sites.end(), name) == sites.end())
    throw value.error(fmt::format("unknown site {}; {}", quote(name), suggestion(name, sites)));
  return members_.at(name);
}

std::vector<int> DeviceNames::devices(const YamlValue& value) const {
  const std::string name = value.text();
  if (name == "*") {
    std::vector<int> all(at(topology_.size()));
    for (int i = 0; i < topology_.size(); ++i) all[at(i)] = i;
    return all;
  }
  if (const auto known = members_.find(name); known != members_.end()) return known->second;
  throw value.error(
      fmt::format("unknown site, host or device {}; {}", quote(name), suggestion(name, names_of(members_))));
}

std::vector<int> DeviceNames::devices_of_list(const YamlValue& value) const {
  std::vector<bool> taken(at(topology_.size()));
  std::vector<int> all;
  for (const YamlValue& item : value.list())
    for (const int device : devices(item))
      if (!taken[at(device)]) {
        taken[at(device)] = true;
        all.push_back(device);
      }
  return all;
}

std::vector<bool> DeviceNames::membership(const YamlValue& value) const {
  std::vector<bool> result(at(topology_.size()));
  for (const int device : devices(value)) result[at(device)] = true;
  return result;
}

}  // namespace dtfm::io
