#include "simulator/io/trace_reader.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/io/text/csv_table.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// Limits of the nonzero values of relative traces; absolute ones have the limits of their unit.
constexpr double min_factor = 1e-9, max_factor = 1e9;

TraceFormat parse_format(const YamlMap& map, sim::LinkTrace::Quantity quantity) {
  const bool is_rate = quantity == sim::LinkTrace::Quantity::bandwidth;
  TraceFormat format;
  format.relative = map.required("kind").choice({"relative", "absolute"}) == 0;
  const auto unit = map.optional("unit"), reference = map.optional("reference");
  if (!format.relative && reference) throw reference->value_error("requires `kind: relative`");
  if (format.relative && unit.has_value() != reference.has_value())
    throw map.error("a relative trace requires both `unit` and `reference`, or neither");
  if (!format.relative || unit)
    format.value = read_unit(map.required("unit"), is_rate ? rate_unit : time_unit);
  if (reference) format.reference = is_rate ? reference->rate().value() : reference->seconds().value();
  if (format.reference <= 0) throw reference->value_error("must be above zero");
  if (const auto time = map.optional("time_unit")) format.time = read_unit(*time, time_unit);
  if (const auto column = map.optional("column")) format.column = column->text();
  if (const auto repeat = map.optional("repeat")) {
    const bool is_word = repeat->is_word("true") || repeat->is_word("false");
    format.repeat = !is_word || repeat->boolean();
    if (!is_word) format.period = repeat->seconds().value();
    if (!is_word && format.period <= 0) throw repeat->value_error("must be above zero");
  }
  return format;
}

/// The index, from 0, of the column that holds the values.
std::size_t value_cell(const CsvTable& table, const std::vector<std::string>& header,
                       const std::string& column, const std::string& file) {
  const std::size_t count = header.empty() ? table.cells().size() : header.size();
  if (column.empty()) {
    if (count == 2) return 1;
    throw Error(
        position(file, 1, 1),
        fmt::format("expected a time and a value; found {} columns: select one with `column`", count));
  }
  if (const auto name = std::find(header.begin(), header.end(), column); name != header.end())
    return static_cast<std::size_t>(name - header.begin());
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(column.data(), column.data() + column.size(), number);
  const bool is_number = status == std::errc() && end == column.data() + column.size();
  if (is_number && number >= 2 && number <= count) return number - 1;
  const std::vector<std::string_view> names(header.begin(), header.end());
  throw Error(position(file, 1, 1),
              fmt::format("there is no column {}; {}", quote(column),
                          is_number ? fmt::format("there are {}, of which the first is the time", count)
                          : header.empty() ? "the file has no header"
                                           : suggestion(column, names)));
}

double check_factor(const CsvTable& table, std::size_t cell, double value) {
  if (value != 0 && (value < min_factor || value > max_factor))
    throw table.error(
        cell, fmt::format("the value is out of range: a factor is 0, or from {:g} to {:g}; found {:g}",
                          min_factor, max_factor, value));
  return value;
}

void add_step(const CsvTable& table, sim::Trace::Step step, std::vector<sim::Trace::Step>& steps) {
  if (!steps.empty() && step.date < steps.back().date)
    throw table.error(0, fmt::format("time goes back: {} s after {} s", step.date, steps.back().date));
  if (!steps.empty() && step.date == steps.back().date)
    steps.back() = step;
  else
    steps.push_back(step);
}

double period_of(const sim::Trace& trace, const TraceFormat& format, const CsvTable& end) {
  const double first = trace.steps.front().date, last = trace.steps.back().date;
  if (!format.repeat || trace.steps.size() == 1) return 0;
  if (format.period == 0) return last - first + (last - trace.steps[trace.steps.size() - 2].date);
  if (last - first >= format.period)
    throw end.error(0, fmt::format("`repeat` must be longer than the trace, which spans {} s", last - first));
  return format.period;
}

}  // namespace

sim::Trace read_trace(const YamlValue& value, sim::LinkTrace::Quantity quantity, FolderFiles& files) {
  const YamlMap map = value.map({"file", "kind", "unit", "column", "time_unit", "repeat", "reference"});
  const TraceFormat format = parse_format(map, quantity);
  NamedFile file = files.read(map.required("file"));
  return parse_trace(std::move(file.text), file.path, format);
}

sim::Trace parse_trace(std::string text, const std::string& file, const TraceFormat& format) {
  const std::string checked = validate_text(std::move(text), file);
  CsvTable table(checked, file);
  const std::vector<std::string> header = table.take_header();
  if (!table.has_row()) throw table.error(0, "an empty trace: expected lines with a time and a value");
  const std::size_t cell = value_cell(table, header, format.column, file);
  const std::size_t cells = header.empty() ? table.cells().size() : header.size();
  sim::Trace trace;
  trace.relative = format.relative;
  for (; table.has_row(); table.next()) {
    table.expect_cells(cells);
    const double date = table.number(0, format.time, "the time");
    const double value = table.number(cell, format.value, "the value");
    add_step(table, {date, format.relative ? check_factor(table, cell, value / format.reference) : value},
             trace.steps);
  }
  trace.steps.shrink_to_fit();
  trace.period = period_of(trace, format, table);
  return trace;
}

}  // namespace dtfm::io
