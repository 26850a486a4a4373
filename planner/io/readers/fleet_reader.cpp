#include "planner/io/readers/fleet_reader.hpp"

#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/io/readers/gpu_catalogue.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

/// The name of a site or a machine: ids are made from it, and links refer to it.
std::string name_of(const YamlValue& value) {
  const std::string name = value.text();
  if (name.find_first_of("/:") != std::string::npos)
    throw value.value_error(
        fmt::format("{} has `/` or `:`, which ids put between site, host and GPU", in_quotes(name)));
  if (name == "host" || name == "*")
    throw value.value_error(
        fmt::format("{} is no name: links give it a meaning of its own", in_quotes(name)));
  return name;
}

template <class Named>
std::vector<std::string_view> names_of(const std::vector<Named>& things) {
  std::vector<std::string_view> names;
  for (const Named& thing : things) names.push_back(thing.name);
  return names;
}

/// What an entry says about each of its GPUs.
Device device_of(const YamlMap& entry) {
  Device device;
  if (const auto speed = entry.optional("speed")) device.speed = speed->ratio();
  if (const auto uplink = entry.optional("uplink")) device.uplink = uplink->rate();
  if (const auto downlink = entry.optional("downlink")) device.downlink = downlink->rate();
  if (const auto uplink = entry.optional("host_uplink")) device.host_uplink = uplink->rate();
  if (const auto downlink = entry.optional("host_downlink")) device.host_downlink = downlink->rate();
  if (const auto price = entry.optional("price")) device.price = price->price();
  return device;
}

/// How many machines an entry stands for.
struct Machines {
  int hosts = 1, gpus_per_host = 1;
  std::optional<YamlValue> name;
};

Machines machines_of(const YamlMap& entry) {
  const auto name = entry.optional("name"), count = entry.optional("count"), hosts = entry.optional("hosts"),
             gpus = entry.optional("gpus_per_host");
  if (name && (count || hosts))
    throw entry.error("`name` is of one machine: it goes without `count` and `hosts`");
  if (count && (hosts || gpus))
    throw entry.error("`count` is of hosts with one GPU: it goes without `hosts` and `gpus_per_host`");
  if (gpus && !hosts && !name) throw entry.error("`gpus_per_host` goes with `hosts` or `name`");
  Machines machines{1, 1, name};
  if (count) machines.hosts = static_cast<int>(count->integer(1, most_devices));
  if (hosts) machines.hosts = static_cast<int>(hosts->integer(1, most_devices));
  if (gpus) machines.gpus_per_host = static_cast<int>(gpus->integer(1, most_devices));
  return machines;
}

class FleetReader {
 public:
  Fleet read(const YamlMap& topology) {
    fleet_.gpus = built_in_gpus();
    if (const auto gpus = topology.optional("gpus"))
      fleet_.gpus = extended(std::move(fleet_.gpus), read_gpus(*gpus));
    for (std::size_t i = 0; i < fleet_.gpus.size(); ++i)
      gpu_index_[fleet_.gpus[i].name] = static_cast<int>(i);
    if (const auto sites = topology.optional("sites")) read_sites(*sites);
    const YamlValue devices = topology.required("devices");
    for (const YamlValue& entry : devices.list())
      read_devices(entry.map({"site", "count", "hosts", "gpus_per_host", "name", "gpu", "speed", "uplink",
                              "downlink", "host_uplink", "host_downlink", "price"}));
    if (fleet_.devices.empty()) throw devices.value_error("must not be empty");
    check_names();
    return std::move(fleet_);
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
    Site site{name_of(name)};
    if (site_index_.count(site.name) != 0)
      throw name.error(fmt::format("site {} is given twice", in_quotes(site.name)));
    if (const auto uplink = map.optional("uplink")) site.uplink = uplink->rate();
    if (const auto downlink = map.optional("downlink")) site.downlink = downlink->rate();
    add_site(std::move(site));
  }

  int add_site(Site site) {
    const int index = static_cast<int>(fleet_.sites.size());
    site_index_[site.name] = index;
    fleet_.sites.push_back(std::move(site));
    next_host_.push_back(0);
    return index;
  }

  int site_of(const YamlValue& value) {
    const std::string name = name_of(value);
    if (const auto known = site_index_.find(name); known != site_index_.end()) return known->second;
    if (sites_are_given_)
      throw value.error(fmt::format("site {} is not in `sites`; {}", in_quotes(name),
                                    suggestion(name, names_of(fleet_.sites))));
    return add_site({name});
  }

  int gpu_of(const YamlMap& entry) const {
    const auto value = entry.optional("gpu");
    if (!value) return -1;
    const auto known = gpu_index_.find(value->text());
    if (known == gpu_index_.end())
      throw value->error(fmt::format("unknown GPU {}; {}", in_quotes(value->text()),
                                     suggestion(value->text(), names_of(fleet_.gpus))));
    return known->second;
  }

  void read_devices(const YamlMap& entry) {
    const Machines machines = machines_of(entry);
    Device device = device_of(entry);
    device.site = site_of(entry.required("site"));
    device.gpu = gpu_of(entry);
    const auto size = static_cast<std::int64_t>(machines.hosts) * machines.gpus_per_host;
    if (static_cast<std::int64_t>(fleet_.devices.size()) + size > most_devices)
      throw entry.error(fmt::format("more than {} devices in all", most_devices));
    for (int i = 0; i < machines.hosts; ++i) add_host(device, machines);
  }

  void add_host(Device device, const Machines& machines) {
    const auto site = at(device.site);
    const std::string host = machines.name
                                 ? machine_name(*machines.name)
                                 : fmt::format("{}/{}", fleet_.sites[site].name, next_host_[site]++);
    device.host = static_cast<int>(fleet_.hosts.size());
    fleet_.hosts.push_back(host);
    for (int gpu = 0; gpu < machines.gpus_per_host; ++gpu) {
      device.id = machines.gpus_per_host == 1 ? host : fmt::format("{}:{}", host, gpu);
      fleet_.devices.push_back(device);
    }
  }

  std::string machine_name(const YamlValue& value) {
    const std::string name = name_of(value);
    const auto [first, is_new] = machines_.emplace(name, value);
    if (!is_new)
      throw value.error(
          fmt::format("machine {} is given twice, first at {}", in_quotes(name), first->second.where()));
    return name;
  }

  /// A link's end may be a site or a machine: no two may have one name.
  void check_names() const {
    for (const auto& [name, value] : machines_)
      if (site_index_.count(name) != 0)
        throw value.error(fmt::format("machine {} has the name of a site", in_quotes(name)));
  }

  Fleet fleet_;
  bool sites_are_given_ = false;
  std::map<std::string, int> gpu_index_, site_index_;
  std::vector<int> next_host_;  // of each site
  std::map<std::string, YamlValue> machines_;
};

}  // namespace

Fleet read_fleet(const YamlMap& topology) {
  return FleetReader().read(topology);
}

}  // namespace dtfm::io
