#include "planner/io/writers/topology_writer.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/topology.hpp"
#include "planner/io/readers/gpu_catalogue.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"
#include "planner/io/readers/topology_reader.hpp"

namespace dtfm::io {
namespace {

using Links = std::map<std::pair<int, int>, SurveyLink>;

/// In YAML's double quotes. Characters that some readers of YAML take for the end of a line, or refuse, are
/// escaped: U+0080 to U+009F, U+2028 and U+2029. The names have no control characters of ASCII.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto second = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : 0);
    if (text[i] == '\xC2' && second < 0xA0) {
      result += fmt::format("\\u{:04x}", second);
      i += 1;
    } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      result += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      if (text[i] == '"' || text[i] == '\\') result += '\\';
      result += text[i];
    }
  }
  return result + "\"";
}

std::string latency_text(Seconds latency) {
  return fmt::format("{:.6g} ms", latency.value() * 1e3);
}

std::string rate_text(BitsPerSecond rate) {
  const bool is_fast = rate.value() >= 1e9;
  return fmt::format("{:.6g} {}", rate.value() / (is_fast ? 1e9 : 1e6), is_fast ? "Gbps" : "Mbps");
}

/// Throws Error where the user speaks of a site that was not measured.
template <class Value>
void check_sites(const std::map<std::string, Value>& named, const std::set<std::string>& sites,
                 const char* option) {
  for (const auto& [site, value] : named)
    if (!sites.contains(site))
      throw Error(option, fmt::format("no site {} was measured; {}", in_quotes(site),
                                      suggestion(site, {sites.begin(), sites.end()})));
}

void check_gpu(const std::string& name) {
  if (!name.empty()) row_named(built_in_gpus(), name, "--gpu", "unknown GPU");
}

/// A link of the site would be one of its machines too.
void check_apart(const std::vector<SurveyPlace>& places) {
  std::set<std::string> whole;
  for (const SurveyPlace& place : places)
    if (place.machine.empty()) whole.insert(place.site);
  for (const SurveyPlace& place : places)
    if (!place.machine.empty() && whole.contains(place.site))
      throw Error("", fmt::format("site {} was measured by itself and by its machine {}",
                                  in_quotes(place.site), in_quotes(place.machine)));
}

/// What is known of the machines, the user's word before that of the measurement.
std::vector<SurveyPlace> equipped(std::vector<SurveyPlace> places, const FleetSettings& settings) {
  std::set<std::string> sites, gpus;
  for (SurveyPlace& place : places) {
    const auto gpu = settings.gpu_of.find(place.site);
    const auto hosts = settings.hosts_of.find(place.site);
    if (!settings.gpu.empty()) place.gpu = settings.gpu;
    if (gpu != settings.gpu_of.end()) place.gpu = gpu->second;
    if (settings.hosts) place.hosts = *settings.hosts;
    if (hosts != settings.hosts_of.end()) place.hosts = hosts->second;
    if (settings.gpus_per_host) place.gpus_per_host = *settings.gpus_per_host;
    if (!place.machine.empty() && place.hosts > 1)
      throw Error("--count", fmt::format("{} is one machine", in_quotes(place.machine)));
    sites.insert(place.site);
    gpus.insert(place.gpu);
  }
  check_apart(places);
  check_sites(settings.gpu_of, sites, "--gpu");
  check_sites(settings.hosts_of, sites, "--count");
  for (const std::string& gpu : gpus) check_gpu(gpu);
  return places;
}

std::string device_line(const SurveyPlace& place) {
  std::string line = "  - {";
  if (!place.machine.empty()) line += fmt::format("name: {}, ", quoted(place.machine));
  line += "site: " + quoted(place.site);
  if (place.machine.empty() && place.gpus_per_host > 1) line += fmt::format(", hosts: {}", place.hosts);
  if (place.gpus_per_host > 1) line += fmt::format(", gpus_per_host: {}", place.gpus_per_host);
  if (place.machine.empty() && place.gpus_per_host == 1 && place.hosts > 1)
    line += fmt::format(", count: {}", place.hosts);
  if (!place.gpu.empty()) line += ", gpu: " + quoted(place.gpu);
  return line + "}\n";
}

std::string within_line(const char* within, const std::optional<WrittenLink>& link, bool is_needed,
                        const char* option) {
  if (!is_needed) return "";
  if (!link) throw Error(option, "is missing: it was not measured (LATENCY,BANDWIDTH, such as 5us,300Gbps)");
  return fmt::format("  - {{within: {}, latency: {}, bandwidth: {}}}  # as the user said\n", within,
                     latency_text(link->latency), rate_text(link->bandwidth));
}

/// Sites that have several machines. What the flows between two machines share is not what their sites share.
std::set<std::string> divided_sites(const std::vector<SurveyPlace>& places) {
  std::set<std::string> seen, divided;
  for (const SurveyPlace& place : places)
    if (!seen.insert(place.site).second || place.hosts > 1) divided.insert(place.site);
  return divided;
}

std::string link_line(const std::vector<SurveyPlace>& places, std::pair<int, int> pair,
                      const SurveyLink& link, const std::set<std::string>& divided) {
  const SurveyPlace &from = places[at(pair.first)], &to = places[at(pair.second)];
  std::string line = fmt::format("  - {{from: {}, to: {}, latency: {}, bandwidth: {}", quoted(from.name()),
                                 quoted(to.name()), latency_text(link.latency), rate_text(link.bandwidth));
  if (link.capacity && !divided.contains(from.site) && !divided.contains(to.site))
    line += ", capacity: " + rate_text(*link.capacity);
  line += "}";
  std::string comment;
  const auto remark = [&](const std::string& text) { comment += (comment.empty() ? " " : ", ") + text; };
  if (link.is_assumed) remark("not measured: as the other direction");
  if (link.spread) remark(fmt::format("bandwidth ± {}", rate_text(*link.spread)));
  if (!link.time.empty()) remark(link.time);
  return line + (comment.empty() ? "" : "  #" + comment) + "\n";
}

bool is_near(double a, double b) {
  constexpr double digits = 1e-5;  // six are written
  return std::abs(a - b) <= digits * std::max(std::abs(a), std::abs(b));
}

/// A name from a stranger must not have become anything else on the way.
void check_read_back(const std::string& text, const std::vector<SurveyPlace>& places, const Links& links) {
  const Topology topology = parse_topology(text, "the topology", {});
  std::vector<int> first;  // device of each place
  int device = 0;
  for (const SurveyPlace& place : places) {
    first.push_back(device);
    DTFM_ASSERT(device < topology.size());
    DTFM_ASSERT(topology.sites[at(topology.devices[at(device)].site)].name == place.site);
    device += place.hosts * place.gpus_per_host;
  }
  DTFM_ASSERT(device == topology.size());
  for (const auto& [pair, link] : links) {
    const Link read = topology.link(first[at(pair.first)], first[at(pair.second)]);
    DTFM_ASSERT(is_near(read.latency.value(), link.latency.value()));
    DTFM_ASSERT(is_near(read.bandwidth.value(), link.bandwidth.value()));
  }
}

}  // namespace

bool is_topology_name(const std::string& name) {
  constexpr std::size_t longest = 128;
  if (name.empty() || name.size() > longest) return false;
  try {
    return checked_text(name, "").find_first_of("\t\n\r") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::string topology_text(const Survey& survey, const Links& links, const FleetSettings& settings) {
  if (!is_topology_name(settings.name))
    throw Error("--topology-name",
                fmt::format("{} cannot be the name of a topology", in_quotes(settings.name)));
  const std::vector<SurveyPlace> places = equipped(survey.places, settings);
  const std::set<std::string> divided = divided_sites(places);
  bool has_neighbours = false, has_hosts = false;
  for (const SurveyPlace& place : places) {
    has_neighbours = has_neighbours || place.hosts > 1;
    has_hosts = has_hosts || place.gpus_per_host > 1;
  }
  std::string text = fmt::format("# Imported by dtfm-topology from {}.\nversion: 1\nname: {}\ndevices:\n",
                                 survey.how, quoted(settings.name));
  for (const SurveyPlace& place : places) text += device_line(place);
  text += "links:\n" + within_line("host", settings.within_host, has_hosts, "--within-host") +
          within_line("\"*\"", settings.within_site, has_neighbours, "--within-site");
  for (const auto& [pair, link] : links) text += link_line(places, pair, link, divided);
  check_read_back(text, places, links);
  return text;
}

}  // namespace dtfm::io
