#include "cli/plan/plan_app.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/core/kind_table.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::cli {
namespace {

#ifdef DTFM_HAVE_CUDA
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: yes)";
#else
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: no)";
#endif

constexpr const char* examples = R"(Examples:
  dtfm-plan worldwide.yaml -o plan.json --report plan.html
  dtfm-plan worldwide.yaml --job my-job.yaml --pipeline 16 --seed 1 --evaluations 20000
  dtfm-plan worldwide.yaml --scenario stragglers.yaml --scenario congestion.yaml --robust worst
  dtfm-plan worldwide.yaml --objective comm-cost --prove
  dtfm-plan worldwide.yaml --pareto front.json && jq '.points[0].plan' front.json > fastest.json
  dtfm-plan worldwide.yaml --time-limit 60 --format json | jq .estimate
  dtfm-plan worldwide.yaml --score plan-from-elsewhere.json --advise
  dtfm-plan worldwide.yaml --job my-job.yaml --score table.csv
  dtfm-plan worldwide-now.yaml --warm-start plan.json --horizon 6h -o next.json
  dtfm-plan worldwide-now.yaml --diff plan.json next.json
  dtfm-plan worldwide.yaml --job my-job.yaml --score train.sh --ranks rankfile

In the summary, "pipeline flush every 117 micro-batches" means that the devices' memory cannot hold the activations of
all micro-batches: each pipeline computes 117 forward, then backward, before it starts the next 117. Gradients are still
synchronized once per iteration. An evaluation is one cost estimate, of a plan or of a plan after one change.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 3 no plan fits the memory of the devices, or
none completes an iteration under a scenario, 130 interrupted (the best plan so far has been written).)";

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

std::vector<std::string_view> objective_names() {
  std::vector<std::string_view> names;
  for (const ObjectiveTraits& objective : objective_table()) names.push_back(objective.name);
  return names;
}

void set_objective(const std::string& name, PlanOptions& options) {
  const std::optional<Objective> objective = kind_named(objective_table(), name);
  if (!objective)
    throw Error("--objective",
                fmt::format("unknown {}; {}", io::quote(name), io::suggestion(name, objective_names())));
  options.objective = *objective;
  options.objective_given = true;
}

api::RobustCriterion parse_robust_criterion(const std::string& name) {
  if (name == "mean") return api::RobustCriterion::mean;
  if (name == "p95") return api::RobustCriterion::p95;
  if (name == "worst") return api::RobustCriterion::worst;
  throw Error("--robust",
              fmt::format("unknown {}; {}", io::quote(name), io::suggestion(name, {"mean", "p95", "worst"})));
}

/// A count, or nothing and `is_auto`.
std::optional<int> parse_count_or_auto(const char* option, const std::string& text, bool& is_auto) {
  is_auto = text == "auto";
  if (is_auto) return std::nullopt;
  return parse_whole_number(option, text, 1, 1'000'000);
}

void add_input_options(CLI::App& app, PlanOptions& options) {
  app.add_option("TOPOLOGY", options.topology, "the machines and the network between them (YAML)")
      ->type_name("");
  add_option(app, "--job", "FILE", "what is trained (YAML); GPT-3 XL when not given",
             [&](const std::string& text) { options.job = text; });
  add_option(app, "--batch", "N", "sequences of an iteration, in place of the job's global_batch",
             [&](const std::string& text) {
               options.batch = parse_whole_number("--batch", text, 1, 1'000'000'000);
             });
  const auto objective = add_option(
      app, "--objective", "NAME",
      "what is minimised: iteration-time, cost-per-token, device-efficiency (devices × time), comm-cost",
      [&](const std::string& text) { set_objective(text, options); });
  const auto names = objective_names();
  set_completion_values(*objective, {names.begin(), names.end()});
  add_option(app, "--pipeline", "N|auto", "stages; not given: as the job says", [&](const std::string& text) {
    options.pipeline = parse_count_or_auto("--pipeline", text, options.pipeline_auto);
  });
  add_option(app, "--data", "N|auto", "replicas; not given: as the job says", [&](const std::string& text) {
    options.data = parse_count_or_auto("--data", text, options.data_auto);
  });
  add_option(app, "--tensor", "N|auto", "devices of one host a stage; not given: as the job says",
             [&](const std::string& text) {
               options.tensor = parse_count_or_auto("--tensor", text, options.tensor_auto);
             });
  app.add_flag(
      "--alike", options.uniform_pipelines,
      "all pipelines have the same layers and as many micro-batches, as most trainers need (dtfm-export)");
}

void add_score(CLI::App& app, PlanOptions& options) {
  add_option(app, "--score", "PLAN", "no search: check and score this plan, in any of the formats below",
             [&](const std::string& text) { options.score = text; });
  add_option(app, "--warm-start", "PLAN",
             "starts from this plan of dtfm-plan, for the same or earlier machines; state migration counts",
             [&](const std::string& text) { options.warm_start = text; });
  add_option(app, "--horizon", "DURATION",
             "with --warm-start: how long the plan will be used, as in 30min (2h)",
             [&](const std::string& text) { options.horizon = parse_horizon(text); });
  using TwoFiles = std::pair<std::string, std::string>;
  app.add_option_function<TwoFiles>(
         "--diff",
         [&](const TwoFiles& files) {
           options.diff = {files.first, files.second};
         },
         "no search: what two plans of dtfm-plan differ in, and what moves from the first to the second; "
         "with TOPOLOGY, from where and in how long")
      ->type_name("PLAN PLAN");
  add_option(app, "--ranks", "FILE", "with --score: the device of each rank of a Megatron plan",
             [&](const std::string& text) { options.ranks = text; });
  app.add_flag("--advise", options.advise, "with --score: searches too, and says what the planner would do");
}

void add_simulation_options(CLI::App& app, PlanOptions& options) {
  add_option(
      app, "--calibration", "FILE",
      "the constants of the simulator's model, as dtfm-calibrate writes them; then times have intervals",
      [&](const std::string& text) { options.calibration = text; });
  app.add_option("--scenario", options.scenarios,
                 "the best plans are simulated under it too (YAML); may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(app, "--finalists", "N", "plans that are simulated (8)", [&](const std::string& text) {
    options.finalists = parse_whole_number("--finalists", text, 1, 1000);
  });
  add_option(app, "--robust", "mean|p95|worst", "of the simulated times of all scenarios, what counts (mean)",
             [&](const std::string& text) { options.robust = parse_robust_criterion(text); });
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const search::Strategy& strategy : search::strategies()) names.emplace_back(strategy.name);
  return names;
}

void add_search_options(CLI::App& app, PlanOptions& options) {
  const auto strategy = add_option(app, "--strategy", "NAME", "the search; see --list-strategies",
                                   [&](const std::string& text) { options.strategy = text; });
  set_completion_values(*strategy, strategy_names());
  app.add_flag("--list-strategies", options.list_strategies, "names the strategies and exits");
  add_seed_option(app, "of the random numbers (0)", options.seed);
  add_threads_option(app, "all cores when not given; any number gives the same plan", options.threads);
  add_option(app, "--evaluations", "N",
             "number of cost estimates of plans and changes of plans; applies to each search of --pareto",
             [&](const std::string& text) {
               options.evaluations = parse_whole_number("--evaluations", text, 1LL, 1'000'000'000'000LL);
             });
  add_option(
      app, "--time-limit", "S",
      "searches for so many seconds, longer than by itself too; another run may then give another plan",
      [&](const std::string& text) { options.time_limit = parse_positive_seconds("--time-limit", text); });
  app.add_flag("--prove", options.prove, "works on until the plan is proven optimal");
}

void add_output(CLI::App& app, PlanOptions& options) {
  add_option(app, "-o,--output", "FILE", "writes the plan (JSON); - is stdout, in place of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--pareto", "FILE",
             "writes the Pareto front of plans by time, price and number of devices (JSON)",
             [&](const std::string& text) { options.pareto = text; });
  add_option(app, "--report", "FILE.html",
             "writes a page with charts of the plan and of an iteration of it (HTML)",
             [&](const std::string& text) { options.report = text; });
  app.add_flag("--explain", options.explain,
               "reports the bottleneck, what would help, and what makes the job compute-bound");
  add_format_option(app, options.format);
  add_color_option(app, options.color);
  app.add_flag("--quiet", options.quiet, "no progress");
  app.set_version_flag("--version", version_line);
}

/// A score is not searched for.
void reject_search_options(const CLI::App& app) {
  reject_options(app,
                 {"--strategy", "--seed", "--evaluations", "--time-limit", "--prove", "--finalists",
                  "--robust", "--alike"},
                 "is of the search, and --score does not search (unless it is to --advise)");
}

/// Two plans are compared as they are.
void reject_options_with_diff(const CLI::App& app) {
  reject_options(
      app, {"--job",     "--batch",       "--objective",  "--pipeline",    "--data",       "--tensor",
            "--score",   "--ranks",       "--warm-start", "--horizon",     "--scenario",   "--finalists",
            "--robust",  "--strategy",    "--seed",       "--evaluations", "--time-limit", "--prove",
            "--explain", "--calibration", "--pareto",     "--advise",      "--report",     "--alike"},
      "is of a search or a score, and --diff compares two plans");
}

/// What would say nothing beside a plan to score, or beside none.
void check_score(const CLI::App& app, const PlanOptions& options) {
  if (options.score && !options.advise) reject_search_options(app);
  if (options.advise && !options.score)
    throw Error("--advise", "is about the plan to --score, and there is none");
  if (options.score && options.warm_start)
    throw Error("--warm-start", "is of the search, and --score does not search");
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& options) {
  app.name("dtfm-plan");
  app.description(
      "Places the stages and replicas of a training job on geo-distributed, heterogeneous machines.");
  app.footer(fmt::format("{}\n\n{}", examples, plan_formats_help));
  add_input_options(app, options);
  add_score(app, options);
  add_simulation_options(app, options);
  add_search_options(app, options);
  add_output(app, options);
}

void check_plan_options(const CLI::App& app, const PlanOptions& options) {
  if (options.diff) return reject_options_with_diff(app);
  if (options.topology.empty() && !options.list_strategies)
    throw Error("", "TOPOLOGY is missing (see dtfm-plan --help)");
  check_score(app, options);
  if (options.horizon && !options.warm_start)
    throw Error("--horizon", "is of the plan to --warm-start from, and there is none");
  if (options.pareto && options.report)
    throw Error("--report", "is of one plan, and --pareto writes many; --score one of them for its report");
  if (options.pareto && options.score)
    throw Error("--pareto", "is of a search, and --score has one plan alone");
  if (options.pareto && options.warm_start) throw Error("--pareto", "cannot be combined with --warm-start");
  if (options.ranks && !options.score) throw Error("--ranks", "is of the plan to --score, and there is none");
}

}  // namespace dtfm::cli
