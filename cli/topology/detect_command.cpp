#include "cli/topology/detect_command.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include <unistd.h>

#include "cli/topology/detect_hosts.hpp"
#include "cli/topology/measure_hosts.hpp"
#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Whether a shell and ssh take `word` as it is: letters, digits and `extra`; a letter or a digit first, or
/// one of `also_first`.
bool is_plain_word(std::string_view word, std::string_view extra, std::string_view also_first,
                   std::size_t max_length) {
  if (word.empty() || word.size() > max_length) return false;
  if (!is_letter_or_digit(word.front()) && also_first.find(word.front()) == std::string_view::npos)
    return false;
  return std::all_of(word.begin(), word.end(), [&](char c) {
    return is_letter_or_digit(c) || extra.find(c) != std::string_view::npos;
  });
}

/// The name of this host up to the first dot.
std::string this_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "local";
  const std::string all = name.data(), text = all.substr(0, all.find('.'));
  return is_plain_word(text, "._-", "", 63) ? text : "local";
}

HostArgument this_host(const std::string& site) {
  return {site, this_host_name(), "local", ""};
}

void check_distinct(const std::vector<HostArgument>& hosts) {
  std::set<std::string> names;
  for (const HostArgument& host : hosts)
    if (!names.insert(host.name).second)
      throw Error("", fmt::format("host {} is given twice: name each host once", io::quote(host.name)));
}

std::vector<HostArgument> requested_hosts(const DetectOptions& options) {
  std::vector<HostArgument> hosts = options.hosts;
  for (HostArgument& host : hosts) {
    if (host.site.empty()) host.site = options.default_site;
    if (host.destination == "local" && !options.from) host.name = this_host_name();
  }
  if (hosts.empty())
    hosts = options.from ? saved_hosts(options) : std::vector{this_host(options.default_site)};
  check_distinct(hosts);
  return hosts;
}

/// Fails before anything runs if the links between the hosts will not be known.
void check_links_are_given(std::size_t hosts, const DetectOptions& options) {
  if (hosts > 1 && !options.measures && !options.settings.between_hosts && !options.settings.between_sites)
    throw Error("",
                fmt::format("the links between {} hosts are not known: measure them with --measure, or give "
                            "--between-hosts LATENCY,BANDWIDTH, such as 20us,100Gbps",
                            hosts));
}

}  // namespace

bool is_host_name(std::string_view name) {
  constexpr std::size_t max_length = 253;
  return is_plain_word(name, "._-", "", max_length);
}

HostArgument parse_host_argument(const std::string& text) {
  constexpr std::size_t max_name = 63, max_user = 32, max_address = 253;
  const auto refuse = [&](const char* what) {
    throw Error("HOST", fmt::format("expected {}, made of letters, digits, `.`, `_` and `-`; found {}", what,
                                    io::quote(text)));
  };
  HostArgument host;
  std::string rest = text;
  if (const std::size_t equals = rest.find('='); equals != std::string::npos) {
    host.address = rest.substr(equals + 1);
    rest.resize(equals);
    if (!is_plain_word(host.address, ".:-", ":", max_address))
      refuse("an address such as 10.0.0.1 after `=`");
  }
  if (const std::size_t slash = rest.find('/'); slash != std::string::npos) {
    host.site = rest.substr(0, slash);
    rest = rest.substr(slash + 1);
    if (!is_plain_word(host.site, "._-", "", max_name)) refuse("a site before `/`");
  }
  host.destination = rest;
  const std::size_t user_end = rest.find('@');
  host.name = user_end == std::string::npos ? rest : rest.substr(user_end + 1);
  if (user_end != std::string::npos && !is_plain_word(rest.substr(0, user_end), "._-", "_", max_user))
    refuse("a user before `@`");
  if (!is_host_name(host.name)) refuse("[SITE/][USER@]HOST[=ADDRESS]");
  return host;
}

std::string detect_topology(const DetectOptions& options, const std::string& name, bool quiet,
                            const StopFunction& stop) {
  std::vector<HostArgument> arguments;
  std::vector<io::DetectedHost> hosts;
  if (options.uses_slurm) {
    hosts = detect_slurm_nodes(options, stop);
    for (const io::DetectedHost& host : hosts) arguments.push_back({host.site, host.name, host.name, ""});
  } else {
    arguments = requested_hosts(options);
  }
  check_links_are_given(arguments.size(), options);
  if (options.measures) check_measurable(arguments);
  if (!options.uses_slurm) hosts = detect_hosts(arguments, options, quiet, stop);
  io::DetectionSettings settings = options.settings;
  settings.name = name;
  io::HostLinkMap measured;
  if (options.measures) {
    if (!settings.within_host) measure_within_hosts(arguments, options, quiet, stop, hosts);
    io::DetectionSettings rehearsal = settings;  // finds what is missing before the measurement
    if (!rehearsal.between_hosts) rehearsal.between_hosts = io::LinkSettings{Seconds(0), BitsPerSecond(1e9)};
    io::format_detected_topology(hosts, {}, rehearsal);
    if (hosts.size() > 1) measured = measure_between_hosts(arguments, options, quiet, stop);
  }
  return io::format_detected_topology(hosts, measured, settings);
}

}  // namespace dtfm::cli
