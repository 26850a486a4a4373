#include "cli/common/batch_option.hpp"

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "core/base/error.hpp"
#include "core/io/readers/problem_reader.hpp"

namespace dtfm::cli {

void add_batch_option(CLI::App& app, std::optional<int>& batch) {
  add_option(app, "--batch", "N", "global batch in sequences [that of the job]",
             [&](const std::string& text) { batch = parse_whole_number("--batch", text, 1, 1'000'000'000); });
}

void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file) {
  if (!batch) return;
  io::check_multiple(*batch, plan.execution.micro_batch);
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  const int needed = *batch / plan.execution.micro_batch;
  if (sum != needed)
    throw Error("--batch", fmt::format("{} needs {} micro-batches of {}, but the pipelines of {} compute {}; "
                                       "plan with --batch {}, or remove micro_batches from the plan",
                                       *batch, needed, plan.execution.micro_batch, file, sum, *batch));
}

}  // namespace dtfm::cli
