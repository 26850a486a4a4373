#include "core/io/readers/plan_mesh.hpp"
#include "core/io/readers/csv_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/csv_table.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr int max_value = 1'000'000'000;

enum class Column : std::size_t { device, pipeline, stage, first_layer, last_layer, micro_batches };
constexpr std::array<std::string_view, 6> columns = {"device",      "pipeline",   "stage",
                                                     "first_layer", "last_layer", "micro_batches"};
constexpr std::size_t required_columns = 5;  // all but the last

constexpr std::size_t index(Column column) {
  return static_cast<std::size_t>(column);
}

/// Returns "layer 3" or "layers 3 … 5".
std::string format_layers(int first, int last) {
  return first == last ? fmt::format("layer {}", first) : fmt::format("layers {} … {}", first, last);
}

/// The content of the rows of one stage of one pipeline.
struct StageRows {
  Stage stage;
  std::string row, first_layer, last_layer;  // "file:line:column" in the first row
};

struct PipelineRows {
  std::map<int, StageRows> stages;
  std::string row;                   // "file:line:column" of the first row
  std::optional<int> micro_batches;  // of the first row
};

class CsvPlanReader {
 public:
  CsvPlanReader(std::string_view text, const std::string& file, const Job& job, DeviceResolver& resolver,
                InputErrors& errors)
      : file_(file), job_(job), resolver_(resolver), errors_(errors), table_(text, file) {}

  Plan read() {
    read_header();
    if (!table_.has_row()) errors_.add(file_, "there is no row below the header");
    for (; table_.has_row(); table_.next()) read_row();
    if (is_readable_) check_stages();
    return plan();
  }

 private:
  void read_header() {
    if (!table_.has_row()) throw table_.error(0, "expected a header: " + header());
    column_count_ = table_.cells().size();
    for (std::size_t cell = 0; cell < column_count_; ++cell) {
      const std::string_view name = table_.cells()[cell].text;
      const auto column = std::find(columns.begin(), columns.end(), name);
      if (column == columns.end())
        throw table_.error(cell, fmt::format("unknown column {}; {}", quote(name),
                                             suggestion(name, {columns.begin(), columns.end()})));
      auto& column_cell = column_cells_[static_cast<std::size_t>(column - columns.begin())];
      if (column_cell) throw table_.error(cell, fmt::format("duplicate column {}", quote(name)));
      column_cell = cell;
    }
    for (std::size_t column = 0; column < required_columns; ++column)
      if (!column_cells_[column])
        throw table_.error(
            0, fmt::format("column {} is missing; expected {}", quote(columns[column]), header()));
    table_.next();
  }

  static std::string header() { return "`device,pipeline,stage,first_layer,last_layer[,micro_batches]`"; }

  std::string where(Column column) const {
    return position(file_, table_.line(), table_.cells()[*column_cells_[index(column)]].column);
  }

  /// The number in a cell. Adds an error and returns nullopt if it is not an integer of at least `min_value`.
  std::optional<int> number(Column column, int min_value) {
    const std::string_view text = table_.cells()[*column_cells_[index(column)]].text;
    int value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status == std::errc() && end == text.data() + text.size() && value >= min_value && value <= max_value)
      return value;
    errors_.add(where(column), fmt::format("{}: expected a whole number from {} to {}; found {}",
                                           columns[index(column)], min_value, max_value, quote(text)));
    is_readable_ = false;
    return std::nullopt;
  }

  void read_row() {
    if (table_.cells().size() != column_count_) {
      errors_.add(table_.where(), fmt::format("expected {} cells, as in the header; found {}", column_count_,
                                              table_.cells().size()));
      is_readable_ = false;
      return;
    }
    const auto pipeline_number = number(Column::pipeline, 0), stage_number = number(Column::stage, 0),
               first = number(Column::first_layer, 0), last = number(Column::last_layer, -1);
    const auto batches =
        column_cells_[index(Column::micro_batches)] ? number(Column::micro_batches, 0) : std::nullopt;
    const auto device_index =
        resolver_.assign(table_.cells()[*column_cells_[index(Column::device)]].text, where(Column::device));
    if (!pipeline_number || !stage_number || !first || !last) return;
    PipelineRows& rows =
        pipelines_.try_emplace(*pipeline_number, PipelineRows{{}, where(Column::pipeline), batches})
            .first->second;
    if (batches != rows.micro_batches && batches && rows.micro_batches)
      errors_.add(where(Column::micro_batches),
                  fmt::format("{} micro-batches, but pipeline {} has {} at {}", *batches, *pipeline_number,
                              *rows.micro_batches, rows.row));
    add_device(rows, *pipeline_number, *stage_number, {*first, *last + 1}, device_index);
  }

  void add_device(PipelineRows& rows, int pipeline_number, int stage_number, std::pair<int, int> layers,
                  std::optional<int> device_index) {
    const StageRows new_rows{
        {layers, {}}, where(Column::stage), where(Column::first_layer), where(Column::last_layer)};
    StageRows& it = rows.stages.try_emplace(stage_number, new_rows).first->second;
    if (layers != it.stage.layers)
      errors_.add(where(Column::first_layer),
                  fmt::format("{} to {}, but stage {} of pipeline {} has {} to {} at {}", layers.first,
                              layers.second - 1, stage_number, pipeline_number, it.stage.layers.first,
                              it.stage.layers.second - 1, it.row));
    if (device_index) it.stage.devices.push_back(*device_index);
  }

  void check_stages() {
    int next_pipeline = 0;
    for (const auto& [number, rows] : pipelines_) {
      if (number != next_pipeline)
        errors_.add(
            rows.row,
            fmt::format(
                "pipeline {}, but there is no pipeline {}: pipelines are numbered consecutively from 0",
                number, next_pipeline));
      next_pipeline = number + 1;
      check_pipeline(number, rows);
    }
  }

  void check_pipeline(int number, const PipelineRows& rows) {
    int next_stage = 0, covered = 0;
    for (const auto& [stage_number, it] : rows.stages) {
      if (stage_number != next_stage)
        errors_.add(
            it.row,
            fmt::format("stage {}, but pipeline {} has no stage {}: stages are numbered consecutively from 0",
                        stage_number, number, next_stage));
      next_stage = stage_number + 1;
      check_layers(number, it, covered);
      covered = std::max(covered, it.stage.layers.second);
    }
    const int all = layer_count(job_.model);
    if (covered < all)
      errors_.add(rows.stages.rbegin()->second.last_layer,
                  fmt::format("{} of job {} in no stage of pipeline {}", format_layers(covered, all - 1),
                              job_.name, number));
  }

  /// `covered` is the layer after the last one of the preceding stages.
  void check_layers(int number, const StageRows& it, int covered) {
    const auto [begin, end] = it.stage.layers;
    const int all = layer_count(job_.model);
    if (end < begin)
      errors_.add(it.first_layer, fmt::format("{} to {} ends before it begins", begin, end - 1));
    if (end > all)
      errors_.add(it.last_layer, fmt::format("job {} has no layer {}: it has {}, from 0 to {}", job_.name,
                                             end - 1, all, all - 1));
    if (begin > covered)
      errors_.add(it.first_layer,
                  fmt::format("{} in no stage of pipeline {}", format_layers(covered, begin - 1), number));
    if (begin < covered)
      errors_.add(
          it.first_layer,
          fmt::format("{} already in an earlier stage of pipeline {} (last_layer is the last layer of a "
                      "stage, not the one after it)",
                      format_layers(begin, std::max(begin, std::min(end, covered) - 1)), number));
  }

  Plan plan() const {
    Plan plan{1, job_.execution, {}};
    const int all = micro_batch_count(job_);
    const int count = static_cast<int>(pipelines_.size());
    for (const auto& [number, rows] : pipelines_) {
      const auto [begin, end] = even_split(all, count, static_cast<int>(plan.pipelines.size()));
      Pipeline pipeline{rows.micro_batches.value_or(end - begin), {}};
      for (const auto& [stage_number, it] : rows.stages) pipeline.stages.push_back(it.stage);
      plan.pipelines.push_back(std::move(pipeline));
    }
    if (!errors_.empty() || plan.pipelines.empty()) return plan;
    try {
      set_degrees(job_, plan);
    } catch (const Error& error) {
      throw Error(file_, error.what());
    }
    return plan;
  }

  const std::string& file_;
  const Job& job_;
  DeviceResolver& resolver_;
  InputErrors& errors_;
  CsvTable table_;
  std::size_t column_count_ = 0;
  std::array<std::optional<std::size_t>, columns.size()> column_cells_;
  std::map<int, PipelineRows> pipelines_;
  bool is_readable_ = true;  // whether all rows so far were valid; otherwise gaps cannot be detected
};

}  // namespace

bool is_csv_plan(std::string_view text) {
  const std::string no_file;
  const CsvTable table(text, no_file);
  return table.cells().size() > 1 &&
         std::any_of(table.cells().begin(), table.cells().end(), [](const Cell& cell) {
           return std::find(columns.begin(), columns.end(), cell.text) != columns.end();
         });
}

Plan read_csv_plan(std::string_view text, const std::string& file, const Job& job, DeviceResolver& resolver,
                   InputErrors& errors) {
  return CsvPlanReader(text, file, job, resolver, errors).read();
}

}  // namespace dtfm::io
