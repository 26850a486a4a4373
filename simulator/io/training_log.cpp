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

// Seconds of an iteration: torchtitan (components/metrics.py), NeMo (utils/exp_manager.py).
constexpr std::array<std::string_view, 2> duration_names = {"time_metrics/end_to_end(s)",
                                                            "train_step_timing"};
// Iterations so far: transformers, Lightning; `_step` counts calls of wandb.log unless the trainer sets it.
constexpr std::array<std::string_view, 3> step_names = {"train/global_step", "trainer/global_step", "_step"};
constexpr std::array<std::string_view, 2> time_names = {"_timestamp", "_runtime"};

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

/// The first of `names` that the object has as a number.
template <class Names>
std::optional<double> first_number(const nlohmann::json& object, const Names& names) {
  for (const std::string_view name : names)
    if (const auto it = object.find(name); it != object.end() && it->is_number()) return it->get<double>();
  return std::nullopt;
}

/// Durations of iterations in a history of Weights & Biases.
class History {
 public:
  /// A row: a duration, or the iterations so far and a time in seconds.
  void add(std::optional<double> duration_s, std::optional<double> step, std::optional<double> time_s) {
    if (duration_s) keep(*duration_s, reported_);
    if (!step || !time_s) return;
    if (before_ && *step > before_->first)
      keep((*time_s - before_->second) / (*step - before_->first), between_);
    if (!before_ || *step != before_->first) before_ = {*step, *time_s};
  }
  const std::vector<double>& durations() const { return reported_.empty() ? between_ : reported_; }

 private:
  static void keep(double seconds, std::vector<double>& all) {
    if (std::isfinite(seconds) && seconds > 0) all.push_back(seconds);
  }

  std::vector<double> reported_, between_;
  std::optional<std::pair<double, double>> before_;  // iterations and time of the row before
};

std::vector<double> durations_of_json_lines(std::string_view text, const std::string& file) {
  History history;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const nlohmann::json row = parse_json(line, place(file, number), DuplicateKeys::last_wins);
    if (!row.is_object())
      throw Error(place(file, number), "expected a JSON object for each row of a history");
    history.add(first_number(row, duration_names), first_number(row, step_names),
                first_number(row, time_names));
  });
  return history.durations();
}

std::vector<double> durations_of_csv(std::string_view text, const std::string& file) {
  CsvTable table(text, file);
  const CsvTable header = table;
  const std::vector<std::string> columns = table.take_header();
  const auto index_of = [&](const auto& names) -> std::optional<std::size_t> {
    for (const std::string_view name : names)
      if (const auto it = std::ranges::find(columns, name); it != columns.end())
        return static_cast<std::size_t>(it - columns.begin());
    return std::nullopt;
  };
  const auto duration = index_of(duration_names), step = index_of(step_names), time = index_of(time_names);
  if (!duration && !(step && time))
    throw header.error(0, fmt::format("expected lines of MLPerf ({} {{…}}), or a history of Weights & Biases "
                                      "with the columns `_step` and `_timestamp`",
                                      mlperf_mark));
  History history;
  for (; table.has_row(); table.next()) {
    table.expect_cells(columns.size());
    const auto number = [&](std::optional<std::size_t> cell) -> std::optional<double> {
      if (!cell || is_missing_value(table.cells()[*cell].text)) return std::nullopt;
      return table.number(*cell, Unit{"", 0}, "a number");
    };
    history.add(number(duration), number(step), number(time));
  }
  return history.durations();
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
      durations.push_back((now.time_s - start->time_s) * *batch / (now.samples - start->samples));
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
