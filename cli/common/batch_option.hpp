// The option --batch, which several programs have.
#pragma once

#include <optional>
#include <string>

#include "core/plan/plan.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Adds --batch, which sets `batch`, in sequences.
void add_batch_option(CLI::App& app, std::optional<int>& batch);

/// If `batch` is given, throws Error unless the micro-batches of `plan`, which comes from `file`, add up to
/// it.
void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file);

}  // namespace dtfm::cli
