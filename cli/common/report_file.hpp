// Option --report FILE.html, which several programs have.
#pragma once

#include <optional>
#include <string>

namespace dtfm::cli {

/// Checks the option before any work is done. Throws Error if this program was built without the page (no
/// npm), and if `file` is stdout, or exists and is not a report.
void check_report(const std::optional<std::string>& file);

}  // namespace dtfm::cli
