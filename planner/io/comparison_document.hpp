// Writes the result of a comparison of schemes as JSON, by the schema dtfm-compare/1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/api/compare.hpp"

namespace dtfm::io {

inline constexpr const char* interrupted_comparison =
    "interrupted: schemes may be missing, and runs may be incomplete";

nlohmann::ordered_json comparison_document(const api::CompareRequest& request,
                                           const api::Comparison& comparison);

}  // namespace dtfm::io
