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
#include "planner/export/closed_form.hpp"
#include "planner/export/expressible.hpp"
#include "planner/export/template_text.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::exporter {

extern const std::string_view export_netem_sh;  // templates/netem.sh

namespace {

constexpr std::string_view self = "netem";
constexpr int most_classes = 0xfffe;      // of a qdisc: 16 bits, 1:1 is all of them
constexpr double packet_bits = 8 * 1500;  // of Ethernet's usual frames
constexpr double least_queue = 1000;      // packets: netem's own

/// tc counts delays in ticks of 64 ns, in 32 bits: 274.88 s are the most that it takes (iproute2 6.1). Above
/// 4,295 s, whose microseconds are more than 32 bits hold, it takes what is left of them, without a word.
constexpr double longest_delay_s = 274;

/// tc takes no rate of 0, and its unit here is 1 kbit/s.
constexpr double least_kbit = 1;

/// HTB wants a rate where nothing limits one too: this, 100 Gbit/s, which is far above what it passes on in
/// practice, with its one lock for all processors. What is faster in the topology is not limited either.
constexpr double most_kbit = 100'000'000;

/// A device of each machine, by its address: links are between these.
std::map<std::string, int> devices_by_address(const Handover& handover) {
  std::map<std::string, int> devices;
  for (int rank = 0; rank < handover.world(); ++rank) {
    const int device = handover.topology_device[at(handover.seats[at(rank)].device)];
    devices.emplace(handover.place(rank).address, device);
  }
  return devices;
}

void check(const Handover& handover) {
  if (!handover.topology)
    refuse(self, "rates and delays of links are in the topology, not in a plan; give it with --topology");
  const auto devices = devices_by_address(handover);
  if (devices.size() < 2) refuse(self, "the plan is of one machine, which sends nothing to others");
  for (const auto& [from, sender] : devices)
    for (const auto& [to, receiver] : devices)
      if (from != to && handover.topology->link(sender, receiver).latency.value() > longest_delay_s)
        refuse(self,
               fmt::format("from {} to {} takes more than {} s, and tc delays by less; change the topology",
                           from, to, longest_delay_s));
  if (devices.size() > most_classes)
    refuse(self, fmt::format("{} machines; tc has {} classes at most", devices.size(), most_classes));
}

double clamped_kbit(double bits_per_second) {
  return std::clamp(bits_per_second / 1e3, least_kbit, most_kbit);
}

long long kbit_of(double bits_per_second) {
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

Shape shape_of(const Link& link) {
  return {kbit_of(link.bandwidth.value()), std::llround(link.latency.value() * 1e6)};
}

/// Packets under way at that rate and delay, and half as many again, or netem would drop them.
long long queue_of(const Shape& shape) {
  const double under_way =
      static_cast<double>(shape.kbit) * 1e3 * static_cast<double>(shape.delay_us) * 1e-6 / packet_bits;
  return std::llround(std::max(least_queue, std::ceil(1.5 * under_way)));
}

/// `  "1100000 49000 6738 gb"`; machines that share their sender's rate (`shared: sender`) are in one line.
std::vector<std::string> links_from(const Handover& handover, const std::string& from,
                                    const std::map<std::string, int>& devices) {
  const Topology& topology = *handover.topology;
  const int sender = devices.at(from);
  std::vector<std::pair<Shape, std::vector<std::string>>> classes;
  std::map<int, std::size_t> shared;  // class of an entry
  for (const auto& [to, device] : devices) {
    if (to == from) continue;
    const Link link = topology.link(sender, device);
    if (!link.shared_by_sender) {
      classes.push_back({shape_of(link), {to}});
      continue;
    }
    const auto [known, is_new] = shared.emplace(topology.entry(sender, device), classes.size());
    if (is_new) classes.push_back({shape_of(link), {}});
    classes[known->second].second.push_back(to);
  }
  std::vector<std::string> lines;
  for (const auto& [shape, machines] : classes)
    lines.push_back(fmt::format("  \"{} {} {} {}\"", shape.kbit, shape.delay_us, queue_of(shape),
                                fmt::join(machines, " ")));
  return lines;
}

std::string file_name(const std::string& address) {
  return fmt::format("netem-{}.sh", address);
}

ExportFiles files(const Handover& handover) {
  ExportFiles files;
  const auto devices = devices_by_address(handover);
  for (const auto& [address, number] : devices) {
    const double uplink = uplink_of(handover.topology->devices[at(number)]);
    files.push_back(
        {file_name(address),
         filled_in(export_netem_sh,
                   {{"machine", address},
                    {"links", fmt::format("{}", fmt::join(links_from(handover, address, devices), "\n"))},
                    {"uplink", fmt::format("{}", kbit_of(uplink))}}),
         true});
  }
  return files;
}

/// Each machine's script has every other one once, with the link that the topology has.
ReadBack read_back(const ExportFiles& files, const Handover& handover) {
  const auto devices = devices_by_address(handover);
  for (const auto& [from, sender] : devices) {
    std::set<std::string> seen;
    for (const std::string& line : table_lines(text_of(files, file_name(from)), "links=(")) {
      const auto words = words_between_blanks(line);
      for (std::size_t i = 3; i < words.size(); ++i) {
        const Link link = handover.topology->link(sender, devices.at(words[i]));
        DTFM_ASSERT(words[i] != from && seen.insert(words[i]).second);
        DTFM_ASSERT(std::abs(number_in_word(words[0]) - clamped_kbit(link.bandwidth.value())) <= 1);
        DTFM_ASSERT(std::abs(number_in_word(words[1]) - link.latency.value() * 1e6) <= 0.5);
      }
    }
    DTFM_ASSERT(seen.size() + 1 == devices.size());
  }
  return {table_rows(files), {}};
}

bool same(const Link& a, const Link& b) {
  return a.latency == b.latency && a.bandwidth == b.bandwidth;
}

/// Whether devices of one machine have other links than its first one.
bool has_unlike_devices(const Handover& handover) {
  const auto devices = devices_by_address(handover);
  for (int a = 0; a < handover.world(); ++a)
    for (const auto& [address, other] : devices) {
      const GpuPlace& place = handover.place(a);
      const int device = handover.topology_device[at(handover.seats[at(a)].device)],
                first = devices.at(place.address);
      if (address != place.address && device != first &&
          !same(handover.topology->link(device, other), handover.topology->link(first, other)))
        return true;
    }
  return false;
}

/// The rates that the topology limits what machines send to, and what they are of.
std::vector<std::pair<std::string, double>> rates_of(const Handover& handover) {
  std::vector<std::pair<std::string, double>> rates;
  const auto devices = devices_by_address(handover);
  for (const auto& [from, sender] : devices) {
    rates.emplace_back("the uplink of " + from, uplink_of(handover.topology->devices[at(sender)]));
    for (const auto& [to, receiver] : devices)
      if (to != from)
        rates.emplace_back(fmt::format("from {} to {}", from, to),
                           handover.topology->link(sender, receiver).bandwidth.value());
  }
  std::erase_if(rates, [](const auto& rate) { return std::isinf(rate.second); });
  return rates;
}

/// No rate is another one in silence.
std::vector<std::string> rate_notes(const Handover& handover) {
  const auto rates = rates_of(handover);
  std::vector<std::string> notes;
  const auto add = [&](const char* where, double written_kbit, const auto& is_other) {
    const auto beyond = [&](const auto& rate) { return is_other(rate.second / 1e3); };
    const auto first = std::find_if(rates.begin(), rates.end(), beyond);
    if (first == rates.end()) return;
    notes.push_back(fmt::format("rates {} {} are written as that: {} of them, the first {}, {}", where,
                                io::format_rate(BitsPerSecond(written_kbit * 1e3)),
                                std::count_if(first, rates.end(), beyond), first->first,
                                io::format_rate(BitsPerSecond(first->second))));
  };
  add("below", least_kbit, [](double kbit) { return kbit < least_kbit; });
  add("above", most_kbit, [](double kbit) { return kbit > most_kbit; });
  return notes;
}

std::vector<std::string> notes(const Handover& handover) {
  std::vector<std::string> notes = {
      "what a machine receives, what machines of a site share (capacity, uplinks of sites), and links inside "
      "a machine "
      "are not shaped; all flows to one machine share the rate of one flow"};
  for (std::string& note : rate_notes(handover)) notes.push_back(std::move(note));
  if (has_unlike_devices(handover))
    notes.emplace_back(
        "GPUs of one machine have unlike links in the topology: those of its first one are taken");
  return notes;
}

}  // namespace

Exporter netem_exporter() {
  return {self,      "scripts for tc: each machine's links as in the topology, and undo (needs --topology)",
          false,     {},
          check,     files,
          read_back, "On every machine, as root: `./netem-MACHINE.sh up`, and `down` when all is done.",
          notes};
}

}  // namespace dtfm::exporter
