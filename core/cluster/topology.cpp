#include "core/cluster/topology.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// A hash derived from FNV-1a, with its basis and prime, over 64-bit words instead of bytes. High bits, which
/// multiplication never moves down, are folded into the low ones. It detects accidental mix-ups but is not
/// cryptographic.
class Hash {
 public:
  void add(std::uint64_t word) { state_ = (state_ ^ word ^ (word >> 29)) * 0x100000001B3u; }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  }
  std::uint64_t value() const { return state_ ^ (state_ >> 32); }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

/// Hashes what times depend on. The catalogue's price, links, generation and peaks in fp8 and fp4 are not
/// part of the fingerprint.
void add_gpu(const Gpu& gpu, Hash& hash) {
  hash.add(gpu.name);
  hash.add(gpu.memory.value());
  for (const auto* peak : {&gpu.peak, &gpu.peak_tf32, &gpu.peak_fp32}) {
    hash.add(static_cast<std::uint64_t>(peak->has_value()));
    hash.add(peak->value_or(FlopsPerSecond()).value());
  }
  hash.add(static_cast<std::uint64_t>(gpu.memory_bandwidth.has_value()));
  hash.add(gpu.memory_bandwidth.value_or(BitsPerSecond()).value());
}

void add_devices(const Topology& topology, Hash& hash) {
  for (const Device& device : topology.devices) {
    hash.add(device.id);
    hash.add(topology.sites[at(device.site)].name);
    hash.add(static_cast<std::uint64_t>(device.host));
    static const Gpu no_gpu;
    add_gpu(device.gpu < 0 ? no_gpu : topology.gpus[at(device.gpu)], hash);
    hash.add(device.speed);
    hash.add(device.uplink.value());
    hash.add(device.downlink.value());
    if (device.host_uplink < unlimited ||
        device.host_downlink < unlimited) {  // skipped otherwise, which keeps older fingerprints valid
      hash.add(device.host_uplink.value());
      hash.add(device.host_downlink.value());
    }
    hash.add(static_cast<std::uint64_t>(device.price.has_value()));
    hash.add(device.price.value_or(DollarsPerHour()).value());
  }
}

}  // namespace

int Topology::link_index(int from, int to) const {
  const auto* rules = std::get_if<RuleLinks>(&links);
  if (rules == nullptr) return 0;
  const auto a = at(from), b = at(to);
  const auto& table = devices[a].host == devices[b].host ? rules->same_host : rules->table;
  const int index = table(rules->link_class[a], rules->link_class[b]);
  DTFM_ASSERT(index >= 0);
  return index;
}

Link Topology::link(int from, int to) const {
  if (const auto* measured = std::get_if<MeasuredLinks>(&links))
    return {Seconds(measured->latency(from, to)), BitsPerSecond(measured->bandwidth(from, to))};
  return std::get<RuleLinks>(links).links[at(link_index(from, to))];
}

BitsPerSecond Topology::uncontended_bandwidth(int from, int to) const {
  const Device &sender = devices[at(from)], &receiver = devices[at(to)];
  const Link pair = link(from, to);
  BitsPerSecond min_bandwidth = std::min(pair.bandwidth, pair.capacity);
  if (sender.host != receiver.host)
    min_bandwidth = std::min(
        {min_bandwidth, sender.uplink, receiver.downlink, sender.host_uplink, receiver.host_downlink});
  if (sender.site != receiver.site)
    min_bandwidth =
        std::min({min_bandwidth, sites[at(sender.site)].uplink, sites[at(receiver.site)].downlink});
  return min_bandwidth;
}

const Transport* Topology::transport_between(int from, int to) const {
  return transport && devices[at(from)].host != devices[at(to)].host ? &*transport : nullptr;
}

Seconds Topology::round_trip(int from, int to) const {
  return link(from, to).latency + link(to, from).latency;
}

std::string Topology::fingerprint() const {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(fairness));
  if (transport) {  // skipped otherwise, which keeps older fingerprints valid
    hash.add(static_cast<std::uint64_t>(transport->handshakes));
    for (const Bytes it : {transport->initial_window, transport->window}) hash.add(it.value());
  }
  add_devices(*this, hash);
  for (const Site& site : sites) {
    hash.add(site.name);
    hash.add(site.uplink.value());
    hash.add(site.downlink.value());
  }
  for (int a = 0; a < size(); ++a) {
    std::map<int, int> first_receiver;  // of a's messages, by entry that the sender shares
    for (int b = 0; b < size(); ++b) {
      if (a == b) continue;
      const Link pair = link(a, b);
      hash.add(pair.latency.value());
      hash.add(pair.bandwidth.value());
      hash.add(pair.capacity.value());
      hash.add(static_cast<std::uint64_t>(pair.shared_by_sender));
      // Skipped if 0, which keeps fingerprints of topologies without egress prices as in older versions.
      if (pair.egress.value() > 0) hash.add(pair.egress.value());
      if (pair.shared_by_sender)
        hash.add(static_cast<std::uint64_t>(first_receiver.emplace(link_index(a, b), b).first->second));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

std::optional<DollarsPerHour> price_of(const Topology& topology, int device) {
  const Device& it = topology.devices[at(device)];
  if (it.price) return it.price;
  return it.gpu < 0 ? std::nullopt : topology.gpus[at(it.gpu)].price;
}

}  // namespace dtfm
