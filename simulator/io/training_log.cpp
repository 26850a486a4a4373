#include "simulator/io/training_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/csv_table.hpp"
#include "core/io/text/json_reader.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view mlperf_mark = ":::MLLOG";

// Metrics of a history of Weights & Biases, by preference within each kind.
enum class Kind { duration, step, time };
struct Metric {
  Kind kind;
  std::string_view name;
};
constexpr std::array metrics = {
    // Seconds of an iteration: torchtitan (components/metrics.py), NeMo (utils/exp_manager.py).
    Metric{Kind::duration, "time_metrics/end_to_end(s)"}, Metric{Kind::duration, "train_step_timing"},
    Metric{Kind::duration, "train_step_timing in s"},
    // Iterations so far: transformers, Lightning; `_step` counts calls of wandb.log unless the trainer sets
    // it.
    Metric{Kind::step, "train/global_step"}, Metric{Kind::step, "trainer/global_step"},
    Metric{Kind::step, "_step"},
    // Seconds.
    Metric{Kind::time, "_timestamp"}, Metric{Kind::time, "_runtime"}};
using Row = std::array<std::optional<double>, metrics.size()>;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Calls visit(number, line) for each line, numbered from 1.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    visit(number, text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

std::string place(const std::string& file, std::size_t line) {
  return fmt::format("{}: line {}", file, line);
}

/// The first metric of this kind that any row has.
std::optional<std::size_t> metric_of(const std::vector<Row>& rows, Kind kind) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (metrics[i].kind == kind &&
        std::ranges::any_of(rows, [&](const Row& row) { return row[i].has_value(); }))
      return i;
  return std::nullopt;
}

void keep(double seconds, std::vector<double>& durations) {
  if (std::isfinite(seconds) && seconds > 0) durations.push_back(seconds);
}

/// Adds a row unless it has none of the metrics.
void keep(const Row& row, std::vector<Row>& rows) {
  if (std::ranges::any_of(row, [](const auto& it) { return it.has_value(); })) rows.push_back(row);
}

/// Reported seconds of iterations, or else those between rows.
std::vector<double> durations_of(const std::vector<Row>& rows) {
  std::vector<double> durations;
  if (const auto duration = metric_of(rows, Kind::duration)) {
    for (const Row& row : rows)
      if (row[*duration]) keep(*row[*duration], durations);
    return durations;
  }
  const auto step = metric_of(rows, Kind::step), time = metric_of(rows, Kind::time);
  if (!step || !time) return durations;
  std::optional<std::pair<double, double>> before;  // iterations and time of the last row where they changed
  for (const Row& row : rows) {
    if (!row[*step] || !row[*time]) continue;
    const double iterations = *row[*step], time_s = *row[*time];
    if (before && iterations > before->first)
      keep((time_s - before->second) / (iterations - before->first), durations);
    if (!before || iterations != before->first) before = {iterations, time_s};
  }
  return durations;
}

std::vector<double> durations_of_json_lines(std::string_view text, const std::string& file) {
  std::vector<Row> rows;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const nlohmann::json object = parse_json(line, place(file, number), DuplicateKeys::last_wins);
    if (!object.is_object())
      throw Error(place(file, number), "expected a JSON object for each row of a history");
    Row row;
    for (std::size_t i = 0; i < metrics.size(); ++i)
      if (const auto it = object.find(metrics[i].name); it != object.end() && it->is_number())
        row[i] = it->get<double>();
    keep(row, rows);
  });
  return durations_of(rows);
}

std::vector<double> durations_of_csv(std::string_view text, const std::string& file) {
  CsvTable table(text, file);
  const CsvTable header = table;
  const std::vector<std::string> columns = table.take_header();
  const auto has = [&](Kind kind) {
    return std::ranges::any_of(metrics, [&](const Metric& it) {
      return it.kind == kind && std::ranges::find(columns, it.name) != columns.end();
    });
  };
  if (!has(Kind::duration) && !(has(Kind::step) && has(Kind::time)))
    throw header.error(0, fmt::format("expected lines of MLPerf ({} {{…}}), or a history of Weights & Biases "
                                      "with the columns `_step` and `_timestamp`",
                                      mlperf_mark));
  std::vector<Row> rows;
  for (; table.has_row(); table.next()) {
    table.expect_cells(columns.size());
    Row row;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const auto cell =
          static_cast<std::size_t>(std::ranges::find(columns, metrics[i].name) - columns.begin());
      if (cell < columns.size() && !is_missing_value(table.cells()[cell].text))
        row[i] = table.number(cell, Unit{"", 0}, metrics[i].name);
    }
    keep(row, rows);
  }
  return durations_of(rows);
}

std::vector<double> durations_of_mlperf(std::string_view text, const std::string& file) {
  struct Moment {
    double time_s = 0, samples = 0;
  };
  std::vector<double> durations;
  std::optional<Moment> start;
  std::optional<double> batch;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const std::size_t mark = line.find(mlperf_mark);
    if (mark == std::string_view::npos) return;
    const std::string where = place(file, number);
    const nlohmann::json event = parse_json(line.substr(mark + mlperf_mark.size()), where);
    const JsonCursor cursor(event, where);
    const std::string& key = cursor.required("key").as_string();
    if (key == "global_batch_size") batch = cursor.required("value").as_number(1, 1e12);
    if (key != "block_start" && key != "block_stop") return;
    const auto metadata = cursor.optional("metadata");
    const auto samples = metadata ? metadata->optional("samples_count") : std::nullopt;
    if (!samples) return;
    const Moment now = {cursor.required("time_ms").as_number(0, 1e15) / 1000, samples->as_number(0, 1e18)};
    if (key == "block_start") {
      start = now;
      return;
    }
    if (start && now.samples > start->samples && now.time_s > start->time_s) {
      if (!batch) throw Error(where, "block_stop before any global_batch_size");
      keep((now.time_s - start->time_s) * *batch / (now.samples - start->samples), durations);
    }
    start.reset();
  });
  if (durations.empty())
    throw Error(file, "no block between a block_start and a block_stop whose samples_count is larger");
  return durations;
}

}  // namespace

double parse_training_log(std::string_view text, const std::string& file) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  std::vector<double> durations;
  if (text.find(mlperf_mark) != std::string_view::npos)
    durations = durations_of_mlperf(text, file);
  else if (begin != std::string_view::npos && text[begin] == '{')
    durations = durations_of_json_lines(text, file);
  else
    durations = durations_of_csv(text, file);
  if (durations.empty())
    throw Error(file, "no iterations with a time: expected rows with a growing `_step` and `_timestamp`");
  return median(std::move(durations));
}

}  // namespace dtfm::io
