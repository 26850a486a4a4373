#include "cli/plan/summary.hpp"

#include <cmath>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "planner/io/explanation_text.hpp"

namespace dtfm::cli {
namespace {

constexpr double min_gain = 0.001;  // links with a smaller gain are not listed
constexpr std::size_t max_links = 5;

/// The plan now, with twice the hidden size, and the ratios: compute grows with its square, activations grow
/// linearly.
std::string pace_table(const api::PlanAnswer& answer) {
  const auto& now = answer.explanation->now;
  const auto row = [](const std::string& name, const auto& pace) {
    return std::vector<std::string>{name,
                                    short_seconds(pace.iteration_s),
                                    short_seconds(pace.compute_s),
                                    short_seconds(pace.sending_s),
                                    short_seconds(pace.sync_s),
                                    with_thousands(std::llround(pace.tokens_per_s)),
                                    fmt::format("{:.4g}", pace.model_flops_per_s / 1e12)};
  };
  Rows rows = {{"Is the plan compute-bound?", "iteration s", "compute", "communication", "exposed sync",
                fmt::format("{}/s", name_of(model_input(answer.problem.job.model))), "model TFLOP/s"},
               row("  now", now)};
  if (const auto& wide = answer.explanation->double_width) {
    const auto ratio = [](double a, double b) { return b > 0 ? fmt::format("× {:.3g}", a / b) : ""; };
    rows.push_back(
        row(wide->deficit_bytes <= 0 ? "  hidden size × 2" : "  hidden size × 2, exceeds memory", *wide));
    rows.push_back({"", ratio(wide->iteration_s, now.iteration_s), ratio(wide->compute_s, now.compute_s),
                    ratio(wide->sending_s, now.sending_s), ratio(wide->sync_s, now.sync_s),
                    ratio(wide->tokens_per_s, now.tokens_per_s),
                    ratio(wide->model_flops_per_s, now.model_flops_per_s)});
  }
  return table(rows);
}

}  // namespace

std::string format_explanation(const api::PlanAnswer& answer) {
  const auto& found = answer.explanation.value();
  const io::ExplanationText sentences = io::explanation_text(answer);
  std::string text = styled(Style::heading, "Bottleneck") + "\n";
  for (const std::string& sentence : sentences.summary) text += "  " + sentence + "\n";
  const auto add_block = [&](const char* heading, const std::vector<std::string>& lines) {
    if (!lines.empty()) text += "\n" + styled(Style::heading, heading) + "\n";
    for (const std::string& line : lines) text += "  " + line + "\n";
  };
  add_block("Messages between stages of the slowest pipeline", sentences.messages);
  add_block("Devices with little work", sentences.devices);
  Rows rows = {{"What if, one change at a time", "estimated s", "gain"}};
  std::string impossible;
  std::size_t links = 0, other_links = 0;
  for (std::size_t i = 0; i < sentences.changes.size(); ++i) {
    const auto& what = found.what_ifs[i];
    if (!what.impossible.empty()) {
      impossible += fmt::format("  not possible: {} ({})\n", sentences.changes[i], what.impossible);
      continue;
    }
    if (what.change == api::Change::link_doubled && (what.gain < min_gain || ++links > max_links)) {
      ++other_links;
      continue;
    }
    rows.push_back({"  " + sentences.changes[i], short_seconds(what.iteration_s),
                    format_percent(what.gain) + (what.deficit_bytes <= 0 ? "" : "; exceeds memory")});
  }
  text += fmt::format("\n{}", table(rows));
  if (other_links > 0)
    text += fmt::format("  {} twice as fast: smaller gain\n",
                        format_count(static_cast<long long>(other_links), "other link"));
  text += impossible + "\n" + pace_table(answer);
  for (const std::string& sentence : sentences.scaling) text += "  " + sentence + "\n";
  return text;
}

}  // namespace dtfm::cli
