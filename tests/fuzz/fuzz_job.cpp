// Any bytes read as a job file give a job or an Error; a job written as JSON reads back unchanged.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/writers/plan_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string json;
  try {
    json = dtfm::io::job_json(dtfm::io::parse_job(text, "job.yaml")).dump();
  } catch (const dtfm::Error&) {
    return 0;
  }
  if (dtfm::io::job_json(dtfm::io::parse_job(json, "job.json")).dump() != json) std::abort();
  return 0;
}
