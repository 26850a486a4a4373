// The option --batch, which several programs have.
#pragma once

#include <optional>
#include <string>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Adds --batch, which sets `batch`, in sequences.
void add_batch_option(CLI::App& app, std::optional<int>& batch);

/// Replaces the global batch of the job, if `batch` is given. Throws Error unless it is a multiple of every
/// micro-batch that the job permits.
void set_global_batch(const std::optional<int>& batch, Job& job);

/// If `batch` is given, throws Error unless the micro-batches of `plan`, which comes from `file`, add up to
/// it.
void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file);

}  // namespace dtfm::cli
