#include "cli/plan/plan_app.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/launcher.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/plan/plan_options.hpp"

namespace dtfm::cli {
namespace {

#ifdef DTFM_HAVE_CUDA
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: yes)";
#else
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: no)";
#endif

constexpr const char* notes =
    R"(An evaluation is one estimate of a plan or of a change to a plan. If the devices cannot hold the
activations of all micro-batches, the plan has a pipeline flush every N micro-batches: N pass
forward and backward before the next N. Gradients are still synchronized once per iteration.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 3 no feasible plan (memory is
exceeded, or no iteration completes under a scenario), 130 interrupted (the best plan so far has
been written).)";

constexpr const char* examples = R"(Examples:
  dtfm-plan worldwide.yaml -o plan.json --report plan.html
  dtfm-plan worldwide.yaml --job my-job.yaml --pipeline 16 --seed 1 --evaluations 20000
  dtfm-plan --gpus "8xH100@oregon, 2x4xA100-80GB@ohio" --link "oregon-ohio: 40 ms 2 Gbps" \
    --link "ohio: 0.1 ms 25 Gbps" --model Qwen3-8B/config.json --batch 512 --save-topology lab.yaml
  dtfm-plan lab.yaml --model Qwen3-8B/config.json --sequence 8192 --batch 512 -o plan.json
  dtfm-plan --describe-model --model Qwen3-8B/config.json --format json
  dtfm-plan worldwide.yaml --scenario stragglers.yaml --scenario congestion.yaml --robust worst
  dtfm-plan worldwide.yaml --objective comm-cost --prove
  dtfm-plan worldwide.yaml --objective smallest-cluster --max-iteration-time 60
  dtfm-plan worldwide.yaml --objective least-bandwidth --link oregon,virginia
  dtfm-plan worldwide.yaml --pareto front.json && jq '.points[0].plan' front.json > fastest.json
  dtfm-plan worldwide.yaml --time-limit 60 --format json | jq .estimate
  dtfm-plan worldwide.yaml --score plan-from-elsewhere.json --advise
  dtfm-plan worldwide.yaml --job my-job.yaml --score table.csv
  dtfm-plan worldwide.yaml --job my-job.yaml --score train.sh --ranks rankfile
  dtfm-plan worldwide-now.yaml --warm-start plan.json --horizon 6h -o next.json
  dtfm-plan worldwide-now.yaml --diff plan.json next.json)";

void add_output_options(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "FILE", "writes the plan (JSON); - for stdout instead of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(list, "--pareto", "FILE", "writes the Pareto front of time, cost and devices (JSON)",
             [&](const std::string& text) {
               options.pareto = text;
               options.keeps_pareto_front = true;
             });
  add_option(list, "--report", "FILE.html", "writes a page with charts of the plan (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_option(list, "--save-topology", "FILE", "with --gpus: writes the topology (YAML)",
             [&](const std::string& text) { options.saved_topology = text; });
  add_option(list, "--save-job", "FILE",
             "writes the job with all options that change it (JSON, which is YAML)",
             [&](const std::string& text) { options.saved_job = text; });
  add_explain_option(list, options);
  add_format_option(list, options.format);
}

void reject_options_with_diff(const OptionList& list) {
  constexpr std::array used = {"TOPOLOGY",  "--diff",  "--output", "--format",
                               "--threads", "--color", "--quiet"};
  for (const Option& option : list.options)
    if (option.is_given() &&
        std::none_of(used.begin(), used.end(), [&](const char* name) { return option.is_called(name); }))
      throw Error(option.name, "cannot be combined with --diff");
}

void check_command(const OptionList& list, PlanOptions& options) {
  if (options.diff) return reject_options_with_diff(list);
  if (options.list_strategies || options.list_targets || options.describes_model) return;
  if (!options.topology.is_given() && !options.gpus)
    throw Error("", "TOPOLOGY or --gpus is missing (see dtfm-plan --help)");
  check_plan_options(list, options);
  if (options.saved_topology && !options.gpus) throw Error("--save-topology", "requires --gpus");
  if (options.pareto) reject_options(list, {"--report"}, "cannot be combined with --pareto");
}

}  // namespace

void add_plan_options(OptionList& list, PlanOptions& options) {
  set_texts(list, "dtfm-plan", "Plans the training of a large model on geo-distributed, heterogeneous GPUs.",
            fmt::format("{}\n\n{}\n\n{}", plan_formats_help, notes, examples));
  add_plan_inputs(list, options);
  add_flag(list, "--describe-model", "prints the model's parameters, FLOPs and layers and exits",
           options.describes_model);
  add_flag(list, "--list-targets", "lists what each trainer runs and exits", options.list_targets);
  add_parallelism_options(list, options);
  add_search_options(list, options);
  add_flag(list, "--list-strategies", "lists the strategies and exits", options.list_strategies);
  add_simulation_options(list, options);
  add_given_plan_options(list, options);
  add_pair_option(list, "--diff", "PLAN PLAN",
                  "compares two plans; with TOPOLOGY, also estimates the migration",
                  [&](const std::string& before, const std::string& after) {
                    options.diff = {before, after};
                  });
  add_output_options(list, options);
  begin_group(list, heading::general);
  add_threads_option(list, available_cores(), options.work.threads);
  add_general_options(list, options.color, options.quiet, "prints no progress", version_line);
}

std::optional<PlanOptions> parse_plan_options(int argc, char** argv) {
  OptionList list;
  PlanOptions options;
  add_plan_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_command(list, options);
  options.common = common_options(list);
  return options;
}

}  // namespace dtfm::cli
