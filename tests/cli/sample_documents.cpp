// Writes the documents of a fictitious program whose texts try to break the markup; tests/cli/documents.py
// runs the result.
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/documents/write_documents.hpp"

namespace {

constexpr const char* hostile = R"(it's [a]: "b" $(touch pwned) `touch pwned` \fB{x} %s é; touch pwned #)";

constexpr const char* footer = R"(Examples:
  dtfm-sample import ping 'a file'
.SH INJECTED
'br

Exit codes: 0 done, 2 bad input.

Notes come last.)";

void ignore(const std::string&) {}

}  // namespace

int main(int, char** argv) {
  CLI::App app(hostile, "dtfm-sample");
  app.footer(footer);
  dtfm::cli::add_option(app, "--mode", "fast|exact", hostile, ignore);
  dtfm::cli::set_completion_values(*dtfm::cli::add_option(app, "-n,--name", "NAME", hostile, ignore),
                                   {"resnet-50", "gpt3-6.7b"});
  CLI::App* import_command = app.add_subcommand("import", hostile);
  std::string format;
  std::vector<std::string> files;
  dtfm::cli::set_completion_values(*import_command->add_option("FORMAT", format, hostile)->type_name(""),
                                   {"ping", "iperf"});
  import_command->add_option("FILE", files, "what was measured")->type_name("");
  dtfm::cli::add_option(*import_command, "--into", "DIR", "where to", ignore);
  CLI::App* show = app.add_subcommand("show", "Prints something.");
  dtfm::cli::add_option(*show->add_subcommand("links", hostile), "--unit", "ms|s", "of times", ignore);
  dtfm::cli::write_documents(std::vector{dtfm::cli::describe(app)}, argv[1]);
}
