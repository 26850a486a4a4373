// What the exports to DeepSpeed and torch.distributed.pipelining share: train.py, which is one of the
// programs in python/trainers, and pipeline.json, which it reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

inline constexpr const char* pipeline_file = "pipeline.json";

/// pipeline.json with the keys that both programs read: model, layers of every stage, replicas, precision,
/// recomputation.
nlohmann::ordered_json pipeline_json(const ExportBundle& bundle);

/// The class of torch.optim, and its options.
std::string_view optimizer_class(Optimizer optimizer);
nlohmann::ordered_json optimizer_options(Optimizer optimizer);

/// The plan, start.sh, pipeline.json, the program `name` of python/trainers as train.py, and the modules that
/// it uses.
ExportFiles pipeline_files(const ExportBundle& bundle, std::string_view name,
                           const nlohmann::ordered_json& pipeline);

/// What these files express: rows, precision, recomputation and optimizer.
ReadBack read_pipeline_files(const ExportFiles& files, int chunks);

/// What the programs assume, with where to change it. `options`: the file that has those of the optimizer.
std::vector<std::string> program_notes(const ExportBundle& bundle, std::string_view options);

}  // namespace dtfm::exporter
