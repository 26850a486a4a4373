#include "core/io/importers/nccl_topology.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/io/importers/output_lines.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {
namespace {

/// The beginning of an element.
struct XmlTag {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::size_t line;

  std::string value(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? "" : found->second;
  }
};

/// Calls `open(tag)` at the beginning and `close()` at the end of each element. NCCL writes neither text nor
/// entities, so there are none here.
class XmlScanner {
 public:
  XmlScanner(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  template <class Open, class Close>
  void scan(const Open& open, const Close& close) {
    constexpr std::size_t max_depth = 64;
    std::vector<std::string> names;
    bool any = false;
    while (skip_to_tag()) {
      if (skip_if("<?", "?>") || skip_if("<!--", "-->")) continue;
      if (peek() == '/') {
        ++position_;
        if (names.empty() || read_name() != names.back()) throw error("an element ends that does not begin");
        skip_blanks();
        expect('>');
        names.pop_back();
        close();
        continue;
      }
      XmlTag tag{read_name(), {}, line()};
      const bool is_empty = read_attributes(tag);
      any = true;
      open(tag);
      if (is_empty)
        close();
      else
        names.push_back(tag.name);
      if (names.size() > max_depth) throw error(fmt::format("more than {} levels", max_depth));
    }
    if (!any || !names.empty()) throw error("expected the XML that NCCL writes to NCCL_TOPO_DUMP_FILE");
  }

 private:
  /// The number of the line at the current position, which only advances.
  std::size_t line() {
    for (; counted_ < std::min(position_, text_.size()); ++counted_)
      if (text_[counted_] == '\n') ++line_;
    return line_;
  }
  Error error(const std::string& what) { return line_error(where_, line(), what); }
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++position_;
  }
  void expect(char c) {
    if (peek() != c) throw error(fmt::format("expected `{}`", c));
    ++position_;
  }
  /// Moves behind the next `<`; false if there is none.
  bool skip_to_tag() {
    skip_blanks();
    if (position_ >= text_.size()) return false;
    expect('<');
    return true;
  }
  bool skip_if(std::string_view begin, std::string_view end) {
    if (text_.compare(position_ - 1, begin.size(), begin) != 0) return false;
    const std::size_t found = text_.find(end, position_);
    if (found == std::string::npos) throw error(fmt::format("expected `{}`", end));
    position_ = found + end.size();
    return true;
  }
  std::string read_name() {
    const std::size_t begin = position_;
    const auto is_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.' || c == ':';
    };
    while (is_name(peek())) ++position_;
    if (position_ == begin) throw error("expected the name of an element or an attribute");
    return text_.substr(begin, position_ - begin);
  }
  /// Reads up to the end of the tag; returns whether it has no content.
  bool read_attributes(XmlTag& tag) {
    for (;;) {
      skip_blanks();
      if (peek() == '>' || peek() == '/') {
        const bool is_empty = peek() == '/';
        if (is_empty) ++position_;
        expect('>');
        return is_empty;
      }
      const std::string key = read_name();
      expect('=');
      expect('"');
      const std::size_t end = text_.find('"', position_);
      if (end == std::string::npos) throw error("expected `\"`");
      tag.attributes[key] = text_.substr(position_, end - position_);
      position_ = end + 1;
    }
  }

  const std::string& text_;
  const std::string& where_;
  std::size_t position_ = 0, counted_ = 0, line_ = 1;
};

/// The generation of PCIe whose lanes transfer this many GT/s: "16.0 GT/s PCIe" is 4.
std::optional<int> pcie_generation(std::string_view speed) {
  const auto words = split_text(speed, " ");
  double rate = 0;
  try {
    if (!words.empty()) rate = parse_decimal(words.front());
  } catch (const Error&) {
  }
  constexpr double rates[] = {2.5, 5, 8, 16, 32, 64};
  for (std::size_t i = 0; i < std::size(rates); ++i)
    if (rate == rates[i]) return static_cast<int>(i) + 1;
  return std::nullopt;
}

class NcclReader {
 public:
  explicit NcclReader(const std::string& where) : where_(where) {}

  void open(const XmlTag& tag) {
    if (path_.empty() && tag.name != "system")
      throw line_error(
          where_, tag.line,
          fmt::format("expected the XML that NCCL writes to NCCL_TOPO_DUMP_FILE; found an element {}",
                      quote(tag.name)));
    path_.push_back(tag);
    if (tag.name == "cpu") add_cpu(tag);
    if (tag.name == "gpu") add_gpu(tag);
    if (tag.name == "nvlink") add_nvlinks(tag);
    if (tag.name == "net") add_network(tag);
  }
  void close() { path_.pop_back(); }

  NcclTopology take() {
    if (topology_.gpus.empty()) throw Error(where_, "has no GPU: NCCL writes it when a job of it begins");
    return std::move(topology_);
  }

 private:
  /// The innermost open element of this name; nullptr if there is none.
  const XmlTag* enclosing(std::string_view name) const {
    const auto found =
        std::find_if(path_.rbegin(), path_.rend(), [&](const XmlTag& t) { return t.name == name; });
    return found == path_.rend() ? nullptr : &*found;
  }

  void add_cpu(const XmlTag& tag) {
    const auto model = small_number(tag.value("modelid"));
    if (model && !tag.value("vendor").empty()) topology_.cpu = CpuKind{tag.value("vendor"), *model};
  }

  void add_gpu(const XmlTag& tag) {
    const auto index = small_number(tag.value("dev"));
    const XmlTag* pci = enclosing("pci");
    if (!index || !pci || topology_.gpus.size() == max_host_gpus)
      throw line_error(where_, tag.line, "expected a GPU with `dev` inside an element `pci`");
    NcclGpu& gpu = topology_.gpus.emplace_back(NcclGpu{*index, pci->value("busid"), {}, {}, 0, {}});
    if (const XmlTag* cpu = enclosing("cpu")) gpu.numa_node = small_number(cpu->value("numaid"));
    const auto generation = pcie_generation(pci->value("link_speed"));
    const auto lanes = small_number(pci->value("link_width"));
    if (generation && lanes && *lanes > 0) gpu.slot = PcieSlot{*generation, *lanes};
  }

  void add_nvlinks(const XmlTag& tag) {
    constexpr std::string_view class_of_gpus = "0x03", class_of_switches = "0x068000";
    constexpr int max_count = 64;
    const auto count = small_number(tag.value("count"));
    if (!enclosing("gpu") || topology_.gpus.empty() || !count || *count > max_count)
      throw line_error(where_, tag.line, "expected NVLinks with `count` inside an element `gpu`");
    if (tag.value("tclass").starts_with(class_of_gpus))
      topology_.gpus.back().links[tag.value("target")] += *count;
    else if (tag.value("tclass").starts_with(class_of_switches))  // not those to CPUs, 0x068001
      topology_.gpus.back().switch_links += *count;
  }

  void add_network(const XmlTag& tag) {
    const auto megabits = small_number(tag.value("speed"));
    if (!megabits || *megabits == 0) return;  // NCCL does not know the speed of some cards
    const std::string name = tag.value("name");
    // NCCL also lists the cards that a virtual one combines.
    const auto same = [&](const NcclNetwork& it) { return it.name == name; };
    if (std::none_of(topology_.networks.begin(), topology_.networks.end(), same))
      topology_.networks.push_back({name, BitsPerSecond(*megabits * 1e6)});
  }

  const std::string& where_;
  std::vector<XmlTag> path_;
  NcclTopology topology_;
};

}  // namespace

NcclTopology parse_nccl_topology(const std::string& text, const std::string& where) {
  NcclReader reader(where);
  XmlScanner(text, where).scan([&](const XmlTag& tag) { reader.open(tag); }, [&] { reader.close(); });
  return reader.take();
}

}  // namespace dtfm::io
