// dtfm-compare without its command line.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/compare/compare_options.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/write_report.hpp"
#include "planner/api/replanner.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "planner/io/readers/calibration_reader.hpp"
#include "planner/io/readers/job_reader.hpp"
#include "planner/io/readers/roofline_reader.hpp"
#include "planner/io/readers/topology_reader.hpp"
#include "planner/io/text/json_format.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "simulator/io/scenario_reader.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* planned = "planned";

struct Input {
  Problem problem;
  std::vector<sim::Scenario> scenarios;  // the first: nothing happens
};

Input read_input(const CompareOptions& options) {
  Input input;
  input.problem.topology = io::read_topology(options.topology);
  input.problem.job = options.job ? io::read_job(*options.job) : io::default_job();
  input.problem.constants =
      options.calibration ? io::read_calibration(*options.calibration).constants : io::built_in_calibration();
  input.problem.roofline = io::built_in_roofline();
  input.scenarios.emplace_back();
  for (const std::string& file : options.scenarios)
    input.scenarios.push_back(io::read_scenario(file, input.problem.topology));
  return input;
}

bool is_requested(const CompareOptions& options, std::string_view scheme) {
  return options.schemes.empty() ||
         std::find(options.schemes.begin(), options.schemes.end(), scheme) != options.schemes.end();
}

double failure_free_s(const search::PlanCandidate& candidate) {
  Problem problem = candidate.job->problem;
  if (candidate.flush > 0) problem.job.parallelism.flush = candidate.flush;
  return sim::undisturbed_seconds(problem, candidate.plan);
}

/// The plan that dtfm-plan makes by default: of the search's finalists, the one that is simulated fastest.
api::ChosenLayout plan_layout(const Problem& problem, const CompareOptions& options,
                              const InterruptWatch& watch, ProgressPrinter& printer) {
  search::IterationSearchOptions search;
  search.common.seed = options.seed;
  search.common.threads = options.threads;
  search.common.stop = watch.stop();
  search.common.on_progress = [&](const search::Progress& progress) {
    if (printer.is_due()) printer.show(progress);
  };
  api::ChosenLayout chosen;
  const search::IterationSearchResult found = search::search_iteration(problem, search);
  std::vector<search::PlanCandidate> fitting;
  for (const search::PlanCandidate& it : found.finalists)
    if (it.deficit_bytes <= 0) fitting.push_back(it);
  chosen.tried = static_cast<int>(found.finalists.size());
  chosen.fitting = static_cast<int>(fitting.size());
  if (fitting.empty()) {
    chosen.no_layout_reason = "no plan fits the memory";
    return chosen;
  }
  const std::vector<double> seconds = parallel_map(static_cast<int>(fitting.size()), options.threads,
                                                   [&](int i) { return failure_free_s(fitting[at(i)]); });
  const auto best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  const search::PlanCandidate& plan = fitting[static_cast<std::size_t>(best)];
  chosen.layout = api::Layout{plan.job->problem.job, plan.plan, 1};
  if (plan.flush > 0) chosen.layout->job.parallelism.flush = plan.flush;
  return chosen;
}

api::ChosenLayout plan_layout_or_error(const Problem& problem, const CompareOptions& options,
                                       const InterruptWatch& watch, ProgressPrinter& printer) {
  try {
    return plan_layout(problem, options, watch, printer);
  } catch (const Error& error) {
    api::ChosenLayout none;
    none.no_layout_reason = error.what();
    none.is_input_error = true;
    return none;
  }
}

/// `replans`: the plan of dtfm-plan, which goes on with another where the scenario's policy asks for one.
ComparedRun simulate_layout(const Problem& problem, const api::ChosenLayout& chosen,
                            const sim::Scenario& scenario, const CompareOptions& options,
                            const InterruptWatch& watch, bool replans) {
  sim::SimOptions sim;
  sim.iterations = options.iterations;
  sim.seed = options.seed;
  sim.stop = watch.stop();
  const Problem scheme_problem{problem.topology, chosen.layout ? chosen.layout->job : problem.job,
                               problem.constants, problem.roofline};  // outlives the run
  if (replans) sim.replan = api::make_replanner(scheme_problem);
  ComparedRun run;
  try {
    run.report = api::simulate_chosen(problem, chosen, scenario, sim);
  } catch (const Error& error) {
    run.error = error.what();
  }
  return run;
}

/// Under every scenario; none without a layout.
std::vector<ComparedRun> simulate_scenarios(const ComparedScheme& scheme, const Input& input,
                                            const CompareOptions& options, const InterruptWatch& watch) {
  if (!scheme.chosen.is_any()) return {};
  return parallel_map(static_cast<int>(input.scenarios.size()), options.threads, [&](int i) {
    return simulate_layout(input.problem, scheme.chosen, input.scenarios[at(i)], options, watch,
                           scheme.name == planned);
  });
}

ComparedScheme make_compared_scheme(const api::Scheme& scheme, const Problem& problem,
                                    const CompareOptions& options, const InterruptWatch& watch) {
  const api::SchemeOptions scheme_options{options.seed, options.sync_every, options.skip, options.verify,
                                          options.faulty_share};
  return {std::string(scheme.name),
          std::string(scheme.what),
          api::assumptions(scheme, scheme_options),
          api::choose_layout(problem, scheme, scheme_options, options.threads, watch.stop()),
          {}};
}

ComparedScheme make_planned_scheme(const Problem& problem, const CompareOptions& options,
                                   const InterruptWatch& watch, ProgressPrinter& printer) {
  return {planned,
          "the plan that dtfm-plan makes",
          "messages overlap with computations; stages and pipelines may differ from each other",
          plan_layout_or_error(problem, options, watch, printer),
          {}};
}

/// Each is simulated before the next is chosen, so that who interrupts has the results of those before.
std::vector<ComparedScheme> compare_schemes(const Input& input, const CompareOptions& options,
                                            const InterruptWatch& watch) {
  std::vector<ComparedScheme> done;
  const auto add = [&](ComparedScheme scheme) {
    scheme.runs = simulate_scenarios(scheme, input, options, watch);
    done.push_back(std::move(scheme));
  };
  ProgressPrinter printer(options.quiet, "dtfm-compare");
  if (is_requested(options, planned)) add(make_planned_scheme(input.problem, options, watch, printer));
  const auto all = static_cast<double>(api::schemes().size());
  for (const api::Scheme& scheme : api::schemes()) {
    if (watch.interrupted() || !is_requested(options, scheme.name)) continue;
    if (printer.is_due())
      printer.show(static_cast<double>(&scheme - api::schemes().data()) / all,
                   fmt::format("layouts of {}", scheme.name));
    add(make_compared_scheme(scheme, input.problem, options, watch));
  }
  return done;
}

/// Where no scheme has a layout, for the input allows to simulate none.
void throw_if_input_errors(const std::vector<ComparedScheme>& schemes) {
  if (std::all_of(schemes.begin(), schemes.end(),
                  [](const ComparedScheme& it) { return it.chosen.is_input_error; }))
    throw Error("", fmt::format("no scheme can be simulated: {}", schemes.front().chosen.no_layout_reason));
}

void write_output(const CompareOptions& options, const Comparison& comparison) {
  const auto document = comparison_document(comparison);
  write_output(options.output, options.format, io::format_json(document), format_summary(comparison),
               options.color, [&] {
                 if (options.report) write_comparison_report(*options.report, comparison.problem, document);
               });
}

std::string scheme_list() {
  std::vector<std::vector<std::string>> rows = {{planned, "the plan that dtfm-plan makes"}};
  for (const api::Scheme& it : api::schemes()) rows.push_back({std::string(it.name), std::string(it.what)});
  return align_columns(rows);
}

}  // namespace

std::vector<std::string> compared_schemes() {
  std::vector<std::string> names = {planned};
  for (const api::Scheme& it : api::schemes()) names.emplace_back(it.name);
  return names;
}

int run_compare_command(const CompareOptions& options) {
  if (options.list_schemes) {
    print_result(scheme_list(), options.color);
    return exit_code::done;
  }
  check_report(options.report);
  InterruptWatch watch("a comparison");
  std::vector<std::string> inputs = options.scenarios;
  inputs.insert(inputs.end(), {options.topology, options.job.value_or(""), options.calibration.value_or("")});
  const std::array outputs{options.output.value_or(""), options.report.value_or("")};
  check_outputs(inputs, outputs);
  const io::ReadLog read;
  const Input input = read_input(options);
  check_not_read(read, outputs);
  watch.keep_result();
  Comparison comparison{input.problem, {}, options.seed, {}, false};
  for (const sim::Scenario& it : input.scenarios) comparison.scenarios.push_back({it.name, it.horizon_s});
  comparison.schemes = compare_schemes(input, options, watch);
  comparison.is_interrupted = watch.interrupted();
  if (!watch.interrupted()) throw_if_input_errors(comparison.schemes);
  write_output(options, comparison);
  if (watch.interrupted()) return exit_code::interrupted;
  const bool any = std::any_of(comparison.schemes.begin(), comparison.schemes.end(),
                               [](const ComparedScheme& it) { return it.chosen.is_any(); });
  return any ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
