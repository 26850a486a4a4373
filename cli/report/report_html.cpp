#include "cli/report/report_html.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/common/output_check.hpp"
#include "planner/core/error.hpp"
#include "planner/io/text/atomic_file.hpp"

namespace dtfm::cli {

extern const std::string_view report_page;  // by report_page.cmake; empty where there was no npm

namespace {

using Replacements = std::span<const std::pair<std::string_view, std::string_view>>;

std::string replaced(std::string_view text, Replacements replacements) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto rest = text.substr(i);
    const auto match = std::find_if(replacements.begin(), replacements.end(),
                                    [&](const auto& it) { return rest.starts_with(it.first); });
    result += match == replacements.end() ? rest.substr(0, 1) : match->second;
    i += match == replacements.end() ? 1 : match->first.size();
  }
  return result;
}

/// The parts of the page before, between and after its two marks.
std::array<std::string_view, 3> page_parts() {
  constexpr std::string_view title_mark = "{{title}}", data_mark = "{{data}}";
  const std::size_t title = report_page.find(title_mark), data = report_page.find(data_mark);
  DTFM_ASSERT(title < data && data < report_page.size());
  const std::size_t after_title = title + title_mark.size();
  return {report_page.substr(0, title), report_page.substr(after_title, data - after_title),
          report_page.substr(data + data_mark.size())};
}

bool begins_as_page(const std::string& begin) {
  return begin.starts_with("<!DOCTYPE html>");
}

}  // namespace

void check_report(const std::optional<std::string>& file) {
  if (!file) return;
  if (report_page.empty())
    throw Error("--report",
                "this program was built without the page, which takes npm: install it (on Debian "
                "and Ubuntu the package npm), configure and build again");
  if (file->empty()) throw Error("--report", "name of the output file is empty");
  if (io::is_stdout(*file)) throw Error("--report", "needs a file; stdout has the result or its summary");
  check_kind(*file, begins_as_page, "report");
}

std::string script_json(const nlohmann::ordered_json& value) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> escapes = {
      {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}}};
  return replaced(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), escapes);
}

std::string html_text(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> escapes = {
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}}};
  return replaced(text, escapes);
}

std::string report_html(std::string_view title, const nlohmann::ordered_json& document) {
  const auto [head, body, tail] = page_parts();
  std::string page(head);
  page += html_text(title);
  page += body;
  page += script_json(document);
  page += tail;
  return page;
}

}  // namespace dtfm::cli
