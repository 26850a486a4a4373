// The answer of dtfm-plan --describe-model as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model_summary.hpp"

namespace dtfm::io {

/// Schema dtfm-model/1 (configs/schemas/model.schema.json). `weight_bytes` is the size of a weight.
nlohmann::ordered_json model_document(const std::string& name, const ModelSummary& model,
                                      double weight_bytes);

}  // namespace dtfm::io
