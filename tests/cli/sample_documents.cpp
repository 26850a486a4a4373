// Writes the documents of a fictitious program whose texts try to break the markup; tests/cli/documents.py
// runs the result.
#include <string>
#include <vector>

#include "cli/common/command_line.hpp"
#include "cli/documents/documents.hpp"

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
  using namespace dtfm::cli;
  const AppPointer app = make_app();
  set_texts(*app, "dtfm-sample", hostile, footer);
  add_option(*app, "--mode", "fast|exact", hostile, ignore);
  set_completion_values(*add_option(*app, "-n,--name", "NAME", hostile, ignore), {"resnet-50", "gpt3-6.7b"});
  std::string format;
  std::vector<std::string> files;
  CLI::App& import_command = add_command(*app, "import", hostile, footer, [] {});
  set_completion_values(*add_argument(import_command, "FORMAT", hostile, format), {"ping", "iperf"});
  add_argument(import_command, "FILE", "what was measured", files);
  add_option(import_command, "--into", "DIR", "where to", ignore);
  CLI::App& show = add_command(*app, "show", "Prints something.", footer, [] {});
  add_option(add_command(show, "links", hostile, footer, [] {}), "--unit", "ms|s", "of times", ignore);
  write_documents(std::vector{describe(*app)}, argv[1]);
}
