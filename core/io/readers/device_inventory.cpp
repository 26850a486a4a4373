#include "core/io/readers/device_inventory.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/host_templates.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

/// Reads the name of a site or a machine, which becomes part of device ids and is referred to by links.
std::string read_name(const YamlValue& value) {
  const std::string name = value.text();
  if (name.find_first_of("/:") != std::string::npos)
    throw value.value_error(
        fmt::format("{} contains `/` or `:`, which separate site, host and GPU in ids", quote(name)));
  if (name == "host" || name == "*")
    throw value.value_error(
        fmt::format("{} is not allowed as a name: it has a special meaning in links", quote(name)));
  return name;
}

template <class Named>
std::vector<std::string_view> names_of(const std::vector<Named>& entities) {
  std::vector<std::string_view> names;
  for (const Named& entity : entities) names.push_back(entity.name);
  return names;
}

/// A GPU of a host whose network cards are full duplex.
Device device_of(const HostTemplate& host) {
  Device device;
  device.uplink = device.downlink = host.network_per_gpu;
  device.host_uplink = device.host_downlink = host.network;
  device.price = host.price;
  return device;
}

/// Reads the keys of an entry that apply to each of its GPUs; `device` has the values of the others.
Device read_device_attributes(const YamlMap& entry, Device device) {
  if (const auto speed = entry.optional("speed")) device.speed = speed->ratio();
  if (const auto uplink = entry.optional("uplink")) device.uplink = uplink->rate();
  if (const auto downlink = entry.optional("downlink")) device.downlink = downlink->rate();
  if (const auto uplink = entry.optional("host_uplink")) device.host_uplink = uplink->rate();
  if (const auto downlink = entry.optional("host_downlink")) device.host_downlink = downlink->rate();
  if (const auto price = entry.optional("price")) device.price = price->price();
  return device;
}

/// Number of machines and GPUs that an entry stands for.
struct HostCounts {
  int hosts = 1, gpus_per_host = 1;
  std::optional<YamlValue> name;
};

HostCounts read_host_counts(const YamlMap& entry, const HostTemplate* host) {
  const auto name = entry.optional("name"), count = entry.optional("count"), hosts = entry.optional("hosts"),
             gpus = entry.optional("gpus_per_host");
  if (name && (count || hosts))
    throw entry.error("`name` is for a single machine and cannot be combined with `count` or `hosts`");
  if (count && (hosts || gpus))
    throw entry.error(
        "`count` is for hosts with one GPU and cannot be combined with `hosts` or `gpus_per_host`");
  if (count && host)
    throw entry.error("`count` is for hosts with one GPU and cannot be combined with `host`; use `hosts`");
  if (gpus && !hosts && !name && !host) throw entry.error("`gpus_per_host` requires `hosts` or `name`");
  HostCounts host_counts{1, host ? host->gpus : 1, name};
  if (count) host_counts.hosts = static_cast<int>(count->integer(1, max_devices));
  if (hosts) host_counts.hosts = static_cast<int>(hosts->integer(1, max_devices));
  if (gpus) host_counts.gpus_per_host = static_cast<int>(gpus->integer(1, max_devices));
  return host_counts;
}

class InventoryReader {
 public:
  DeviceInventory read(const YamlMap& topology) {
    inventory_.gpus = built_in_gpus();
    if (const auto gpus = topology.optional("gpus"))
      inventory_.gpus = merge_gpus(std::move(inventory_.gpus), read_gpus(*gpus));
    for (std::size_t i = 0; i < inventory_.gpus.size(); ++i)
      gpu_index_[inventory_.gpus[i].name] = static_cast<int>(i);
    if (const auto sites = topology.optional("sites")) read_sites(*sites);
    const YamlValue devices = topology.required("devices");
    for (const YamlValue& entry : devices.list())
      read_devices(entry.map({"site", "count", "hosts", "gpus_per_host", "name", "host", "gpu", "speed",
                              "uplink", "downlink", "host_uplink", "host_downlink", "price"}));
    if (inventory_.devices.empty()) throw devices.value_error("must not be empty");
    check_names();
    return std::move(inventory_);
  }

 private:
  void read_sites(const YamlValue& sites) {
    sites_are_given_ = true;
    if (sites.is_map())
      for (const auto& [name, site] : sites.entries()) add_given_site(name, site.map({"uplink", "downlink"}));
    else
      for (const YamlValue& item : sites.list()) {
        const YamlMap site = item.map({"name", "uplink", "downlink"});
        add_given_site(site.required("name"), site);
      }
  }

  void add_given_site(const YamlValue& name, const YamlMap& map) {
    Site site{read_name(name)};
    if (site_index_.count(site.name) != 0)
      throw name.error(fmt::format("site {} is given twice", quote(site.name)));
    if (const auto uplink = map.optional("uplink")) site.uplink = uplink->rate();
    if (const auto downlink = map.optional("downlink")) site.downlink = downlink->rate();
    add_site(std::move(site));
  }

  int add_site(Site site) {
    const int index = static_cast<int>(inventory_.sites.size());
    site_index_[site.name] = index;
    inventory_.sites.push_back(std::move(site));
    next_host_.push_back(0);
    return index;
  }

  int find_or_add_site(const YamlValue& value) {
    const std::string name = read_name(value);
    if (const auto known = site_index_.find(name); known != site_index_.end()) return known->second;
    if (sites_are_given_)
      throw value.error(fmt::format("site {} is not in `sites`; {}", quote(name),
                                    suggestion(name, names_of(inventory_.sites))));
    return add_site({name});
  }

  /// Returns the kind of host that an entry names, which stays valid; nullptr if it names none.
  const HostTemplate* find_host(const YamlMap& entry) {
    const auto value = entry.optional("host");
    if (!value) return nullptr;
    if (templates_.empty()) templates_ = built_in_hosts();
    return &find_row(templates_, value->text(), value->where(), "unknown host");
  }

  int find_gpu(const YamlMap& entry, const HostTemplate* host) const {
    const auto value = entry.optional("gpu");
    if (!value) return host ? gpu_index_.at(host->gpu) : -1;
    const auto known = gpu_index_.find(value->text());
    if (known == gpu_index_.end())
      throw value->error(fmt::format("unknown GPU {}; {}", quote(value->text()),
                                     suggestion(value->text(), names_of(inventory_.gpus))));
    return known->second;
  }

  /// Returns the number of the links of a kind of host, with the rates of an entry. Entries with equal links
  /// have the same number.
  int find_or_add_links(const YamlMap& entry, const HostTemplate& host, const Device& device,
                        int gpus_per_host) {
    const YamlValue name = entry.required("host");
    TemplateLinks links{
        name.where(), {}, {host.network_latency, std::min(device.uplink, device.host_uplink)}};
    if (gpus_per_host > 1) {
      const Gpu& gpu = inventory_.gpus[at(device.gpu)];
      if (!gpu.interconnect)
        throw name.error(fmt::format("GPU {} has no `interconnect`, which is the bandwidth inside a {}",
                                     quote(gpu.name), host.name));
      links.inside = {host.gpu_latency, *gpu.interconnect * host.gpu_link_share};
      links.inside->shared_by_sender = true;  // a GPU divides its links among the others
    }
    const Link inside = links.inside.value_or(Link{});
    const std::tuple key(inside.latency, inside.bandwidth, links.to_site.latency, links.to_site.bandwidth);
    const auto [known, is_new] =
        template_links_index_.emplace(key, static_cast<int>(inventory_.template_links.size()));
    if (is_new) inventory_.template_links.push_back(std::move(links));
    return known->second;
  }

  void read_devices(const YamlMap& entry) {
    const HostTemplate* host = find_host(entry);
    const HostCounts host_counts = read_host_counts(entry, host);
    Device device = read_device_attributes(entry, host ? device_of(*host) : Device());
    device.site = find_or_add_site(entry.required("site"));
    device.gpu = find_gpu(entry, host);
    const auto size = static_cast<std::int64_t>(host_counts.hosts) * host_counts.gpus_per_host;
    if (static_cast<std::int64_t>(inventory_.devices.size()) + size > max_devices)
      throw entry.error(fmt::format("more than {} devices in all", max_devices));
    const int links = host ? find_or_add_links(entry, *host, device, host_counts.gpus_per_host) : -1;
    for (int i = 0; i < host_counts.hosts; ++i) add_host(device, host_counts, links);
  }

  void add_host(Device device, const HostCounts& host_counts, int links) {
    const auto site = at(device.site);
    const std::string host = host_counts.name
                                 ? machine_name(*host_counts.name)
                                 : fmt::format("{}/{}", inventory_.sites[site].name, next_host_[site]++);
    device.host = static_cast<int>(inventory_.hosts.size());
    inventory_.hosts.push_back(host);
    inventory_.template_of_host.push_back(links);
    for (int gpu = 0; gpu < host_counts.gpus_per_host; ++gpu) {
      device.id = host_counts.gpus_per_host == 1 ? host : fmt::format("{}:{}", host, gpu);
      inventory_.devices.push_back(device);
    }
  }

  std::string machine_name(const YamlValue& value) {
    const std::string name = read_name(value);
    const auto [first, is_new] = named_hosts_.emplace(name, value);
    if (!is_new)
      throw value.error(
          fmt::format("machine {} is given twice, first at {}", quote(name), first->second.where()));
    return name;
  }

  /// The endpoint of a link may be a site or a machine, so their names must differ.
  void check_names() const {
    for (const auto& [name, value] : named_hosts_)
      if (site_index_.count(name) != 0)
        throw value.error(fmt::format("machine {} has the name of a site", quote(name)));
  }

  DeviceInventory inventory_;
  bool sites_are_given_ = false;
  std::map<std::string, int> gpu_index_, site_index_;
  std::vector<int> next_host_;  // next host number, by site
  std::map<std::string, YamlValue> named_hosts_;
  std::vector<HostTemplate> templates_;
  std::map<std::tuple<Seconds, BitsPerSecond, Seconds, BitsPerSecond>, int> template_links_index_;
};

}  // namespace

DeviceInventory read_device_inventory(const YamlMap& topology) {
  return InventoryReader().read(topology);
}

}  // namespace dtfm::io
