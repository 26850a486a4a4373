// Any bytes read as a config.json give a model or an Error; the model can be summarized, and a job with it
// reads back unchanged.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/hf_config.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/model/model_summary.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    dtfm::Job job;
    job.name = "model";
    job.training.global_batch = 1;
    job.model = dtfm::io::parse_hf_config(text, "config.json", std::nullopt, 2);
    if (dtfm::layer_count(job.model) > 1000) return 0;  // takes long, and is no different
    dtfm::summarize_model(job.model, 2);
    const std::string json = dtfm::io::job_json(job).dump();
    if (dtfm::io::job_json(dtfm::io::parse_job(json, "written.json")).dump() != json) std::abort();
  } catch (const dtfm::Error& error) {
    if (error.where().starts_with("written.json")) std::abort();
  }
  return 0;
}
