// What nvidia-smi, NCCL and lscpu say about a host: any bytes give either an Error or a topology that reads
// back, which the writer asserts. Lines of dashes separate the outputs.
#include <array>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/io/importers/output_lines.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/writers/detected_topology.hpp"

using namespace dtfm;
using namespace dtfm::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view divider = "----\n";
  try {
    const std::string text =
        validate_text(without_styles(std::string(reinterpret_cast<const char*>(data), size)), "outputs");
    std::array<std::string, 7> parts;
    std::size_t begin = 0;
    for (std::string& part : parts) {
      const std::size_t end = std::min(text.find(divider, begin), text.size());
      part = text.substr(begin, end - begin);
      begin = std::min(end + divider.size(), text.size());
    }
    DetectedHost host;
    host.site = "site";
    host.name = "host";
    host.gpus = parse_gpu_query(parts[0], "query");
    host.matrix = parse_gpu_matrix(parts[1], "matrix");
    host.slots = parse_pcie_query(parts[2], "slots");
    host.instances = parse_mig_instances(parts[3], "list");
    host.nvlinks = parse_nvlink_status(parts[4], "links");
    if (!parts[5].empty()) host.nccl = parse_nccl_topology(parts[5], "nccl");
    if (!parts[6].empty()) host.cpu = parse_lscpu(parts[6], "cpu");
    format_detected_topology({host}, {}, {});
  } catch (const Error&) {
  }
  return 0;
}
