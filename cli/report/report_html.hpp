// A report as one HTML file that needs nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace dtfm::cli {

/// Throws Error for option --report where this program was built without the page (no npm), and for a `file`
/// that is stdout, or exists and is no page: at once, before any work is done.
void check_report(const std::optional<std::string>& file);

/// The page about `document` (report_document). Nothing in `document` or `title` becomes part of the page's
/// markup or is run.
std::string report_html(std::string_view title, const nlohmann::ordered_json& document);

/// JSON that ends neither a script element nor a string: `<`, `>`, `&`, U+2028 and U+2029 as \u escapes.
std::string script_json(const nlohmann::ordered_json& value);

/// As text between tags or in a quoted attribute.
std::string html_text(std::string_view text);

}  // namespace dtfm::cli
