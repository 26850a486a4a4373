// dtfm-compare without its command line.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/compare/compare_options.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/put_out.hpp"
#include "planner/api/replanner.hpp"
#include "cli/report/put_report.hpp"
#include "cli/report/report_html.hpp"
#include "cli/common/words.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "planner/io/readers/calibration_reader.hpp"
#include "planner/io/readers/job_reader.hpp"
#include "planner/io/text/json_text.hpp"
#include "planner/io/readers/roofline_reader.hpp"
#include "planner/io/readers/topology_reader.hpp"
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

bool is_asked_for(const CompareOptions& options, std::string_view scheme) {
  return options.schemes.empty() ||
         std::find(options.schemes.begin(), options.schemes.end(), scheme) != options.schemes.end();
}

double undisturbed_s(const search::PlanCandidate& candidate) {
  Problem problem = candidate.job->problem;
  if (candidate.flush > 0) problem.job.parallelism.flush = candidate.flush;
  return sim::undisturbed_seconds(problem, candidate.plan);
}

/// The plan that dtfm-plan makes by default: of the search's finalists, the one that is simulated fastest.
api::ChosenLayout planned_layout(const Problem& problem, const CompareOptions& options,
                            const InterruptWatch& watch, ProgressPrinter& printer) {
  search::IterationSearchOptions search;
  search.common.seed = options.seed;
  search.common.threads = options.threads;
  search.common.interrupted = &watch.interrupted();
  search.common.on_progress = [&](const search::Progress& progress) {
    if (printer.is_due()) printer.show(progress);
  };
  api::ChosenLayout chosen;
  const search::IterationSearchResult found = search::search_iteration(problem, search);
  std::vector<search::PlanCandidate> fitting;
  for (const search::PlanCandidate& it : found.finalists)
    if (it.lacking <= 0) fitting.push_back(it);
  chosen.tried = static_cast<int>(found.finalists.size());
  chosen.fitting = static_cast<int>(fitting.size());
  if (fitting.empty()) {
    chosen.why_none = "no plan fits the memory";
    return chosen;
  }
  const std::vector<double> seconds = parallel_map(static_cast<int>(fitting.size()), options.threads,
                                                   [&](int i) { return undisturbed_s(fitting[at(i)]); });
  const auto best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  const search::PlanCandidate& plan = fitting[static_cast<std::size_t>(best)];
  chosen.layout = api::Layout{plan.job->problem.job, plan.plan, 1};
  if (plan.flush > 0) chosen.layout->job.parallelism.flush = plan.flush;
  return chosen;
}

api::ChosenLayout planned_or_why_not(const Problem& problem, const CompareOptions& options,
                                const InterruptWatch& watch, ProgressPrinter& printer) {
  try {
    return planned_layout(problem, options, watch, printer);
  } catch (const Error& error) {
    api::ChosenLayout none;
    none.why_none = error.what();
    none.is_fault = true;
    return none;
  }
}

/// `replans`: the plan of dtfm-plan, which goes on with another where the scenario's policy asks for one.
ComparedRun simulated(const Problem& problem, const api::ChosenLayout& chosen, const sim::Scenario& scenario,
                      const CompareOptions& options, const InterruptWatch& watch, bool replans) {
  sim::SimOptions sim;
  sim.iterations = options.iterations;
  sim.seed = options.seed;
  sim.stop = watch.stop();
  const Problem own{problem.topology, chosen.layout ? chosen.layout->job : problem.job, problem.constants,
                    problem.roofline};  // outlives the run
  if (replans) sim.replan = api::replanner(own);
  ComparedRun run;
  try {
    run.report = api::simulate_chosen(problem, chosen, scenario, sim);
  } catch (const Error& error) {
    run.error = error.what();
  }
  return run;
}

/// Under every scenario; none without a layout.
std::vector<ComparedRun> runs_of(const ComparedScheme& scheme, const Input& input,
                                 const CompareOptions& options, const InterruptWatch& watch) {
  if (!scheme.chosen.is_any()) return {};
  return parallel_map(static_cast<int>(input.scenarios.size()), options.threads, [&](int i) {
    return simulated(input.problem, scheme.chosen, input.scenarios[at(i)], options, watch,
                     scheme.name == planned);
  });
}

ComparedScheme with_layout(const api::Scheme& scheme, const Problem& problem, const CompareOptions& options,
                           const InterruptWatch& watch) {
  const api::SchemeOptions of_schemes{options.seed, options.sync_every, options.skip, options.verify,
                                 options.lying};
  return {std::string(scheme.name),
          std::string(scheme.what),
          api::assumptions(scheme, of_schemes),
          api::choose_layout(problem, scheme, of_schemes, options.threads, watch.stop()),
          {}};
}

ComparedScheme planned_scheme(const Problem& problem, const CompareOptions& options,
                              const InterruptWatch& watch, ProgressPrinter& printer) {
  return {planned,
          "the plan that dtfm-plan makes",
          "messages overlap with computations; stages and pipelines may differ from each other",
          planned_or_why_not(problem, options, watch, printer),
          {}};
}

/// Each is simulated before the next is chosen, so that who interrupts has the results of those before.
std::vector<ComparedScheme> compared(const Input& input, const CompareOptions& options,
                                     const InterruptWatch& watch) {
  std::vector<ComparedScheme> done;
  const auto add = [&](ComparedScheme scheme) {
    scheme.runs = runs_of(scheme, input, options, watch);
    done.push_back(std::move(scheme));
  };
  ProgressPrinter printer(options.quiet, "dtfm-compare");
  if (is_asked_for(options, planned)) add(planned_scheme(input.problem, options, watch, printer));
  const auto all = static_cast<double>(api::schemes().size());
  for (const api::Scheme& scheme : api::schemes()) {
    if (watch.interrupted() || !is_asked_for(options, scheme.name)) continue;
    if (printer.is_due())
      printer.show(static_cast<double>(&scheme - api::schemes().data()) / all,
                   fmt::format("layouts of {}", scheme.name));
    add(with_layout(scheme, input.problem, options, watch));
  }
  return done;
}

/// Where no scheme has a layout, for the input allows to simulate none.
void refuse_faults(const std::vector<ComparedScheme>& schemes) {
  if (std::all_of(schemes.begin(), schemes.end(),
                  [](const ComparedScheme& it) { return it.chosen.is_fault; }))
    throw Error("", fmt::format("no scheme can be simulated: {}", schemes.front().chosen.why_none));
}

void put_out(const CompareOptions& options, const Comparison& comparison) {
  const auto document = comparison_document(comparison);
  put_out(options.output, options.format, io::json_text(document), summary_text(comparison), options.color, [&] {
    if (options.report) put_comparison_report(*options.report, comparison.problem, document);
  });
}

std::string scheme_list() {
  std::vector<std::vector<std::string>> rows = {{planned, "the plan that dtfm-plan makes"}};
  for (const api::Scheme& it : api::schemes()) rows.push_back({std::string(it.name), std::string(it.what)});
  return aligned(rows);
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
  comparison.schemes = compared(input, options, watch);
  comparison.is_interrupted = watch.interrupted();
  if (!watch.interrupted()) refuse_faults(comparison.schemes);
  put_out(options, comparison);
  if (watch.interrupted()) return exit_code::interrupted;
  const bool any = std::any_of(comparison.schemes.begin(), comparison.schemes.end(),
                               [](const ComparedScheme& it) { return it.chosen.is_any(); });
  return any ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
