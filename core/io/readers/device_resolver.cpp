#include "core/io/readers/device_resolver.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {

std::string_view host_name(std::string_view id) {
  return id.substr(0, id.find(':'));
}

DeviceResolver::DeviceResolver(const Topology& topology, InputErrors& errors)
    : topology_(topology), errors_(errors) {
  for (int device = 0; device < topology.size(); ++device) {
    device_of_.emplace(id(device), device);
    devices_of_host_[std::string(host_name(id(device)))].push_back(device);
  }
  for (const auto& [host, devices] : devices_of_host_)
    if (devices.size() == 1) device_of_.emplace(host + ":0", devices.front());
}

std::optional<int> DeviceResolver::assign(std::string_view name, const std::string& where) {
  if (const auto device = device_of_.find(name); device != device_of_.end())
    return mark_used(device->second, where);
  errors_.add(where, [&] {
    return fmt::format("topology {} has no device {}; {}", topology_.name, quote(name),
                       suggestion(name, names(false)));
  });
  return std::nullopt;
}

std::optional<int> DeviceResolver::assign_or_next(std::string_view name, const std::string& where) {
  if (device_of_.contains(name)) return assign(name, where);
  const auto host = devices_of_host_.find(name);
  if (host == devices_of_host_.end()) {
    errors_.add(where, [&] {
      return fmt::format("topology {} has no device or host {}; {}", topology_.name, quote(name),
                         suggestion(name, names(true)));
    });
    return std::nullopt;
  }
  std::size_t& assigned = assigned_[host->first];
  if (assigned == host->second.size()) {
    errors_.add(where, fmt::format("host {} has {} devices, and all of them have ranks already", host->first,
                                   host->second.size()));
    return std::nullopt;
  }
  return mark_used(host->second[assigned++], where);
}

std::string DeviceResolver::format_unused_devices() const {
  std::vector<std::string_view> unused;
  for (int device = 0; device < topology_.size(); ++device)
    if (!first_use_.contains(device)) unused.push_back(id(device));
  if (unused.empty()) return "";
  constexpr std::size_t max_named = 5;
  const std::size_t count = unused.size();
  unused.resize(std::min(count, max_named));
  return fmt::format("{} of {} devices {} in no pipeline: {}{}", count, topology_.size(),
                     count == 1 ? "is" : "are", fmt::join(unused, ", "), count > max_named ? ", …" : "");
}

const std::string& DeviceResolver::id(int device) const {
  return topology_.devices[at(device)].id;
}

int DeviceResolver::mark_used(int device, const std::string& where) {
  const auto [first, is_new] = first_use_.emplace(device, where);
  if (!is_new)
    errors_.add(where, fmt::format("device {} is used twice, first at {}", id(device), first->second));
  return device;
}

std::vector<std::string_view> DeviceResolver::names(bool with_hosts) const {
  std::vector<std::string_view> names;
  for (const Device& device : topology_.devices) names.push_back(device.id);
  if (with_hosts)
    for (const auto& [host, devices] : devices_of_host_)
      if (devices.size() > 1) names.push_back(host);
  return names;
}

}  // namespace dtfm::io
