// A report as one self-contained HTML file.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace dtfm::report {

/// Whether this was built with the page (with npm). Without it, report_html must not be called.
bool has_page();

/// Whether a file begins as a page does.
bool begins_as_page(const std::string& begin);

/// The page for `document` (report_document). Text in `document` or `title` is never interpreted as markup or
/// script.
std::string report_html(std::string_view title, const nlohmann::ordered_json& document);

/// JSON that is safe inside a script element: `<`, `>`, `&`, U+2028 and U+2029 are \u escapes.
std::string script_json(const nlohmann::ordered_json& value);

/// `text` escaped for use between tags or in a quoted attribute.
std::string html_text(std::string_view text);

}  // namespace dtfm::report
