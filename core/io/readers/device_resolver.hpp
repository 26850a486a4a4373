// Resolves device names in plans of other formats and records which devices are in use.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Devices are named by their ids, such as `ohio/1:2` or `ga:0`; the only device of a host may be called
/// `gb:0` or `gb`. `topology` and `errors` must outlive the resolver.
class DeviceResolver {
 public:
  DeviceResolver(const Topology& topology, InputErrors& errors);

  const Topology& topology() const { return topology_; }
  /// Returns the device called `name` and marks it as used at `where` ("file:line:column"). Adds an error and
  /// returns nullopt if it is unknown; adds an error if it is already in use.
  std::optional<int> assign(std::string_view name, const std::string& where);
  /// The same, but the name of a host with several devices stands for its next device, beginning with the
  /// first one, as local ranks are assigned.
  std::optional<int> assign_or_next(std::string_view name, const std::string& where);
  /// A name that was resolved as a host with several devices; empty if there was none.
  std::string find_assigned_host() const { return assigned_.empty() ? "" : assigned_.begin()->first; }
  /// A note that lists the unused devices; empty if all are used.
  std::string format_unused_devices() const;

 private:
  using Names = std::map<std::string, int, std::less<>>;

  const std::string& id(int device) const;
  int mark_used(int device, const std::string& where);
  std::vector<std::string_view> names(bool with_hosts) const;

  const Topology& topology_;
  InputErrors& errors_;
  Names device_of_;
  std::map<std::string, std::vector<int>, std::less<>> devices_of_host_;  // by name, in device order
  std::map<std::string, std::size_t, std::less<>> assigned_;  // number of devices assigned so far, by host
  std::map<int, std::string> first_use_;
};

/// The host in a device id, which is the part before the colon.
std::string_view host_name(std::string_view id);

}  // namespace dtfm::io
