// tc scripts that make the machines of a plan see the network of a topology, as the ancestor's authors
// emulated cities.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::exporter {

extern const std::string_view export_netem_sh;  // templates/netem.sh

namespace {

constexpr std::string_view target_name = "netem";
constexpr int max_classes = 0xfffe;      // of a qdisc: 16 bits, 1:1 is all of them
constexpr double packet_bits = 8 * 1500;  // of Ethernet's usual frames
constexpr double min_queue_packets = 1000;      // packets: netem's own

/// tc counts delays in ticks of 64 ns, in 32 bits: 274.88 s are the most that it takes (iproute2 6.1). Above
/// 4,295 s, whose microseconds are more than 32 bits hold, it takes what is left of them, without a word.
constexpr double max_delay_s = 274;

/// tc takes no rate of 0, and its unit here is 1 kbit/s.
constexpr double min_kbit = 1;

/// HTB wants a rate where nothing limits one too: this, 100 Gbit/s, which is far above what it passes on in
/// practice, with its one lock for all processors. What is faster in the topology is not limited either.
constexpr double max_kbit = 100'000'000;

/// A device of each machine, by its address: links are between these.
std::map<std::string, int> devices_by_address(const ExportBundle& bundle) {
  std::map<std::string, int> devices;
  for (int rank = 0; rank < bundle.world_size(); ++rank) {
    const int device = bundle.topology_device[at(bundle.assignments[at(rank)].device)];
    devices.emplace(bundle.location(rank).address, device);
  }
  return devices;
}

void check(const ExportBundle& bundle) {
  if (!bundle.topology)
    reject(target_name, "rates and delays of links are in the topology, not in a plan; give it with --topology");
  const auto devices = devices_by_address(bundle);
  if (devices.size() < 2) reject(target_name, "the plan is of one machine, which sends nothing to others");
  for (const auto& [from, sender] : devices)
    for (const auto& [to, receiver] : devices)
      if (from != to && bundle.topology->link(sender, receiver).latency.value() > max_delay_s)
        reject(target_name,
               fmt::format("from {} to {} takes more than {} s, and tc delays by less; change the topology",
                           from, to, max_delay_s));
  if (devices.size() > max_classes)
    reject(target_name, fmt::format("{} machines; tc has {} classes at most", devices.size(), max_classes));
}

double clamped_kbit(double bits_per_second) {
  return std::clamp(bits_per_second / 1e3, min_kbit, max_kbit);
}

long long to_kbit(double bits_per_second) {
  return std::llround(clamped_kbit(bits_per_second));
}

/// Of everything that the machine of a device sends.
double uplink_of(const Device& device) {
  return std::min(device.uplink.value(), device.host_uplink.value());
}

/// What one direction looks like to tc.
struct Shape {
  long long kbit = 0, delay_us = 0;
};

Shape link_shape(const Link& link) {
  return {to_kbit(link.bandwidth.value()), std::llround(link.latency.value() * 1e6)};
}

/// Packets under way at that rate and delay, and half as many again, or netem would drop them.
long long queue_packets(const Shape& shape) {
  const double in_flight =
      static_cast<double>(shape.kbit) * 1e3 * static_cast<double>(shape.delay_us) * 1e-6 / packet_bits;
  return std::llround(std::max(min_queue_packets, std::ceil(1.5 * in_flight)));
}

/// `  "1100000 49000 6738 gb"`; machines that share their sender's rate (`shared: sender`) are in one line.
std::vector<std::string> links_from(const ExportBundle& bundle, const std::string& from,
                                    const std::map<std::string, int>& devices) {
  const Topology& topology = *bundle.topology;
  const int sender = devices.at(from);
  std::vector<std::pair<Shape, std::vector<std::string>>> classes;
  std::map<int, std::size_t> shared;  // class of an entry
  for (const auto& [to, device] : devices) {
    if (to == from) continue;
    const Link link = topology.link(sender, device);
    if (!link.shared_by_sender) {
      classes.push_back({link_shape(link), {to}});
      continue;
    }
    const auto [known, is_new] = shared.emplace(topology.link_index(sender, device), classes.size());
    if (is_new) classes.push_back({link_shape(link), {}});
    classes[known->second].second.push_back(to);
  }
  std::vector<std::string> lines;
  for (const auto& [shape, machines] : classes)
    lines.push_back(fmt::format("  \"{} {} {} {}\"", shape.kbit, shape.delay_us, queue_packets(shape),
                                fmt::join(machines, " ")));
  return lines;
}

std::string file_name(const std::string& address) {
  return fmt::format("netem-{}.sh", address);
}

ExportFiles files(const ExportBundle& bundle) {
  ExportFiles files;
  const auto devices = devices_by_address(bundle);
  for (const auto& [address, number] : devices) {
    const double uplink = uplink_of(bundle.topology->devices[at(number)]);
    files.push_back(
        {file_name(address),
         fill_template(export_netem_sh,
                   {{"machine", address},
                    {"links", fmt::format("{}", fmt::join(links_from(bundle, address, devices), "\n"))},
                    {"uplink", fmt::format("{}", to_kbit(uplink))}}),
         true});
  }
  return files;
}

/// Each machine's script has every other one once, with the link that the topology has.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  const auto devices = devices_by_address(bundle);
  for (const auto& [from, sender] : devices) {
    std::set<std::string> seen;
    for (const std::string& line : table_lines(file_text(files, file_name(from)), "links=(")) {
      const auto words = split_words(line);
      for (std::size_t i = 3; i < words.size(); ++i) {
        const Link link = bundle.topology->link(sender, devices.at(words[i]));
        DTFM_ASSERT(words[i] != from && seen.insert(words[i]).second);
        DTFM_ASSERT(std::abs(parse_number(words[0]) - clamped_kbit(link.bandwidth.value())) <= 1);
        DTFM_ASSERT(std::abs(parse_number(words[1]) - link.latency.value() * 1e6) <= 0.5);
      }
    }
    DTFM_ASSERT(seen.size() + 1 == devices.size());
  }
  return {read_table_rows(files), {}};
}

bool is_same_link(const Link& a, const Link& b) {
  return a.latency == b.latency && a.bandwidth == b.bandwidth;
}

/// Whether devices of one machine have other links than its first one.
bool has_heterogeneous_links(const ExportBundle& bundle) {
  const auto devices = devices_by_address(bundle);
  for (int a = 0; a < bundle.world_size(); ++a)
    for (const auto& [address, other] : devices) {
      const GpuLocation& location = bundle.location(a);
      const int device = bundle.topology_device[at(bundle.assignments[at(a)].device)],
                first = devices.at(location.address);
      if (address != location.address && device != first &&
          !is_same_link(bundle.topology->link(device, other), bundle.topology->link(first, other)))
        return true;
    }
  return false;
}

/// The rates that the topology limits what machines send to, and what they are of.
std::vector<std::pair<std::string, double>> limited_rates(const ExportBundle& bundle) {
  std::vector<std::pair<std::string, double>> rates;
  const auto devices = devices_by_address(bundle);
  for (const auto& [from, sender] : devices) {
    rates.emplace_back("the uplink of " + from, uplink_of(bundle.topology->devices[at(sender)]));
    for (const auto& [to, receiver] : devices)
      if (to != from)
        rates.emplace_back(fmt::format("from {} to {}", from, to),
                           bundle.topology->link(sender, receiver).bandwidth.value());
  }
  std::erase_if(rates, [](const auto& rate) { return std::isinf(rate.second); });
  return rates;
}

/// No rate is another one in silence.
std::vector<std::string> rate_notes(const ExportBundle& bundle) {
  const auto rates = limited_rates(bundle);
  std::vector<std::string> notes;
  const auto add = [&](const char* where, double written_kbit, const auto& is_clamped) {
    const auto clamped = [&](const auto& rate) { return is_clamped(rate.second / 1e3); };
    const auto first = std::find_if(rates.begin(), rates.end(), clamped);
    if (first == rates.end()) return;
    notes.push_back(fmt::format("rates {} {} are written as that: {} of them, the first {}, {}", where,
                                io::format_rate(BitsPerSecond(written_kbit * 1e3)),
                                std::count_if(first, rates.end(), clamped), first->first,
                                io::format_rate(BitsPerSecond(first->second))));
  };
  add("below", min_kbit, [](double kbit) { return kbit < min_kbit; });
  add("above", max_kbit, [](double kbit) { return kbit > max_kbit; });
  return notes;
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  std::vector<std::string> notes = {
      "what a machine receives, what machines of a site share (capacity, uplinks of sites), and links inside "
      "a machine "
      "are not shaped; all flows to one machine share the rate of one flow"};
  for (std::string& note : rate_notes(bundle)) notes.push_back(std::move(note));
  if (has_heterogeneous_links(bundle))
    notes.emplace_back(
        "GPUs of one machine have unlike links in the topology: those of its first one are taken");
  return notes;
}

}  // namespace

Exporter netem_exporter() {
  return {target_name,      "scripts for tc: each machine's links as in the topology, and undo (needs --topology)",
          false,     {},
          check,     files,
          read_back, "On every machine, as root: `./netem-MACHINE.sh up`, and `down` when all is done.",
          notes};
}

}  // namespace dtfm::exporter
