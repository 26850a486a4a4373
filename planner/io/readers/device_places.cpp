#include "planner/io/readers/device_places.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/index.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {

std::string_view host_name(std::string_view id) {
  return id.substr(0, id.find(':'));
}

DevicePlaces::DevicePlaces(const Topology& topology, Faults& faults) : topology_(topology), faults_(faults) {
  for (int device = 0; device < topology.size(); ++device) {
    device_of_.emplace(id(device), device);
    devices_of_host_[std::string(host_name(id(device)))].push_back(device);
  }
  for (const auto& [host, devices] : devices_of_host_)
    if (devices.size() == 1) device_of_.emplace(host + ":0", devices.front());
}

std::optional<int> DevicePlaces::take(std::string_view name, const std::string& where) {
  if (const auto device = device_of_.find(name); device != device_of_.end())
    return used(device->second, where);
  faults_.add(where, [&] {
    return fmt::format("topology {} has no device {}; {}", topology_.name, in_quotes(name),
                       suggestion(name, names(false)));
  });
  return std::nullopt;
}

std::optional<int> DevicePlaces::take_or_next(std::string_view name, const std::string& where) {
  if (device_of_.contains(name)) return take(name, where);
  const auto host = devices_of_host_.find(name);
  if (host == devices_of_host_.end()) {
    faults_.add(where, [&] {
      return fmt::format("topology {} has no device or host {}; {}", topology_.name, in_quotes(name),
                         suggestion(name, names(true)));
    });
    return std::nullopt;
  }
  std::size_t& dealt = dealt_[host->first];
  if (dealt == host->second.size()) {
    faults_.add(where, fmt::format("host {} has {} devices, and all of them have ranks already", host->first,
                                   host->second.size()));
    return std::nullopt;
  }
  return used(host->second[dealt++], where);
}

std::string DevicePlaces::idle_note() const {
  std::vector<std::string_view> idle;
  for (int device = 0; device < topology_.size(); ++device)
    if (!first_use_.contains(device)) idle.push_back(id(device));
  if (idle.empty()) return "";
  constexpr std::size_t most_named = 5;
  const std::size_t count = idle.size();
  idle.resize(std::min(count, most_named));
  return fmt::format("{} of {} devices {} in no pipeline: {}{}", count, topology_.size(),
                     count == 1 ? "is" : "are", fmt::join(idle, ", "), count > most_named ? ", …" : "");
}

const std::string& DevicePlaces::id(int device) const {
  return topology_.devices[at(device)].id;
}

int DevicePlaces::used(int device, const std::string& where) {
  const auto [first, is_new] = first_use_.emplace(device, where);
  if (!is_new)
    faults_.add(where, fmt::format("device {} is used twice, first at {}", id(device), first->second));
  return device;
}

std::vector<std::string_view> DevicePlaces::names(bool with_hosts) const {
  std::vector<std::string_view> names;
  for (const Device& device : topology_.devices) names.push_back(device.id);
  if (with_hosts)
    for (const auto& [host, devices] : devices_of_host_)
      if (devices.size() > 1) names.push_back(host);
  return names;
}

}  // namespace dtfm::io
