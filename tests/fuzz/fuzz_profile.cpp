// Any bytes read as a profile give a profile or an Error; a profile written as JSON reads back unchanged.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/json_format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::LayerProfile profile;
  try {
    profile = dtfm::io::parse_profile(std::string(reinterpret_cast<const char*>(data), size), "profile.json");
  } catch (const dtfm::Error&) {
    return 0;
  }
  if (dtfm::io::parse_profile(dtfm::io::format_json(dtfm::io::profile_json(profile)), "written.json") !=
      profile)
    std::abort();
  return 0;
}
