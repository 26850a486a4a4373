// Any bytes read as an operator graph give a graph or an Error; the layers of a graph have its parameters and
// operations, and a job with this graph reads back unchanged.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/operator_graph_reader.hpp"
#include "core/io/writers/plan_json.hpp"

namespace {

struct Sums {
  double parameters = 0, forward = 0, backward = 0;
};

/// Sums over operators or layers.
template <class Parts>
Sums sums_of(const Parts& parts) {
  Sums sums;
  for (const auto& part : parts) {
    sums.parameters += part.parameters;
    sums.forward += part.forward.value();
    sums.backward += part.backward.value();
  }
  return sums;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * (a + b);
}

void check(const dtfm::OperatorGraph& graph, int max_live) {
  dtfm::Job job;
  job.name = "graph";
  job.training.global_batch = 1;
  job.model = dtfm::LayerChain{1, dtfm::partition_into_layers(graph, max_live)};
  const Sums given = sums_of(graph.operators), cut = sums_of(dtfm::layer_chain(job));
  if (!near(given.parameters, cut.parameters) || !near(given.forward, cut.forward) ||
      !near(given.backward, cut.backward))
    std::abort();
  const std::string json = dtfm::io::job_json(job).dump();
  if (dtfm::io::job_json(dtfm::io::parse_job(json, "written.json")).dump() != json) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const dtfm::OperatorGraph graph = dtfm::io::parse_operator_graph(text, "ops.json");
    for (const int max_live : {1, 2, 1000}) check(graph, max_live);
  } catch (const dtfm::Error& error) {
    if (error.where().starts_with("written.json")) std::abort();
  }
  return 0;
}
