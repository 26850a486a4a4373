#include "core/io/readers/host_templates.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/io/readers/device_inventory.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view hosts_yaml;

namespace {

constexpr int max_cpu_model = 1'000'000;

HostTemplate read_host_template(const YamlMap& map, const YamlMap& latencies, double direct_share) {
  HostTemplate host;
  host.name = map.required("name").text();
  host.gpu = map.required("gpu").text();
  host.gpus = static_cast<int>(map.required("gpus").integer(1, max_devices));
  const bool over_pcie = map.required("gpu_links").choice({"direct", "pcie"}) == 1;
  host.gpu_latency = latencies.required(over_pcie ? "pcie" : "direct").seconds();
  if (!over_pcie) host.gpu_link_share = direct_share;
  host.network_latency = latencies.required("network").seconds();
  host.network = map.required("network").rate();
  host.network_per_gpu = map.required("network_per_gpu").rate();
  if (const auto price = map.optional("price")) host.price = price->price();
  return host;
}

YamlMap root_of(const YamlDocument& document) {
  return versioned_map(document, "a table of hosts",
                       {"version", "latencies", "direct_share", "pcie", "numa", "hosts"});
}

YamlMap latencies_of(const YamlMap& root) {
  return root.required("latencies").map({"direct", "pcie", "network"});
}

}  // namespace

HostLinks built_in_host_links() {
  const YamlDocument document(std::string(hosts_yaml), "configs/hosts.yaml");
  const YamlMap root = root_of(document), latencies = latencies_of(root);
  HostLinks links{latencies.required("direct").seconds(),
                  latencies.required("pcie").seconds(),
                  root.required("direct_share").ratio(),
                  {},
                  {}};
  const YamlMap pcie = root.required("pcie").map({"gen1", "gen2", "gen3", "gen4", "gen5", "gen6"});
  for (const char* generation : {"gen1", "gen2", "gen3", "gen4", "gen5", "gen6"})
    links.pcie.push_back(pcie.required(generation).rate());
  for (const YamlValue& item : root.required("numa").list()) {
    const YamlMap map = item.map({"vendor", "model", "rate"});
    const auto model = map.optional("model");
    links.numa.push_back({map.required("vendor").text(),
                          model ? static_cast<int>(model->integer(0, max_cpu_model)) : 0,
                          map.required("rate").rate()});
  }
  return links;
}

std::optional<BitsPerSecond> HostLinks::numa_rate(const std::string& cpu_vendor, int cpu_model) const {
  const auto found = std::find_if(numa.begin(), numa.end(), [&](const NumaLink& it) {
    return it.vendor == cpu_vendor && it.min_model <= cpu_model;
  });
  return found == numa.end() ? std::nullopt : std::optional(found->rate);
}

std::vector<HostTemplate> built_in_hosts() {
  return parse_host_templates(std::string(hosts_yaml), "configs/hosts.yaml");
}

std::vector<HostTemplate> parse_host_templates(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap root = root_of(document);
  const YamlMap latencies = latencies_of(root);
  const double direct_share = root.required("direct_share").ratio();
  std::vector<HostTemplate> hosts;
  for (const YamlValue& item : root.required("hosts").list()) {
    const YamlMap map = item.map({"name", "gpu", "gpus", "gpu_links", "network", "network_per_gpu", "price"});
    HostTemplate host = read_host_template(map, latencies, direct_share);
    if (std::any_of(hosts.begin(), hosts.end(), [&](const HostTemplate& h) { return h.name == host.name; }))
      throw map.error(fmt::format("host {} is given twice", quote(host.name)));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace dtfm::io
