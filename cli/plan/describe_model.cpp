// dtfm-plan --describe-model: what the model of a job consists of.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/main_guard.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/plan/plan_options.hpp"
#include "core/base/error.hpp"
#include "core/io/text/json_format.hpp"
#include "core/model/model_summary.hpp"
#include "planner/io/model_document.hpp"
#include "planner/request/problem_options.hpp"

namespace dtfm::cli {
namespace {

std::string format_integer(double value) {
  return with_thousands(static_cast<long long>(value + 0.5));
}

std::string format_kinds(const ModelSummary& model) {
  std::vector<std::vector<std::string>> rows = {
      {"kind of layer", "count", "parameters", "active", "forward FLOPs", "output", "activations"}};
  for (const LayerKindSummary& kind : model.kinds)
    rows.push_back({kind.name, fmt::format("{}", kind.count), format_integer(kind.parameters),
                    format_integer(kind.active_parameters), fmt::format("{:.4g}", kind.forward.value()),
                    fmt::format("{:.3g} MB", kind.output.value() / 1e6),
                    fmt::format("{:.4g} MB", kind.activation_memory.value() / 1e6)});
  return table(rows);
}

std::string format_model(const std::string& name, const ModelSummary& model, const Training& training) {
  const char* unit = model.input == ModelInput::images ? "image" : "sequence";
  std::vector<std::vector<std::string>> rows = {
      {"model", name},
      {"layers", fmt::format("{}", model.layers)},
      {"parameters", format_integer(model.parameters)},
      {"active parameters", format_integer(model.active_parameters)},
      {fmt::format("forward FLOPs per {}", unit),
       fmt::format("{:.6g} ({:.3g} of them attention scores)", model.forward.value(),
                   model.attention.value())},
      {"weights", fmt::format("{:.4g} GB in {}", model.parameters * bytes_per_element(training) / 1e9,
                              name_of(training.precision))}};
  if (model.input == ModelInput::tokens)
    rows.insert(rows.begin() + 2, {"sequence", fmt::format("{} tokens", model.sequence)});
  if (model.prediction_parameters > 0)
    rows.insert(rows.begin() + 5,
                {"multi-token prediction",
                 fmt::format("{} further parameters", format_integer(model.prediction_parameters))});
  return join_blocks({table(rows, false), format_kinds(model)});
}

}  // namespace

int describe_model(const PlanOptions& options) {
  const Job job = read_job(options, io::default_job());
  const double element_bytes = bytes_per_element(job.training);
  const ModelSummary summary = summarize_model(job.model, element_bytes);
  print_result(options.format == OutputFormat::json
                   ? io::format_json(io::model_document(job.name, summary, element_bytes)) + "\n"
                   : format_model(job.name, summary, job.training));
  return exit_code::done;
}

}  // namespace dtfm::cli
