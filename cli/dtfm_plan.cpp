// dtfm-plan: the command line.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"
#include "cli/plan_formats.hpp"
#include "cli/plan_options.hpp"
#include "cli/whole_number.hpp"
#include "planner/io/suggest.hpp"
#include "planner/io/units.hpp"

namespace dtfm {
namespace {

#ifdef DTFM_HAVE_CUDA
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: yes)";
#else
constexpr const char* version_line = "dtfm-plan " DTFM_VERSION " (CUDA: no)";
#endif

constexpr const char* examples = R"(Examples:
  dtfm-plan worldwide.yaml -o plan.json
  dtfm-plan worldwide.yaml --job my-job.yaml --pipeline 16 --seed 1 --evaluations 20000
  dtfm-plan worldwide.yaml --time-limit 60 --format json | jq .estimate
  dtfm-plan worldwide.yaml --score plan-from-elsewhere.json
  dtfm-plan worldwide.yaml --job my-job.yaml --score table.csv
  dtfm-plan worldwide.yaml --job my-job.yaml --score train.sh --ranks rankfile

Exit codes: 0 done, 1 a bug of ours, 2 bad usage or bad input, 130 interrupted (the best plan so far has been written).)";

double seconds_above_zero(const std::string& option, const std::string& text) {
  constexpr int most = 1'000'000'000;  // 31 years
  try {
    const double value = parse_decimal(text);
    if (value > 0 && value <= most) return value;
  } catch (const Error&) {
  }
  throw Error(option, fmt::format("expected a number of seconds above zero, at most {}; found {}", most,
                                  in_quotes(text)));
}

void set_objective(const std::string& name, PlanOptions& options) {
  const std::vector<std::string_view> later = {"iteration-time", "cost-per-token", "device-efficiency"};
  if (std::find(later.begin(), later.end(), name) != later.end())
    throw Error("--objective", name + " is not available in this version: comm-cost is");
  if (name != "comm-cost")
    throw Error("--objective",
                fmt::format("unknown {}; {}", in_quotes(name), suggestion(name, {"comm-cost"})));
  options.objective = name;
}

void check_tensor(const std::string& text) {
  if (text == "auto" || text == "1") return;
  whole_number("--tensor", text, 1, 1'000'000);
  throw Error("--tensor", "only 1 is available in this version");
}

void add_what(CLI::App& app, PlanOptions& options) {
  app.add_option("TOPOLOGY", options.topology, "the machines and the network between them (YAML)")
      ->type_name("");
  add_option(app, "--job", "FILE", "what is trained (YAML); GPT-3 XL when not given",
             [&](const std::string& text) { options.job = text; });
  add_option(app, "--objective", "NAME", "what is minimised: comm-cost",
             [&](const std::string& text) { set_objective(text, options); });
  add_option(app, "--pipeline", "N|auto", "stages; auto: the job's number", [&](const std::string& text) {
    if (text != "auto") options.pipeline = whole_number("--pipeline", text, 1, 1'000'000);
  });
  add_option(app, "--data", "N|auto", "replicas; auto: devices / stages", [&](const std::string& text) {
    options.data_auto = text == "auto";
    if (!options.data_auto) options.data = whole_number("--data", text, 1, 1'000'000);
  });
  add_option(app, "--tensor", "N|auto", "devices a stage: 1", check_tensor);
  add_option(app, "--score", "PLAN", "no search: check and score this plan, in any of the formats below",
             [&](const std::string& text) { options.score = text; });
  add_option(app, "--ranks", "FILE", "with --score: the device of each rank of a Megatron plan",
             [&](const std::string& text) { options.ranks = text; });
}

void add_how(CLI::App& app, PlanOptions& options) {
  add_option(app, "--strategy", "NAME", "the search; see --list-strategies",
             [&](const std::string& text) { options.strategy = text; });
  app.add_flag("--list-strategies", options.list_strategies, "names the strategies and exits");
  add_option(app, "--seed", "N", "of the random numbers (0)", [&](const std::string& text) {
    options.seed = whole_number<std::uint64_t>("--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
  });
  add_option(app, "--threads", "N", "all cores when not given; any number gives the same plan",
             [&](const std::string& text) { options.threads = whole_number("--threads", text, 1, 1024); });
  add_option(app, "--evaluations", "N", "stops after so many candidates", [&](const std::string& text) {
    options.evaluations = whole_number("--evaluations", text, 1LL, 1'000'000'000'000LL);
  });
  add_option(app, "--time-limit", "S", "stops after so many seconds; another run may then give another plan",
             [&](const std::string& text) { options.time_limit = seconds_above_zero("--time-limit", text); });
  app.add_flag("--prove", options.prove, "works on until the plan is proven optimal");
}

void add_output(CLI::App& app, PlanOptions& options) {
  add_option(app, "-o,--output", "FILE", "writes the plan (JSON); - is stdout, in place of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--format", "text|json", "of what is printed (text)",
             [&](const std::string& text) { options.format = output_format(text); });
  app.add_flag("--quiet", options.quiet, "no progress");
  app.set_version_flag("--version", version_line);
}

/// A score is not searched for: an option of the search beside it is a mistake.
void refuse_search_options(const CLI::App& app) {
  for (const char* name : {"--strategy", "--seed", "--evaluations", "--time-limit", "--prove"})
    if (app.count(name) > 0) throw Error(name, "is of the search, and --score does not search");
}

PlanOptions default_options() {
  PlanOptions options;
  options.threads = all_threads();
  return options;
}

int run(int argc, char** argv) {
  PlanOptions options = default_options();
  CLI::App app("Places the stages and replicas of a training job on far-apart, unlike machines.",
               "dtfm-plan");
  app.footer(fmt::format("{}\n\n{}", examples, plan_formats));
  add_what(app, options);
  add_how(app, options);
  add_output(app, options);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (options.topology.empty() && !options.list_strategies)
    throw Error("", "TOPOLOGY is missing (see dtfm-plan --help)");
  if (options.score) refuse_search_options(app);
  if (options.ranks && !options.score) throw Error("--ranks", "is of the plan to --score, and there is none");
  return run_plan_command(options);
}

}  // namespace
}  // namespace dtfm

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-plan", [&] { return dtfm::run(argc, argv); });
}
