#include "cli/simulate/graph_command.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/simulate/run_stats.hpp"
#include "core/base/index.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/io/graph_reader.hpp"
#include "simulator/io/task_csv.hpp"

namespace dtfm::cli {
namespace {

using Counts = std::array<long long, 4>;  // of tasks, by state

Counts count_states(const sim::Replay& replay) {
  Counts counts{};
  for (const sim::TaskRecord& task : replay.tasks) ++counts[static_cast<std::size_t>(task.state)];
  return counts;
}

std::string tasks_csv(const sim::TaskGraph& graph, const sim::Replay& replay) {
  std::string text = "id,state,ready,start,finish\n";
  for (std::size_t i = 0; i < replay.tasks.size(); ++i)
    text += io::format_task_row(graph.task_names[i], replay.tasks[i]);
  return text;
}

bool is_interrupted(const sim::Replay& replay) {
  return replay.ended == sim::ReplayEnd::stopped;
}

std::string summary_json(const sim::Replay& replay) {
  const Counts counts = count_states(replay);
  return fmt::format(
      "{{\n  \"schema\": \"dtfm-sim-graph/1\",\n  \"makespan_s\": {:.17g},\n"
      "  \"stopped\": {},\n"
      "  \"tasks\": {{\"done\": {}, \"failed\": {}, \"blocked\": {}, \"cut\": {}}},\n"
      "  \"simulator\": {{\"events\": {}, \"flows\": {}}}\n}}\n",
      replay.makespan, is_interrupted(replay) ? "\"interrupted\"" : "null", counts[0], counts[1], counts[2],
      counts[3], replay.events, replay.flows);
}

std::string format_graph_summary(const GraphOptions& options, const sim::Replay& replay) {
  const Counts counts = count_states(replay);
  const std::string stopped =
      is_interrupted(replay)
          ? fmt::format("stopped early: interrupted at {:.10g} s\n", replay.last_event_date)
          : "";
  const std::string aborted = counts[3] > 0 ? fmt::format(", {} cut", with_thousands(counts[3])) : "";
  return fmt::format(
      "{}: {}, {} events, {} started\n"
      "{}makespan  {:.10g} s\n"
      "tasks     {} done, {} failed, {} blocked{}\n",
      options.graph, format_count(static_cast<long long>(replay.tasks.size()), "task"),
      with_thousands(replay.events), format_count(replay.flows, "flow"), stopped, replay.makespan,
      with_thousands(counts[0]), with_thousands(counts[1]), with_thousands(counts[2]), aborted);
}

void write_output(const GraphOptions& options, const sim::TaskGraph& graph, const sim::Replay& result) {
  {
    const InterruptHold hold(must_be_atomic(std::array{options.tasks, options.output}));
    if (!options.tasks.empty()) io::write_file_atomically(options.tasks, tasks_csv(graph, result));
    if (!options.output.empty()) io::write_file_atomically(options.output, summary_json(result));
  }
  const bool is_taken = io::is_stdout(options.tasks) || io::is_stdout(options.output);
  if (!options.quiet && !is_taken) print_result(format_graph_summary(options, result));
}

}  // namespace

int run_graph_command(const GraphOptions& options) {
  InterruptWatch watch("a result");
  check_outputs(std::array{options.graph}, std::array{options.output, options.tasks});
  const double begin = cpu_seconds();
  const sim::TaskGraph graph =
      io::parse_task_graph(io::read_file(options.graph, io::max_graph_file_bytes), options.graph);
  const double read = cpu_seconds();
  watch.keep_result();
  sim::ReplayOptions replay_options;
  replay_options.stop = watch.stop();
  sim::Replay result = sim::replay(graph, replay_options);
  result.tasks.resize(graph.tasks.size());  // if it was interrupted before it began
  const double ran = cpu_seconds();
  write_output(options, graph, result);
  if (options.stats)
    print_error(stats_json({static_cast<long long>(result.tasks.size()), result.flows, result.events,
                            read - begin, ran - read}));
  return watch.interrupted() ? exit_code::interrupted : exit_code::done;
}

}  // namespace dtfm::cli
