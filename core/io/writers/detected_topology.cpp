#include "core/io/writers/detected_topology.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/host_templates.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/writers/yaml_text.hpp"

namespace dtfm::io {
namespace {

/// A kind of GPU: a row of the catalogue, or an entry that the topology adds to it.
struct GpuKind {
  std::string name;            // in the topology
  const Gpu* known = nullptr;  // row of the catalogue; nullptr if the topology has its own
  std::string memory = {};     // of its own entry, with a unit
  std::string remark = {};     // where that entry comes from
};

/// A GPU, or a MIG instance of one, that becomes a device.
struct DetectedDevice {
  GpuKind kind;
  std::string driver_name;  // of the driver, or of Slurm
  int gpu = 0;              // index that the driver gives; with Slurm, the position
  int position = no_index;  // in DetectedHost::gpus
  bool is_instance = false;
};

/// The devices of a host that have the same kind. An entry of `devices` has only one kind, so a host with
/// different GPUs becomes several machines.
struct Machine {
  std::string name;
  std::vector<int> devices;  // indices into HostLayout::devices

  std::string id(std::size_t i) const { return devices.size() == 1 ? name : fmt::format("{}:{}", name, i); }
};

struct HostLayout {
  const DetectedHost* host;
  std::vector<DetectedDevice> devices;
  std::vector<Machine> machines;
};

struct PairLink {
  Seconds latency;
  BitsPerSecond bandwidth;
  bool is_shared = false;                      // by all flows of the sender over this entry
  std::optional<GpuPath> path = std::nullopt;  // nullopt: not from the matrix
  std::string remark = {};
  bool may_be_slower = false;  // because of a link between NUMA nodes whose rate is not known

  auto numbers() const { return std::tuple(latency, bandwidth, is_shared); }
  bool is_nvlink() const { return path == GpuPath::nvlink; }
};

std::string bytes_rate(BitsPerSecond rate) {
  return fmt::format("{:.6g} GB/s", rate.value() / bits_per_byte / 1e9);
}

std::string microseconds(Seconds latency) {
  return fmt::format("{:.6g} us", latency.value() * 1e6);
}

/// "0-3, 6" for ascending numbers.
std::string format_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

// --- Kinds of GPUs.

const Gpu& catalogue_row(const std::vector<Gpu>& gpus, const std::string& name) {
  return find_row(gpus, name, "--gpu", "unknown GPU");
}

GpuKind kind_of(const QueriedGpu& gpu, const std::vector<Gpu>& catalogue, const DetectionSettings& settings) {
  auto given = settings.gpu_of.find(gpu.name);
  if (given == settings.gpu_of.end()) given = settings.gpu_of.find("");  // of all GPUs
  if (given != settings.gpu_of.end()) return {given->second, &catalogue_row(catalogue, given->second)};
  const Gpu* known = find_gpu_by_driver_name(catalogue, gpu.name);
  if (known && has_memory(*known, gpu.memory())) return {known->name, known};
  GpuKind kind{gpu.name, nullptr, fmt::format("{:.10g} MiB", gpu.memory_mib),
               fmt::format("{} is not in configs/gpus.yaml", quote(gpu.name))};
  if (known) {
    kind.name += fmt::format(" with {:.10g} MiB", gpu.memory_mib);
    kind.remark = fmt::format("{} has {} here, but {} in configs/gpus.yaml {}", quote(gpu.name),
                              format_bytes(gpu.memory()), known->name, format_bytes(known->memory));
  }
  return kind;
}

GpuKind kind_of(const MigInstance& instance, const std::string& driver_name) {
  return {fmt::format("{} MIG {}", driver_name, instance.profile), nullptr,
          fmt::format("{:.10g} GB", instance.memory_gb),
          fmt::format("MIG instance {} of {} (nvidia-smi -L), with the memory in its name",
                      quote(instance.profile), quote(driver_name))};
}

GpuKind kind_of_slurm(const std::string& type, const std::vector<Gpu>& catalogue,
                      const DetectionSettings& settings, const std::string& host) {
  const auto given = settings.gpu_of.find(type);
  if (given != settings.gpu_of.end()) return {given->second, &catalogue_row(catalogue, given->second)};
  if (type.empty()) {
    if (const auto all = settings.gpu_of.find(""); all != settings.gpu_of.end())
      return {all->second, &catalogue_row(catalogue, all->second)};
    throw Error(host,
                "Slurm does not say which GPUs it has: give their name in configs/gpus.yaml, such as "
                "--gpu A100-80GB");
  }
  const Gpu* known = find_gpu_by_driver_name(catalogue, type);
  if (!known) known = find_gpu_by_similar_name(catalogue, type);
  if (known) return {known->name, known};
  throw Error(host,
              fmt::format("Slurm calls its GPUs {}, which is not a name in configs/gpus.yaml: give one, such "
                          "as --gpu {}=A100-80GB",
                          quote(type), quote(type)));
}

std::vector<DetectedDevice> devices_of(const DetectedHost& host, const std::vector<Gpu>& catalogue,
                                       const DetectionSettings& settings) {
  std::vector<DetectedDevice> devices;
  for (std::size_t i = 0; i < host.gpus.size(); ++i) {
    const QueriedGpu& gpu = host.gpus[i];
    const std::size_t before = devices.size();
    for (const MigInstance& instance : host.instances)
      if (instance.gpu == gpu.index)
        devices.push_back({kind_of(instance, gpu.name), gpu.name, gpu.index, static_cast<int>(i), true});
    if (devices.size() == before)
      devices.push_back({kind_of(gpu, catalogue, settings), gpu.name, gpu.index, static_cast<int>(i), false});
  }
  if (host.gpus.empty())
    for (const SlurmGpus& group : host.slurm_gpus) {
      const GpuKind kind = kind_of_slurm(group.type, catalogue, settings, host.name);
      for (int i = 0; i < group.count; ++i)
        devices.push_back({kind, group.type, static_cast<int>(devices.size()), no_index, false});
    }
  return devices;
}

/// A name of a machine made of a text with any characters.
std::string as_name(std::string text) {
  for (char& c : text)
    if (c == '/' || c == ':' || c == ' ') c = '-';
  return text;
}

HostLayout layout_of(const DetectedHost& host, const std::vector<Gpu>& catalogue,
                     const DetectionSettings& settings) {
  HostLayout layout{&host, devices_of(host, catalogue, settings), {}};
  std::map<std::string, std::size_t> machine_of;
  for (std::size_t i = 0; i < layout.devices.size(); ++i) {
    const std::string& kind = layout.devices[i].kind.name;
    const auto [known, is_new] = machine_of.emplace(kind, layout.machines.size());
    if (is_new) layout.machines.push_back({fmt::format("{}-{}", host.name, as_name(kind)), {}});
    layout.machines[known->second].devices.push_back(static_cast<int>(i));
  }
  if (layout.machines.size() == 1) layout.machines.front().name = host.name;
  return layout;
}

// --- Links inside a host.

class LinkFinder {
 public:
  LinkFinder(const HostLayout& layout, const HostLinks& facts, const DetectionSettings& settings)
      : layout_(layout), host_(*layout.host), facts_(facts), settings_(settings) {}

  const HostLayout& host() const { return layout_; }

  /// The link between two devices. Throws Error for what is not known.
  PairLink between(int a, int b) const {
    if (settings_.within_host)
      return {settings_.within_host->latency,
              settings_.within_host->bandwidth,
              false,
              {},
              "as specified by the user"};
    const DetectedDevice &from = layout_.devices[at(a)], &to = layout_.devices[at(b)];
    if (host_.gpus.empty()) return catalogue_link(from, to);
    if (from.is_instance || to.is_instance) return instance_link(from, to);
    const GpuConnection connection = connection_of(from, to);
    if (connection.path == GpuPath::nvlink) return nvlink_link(from, to, connection.nvlinks);
    PairLink link = pcie_link(from, to);
    link.path = connection.path;
    if (connection.path == GpuPath::sys) limit_by_numa(link);
    return link;
  }

 private:
  Error unknown(const std::string& what,
                const std::string& fix = "give it with --within-host LATENCY,BANDWIDTH") const {
    return Error(host_.name, fmt::format("{}: {}", what, fix));
  }

  GpuConnection connection_of(const DetectedDevice& from, const DetectedDevice& to) const {
    if (!host_.matrix)
      throw unknown(
          fmt::format("how GPU{} and GPU{} are connected is not known, because `nvidia-smi topo -m` failed",
                      from.gpu, to.gpu));
    const int row = host_.matrix->row(from.gpu), column = host_.matrix->row(to.gpu);
    if (row < 0 || column < 0)
      throw unknown(fmt::format("`nvidia-smi topo -m` does not list GPU{}, which the query lists",
                                row < 0 ? from.gpu : to.gpu),
                    "run both again");
    return host_.matrix->connections[at(row)][at(column)];
  }

  const NcclGpu* nccl_gpu(const DetectedDevice& device) const {
    if (!host_.nccl) return nullptr;
    for (const NcclGpu& gpu : host_.nccl->gpus)
      if (gpu.index == device.gpu) return &gpu;
    return nullptr;
  }

  /// All NVLinks of a GPU; nullopt if not known.
  std::optional<int> all_nvlinks(const DetectedDevice& device) const {
    if (const NcclGpu* gpu = nccl_gpu(device)) {
      int links = gpu->switch_links;
      for (const auto& [end, count] : gpu->links) links += count;
      if (links > 0) return links;
    }
    if (const auto active = host_.nvlinks.find(device.gpu); active != host_.nvlinks.end())
      return active->second.links;
    return device.kind.known ? built_in_nvlinks(*device.kind.known) : std::nullopt;
  }

  BitsPerSecond nvlink_rate(const DetectedDevice& device, std::string& source) const {
    if (device.kind.known && device.kind.known->nvlink) {
      source = "`nvlink` of configs/gpus.yaml";
      return *device.kind.known->nvlink;
    }
    const auto active = host_.nvlinks.find(device.gpu);
    if (active != host_.nvlinks.end() && active->second.rate) {
      source = "nvidia-smi nvlink -s";
      return *active->second.rate;
    }
    throw unknown(fmt::format("the rate of an NVLink of {} is not known", quote(device.driver_name)));
  }

  /// Whether the NVLinks of a GPU end at switches: then its links to every other GPU are all that it has, so
  /// their sum exceeds what it has.
  bool is_switched(const DetectedDevice& device) const {
    if (const NcclGpu* gpu = nccl_gpu(device)) return gpu->switch_links > 0;
    constexpr int max_links = 18;  // of any GPU up to NVLink 5
    int sum = 0;
    for (const GpuConnection& connection : host_.matrix->connections[at(host_.matrix->row(device.gpu))])
      sum += connection.nvlinks;
    return sum > all_nvlinks(device).value_or(max_links);
  }

  PairLink nvlink_link(const DetectedDevice& from, const DetectedDevice& to, int links) const {
    std::string source, source_of_receiver;
    BitsPerSecond rate = nvlink_rate(from, source);
    if (const BitsPerSecond other = nvlink_rate(to, source_of_receiver); other < rate) {
      rate = other;
      source = source_of_receiver;
    }
    const bool switched = is_switched(from);
    return {facts_.direct_latency, facts_.direct_share * links * rate, switched, GpuPath::nvlink,
            fmt::format("NV{}: {} of {} ({}){}; collectives are assumed to reach {:.0f} % of them", links,
                        format_count(links, "NVLink"), bytes_rate(rate), source,
                        switched ? " through NVSwitch, which all flows of a GPU share" : "",
                        100 * facts_.direct_share)};
  }

  /// One direction of the PCIe slot of a device.
  BitsPerSecond slot_rate(const DetectedDevice& device, std::string& source) const {
    std::optional<PcieSlot> slot;
    if (at(device.position) < host_.slots.size()) slot = host_.slots[at(device.position)];
    source = "nvidia-smi";
    if (const NcclGpu* gpu = nccl_gpu(device); gpu && gpu->slot && !slot) {
      slot = gpu->slot;
      source = "NCCL's topology";
    }
    constexpr double table_lanes = 16;
    if (slot && slot->generation <= static_cast<int>(facts_.pcie.size())) {
      source = fmt::format("PCIe {} with {} lanes ({})", slot->generation, slot->lanes, source);
      return facts_.pcie[at(slot->generation - 1)] * (slot->lanes / table_lanes);
    }
    if (device.kind.known && device.kind.known->host_link) {
      source = fmt::format("PCIe (`host_link` of {} in configs/gpus.yaml)", device.kind.known->name);
      return *device.kind.known->host_link;
    }
    throw unknown(fmt::format("the rate of the PCIe slot of GPU{} ({}) is not known", device.gpu,
                              quote(device.driver_name)));
  }

  PairLink pcie_link(const DetectedDevice& from, const DetectedDevice& to) const {
    std::string source, other_source;
    const BitsPerSecond sent = slot_rate(from, source), received = slot_rate(to, other_source);
    return {
        facts_.pcie_latency, std::min(sent, received), true, {}, sent <= received ? source : other_source};
  }

  void limit_by_numa(PairLink& link) const {
    const std::optional<CpuKind>& cpu = !host_.cpu && host_.nccl ? host_.nccl->cpu : host_.cpu;
    const auto rate = cpu ? facts_.numa_rate(cpu->vendor, cpu->model) : std::nullopt;
    link.may_be_slower = !rate;
    if (!rate || *rate >= link.bandwidth) return;
    link.bandwidth = *rate;
    link.remark = fmt::format("link between NUMA nodes (`numa` of {} CPUs, model {}, in configs/hosts.yaml)",
                              quote(cpu->vendor), cpu->model);
  }

  PairLink instance_link(const DetectedDevice& from, const DetectedDevice& to) const {
    PairLink link = pcie_link(from, to);
    link.remark += ", through the memory of the host, because MIG instances have no links to each other";
    return link;
  }

  /// The link of GPUs about which only Slurm is known.
  PairLink catalogue_link(const DetectedDevice& from, const DetectedDevice& to) const {
    const Gpu &one = *from.kind.known, &other = *to.kind.known;
    if (one.name != other.name && one.host_link && other.host_link)
      return {facts_.pcie_latency,
              std::min(*one.host_link, *other.host_link),
              true,
              {},
              "`host_link` of configs/gpus.yaml; Slurm does not know links"};
    if (!one.interconnect || one.name != other.name)
      throw unknown(fmt::format("the bandwidth between its GPUs ({}) is not known", one.name));
    const bool direct = built_in_nvlinks(one).has_value();
    return {direct ? facts_.direct_latency : facts_.pcie_latency,
            *one.interconnect * (direct ? facts_.direct_share : 1),
            true,
            {},
            fmt::format(
                "`interconnect` of {} in configs/gpus.yaml{}; Slurm does not know links", one.name,
                direct ? fmt::format("; collectives are assumed to reach {:.0f} %", 100 * facts_.direct_share)
                       : "")};
  }

  const HostLayout& layout_;
  const DetectedHost& host_;
  const HostLinks& facts_;
  const DetectionSettings& settings_;
};

/// The most frequent link, of equal ones the first. Links over PCIe precede NVLinks: their flows share the
/// slot, which only one entry can express.
const PairLink& usual_link(const std::vector<PairLink>& links) {
  std::map<decltype(links.front().numbers()), int> count;
  for (const PairLink& link : links) ++count[link.numbers()];
  const auto rank = [&](const PairLink& link) { return std::pair(!link.is_nvlink(), count[link.numbers()]); };
  return *std::max_element(links.begin(), links.end(),
                           [&](const PairLink& a, const PairLink& b) { return rank(a) < rank(b); });
}

std::string format_numbers(const PairLink& link) {
  return fmt::format("latency: {}, bandwidth: {}{}", microseconds(link.latency), bytes_rate(link.bandwidth),
                     link.is_shared ? ", shared: sender" : "");
}

/// Says where the numbers of `link` come from, which all of `links` with the same numbers have.
std::string describe_link(const PairLink& link, const std::vector<PairLink>& links) {
  std::set<GpuPath> paths;
  std::set<std::string> remarks;
  bool may_be_slower = false;
  for (const PairLink& it : links)
    if (it.numbers() == link.numbers()) {
      if (it.path) paths.insert(*it.path);
      remarks.insert(it.remark);
      may_be_slower = may_be_slower || it.may_be_slower;
    }
  std::string text = fmt::format("{}", fmt::join(remarks, "; "));
  paths.erase(GpuPath::nvlink);
  for (const GpuPath path : paths)
    text += fmt::format("; {}: {}", path_name(path).name, path_name(path).meaning);
  return may_be_slower ? text + ", which may be slower" : text;
}

// --- The text.

class TopologyText {
 public:
  TopologyText(const std::vector<DetectedHost>& hosts, const HostLinkMap& measured,
               const DetectionSettings& settings)
      : hosts_(hosts), measured_(measured), settings_(settings), catalogue_(built_in_gpus()) {}

  std::string format() {
    std::size_t devices = 0;
    for (const DetectedHost& host : hosts_) {
      layouts_.push_back(layout_of(host, catalogue_, settings_));
      devices += layouts_.back().devices.size();
    }
    if (devices > at(max_devices))
      throw Error("",
                  fmt::format("{} GPUs; a topology has at most {}: name fewer hosts", devices, max_devices));
    check_names();
    check_given_types();
    text_ = fmt::format(
        "# Written by dtfm-topology detect; comments say where each number comes from. Rates and latencies "
        "that\n"
        "# are not measured are nominal: those of data sheets, and latencies of configs/hosts.yaml.\n"
        "version: 1\nname: {}\n",
        yaml_quoted(settings_.name));
    add_gpus();
    add_devices();
    add_links(devices);
    check_read_back(static_cast<int>(devices));
    return std::move(text_);
  }

 private:
  /// What was detected may be incomplete, but the text must be a topology, whatever names it contains.
  void check_read_back(int devices) const {
    try {
      DTFM_ASSERT(parse_topology(text_, "the topology", {}).size() == devices);
    } catch (const Error& error) {
      throw BrokenInvariant(fmt::format("the detected topology cannot be read: {}", error.what()));
    }
  }

  void check_names() const {
    std::set<std::string> sites, names;
    for (const DetectedHost& host : hosts_) {
      check_endpoint_name(host.site, "--site");
      sites.insert(host.site);
    }
    for (const HostLayout& layout : layouts_)
      for (const Machine& machine : layout.machines) {
        check_endpoint_name(machine.name, layout.host->name);
        if (!names.insert(machine.name).second)
          throw Error(machine.name, "is given twice: name each host once");
        if (sites.contains(machine.name))
          throw Error(machine.name, "is the name of a host and of a site: rename the site with --site");
      }
  }

  /// Throws Error if `--gpu TYPE=NAME` is about a type that no host has.
  void check_given_types() const {
    std::set<std::string_view> types;
    for (const DetectedHost& host : hosts_) {
      for (const QueriedGpu& gpu : host.gpus) types.insert(gpu.name);
      for (const SlurmGpus& group : host.slurm_gpus) types.insert(group.type);
    }
    types.erase("");
    for (const auto& [type, name] : settings_.gpu_of)
      if (!type.empty() && !types.contains(type))
        fail_unknown("--gpu", "no host has GPUs of type", type, {types.begin(), types.end()});
  }

  void add_gpus() {
    std::set<std::string> written;
    for (const HostLayout& layout : layouts_)
      for (const DetectedDevice& device : layout.devices) {
        const GpuKind& kind = device.kind;
        if (kind.known || !written.insert(kind.name).second) continue;
        if (written.size() == 1)
          text_ +=
              "# The peak of these GPUs is not known, so layer times on them cannot be estimated. Add "
              "`peak:` (dense\n"
              "# 16-bit matrix products, TFLOP/s) and `memory_bandwidth:` (GB/s) from the data sheet, or "
              "measure layer\n"
              "# times with dtfm-profile.\n"
              "gpus:\n";
        text_ += fmt::format("  # {}: name and memory from nvidia-smi.\n  - {{name: {}, memory: {}}}\n",
                             kind.remark, yaml_quoted(kind.name), kind.memory);
      }
  }

  void add_devices() {
    text_ += "devices:\n";
    for (const HostLayout& layout : layouts_)
      for (const Machine& machine : layout.machines) {
        text_ += fmt::format("  # {}\n", describe_machine(layout, machine));
        if (const std::string numa = describe_numa(layout, machine); !numa.empty())
          text_ += fmt::format("  # {}\n", numa);
        if (&machine == &layout.machines.front() && layout.machines.size() > 1)
          text_ += "  # A host with different GPUs is written as several machines.\n";
        text_ += fmt::format("  - {{name: {}, site: {}", yaml_quoted(machine.name),
                             yaml_quoted(layout.host->site));
        if (machine.devices.size() > 1) text_ += fmt::format(", gpus_per_host: {}", machine.devices.size());
        const DetectedDevice& first = layout.devices[at(machine.devices.front())];
        text_ += fmt::format(", gpu: {}{}}}\n", yaml_quoted(first.kind.name), network_keys(*layout.host));
      }
  }

  static std::string network_keys(const DetectedHost& host) {
    if (!host.nccl || host.nccl->networks.empty()) return "";
    BitsPerSecond sum(0);
    for (const NcclNetwork& network : host.nccl->networks) sum += network.rate;
    return fmt::format(", host_uplink: {0}, host_downlink: {0}", yaml_rate(sum));
  }

  static std::string describe_machine(const HostLayout& layout, const Machine& machine) {
    const DetectedDevice& first = layout.devices[at(machine.devices.front())];
    const DetectedHost& host = *layout.host;
    if (host.gpus.empty())
      return fmt::format("{}: {} of type {} (sinfo)", host.name,
                         format_count(static_cast<long long>(machine.devices.size()), "GPU"),
                         first.driver_name.empty() ? "unknown" : quote(first.driver_name)) +
             (host.network_switch.empty()
                  ? ""
                  : fmt::format("; switch {} (scontrol show topology)", quote(host.network_switch)));
    std::vector<int> indices;
    for (const int device : machine.devices) indices.push_back(layout.devices[at(device)].gpu);
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    std::string text =
        fmt::format("{}: GPU {}: {}, {:.10g} MiB (nvidia-smi)", host.name, format_ranges(indices),
                    quote(first.driver_name), host.gpus[at(first.position)].memory_mib);
    if (first.is_instance) text += ", divided into MIG instances (nvidia-smi -L)";
    if (!network_keys(host).empty())
      text += fmt::format(", {} (NCCL's topology)",
                          format_count(static_cast<long long>(host.nccl->networks.size()), "network card"));
    return text;
  }

  static std::optional<int> numa_node(const DetectedHost& host, const DetectedDevice& device) {
    if (host.matrix)
      if (const int row = host.matrix->row(device.gpu); row >= 0 && host.matrix->numa_nodes[at(row)])
        return host.matrix->numa_nodes[at(row)];
    if (host.nccl)
      for (const NcclGpu& gpu : host.nccl->gpus)
        if (gpu.index == device.gpu) return gpu.numa_node;
    return std::nullopt;
  }

  static std::string describe_numa(const HostLayout& layout, const Machine& machine) {
    std::map<int, std::vector<int>> gpus_of;
    for (const int i : machine.devices) {
      const DetectedDevice& device = layout.devices[at(i)];
      const auto node = numa_node(*layout.host, device);
      if (!node) continue;
      std::vector<int>& gpus = gpus_of[*node];
      if (gpus.empty() || gpus.back() != device.gpu) gpus.push_back(device.gpu);
    }
    std::string text;
    for (const auto& [node, gpus] : gpus_of)
      text += fmt::format("{}NUMA node {}: GPU {}", text.empty() ? "" : "; ", node, format_ranges(gpus));
    if (layout.host->matrix && !layout.host->matrix->network_cards.empty()) {
      std::vector<std::string> cards;
      for (const std::string& card : layout.host->matrix->network_cards) cards.push_back(quote(card));
      constexpr std::size_t max_cards = 16;
      const bool is_cut = cards.size() > max_cards;
      if (is_cut) cards.resize(max_cards);
      text += fmt::format("{}network cards: {}{}", text.empty() ? "" : "; ", fmt::join(cards, ", "),
                          is_cut ? ", …" : "");
    }
    return text.empty() ? "" : text + " (nvidia-smi topo -m)";
  }

  void add_links(std::size_t devices) {
    if (devices < 2) return;
    text_ += "links:\n";
    add_links_inside();
    if (hosts_.size() < 2) return;
    if (measured_.empty())
      add_given_links_between();
    else
      add_measured_links();
  }

  void add_links_inside() {
    const HostLinks facts = built_in_host_links();
    std::optional<PairLink> everywhere;  // the entry `within: host`, which applies to all hosts
    for (const HostLayout& layout : layouts_) {
      const LinkFinder links(layout, facts, settings_);
      for (const Machine& machine : layout.machines) add_machine_links(links, machine, everywhere);
      for (std::size_t b = 0; b < layout.machines.size(); ++b)
        for (std::size_t a = 0; a < b; ++a) add_links_between(links, layout.machines[a], layout.machines[b]);
    }
  }

  void add_machine_links(const LinkFinder& links, const Machine& machine,
                         std::optional<PairLink>& everywhere) {
    if (machine.devices.size() < 2) return;
    std::vector<PairLink> own;  // of the pairs (0, 1), (0, 2), (1, 2), (0, 3), …
    for (std::size_t b = 0; b < machine.devices.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        own.push_back(links.between(machine.devices[a], machine.devices[b]));
    use_measured_link(links.host(), own);
    const PairLink& usual = usual_link(own);
    if (!everywhere) {
      everywhere = usual;
      text_ +=
          fmt::format("  # {}\n  - {{within: host, {}}}\n", describe_link(usual, own), format_numbers(usual));
    } else if (everywhere->numbers() != usual.numbers()) {
      text_ += fmt::format("  # {}\n  - {{between: [{}, {}], {}}}\n", describe_link(usual, own),
                           yaml_quoted(machine.name), yaml_quoted(machine.name), format_numbers(usual));
    }
    std::size_t pair = 0;
    for (std::size_t b = 0; b < machine.devices.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (const PairLink& link = own[pair++]; link.numbers() != usual.numbers())
          add_pair(machine.id(a), machine.id(b), link);
  }

  /// A test of all GPUs of a host measures its slowest link, so it holds only if all are equal.
  static void use_measured_link(const HostLayout& layout, std::vector<PairLink>& links) {
    const auto is_equal = [&](const PairLink& link) { return link.numbers() == links.front().numbers(); };
    if (!layout.host->within || layout.machines.size() > 1 ||
        !std::all_of(links.begin(), links.end(), is_equal))
      return;
    for (PairLink& link : links)
      link = {layout.host->within->latency,
              layout.host->within->bandwidth,
              true,
              {},
              "measured by all_reduce_perf of nccl-tests"};
  }

  void add_links_between(const LinkFinder& links, const Machine& one, const Machine& other) {
    std::vector<PairLink> all;
    for (const int a : one.devices)
      for (const int b : other.devices) all.push_back(links.between(a, b));
    const PairLink& usual = usual_link(all);
    text_ += fmt::format("  # {}\n  - {{between: [{}, {}], {}}}\n", describe_link(usual, all),
                         yaml_quoted(one.name), yaml_quoted(other.name), format_numbers(usual));
    for (std::size_t a = 0; a < one.devices.size(); ++a)
      for (std::size_t b = 0; b < other.devices.size(); ++b)
        if (const PairLink& link = all[a * other.devices.size() + b]; link.numbers() != usual.numbers())
          add_pair(one.id(a), other.id(b), link);
  }

  void add_pair(const std::string& a, const std::string& b, const PairLink& link) {
    const std::string path =
        link.path && !link.is_nvlink() ? fmt::format("{}: ", path_name(*link.path).name) : "";
    text_ += fmt::format("  - {{between: [{}, {}], {}}}  # {}{}\n", yaml_quoted(a), yaml_quoted(b),
                         format_numbers(link), path, link.remark);
  }

  void add_given_links_between() {
    std::map<std::string, int> hosts_of;
    for (const DetectedHost& host : hosts_) ++hosts_of[host.site];
    const bool has_neighbours =
        std::any_of(hosts_of.begin(), hosts_of.end(), [](const auto& it) { return it.second > 1; });
    const auto add = [&](const char* ends, const LinkSettings& link) {
      text_ += fmt::format("  # As specified by the user.\n  - {{{}, latency: {}, bandwidth: {}}}\n", ends,
                           yaml_latency(link.latency), yaml_rate(link.bandwidth));
    };
    const auto require = [](const std::optional<LinkSettings>& link, const char* what, const char* option) {
      if (!link)
        throw Error("",
                    fmt::format("the links between {} are not known: measure them with --measure, or give "
                                "{} LATENCY,BANDWIDTH, such as 20us,100Gbps",
                                what, option));
    };
    const bool has_sites = hosts_of.size() > 1;
    if (has_sites && !settings_.between_sites && settings_.between_hosts)
      return add("between: [\"*\", \"*\"]", *settings_.between_hosts);
    if (has_neighbours) {
      require(settings_.between_hosts, "hosts", "--between-hosts");
      add("within: \"*\"", *settings_.between_hosts);
    }
    if (has_sites) {
      require(settings_.between_sites, "sites", "--between-sites");
      add("between: [\"*\", \"*\"]", *settings_.between_sites);
    }
  }

  void add_measured_links() {
    text_ +=
        "  # Measured by scripts/measure.sh: half the median ping, and the rate of one TCP flow of iperf3.\n";
    for (const auto& [pair, link] : measured_)
      for (const Machine& from : layouts_[at(pair.first)].machines)
        for (const Machine& to : layouts_[at(pair.second)].machines) {
          text_ += fmt::format("  - {{from: {}, to: {}, latency: {}, bandwidth: {}}}", yaml_quoted(from.name),
                               yaml_quoted(to.name), yaml_latency(link.latency), yaml_rate(link.bandwidth));
          if (link.spread) text_ += fmt::format("  # bandwidth ± {}", yaml_rate(*link.spread));
          if (!link.time.empty()) text_ += fmt::format("{} {}", link.spread ? "," : "  #", link.time);
          text_ += '\n';
        }
  }

  const std::vector<DetectedHost>& hosts_;
  const HostLinkMap& measured_;
  const DetectionSettings& settings_;
  std::vector<Gpu> catalogue_;
  std::vector<HostLayout> layouts_;
  std::string text_;
};

}  // namespace

std::string format_detected_topology(const std::vector<DetectedHost>& hosts, const HostLinkMap& measured,
                                     const DetectionSettings& settings) {
  if (hosts.empty()) throw Error("", "no host");
  if (!is_valid_topology_name(settings.name))
    throw Error("--topology-name", fmt::format("{} cannot be the name of a topology", quote(settings.name)));
  return TopologyText(hosts, measured, settings).format();
}

}  // namespace dtfm::io
