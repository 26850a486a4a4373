// tc scripts that emulate the network of a topology on the machines of a plan, as Yuan et al. (NeurIPS 2022)
// emulated cities.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::exporter {

extern const std::string_view export_netem_sh;  // templates/netem.sh

namespace netem {
namespace {

constexpr std::string_view target_name = "netem";
constexpr int max_classes = 0xfffe;         // of a qdisc, with 16-bit numbers; 1:1 is their parent
constexpr double packet_bits = 8 * 1500;    // standard Ethernet frame
constexpr double min_queue_packets = 1000;  // default of netem

/// tc stores delays in 32 bits, in ticks of 64 ns, so 274.88 s is the maximum (iproute2 6.1). Above 4,295 s,
/// the microseconds overflow 32 bits and silently wrap around.
constexpr double max_delay_s = 274;

/// tc rejects a rate of 0, and the scripts give rates in whole kbit/s.
constexpr double min_kbit = 1;

/// HTB needs a rate even where the topology has no limit: 100 Gbit/s, which is far above what it can forward
/// in practice, with one lock for all processors. Faster links of the topology are clamped to it.
constexpr double max_kbit = 100'000'000;

/// Topology index of the lowest-ranked device of each machine, keyed by address: its links stand for the
/// machine.
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
    reject(target_name, "a plan has no rates and delays of links; give its topology with --topology");
  const auto devices = devices_by_address(bundle);
  if (devices.size() < 2) reject(target_name, "the plan uses one machine, so there are no links to shape");
  for (const auto& [from, sender] : devices)
    for (const auto& [to, receiver] : devices)
      if (from != to && bundle.topology->link(sender, receiver).latency.value() > max_delay_s)
        reject(target_name,
               fmt::format("latency from {} to {} exceeds {} s, the limit of tc; change the topology", from,
                           to, max_delay_s));
  if (devices.size() > max_classes)
    reject(target_name, fmt::format("{} machines exceed the {} classes of tc", devices.size(), max_classes));
}

double clamped_kbit(double bits_per_second) {
  return std::clamp(bits_per_second / 1e3, min_kbit, max_kbit);
}

long long to_kbit(double bits_per_second) {
  return std::llround(clamped_kbit(bits_per_second));
}

/// Rate limit in bit/s of everything that the machine of a device sends.
double uplink_of(const Device& device) {
  return std::min(device.uplink.value(), device.host_uplink.value());
}

/// Parameters of one direction of a link for tc.
struct Shape {
  long long kbit = 0, delay_us = 0;
};

Shape link_shape(const Link& link) {
  return {to_kbit(link.bandwidth.value()), std::llround(link.latency.value() * 1e6)};
}

/// Length of netem's queue: 1.5 times the packets in flight at that rate and delay, since netem drops packets
/// when its queue is full.
long long queue_packets(const Shape& shape) {
  const double in_flight =
      static_cast<double>(shape.kbit) * 1e3 * static_cast<double>(shape.delay_us) * 1e-6 / packet_bits;
  return std::llround(std::max(min_queue_packets, std::ceil(1.5 * in_flight)));
}

/// Lines such as `  "1100000 49000 6738 gb"`: rate, delay, queue and destinations. Destinations that share
/// their sender's rate (`shared: sender`) are on one line.
std::vector<std::string> links_from(const ExportBundle& bundle, const std::string& from,
                                    const std::map<std::string, int>& devices) {
  const Topology& topology = *bundle.topology;
  const int sender = devices.at(from);
  std::vector<std::pair<Shape, std::vector<std::string>>> classes;
  std::map<int, std::size_t> shared;  // link index → index into `classes`
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

/// Asserts that the script of each machine lists every other machine once, with its link in the topology.
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

/// Whether any devices of a machine have other links than its first one.
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

/// The finite rate limits in bit/s on what machines send, with a description of each.
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

/// One note for rates below, and one for rates above what tc supports.
std::vector<std::string> rate_notes(const ExportBundle& bundle) {
  const auto rates = limited_rates(bundle);
  std::vector<std::string> notes;
  const auto add = [&](const char* where, double written_kbit, const auto& is_clamped) {
    const auto clamped = [&](const auto& rate) { return is_clamped(rate.second / 1e3); };
    const auto first = std::find_if(rates.begin(), rates.end(), clamped);
    if (first == rates.end()) return;
    notes.push_back(fmt::format("rates {} {} are clamped to that: {} of them, the first {}, {}", where,
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
      "not shaped: incoming traffic, limits that machines of a site share (capacity, site uplinks) and links "
      "inside a machine; all flows to one machine share the rate of one flow"};
  for (std::string& note : rate_notes(bundle)) notes.push_back(std::move(note));
  if (has_heterogeneous_links(bundle))
    notes.emplace_back(
        "GPUs of one machine have different links in the topology; those of its first GPU are used");
  return notes;
}

}  // namespace
}  // namespace netem

Exporter netem_exporter() {
  using namespace netem;
  return {.name = target_name,
          .what = "tc scripts that shape each machine's links as in the topology (needs --topology)",
          .check = check,
          .files = files,
          .read_back = read_back,
          .usage = "On every machine, as root: `./netem-MACHINE.sh up`, and `down` to undo it.",
          .notes = notes};
}

}  // namespace dtfm::exporter
