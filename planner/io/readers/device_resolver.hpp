// The devices of a topology by the names that other people's files have for them, and who uses them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/topology.hpp"
#include "planner/io/text/input_errors.hpp"

namespace dtfm::io {

/// A device has its id, `ohio/1:2` or `ga:0`; the only one of its host is called `gb:0` as well as `gb`.
/// `topology` and `faults` must outlive it.
class DeviceResolver {
 public:
  DeviceResolver(const Topology& topology, InputErrors& errors);

  /// The device called `name`, which is used at `where` ("file:line:column"). Nothing, and a fault, for one
  /// that is unknown; a fault for one that is used already.
  std::optional<int> assign(std::string_view name, const std::string& where);
  /// The same; the name of a host with several devices stands for its next one: its first one the first time,
  /// as local ranks are dealt out.
  std::optional<int> assign_or_next(std::string_view name, const std::string& where);
  /// A name that was taken for that of a host with several devices; empty: there was none.
  std::string find_assigned_host() const { return assigned_.empty() ? "" : assigned_.begin()->first; }
  /// A sentence that names the devices without use; empty: all are used.
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
  std::map<std::string, std::size_t, std::less<>> assigned_;                 // of a host: how many so far
  std::map<int, std::string> first_use_;
};

/// The host in a device id: what stands before the colon.
std::string_view host_name(std::string_view id);

}  // namespace dtfm::io
