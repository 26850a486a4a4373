#include "planner/io/readers/csv_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/io/text/csv_table.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr int most = 1'000'000'000;

enum class Column : std::size_t { device, pipeline, stage, first_layer, last_layer, micro_batches };
constexpr std::array<std::string_view, 6> columns = {"device",      "pipeline",   "stage",
                                                     "first_layer", "last_layer", "micro_batches"};
constexpr std::size_t needed_columns = 5;  // all but the last

constexpr std::size_t index(Column column) {
  return static_cast<std::size_t>(column);
}

/// "layer 3", "layers 3 … 5"
std::string layers_in_words(int first, int last) {
  return first == last ? fmt::format("layer {}", first) : fmt::format("layers {} … {}", first, last);
}

/// What the lines of one stage of one pipeline say.
struct StageRows {
  Stage stage;
  std::string row, first_layer, last_layer;  // where the first of them has these
};

struct PipelineRows {
  std::map<int, StageRows> stages;
  std::string row;                   // where the first of them is
  std::optional<int> micro_batches;  // of the first of them
};

class CsvPlanReader {
 public:
  CsvPlanReader(std::string_view text, const std::string& file, const Job& job, DevicePlaces& places,
                Faults& faults)
      : file_(file), job_(job), places_(places), faults_(faults), table_(text, file) {}

  Plan read() {
    read_header();
    if (!table_.has_row()) faults_.add(file_, "there is no line below the header");
    for (; table_.has_row(); table_.next()) read_row();
    if (is_readable_) check_stages();
    return plan();
  }

 private:
  void read_header() {
    if (!table_.has_row()) throw table_.error(0, "expected a header: " + header());
    width_ = table_.cells().size();
    for (std::size_t cell = 0; cell < width_; ++cell) {
      const std::string_view name = table_.cells()[cell].text;
      const auto column = std::find(columns.begin(), columns.end(), name);
      if (column == columns.end())
        throw table_.error(cell, fmt::format("unknown column {}; {}", in_quotes(name),
                                             suggestion(name, {columns.begin(), columns.end()})));
      auto& place = cell_of_[static_cast<std::size_t>(column - columns.begin())];
      if (place) throw table_.error(cell, fmt::format("there are two columns {}", in_quotes(name)));
      place = cell;
    }
    for (std::size_t column = 0; column < needed_columns; ++column)
      if (!cell_of_[column])
        throw table_.error(
            0, fmt::format("column {} is missing; expected {}", in_quotes(columns[column]), header()));
    table_.next();
  }

  static std::string header() { return "`device,pipeline,stage,first_layer,last_layer[,micro_batches]`"; }

  std::string where(Column column) const {
    return position(file_, table_.line(), table_.cells()[*cell_of_[index(column)]].column);
  }

  /// Nothing, and a fault, for a cell that is no whole number from `least` on.
  std::optional<int> number(Column column, int least) {
    const std::string_view text = table_.cells()[*cell_of_[index(column)]].text;
    int value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return value;
    faults_.add(where(column), fmt::format("{}: expected a whole number from {} to {}; found {}",
                                           columns[index(column)], least, most, in_quotes(text)));
    is_readable_ = false;
    return std::nullopt;
  }

  void read_row() {
    if (table_.cells().size() != width_) {
      faults_.add(table_.where(), fmt::format("expected {} cells, as the header has; found {}", width_,
                                              table_.cells().size()));
      is_readable_ = false;
      return;
    }
    const auto of_pipeline = number(Column::pipeline, 0), of_stage = number(Column::stage, 0),
               first = number(Column::first_layer, 0), last = number(Column::last_layer, -1);
    const auto batches =
        cell_of_[index(Column::micro_batches)] ? number(Column::micro_batches, 0) : std::nullopt;
    const auto taken =
        places_.take(table_.cells()[*cell_of_[index(Column::device)]].text, where(Column::device));
    if (!of_pipeline || !of_stage || !first || !last) return;
    PipelineRows& rows =
        pipelines_.try_emplace(*of_pipeline, PipelineRows{{}, where(Column::pipeline), batches})
            .first->second;
    if (batches != rows.micro_batches && batches && rows.micro_batches)
      faults_.add(where(Column::micro_batches),
                  fmt::format("{} micro-batches, but pipeline {} has {} at {}", *batches, *of_pipeline,
                              *rows.micro_batches, rows.row));
    add_device(rows, *of_pipeline, *of_stage, {*first, *last + 1}, taken);
  }

  void add_device(PipelineRows& rows, int of_pipeline, int of_stage, std::pair<int, int> layers,
                  std::optional<int> taken) {
    const StageRows fresh{
        {layers, {}}, where(Column::stage), where(Column::first_layer), where(Column::last_layer)};
    StageRows& it = rows.stages.try_emplace(of_stage, fresh).first->second;
    if (layers != it.stage.layers)
      faults_.add(where(Column::first_layer),
                  fmt::format("{} to {}, but stage {} of pipeline {} has {} to {} at {}", layers.first,
                              layers.second - 1, of_stage, of_pipeline, it.stage.layers.first,
                              it.stage.layers.second - 1, it.row));
    if (taken) it.stage.devices.push_back(*taken);
  }

  void check_stages() {
    int next_pipeline = 0;
    for (const auto& [number, rows] : pipelines_) {
      if (number != next_pipeline)
        faults_.add(rows.row,
                    fmt::format("pipeline {}, but there is no pipeline {}: they are numbered from 0 on",
                                number, next_pipeline));
      next_pipeline = number + 1;
      check_pipeline(number, rows);
    }
  }

  void check_pipeline(int number, const PipelineRows& rows) {
    int next_stage = 0, covered = 0;
    for (const auto& [of_stage, it] : rows.stages) {
      if (of_stage != next_stage)
        faults_.add(it.row,
                    fmt::format("stage {}, but pipeline {} has no stage {}: they are numbered from 0 on",
                                of_stage, number, next_stage));
      next_stage = of_stage + 1;
      check_layers(number, it, covered);
      covered = std::max(covered, it.stage.layers.second);
    }
    const int all = layer_count(job_.model);
    if (covered < all)
      faults_.add(rows.stages.rbegin()->second.last_layer,
                  fmt::format("{} of job {} in no stage of pipeline {}", layers_in_words(covered, all - 1),
                              job_.name, number));
  }

  /// `covered`: the stages before end with this layer.
  void check_layers(int number, const StageRows& it, int covered) {
    const auto [begin, end] = it.stage.layers;
    const int all = layer_count(job_.model);
    if (end < begin)
      faults_.add(it.first_layer, fmt::format("{} to {} ends before it begins", begin, end - 1));
    if (end > all)
      faults_.add(it.last_layer, fmt::format("job {} has no layer {}: it has {}, from 0 to {}", job_.name,
                                             end - 1, all, all - 1));
    if (begin > covered)
      faults_.add(it.first_layer,
                  fmt::format("{} in no stage of pipeline {}", layers_in_words(covered, begin - 1), number));
    if (begin < covered)
      faults_.add(
          it.first_layer,
          fmt::format("{} in an earlier stage of pipeline {} already (last_layer is the last layer of a "
                      "stage, not the one after it)",
                      layers_in_words(begin, std::max(begin, std::min(end, covered) - 1)), number));
  }

  Plan plan() const {
    Plan plan{1, job_.parallelism.schedule, job_.parallelism.gradient_sync, {}};
    const int all = micro_batch_count(job_.training);
    const int count = static_cast<int>(pipelines_.size());
    for (const auto& [number, rows] : pipelines_) {
      const auto [begin, end] = even_split(all, count, static_cast<int>(plan.pipelines.size()));
      Pipeline pipeline{rows.micro_batches.value_or(end - begin), {}};
      for (const auto& [of_stage, it] : rows.stages) {
        plan.tensor = std::max(plan.tensor, static_cast<int>(it.stage.devices.size()));
        pipeline.stages.push_back(it.stage);
      }
      plan.pipelines.push_back(std::move(pipeline));
    }
    return plan;
  }

  const std::string& file_;
  const Job& job_;
  DevicePlaces& places_;
  Faults& faults_;
  CsvTable table_;
  std::size_t width_ = 0;
  std::array<std::optional<std::size_t>, columns.size()> cell_of_;
  std::map<int, PipelineRows> pipelines_;
  bool is_readable_ = true;  // all lines so far: only then is it known what is left out
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

Plan read_csv_plan(std::string_view text, const std::string& file, const Job& job, DevicePlaces& places,
                   Faults& faults) {
  return CsvPlanReader(text, file, job, places, faults).read();
}

}  // namespace dtfm::io
