#include "core/io/importers/cpu_kind.hpp"

#include <optional>
#include <string_view>

#include "core/io/importers/output_lines.hpp"

namespace dtfm::io {

CpuKind parse_lscpu(const std::string& text, const std::string& where) {
  constexpr std::size_t max_vendor = 32;
  CpuKind cpu;
  std::optional<int> model;
  for_each_line(text, [&](std::size_t, std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "Vendor ID" && value.size() <= max_vendor) cpu.vendor = value;
    if (key == "Model") model = small_number(value);
  });
  if (cpu.vendor.empty() || !model) throw Error(where, "has no `Vendor ID` and `Model` of a CPU");
  cpu.model = *model;
  return cpu;
}

}  // namespace dtfm::io
