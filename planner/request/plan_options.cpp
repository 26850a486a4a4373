#include "planner/request/plan_options.hpp"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/kind_table.hpp"
#include "core/io/text/parse_number.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/target.hpp"

namespace dtfm::request {
namespace {

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
  if (text.find(':') != std::string::npos) {
    options.links.push_back(text);
    return;
  }
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == text.size())
    throw Error("--link",
                fmt::format("expected `SITE-SITE: LATENCY BANDWIDTH` with --gpus, or SITE,SITE with "
                            "--objective least-bandwidth; found {}",
                            io::quote(text)));
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
  return io::parse_whole_number(option, text, 1, 1'000'000);
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const auto& strategy : api::strategies()) names.emplace_back(strategy.name);
  return names;
}

void reject_search_options(const OptionList& list) {
  reject_options(list,
                 {"--strategy", "--seed", "--evaluations", "--time-limit", "--prove", "--finalists",
                  "--robust", "--near-equal", "--uniform-pipelines"},
                 "cannot be combined with --score without --advise");
}

/// Throws Error for an option that --score does not use, or that requires it.
void check_score(const OptionList& list, const PlanOptions& options) {
  if (options.score && !options.advise) reject_search_options(list);
  if (options.advise && !options.score) throw Error("--advise", "requires --score");
  if (options.ranks && !options.score) throw Error("--ranks", "requires --score");
  if (options.score && options.warm_start) throw Error("--warm-start", "cannot be combined with --score");
}

/// Throws Error for options that a question does not support, or that require another one.
void check_question(const OptionList& list, const PlanOptions& options) {
  const bool asks_bandwidth = options.question == api::QuestionKind::least_bandwidth;
  if (options.max_iteration_s && !options.question)
    throw Error("--max-iteration-time", "requires --objective smallest-cluster or least-bandwidth");
  for (const auto& [option, is_given] : {std::pair("--min-throughput", options.min_throughput.has_value()),
                                         std::pair("--link", options.link.has_value())})
    if (is_given && !asks_bandwidth) throw Error(option, "requires --objective least-bandwidth");
  if (options.max_iteration_s && options.min_throughput)
    throw Error("--min-throughput", "cannot be combined with --max-iteration-time");
  if (!options.question) return;
  const std::string why = fmt::format("cannot be combined with --objective {}",
                                      api::question_table[static_cast<std::size_t>(*options.question)].name);
  reject_options(list, {"--score", "--warm-start", "--scenario", "--strategy", "--prove", "--time-limit"},
                 why);
  if (options.keeps_pareto_front) throw Error("--pareto", why);
}

/// Returns comm-cost for --prove, unless the user gave an objective. Throws Error for an objective that does
/// not support --prove or the strategy. Only comm-cost has strategies other than the default.
Objective effective_objective(const PlanOptions& options) {
  const bool has_strategy = api::strategy_named(options.strategy).name != api::default_strategy;
  if (has_strategy && options.objective != Objective::comm_cost)
    throw Error("", fmt::format("--strategy {} requires --objective comm-cost", options.strategy));
  if (options.prove && !options.objective_given) return Objective::comm_cost;
  if (options.prove && options.objective != Objective::comm_cost &&
      options.objective != Objective::iteration_time)
    throw Error("--prove", "requires --objective comm-cost or iteration-time");
  return options.objective;
}

/// Throws Error for options that --objective comm-cost does not support.
void check_comm_cost_options(const PlanOptions& options) {
  const std::pair<const char*, bool> unsupported[] = {
      {"--scenario", !options.scenarios.empty()},       {"--finalists", options.finalists.has_value()},
      {"--robust", options.robust.has_value()},         {"--near-equal", options.near_equal.has_value()},
      {"--pareto", options.keeps_pareto_front},         {"--advise", options.advise},
      {"--target", options.target.has_value()},         {"--calibration", options.calibration.has_value()},
      {"--warm-start", options.warm_start.has_value()}, {"--explain", options.explain}};
  if (options.objective == Objective::comm_cost)
    for (const auto& [option, is_given] : unsupported)
      if (is_given) throw Error(option, "cannot be combined with --objective comm-cost");
}

}  // namespace

void add_plan_inputs(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::inputs);
  add_input(list, "TOPOLOGY", "", "devices and the network between them (YAML)", options.topology);
  add_option(
      list, "--gpus", "LIST",
      "instead of TOPOLOGY: machines as GPUSxGPU@SITE or HOSTSxGPUSxGPU@SITE, with commas between them",
      [&](const std::string& text) { options.gpus = text; });
  add_repeatable_option(
      list, "--link", "LINK",
      "with --gpus: `SITE-SITE: LATENCY BANDWIDTH`, SITE or *; with least-bandwidth: the link, as SITE,SITE; "
      "the same SITE twice means between its hosts; may be repeated [the link that the plan uses longest]",
      [&](const std::string& text) { set_link(text, options); });
  add_input(list, "--job", "FILE", "job to plan (YAML) [GPT-3 XL]", options.job);
  add_model_options(list, options.model, options.sequence);
  Option& target = add_option(
      list, "--target", "NAME", "trainer that will run the plan; see dtfm-plan --list-targets [any]",
      [&](const std::string& name) {
        for (const RemovedTarget& it : removed_targets())
          if (it.name == name) throw Error("--target", std::string(it.message));
        options.target = io::find_row(target_table(), current_name(name), "--target", "unknown").kind;
      });
  const auto names = names_in(target_table());
  set_completion_values(target, {names.begin(), names.end()});
  add_batch_option(list, options.batch);
  add_calibration_option(list, options.calibration);
}

void add_parallelism_options(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::parallelism);
  add_option(list, "--pipeline", "N|auto", "number of pipeline stages [that of the job]",
             [&](const std::string& text) {
               options.pipeline = parse_count_or_auto("--pipeline", text, options.pipeline_auto);
             });
  add_option(list, "--data", "N|auto", "number of data-parallel replicas [that of the job]",
             [&](const std::string& text) {
               options.data = parse_count_or_auto("--data", text, options.data_auto);
             });
  add_option(list, "--tensor", "N|auto", "tensor-parallel degree, within a host [that of the job]",
             [&](const std::string& text) {
               options.tensor = parse_count_or_auto("--tensor", text, options.tensor_auto);
             });
  add_option(list, "--context", "N|auto", "context-parallel degree, within a stage [that of the job]",
             [&](const std::string& text) {
               options.context = parse_count_or_auto("--context", text, options.context_auto);
             });
  add_option(list, "--expert", "N|auto", "expert-parallel degree, within a stage [that of the job]",
             [&](const std::string& text) {
               options.expert = parse_count_or_auto("--expert", text, options.expert_auto);
             });
  add_setting_options(list, options.settings);
  add_flag(list, "--uniform-pipelines",
           "gives all pipelines the same layers and micro-batches, as most trainers require",
           options.uniform_pipelines);
}

void add_search_options(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::search);
  const auto names = objective_names();
  Option& objective =
      add_option(list, "--objective", "NAME",
                 fmt::format("{} or [{}]", fmt::join(names.begin() + 1, names.end(), ", "), names.front()),
                 [&](const std::string& text) { set_objective(text, options); });
  set_completion_values(objective, {names.begin(), names.end()});
  add_option(list, "--max-iteration-time", "S",
             "with smallest-cluster or least-bandwidth: maximum iteration time, in seconds",
             [&](const std::string& text) {
               options.max_iteration_s = parse_positive_seconds("--max-iteration-time", text);
             });
  add_option(list, "--min-throughput", "SHARE",
             "with least-bandwidth: minimum throughput, as a share of that with unlimited bandwidth [0.95]",
             [&](const std::string& text) {
               options.min_throughput = io::parse_fraction_below_one("--min-throughput", text);
               if (*options.min_throughput == 0) throw Error("--min-throughput", "must be above 0");
             });
  Option& strategy = add_option(
      list, "--strategy", "NAME",
      "with --objective comm-cost: search strategy; see dtfm-plan --list-strategies [evolutionary]",
      [&](const std::string& text) { options.strategy = text; });
  set_completion_values(strategy, strategy_names());
  add_flag(list, "--prove",
           "continues until the plan is proven optimal (small problems; comm-cost or iteration-time)",
           options.prove);
  add_option(
      list, "--evaluations", "N",
      "ends each search after N evaluations, but not before 1,000 if no plan fits in memory; --pareto runs "
      "several [until converged]",
      [&](const std::string& text) {
        options.evaluations = io::parse_whole_number("--evaluations", text, 1LL, 1'000'000'000'000LL);
      });
  add_option(list, "--time-limit", "S",
             "ends the search and simulations after S seconds; not reproducible [until converged]",
             [&](const std::string& text) {
               options.work.time_limit = parse_positive_seconds("--time-limit", text);
             });
  add_seed_option(list, "seed of the random numbers [0]", options.seed);
  add_input(list, "--warm-start", "PLAN", "starts from a running plan and counts the cost of migration",
            options.warm_start);
  add_option(list, "--horizon", "DURATION", "with --warm-start: how long the new plan will be used [2h]",
             [&](const std::string& text) { options.horizon = parse_horizon(text); });
}

void add_simulation_options(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::simulation);
  add_option(list, "--finalists", "N", "number of best plans to simulate [16]", [&](const std::string& text) {
    options.finalists = io::parse_whole_number("--finalists", text, 1, 1000);
  });
  add_input(list, "--scenario", "FILE",
            "also simulates the finalists under a scenario (YAML); may be repeated", options.scenarios);
  add_option(list, "--robust", "mean|p95|worst", "criterion over the times in all scenarios [mean]",
             [&](const std::string& text) { options.robust = parse_robust_criterion(text); });
  add_option(list, "--near-equal", "SHARE",
             "plans worse than the best by at most this share are near-equal; the least sensitive wins "
             "[0.001]",
             [&](const std::string& text) {
               options.near_equal = io::parse_fraction_below_one("--near-equal", text);
             });
}

void add_given_plan_options(OptionList& list, PlanOptions& options) {
  begin_group(list, heading::given_plans);
  add_input(list, "--score", "PLAN",
            "checks, estimates and simulates a plan (JSON of dtfm-plan, CSV, Megatron-LM flags)",
            options.score);
  add_input(list, "--ranks", "FILE", "with --score: the device of each rank of a Megatron-LM plan",
            options.ranks);
  add_flag(list, "--advise", "with --score: also searches, and compares with the best plan", options.advise);
}

void add_explain_option(OptionList& list, PlanOptions& options) {
  add_flag(list, "--explain", "explains the bottleneck and what would reduce the time", options.explain);
}

void check_plan_options(const OptionList& list, PlanOptions& options) {
  if (options.gpus && options.topology.is_given()) throw Error("--gpus", "cannot be combined with TOPOLOGY");
  if (!options.links.empty() && !options.gpus)
    throw Error("--link", "requires --gpus, or the form SITE,SITE with --objective least-bandwidth");
  check_score(list, options);
  if (options.horizon && !options.warm_start) throw Error("--horizon", "requires --warm-start");
  check_question(list, options);
  if (options.keeps_pareto_front)
    reject_options(list, {"--score", "--warm-start"}, "cannot be combined with --pareto");
  options.objective = effective_objective(options);
  check_comm_cost_options(options);
}

}  // namespace dtfm::request
