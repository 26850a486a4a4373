// What Slurm says about nodes and switches: any bytes give either an Error or what they mean. A line of
// dashes separates sinfo from scontrol.
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/io/importers/slurm_nodes.hpp"
#include "core/io/text/text_file.hpp"

using namespace dtfm;
using namespace dtfm::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view divider = "----\n";
  try {
    const std::string text = validate_text(std::string(reinterpret_cast<const char*>(data), size), "outputs");
    const std::size_t end = std::min(text.find(divider), text.size());
    parse_sinfo(text.substr(0, end), "sinfo");
    parse_slurm_switches(text.substr(std::min(end + divider.size(), text.size())), "scontrol");
  } catch (const Error&) {
  }
  return 0;
}
