#include "cli/plan/plan_app.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/common/problem_options.hpp"
#include "cli/plan/plan_options.hpp"
#include "core/base/kind_table.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/target.hpp"

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

double parse_positive_seconds(const std::string& option, const std::string& text) {
  constexpr int max_seconds = 1'000'000'000;  // 31 years
  try {
    const double value = io::parse_decimal(text);
    if (value > 0 && value <= max_seconds) return value;
  } catch (const Error&) {
  }
  throw Error(option, fmt::format("expected a number of seconds above zero, at most {}; found {}",
                                  max_seconds, io::quote(text)));
}

double parse_horizon(const std::string& text) {
  try {
    if (const double seconds = io::parse_seconds(text).value(); seconds > 0) return seconds;
  } catch (const Error& error) {
    throw Error("--horizon", error.what());
  }
  throw Error("--horizon", fmt::format("expected a time above zero; found {}", io::quote(text)));
}

/// Objectives and questions.
std::vector<std::string_view> objective_names() {
  std::vector<std::string_view> names = names_in(objective_table());
  for (const api::QuestionTraits& it : api::question_table) names.push_back(it.name);
  return names;
}

void set_objective(const std::string& name, PlanOptions& options) {
  options.objective_given = true;
  for (const api::QuestionTraits& it : api::question_table)
    if (it.name == name) {
      options.question = it.kind;
      return;
    }
  const std::optional<Objective> objective = kind_named(objective_table(), name);
  if (!objective)
    throw Error("--objective",
                fmt::format("unknown {}; {}", io::quote(name), io::suggestion(name, objective_names())));
  options.objective = *objective;
}

void set_link(const std::string& text, PlanOptions& options) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == text.size())
    throw Error("--link", fmt::format("expected two sites, as SITE,SITE; found {}", io::quote(text)));
  options.link = {text.substr(0, comma), text.substr(comma + 1)};
}

api::RobustCriterion parse_robust_criterion(const std::string& name) {
  if (name == "mean") return api::RobustCriterion::mean;
  if (name == "p95") return api::RobustCriterion::p95;
  if (name == "worst") return api::RobustCriterion::worst;
  throw Error("--robust",
              fmt::format("unknown {}; {}", io::quote(name), io::suggestion(name, {"mean", "p95", "worst"})));
}

/// Parses a count or `auto`. For `auto`, sets `is_auto` and returns nothing.
std::optional<int> parse_count_or_auto(const char* option, const std::string& text, bool& is_auto) {
  is_auto = text == "auto";
  if (is_auto) return std::nullopt;
  return parse_whole_number(option, text, 1, 1'000'000);
}

void add_input_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::inputs);
  add_argument(app, "TOPOLOGY", "devices and the network between them (YAML)", options.topology);
  add_option(app, "--job", "FILE", "job to plan (YAML) [GPT-3 XL]",
             [&](const std::string& text) { options.job = text; });
  add_model_options(app, options.model, options.sequence);
  add_flag(app, "--describe-model", "prints the model's parameters, FLOPs and layers and exits",
           options.describes_model);
  const auto target = add_option(
      app, "--target", "NAME", "trainer that will run the plan; see --list-targets [any]",
      [&](const std::string& name) {
        for (const RemovedTarget& it : removed_targets())
          if (it.name == name) throw Error("--target", std::string(it.message));
        options.target = io::find_row(target_table(), current_name(name), "--target", "unknown").kind;
      });
  const auto names = names_in(target_table());
  set_completion_values(*target, {names.begin(), names.end()});
  add_flag(app, "--list-targets", "lists what each trainer runs and exits", options.list_targets);
  add_batch_option(app, options.batch);
  add_calibration_option(app, options.calibration);
}

void add_parallelism_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::parallelism);
  add_option(app, "--pipeline", "N|auto", "number of pipeline stages [that of the job]",
             [&](const std::string& text) {
               options.pipeline = parse_count_or_auto("--pipeline", text, options.pipeline_auto);
             });
  add_option(app, "--data", "N|auto", "number of data-parallel replicas [that of the job]",
             [&](const std::string& text) {
               options.data = parse_count_or_auto("--data", text, options.data_auto);
             });
  add_option(app, "--tensor", "N|auto", "tensor-parallel degree, within a host [that of the job]",
             [&](const std::string& text) {
               options.tensor = parse_count_or_auto("--tensor", text, options.tensor_auto);
             });
  add_option(app, "--context", "N|auto", "context-parallel degree, within a stage [that of the job]",
             [&](const std::string& text) {
               options.context = parse_count_or_auto("--context", text, options.context_auto);
             });
  add_option(app, "--expert", "N|auto", "expert-parallel degree, within a stage [that of the job]",
             [&](const std::string& text) {
               options.expert = parse_count_or_auto("--expert", text, options.expert_auto);
             });
  add_flag(app, "--uniform-pipelines",
           "gives all pipelines the same layers and micro-batches, as most trainers require",
           options.uniform_pipelines);
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const auto& strategy : api::strategies()) names.emplace_back(strategy.name);
  return names;
}

void add_search_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::search);
  const auto names = objective_names();
  const auto objective =
      add_option(app, "--objective", "NAME",
                 fmt::format("{} or [{}]", fmt::join(names.begin() + 1, names.end(), ", "), names.front()),
                 [&](const std::string& text) { set_objective(text, options); });
  set_completion_values(*objective, {names.begin(), names.end()});
  add_option(app, "--max-iteration-time", "S",
             "with smallest-cluster or least-bandwidth: maximum iteration time, in seconds",
             [&](const std::string& text) {
               options.max_iteration_s = parse_positive_seconds("--max-iteration-time", text);
             });
  add_option(app, "--min-throughput", "SHARE",
             "with least-bandwidth: minimum throughput, as a share of that with unlimited bandwidth [0.95]",
             [&](const std::string& text) {
               options.min_throughput = parse_fraction_below_one("--min-throughput", text);
               if (*options.min_throughput == 0) throw Error("--min-throughput", "must be above 0");
             });
  add_option(app, "--link", "SITE,SITE",
             "with least-bandwidth: the two sites of the link [the pair over which the plan sends longest]",
             [&](const std::string& text) { set_link(text, options); });
  const auto strategy =
      add_option(app, "--strategy", "NAME",
                 "with --objective comm-cost: search strategy; see --list-strategies [evolutionary]",
                 [&](const std::string& text) { options.strategy = text; });
  set_completion_values(*strategy, strategy_names());
  add_flag(app, "--list-strategies", "lists the strategies and exits", options.list_strategies);
  add_flag(app, "--prove",
           "continues until the plan is proven optimal (small problems; comm-cost or iteration-time)",
           options.prove);
  add_option(
      app, "--evaluations", "N",
      "ends each search after N evaluations, but not before 1,000 if no plan fits in memory; --pareto runs "
      "several [until converged]",
      [&](const std::string& text) {
        options.evaluations = parse_whole_number("--evaluations", text, 1LL, 1'000'000'000'000LL);
      });
  add_option(app, "--time-limit", "S",
             "ends the search and simulations after S seconds; not reproducible [until converged]",
             [&](const std::string& text) {
               options.work.time_limit = parse_positive_seconds("--time-limit", text);
             });
  add_seed_option(app, "seed of the random numbers [0]", options.seed);
  add_option(app, "--warm-start", "PLAN", "starts from a running plan and counts the cost of migration",
             [&](const std::string& text) { options.warm_start = text; });
  add_option(app, "--horizon", "DURATION", "with --warm-start: how long the new plan will be used [2h]",
             [&](const std::string& text) { options.horizon = parse_horizon(text); });
}

void add_simulation_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::simulation);
  add_option(app, "--finalists", "N", "number of best plans to simulate [16]", [&](const std::string& text) {
    options.finalists = parse_whole_number("--finalists", text, 1, 1000);
  });
  add_repeatable_option(app, "--scenario", "FILE",
                        "also simulates the finalists under a scenario (YAML); may be repeated",
                        [&](const std::string& file) { options.scenarios.push_back(file); });
  add_option(app, "--robust", "mean|p95|worst", "criterion over the times in all scenarios [mean]",
             [&](const std::string& text) { options.robust = parse_robust_criterion(text); });
  add_option(
      app, "--near-equal", "SHARE",
      "plans worse than the best by at most this share are near-equal; the least sensitive wins "
      "[0.001]",
      [&](const std::string& text) { options.near_equal = parse_fraction_below_one("--near-equal", text); });
}

void add_given_plan_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, "Given plans");
  add_option(app, "--score", "PLAN", "checks, estimates and simulates a plan, in any format below",
             [&](const std::string& text) { options.score = text; });
  add_option(app, "--ranks", "FILE", "with --score: the device of each rank of a Megatron-LM plan",
             [&](const std::string& text) { options.ranks = text; });
  add_flag(app, "--advise", "with --score: also searches, and compares with the best plan", options.advise);
  add_pair_option(app, "--diff", "PLAN PLAN",
                  "compares two plans; with TOPOLOGY, also estimates the migration",
                  [&](const std::string& before, const std::string& after) {
                    options.diff = {before, after};
                  });
}

void add_output_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::output);
  add_option(app, "-o,--output", "FILE", "writes the plan (JSON); - for stdout instead of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--pareto", "FILE", "writes the Pareto front of time, cost and devices (JSON)",
             [&](const std::string& text) { options.pareto = text; });
  add_option(app, "--report", "FILE.html", "writes a page with charts of the plan (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_flag(app, "--explain", "explains the bottleneck and what would reduce the time", options.explain);
  add_format_option(app, options.format);
}

void add_general_options(CLI::App& app, PlanOptions& options) {
  begin_group(app, heading::general);
  add_threads_option(app, options.work.threads);
  add_color_option(app, options.color);
  add_flag(app, "--quiet", "prints no progress", options.quiet);
  add_version_option(app, version_line);
  add_help_option(app);
}

void reject_search_options(const CLI::App& app) {
  reject_options(app,
                 {"--strategy", "--seed", "--evaluations", "--time-limit", "--prove", "--finalists",
                  "--robust", "--near-equal", "--uniform-pipelines"},
                 "cannot be combined with --score without --advise");
}

void reject_options_with_diff(const CLI::App& app) {
  reject_options(app, {"--model",         "--sequence",
                       "--job",           "--batch",
                       "--objective",     "--pipeline",
                       "--data",          "--tensor",
                       "--score",         "--ranks",
                       "--warm-start",    "--horizon",
                       "--scenario",      "--finalists",
                       "--robust",        "--strategy",
                       "--seed",          "--evaluations",
                       "--time-limit",    "--prove",
                       "--explain",       "--calibration",
                       "--pareto",        "--advise",
                       "--report",        "--uniform-pipelines",
                       "--near-equal",    "--target",
                       "--link",          "--max-iteration-time",
                       "--min-throughput"},
                 "cannot be combined with --diff");
}

/// Throws Error for an option that --score does not use, or that requires it.
void check_score(const CLI::App& app, const PlanOptions& options) {
  if (options.score && !options.advise) reject_search_options(app);
  if (options.advise && !options.score) throw Error("--advise", "requires --score");
  if (options.ranks && !options.score) throw Error("--ranks", "requires --score");
  if (options.score && options.warm_start) throw Error("--warm-start", "cannot be combined with --score");
}

/// Throws Error for options that a question does not support, or that require another one.
void check_question(const CLI::App& app, const PlanOptions& options) {
  const bool asks_bandwidth = options.question == api::QuestionKind::least_bandwidth;
  if (options.max_iteration_s && !options.question)
    throw Error("--max-iteration-time", "requires --objective smallest-cluster or least-bandwidth");
  for (const auto& [option, is_given] : {std::pair("--min-throughput", options.min_throughput.has_value()),
                                         std::pair("--link", options.link.has_value())})
    if (is_given && !asks_bandwidth) throw Error(option, "requires --objective least-bandwidth");
  if (options.max_iteration_s && options.min_throughput)
    throw Error("--min-throughput", "cannot be combined with --max-iteration-time");
  if (options.question)
    reject_options(
        app, {"--score", "--warm-start", "--pareto", "--scenario", "--strategy", "--prove", "--time-limit"},
        fmt::format("cannot be combined with --objective {}",
                    api::question_table[static_cast<std::size_t>(*options.question)].name));
}

void check_plan_options(const CLI::App& app, const PlanOptions& options) {
  if (options.diff) return reject_options_with_diff(app);
  if (options.topology.empty() && !options.list_strategies && !options.list_targets &&
      !options.describes_model)
    throw Error("", "TOPOLOGY is missing (see dtfm-plan --help)");
  check_score(app, options);
  if (options.horizon && !options.warm_start) throw Error("--horizon", "requires --warm-start");
  check_question(app, options);
  if (options.pareto)
    reject_options(app, {"--report", "--score", "--warm-start"}, "cannot be combined with --pareto");
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& options) {
  set_texts(app, "dtfm-plan", "Plans the training of a large model on geo-distributed, heterogeneous GPUs.",
            fmt::format("{}\n\n{}\n\n{}", plan_formats_help, notes, examples));
  add_input_options(app, options);
  add_parallelism_options(app, options);
  add_search_options(app, options);
  add_simulation_options(app, options);
  add_given_plan_options(app, options);
  add_output_options(app, options);
  add_general_options(app, options);
}

std::optional<PlanOptions> parse_plan_options(int argc, char** argv) {
  const AppPointer app = make_app();
  PlanOptions options;
  add_plan_options(*app, options);
  if (!parse_command_line(*app, argc, argv)) return std::nullopt;
  check_plan_options(*app, options);
  options.common = common_options(*app);
  return options;
}

}  // namespace dtfm::cli
