#include "cli/common/report_file.hpp"

#include "cli/common/output_check.hpp"
#include "core/base/error.hpp"
#include "core/io/text/atomic_file.hpp"
#include "planner/report/report_html.hpp"

namespace dtfm::cli {

void check_report(const std::optional<std::string>& file) {
  if (!file) return;
  if (!report::has_page())
    throw Error(
        "--report",
        "this program was built without the page, which requires npm: install it (package npm on Debian "
        "and Ubuntu), then configure and build again");
  if (file->empty()) throw Error("--report", "name of the output file is empty");
  if (io::is_stdout(*file)) throw Error("--report", "requires a file; stdout has the result or its summary");
  check_kind(*file, report::begins_as_page, "report");
}

}  // namespace dtfm::cli
