// Writes the documents of a fictitious program whose texts try to break the markup; tests/cli/documents.py
// runs the result.
#include <string>
#include <vector>

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
  using namespace dtfm::request;
  OptionList list;
  set_texts(list, "dtfm-sample", hostile, footer);
  add_option(list, "--mode", "fast|exact", hostile, ignore);
  set_completion_values(add_option(list, "-n,--name", "NAME", hostile, ignore), {"resnet-50", "gpt3-6.7b"});
  std::string format;
  std::vector<std::string> files;
  OptionList& import_command = add_command(list, "import", hostile, footer, [] {});
  set_completion_values(add_argument(import_command, "FORMAT", hostile, format), {"ping", "iperf"});
  add_argument(import_command, "FILE", "what was measured", files);
  add_option(import_command, "--into", "DIR", "where to", ignore);
  OptionList& show = add_command(list, "show", "Prints something.", footer, [] {});
  add_option(add_command(show, "links", hostile, footer, [] {}), "--unit", "ms|s", "of times", ignore);
  write_documents(std::vector{describe(list)}, argv[1]);
}
