// dtfm-sim: the command line.
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/graph_command.hpp"
#include "cli/main_guard.hpp"
#include "planner/io/suggest.hpp"

namespace dtfm {
namespace {

constexpr const char* examples =
    R"(A graph is text, one statement a line; times in s, sizes in bytes, rates in bytes per second:
  host a
  host b
  link wan 125e6 0.05
  route a b wan
  compute forward a 1.5
  flow send a b 64e6 after forward

Examples:
  dtfm-sim --graph ring.txt
  dtfm-sim --graph ring.txt --tasks dates.csv --quiet
  dtfm-sim --graph ring.txt --tasks - | sort -t, -k5g | tail -1
  dtfm-sim --graph ring.txt --stats -o result.json

Exit codes: 0 done, 1 a bug of ours, 2 bad usage or bad input.)";

/// The words that CLI11 did not expect, with what the user may have meant.
std::string unexpected_arguments(const CLI::App& app) {
  const std::string word = app.remaining().empty() ? "" : app.remaining().front();
  const std::string text = fmt::format("unexpected argument {}", in_quotes(word));
  if (!word.starts_with("--")) return text;
  return text + "; " +
         suggestion(word.substr(0, word.find('=')),
                    {"--graph", "--tasks", "--output", "--stats", "--quiet", "--version", "--help"});
}

void add_options(CLI::App& app, GraphOptions& options) {
  app.footer(examples);
  app.add_option("--graph", options.graph, "task graph to replay")->type_name("FILE");
  app.add_option("--tasks", options.tasks,
                 "writes when each task was ready, started and finished (CSV; - is stdout)")
      ->type_name("FILE");
  app.add_option("-o,--output", options.output, "writes the summary (JSON)")->type_name("FILE");
  app.add_flag("--stats", options.stats, "a line of JSON on stderr: counts, CPU time, memory");
  app.add_flag("--quiet", options.quiet, "no summary on stdout");
  app.set_version_flag("--version", "dtfm-sim " DTFM_VERSION);
}

int run(int argc, char** argv) {
  GraphOptions options;
  CLI::App app("Replays computations and transfers on hosts and shared links, event by event.", "dtfm-sim");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    throw Error("", unexpected_arguments(app) + " (see dtfm-sim --help)");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw Error("", std::string(error.what()) + " (see dtfm-sim --help)");
  }
  if (options.graph.empty()) throw Error("", "--graph FILE is missing (see dtfm-sim --help)");
  return run_graph_command(options);
}

}  // namespace
}  // namespace dtfm

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-sim", [&] { return dtfm::run(argc, argv); });
}
