#include "simulator/io/runs_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/csv_table.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"
#include "core/io/writers/plan_json.hpp"
#include "simulator/io/training_log.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t runs_size_limit = std::size_t{1} << 20;
constexpr std::size_t named_size_limit = std::size_t{64}
                                         << 20;  // total bytes of all plans and logs of a table
constexpr int max_count = 1'000'000;

constexpr double max_computations = 2e6;  // per run; calibration simulates a run some hundred times

/// Reduces the numbers of micro-batches but keeps their remainders modulo the number of stages, so that a
/// plan that cannot be run is still rejected.
Plan shorten_plan(Plan plan) {
  for (Pipeline& pipeline : plan.pipelines) {
    const int round = std::max(1, static_cast<int>(pipeline.stages.size()));
    if (pipeline.micro_batches > round) pipeline.micro_batches = round + pipeline.micro_batches % round;
  }
  return plan;
}

enum class Column {
  name,
  topology,
  plan,
  job,
  pipeline,
  data,
  micro_batch,
  global_batch,
  seconds,
  log,
  peak_memory_bytes
};
constexpr std::array<std::string_view, 11> column_names = {
    "name",        "topology",     "plan",    "job", "pipeline",         "data",
    "micro_batch", "global_batch", "seconds", "log", "peak_memory_bytes"};

std::string_view name_of(Column column) {
  return column_names[static_cast<std::size_t>(column)];
}

class RunsReader {
 public:
  RunsReader(const std::string& text, const std::string& file, const std::filesystem::path& folder,
             const RunsContext& context)
      : context_(context), folder_(folder), table_(text, file) {}

  std::vector<sim::MeasuredRun> read() {
    read_header();
    std::vector<sim::MeasuredRun> runs;
    for (; table_.has_row(); table_.next()) {
      if (runs.size() == max_runs) throw table_.error(0, fmt::format("more than {} runs", max_runs));
      table_.expect_cells(columns_.size());
      runs.push_back(run());
    }
    return runs;
  }

 private:
  /// The index of the column's cell, if the column exists and the cell of this row is not empty.
  std::optional<std::size_t> cell(Column column) const {
    const auto place = std::find(columns_.begin(), columns_.end(), column);
    const auto index = static_cast<std::size_t>(place - columns_.begin());
    if (place == columns_.end() || is_missing_value(table_.cells()[index].text)) return std::nullopt;
    return index;
  }
  std::size_t required(Column column) const {
    const auto index = cell(column);
    if (!index) throw table_.error(0, fmt::format("expected a `{}`; found none", name_of(column)));
    return *index;
  }
  std::string text(std::size_t index) const { return std::string(table_.cells()[index].text); }

  int count(std::size_t index) const {
    const std::string_view digits = table_.cells()[index].text;
    int value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc() || end != digits.data() + digits.size() || value < 1 || value > max_count)
      throw table_.error(index, fmt::format("`{}`: expected a whole number from 1 to {}; found {}",
                                            name_of(columns_[index]), max_count, quote(digits)));
    return value;
  }

  /// Rethrows errors of `action` with the position of the cell.
  template <class Action>
  decltype(auto) with_cell_position(std::size_t index, const Action& action) const {
    try {
      return action();
    } catch (const Error& error) {
      throw table_.error(index, error.what());
    }
  }

  void read_header() {
    const CsvTable header = table_;  // keeps the positions of the header for errors
    const std::vector<std::string> names = table_.take_header();
    if (names.empty())
      throw header.error(0, "expected a line with the names of the columns, such as `plan,seconds`");
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto known = std::find(column_names.begin(), column_names.end(), names[i]);
      if (known == column_names.end())
        throw header.error(i, fmt::format("unknown column {}; {}", quote(names[i]),
                                          suggestion(names[i], {column_names.begin(), column_names.end()})));
      const auto column = static_cast<Column>(known - column_names.begin());
      if (std::find(columns_.begin(), columns_.end(), column) != columns_.end())
        throw header.error(i, fmt::format("duplicate column `{}`", names[i]));
      columns_.push_back(column);
    }
    const auto has = [&](Column column) {
      return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
    };
    if (!has(Column::seconds) && !has(Column::log))
      throw header.error(0, "missing column `seconds` or `log`");
    if (!has(Column::plan) && !(has(Column::pipeline) && has(Column::data)))
      throw header.error(0, "missing columns: expected `plan`, or `pipeline` and `data`");
  }

  sim::MeasuredRun run() {
    sim::MeasuredRun run;
    run.line = table_.line();
    const std::size_t time = time_cell();
    run.seconds =
        cell(Column::seconds) ? table_.number(time, Unit{"s", 0}, "the time") : seconds_of_log(time);
    constexpr double min_seconds = 1e-9, max_seconds = 1e9;  // s; the limits of all times in input files
    if (run.seconds < min_seconds || run.seconds > max_seconds)
      throw table_.error(time, fmt::format("the time must be from {} to {} s; found {} s", min_seconds,
                                           max_seconds, run.seconds));
    if (const auto memory = cell(Column::peak_memory_bytes)) run.peak_memory_bytes = peak_memory(*memory);
    const std::shared_ptr<const Topology> topology = topology_of_row();
    run.network = topology->name;
    if (cell(Column::plan))
      read_plan(run, topology);
    else
      deploy(run, topology);
    if (const auto index = cell(Column::name)) run.name = text(*index);
    check_peak_memory(run);
    return run;
  }

  /// The cell of the time, or of the log that has it.
  std::size_t time_cell() const {
    const auto seconds = cell(Column::seconds), log = cell(Column::log);
    if (seconds && log) throw table_.error(*log, "`log` cannot be combined with `seconds`");
    if (!seconds && !log) throw table_.error(0, "expected `seconds` or `log`; found neither");
    return log ? *log : *seconds;
  }

  double seconds_of_log(std::size_t index) {
    const std::string path = named_path(index);
    const auto known = log_seconds_.find(path);
    return known != log_seconds_.end()
               ? known->second
               : log_seconds_.emplace(path, parse_training_log(read_named(path, index), path)).first->second;
  }

  void check_peak_memory(const sim::MeasuredRun& run) const {
    const Topology& topology = *run.work->topology;
    double largest = 0;
    for (const Pipeline& pipeline : run.work->plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (const int device : stage.devices)
          if (const int gpu = topology.devices[at(device)].gpu; gpu >= 0)
            largest = std::max(largest, topology.gpus[at(gpu)].memory.value());
    if (run.peak_memory_bytes > largest)
      throw table_.error(
          *cell(Column::peak_memory_bytes),
          fmt::format("{} exceed the memory of the GPUs of the plan, {}",
                      format_bytes(Bytes(run.peak_memory_bytes)), format_bytes(Bytes(largest))));
  }

  double peak_memory(std::size_t index) const {
    const double bytes = table_.number(index, Unit{"B", 0}, "the memory");
    constexpr double min_bytes = 1e6, max_bytes = 1e15;
    if (bytes < min_bytes || bytes > max_bytes)
      throw table_.error(index, fmt::format("the memory must be from 1e6 to 1e15 bytes; found {}",
                                            quote(table_.cells()[index].text)));
    return bytes;
  }

  void read_plan(sim::MeasuredRun& run, const std::shared_ptr<const Topology>& topology) {
    for (const Column column : {Column::pipeline, Column::data, Column::micro_batch, Column::global_batch})
      if (const auto index = cell(column))
        throw table_.error(*index, fmt::format("`{}` cannot be combined with a plan", name_of(column)));
    const std::size_t index = *cell(Column::plan);
    run.name = text(index);
    const PlanFile& file = plan_file(index);
    std::optional<Job> own = job_of_row();
    if (!own) own = file.job();
    if (!own)
      throw table_.error(index, fmt::format("{} has no job: name one in a column `job`", file.path()));
    auto& known = workloads_[{topology.get(), job_json(*own).dump(), file.path(), 0, 0}];
    if (!known) {
      PlanAndNotes read = file.plan(*topology, *own);
      known = make_workload({topology, *own, std::move(read.plan), context_.roofline, read.undecided}, index);
    }
    run.work = known;
  }

  /// Assigns devices in file order, pipeline by pipeline.
  void deploy(sim::MeasuredRun& run, const std::shared_ptr<const Topology>& topology) {
    const std::size_t index = required(Column::pipeline);
    const int stages = count(index), pipelines = count(required(Column::data));
    const long long devices = static_cast<long long>(stages) * pipelines;
    if (devices > topology->size())
      throw table_.error(index, fmt::format("{} stages × {} pipelines are {} devices; the topology has {}",
                                            stages, pipelines, devices, topology->size()));
    const Job job = job_with_batches(pipelines);
    if (job.parallelism.tensor != 1)
      throw table_.error(index, fmt::format("job {} has tensor degree {}, which requires a plan", job.name,
                                            job.parallelism.tensor));
    run.name = fmt::format("{} × {}, batch {} by {}", stages, pipelines, job.training.global_batch,
                           job.execution.micro_batch);
    auto& known = workloads_[{topology.get(), job_json(job).dump(), "", stages, pipelines}];
    if (!known) {
      Placement placement(stages, pipelines);
      for (int device = 0; device < stages * pipelines; ++device)
        placement.at(device % stages, device / stages) = device;
      known = make_workload(
          {topology, job, plan_from_placement(placement, job), context_.roofline, job.automatic}, index);
    }
    run.work = known;
  }

  Job job_with_batches(int pipelines) {
    const std::optional<Job> given = job_of_row();
    Job job = given ? *given : default_job();
    int& micro_batch = job.execution.micro_batch;
    int& global_batch = job.training.global_batch;
    std::size_t place = required(Column::pipeline);
    for (const auto& [column, value] :
         {std::pair{Column::micro_batch, &micro_batch}, std::pair{Column::global_batch, &global_batch}})
      if (const auto index = cell(column)) {
        *value = count(*index);
        place = *index;
      }
    if (cell(Column::micro_batch)) {
      job.automatic[Setting::micro_batch] = false;
      job.listed.erase(Setting::micro_batch);
    }
    if (global_batch % micro_batch != 0)
      throw table_.error(
          place, fmt::format("a micro-batch of {} does not divide a batch of {}", micro_batch, global_batch));
    const int micro_batches = micro_batch_count(job);
    if (micro_batches < pipelines)
      throw table_.error(place, fmt::format("a batch of {} has only {} micro-batches for {} pipelines",
                                            global_batch, micro_batches, pipelines));
    return job;
  }

  /// The job that the row names, or else that of the context, which may be empty.
  std::optional<Job> job_of_row() {
    const auto index = cell(Column::job);
    if (!index) return context_.job;
    return with_cell_position(*index, [&]() -> std::optional<Job> {
      const std::string path = path_below(folder_, text(*index)).string();
      const auto known = jobs_.find(path);
      return known != jobs_.end()
                 ? known->second
                 : jobs_.emplace(path, read_job(path, table_.error(*index, "").where())).first->second;
    });
  }

  /// The topology that the row names, or else that of the context.
  std::shared_ptr<const Topology> topology_of_row() {
    const auto index = cell(Column::topology);
    if (!index) return context_.topology;
    return with_cell_position(*index, [&] {
      const std::string path = path_below(folder_, text(*index)).lexically_normal().string();
      const auto known = topologies_.find(path);
      if (known != topologies_.end()) return known->second;
      if (topologies_.size() == max_topologies)
        throw Error("", fmt::format("more than {} topology files; split the table", max_topologies));
      return topologies_.emplace(path, std::make_shared<const Topology>(read_topology(path))).first->second;
    });
  }

  const PlanFile& plan_file(std::size_t index) {
    const std::string path = named_path(index);
    const auto known = files_.find(path);
    return known != files_.end()
               ? known->second
               : files_.emplace(path, PlanFile(read_named(path, index), path)).first->second;
  }

  /// The path that a cell names.
  std::string named_path(std::size_t index) const {
    return with_cell_position(index, [&] { return path_below(folder_, text(index)).string(); });
  }

  /// The content of a plan or log, which counts towards the limit of all of them.
  std::string read_named(const std::string& path, std::size_t index) {
    std::string content = with_cell_position(index, [&] {
      return validate_text(read_file(path, named_bytes_left_, table_.error(index, "").where()), path);
    });
    named_bytes_left_ -= content.size();
    return content;
  }

  /// Throws Error if the workload cannot be simulated, or would take too long for calibration.
  std::shared_ptr<const sim::Workload> make_workload(sim::Workload made, std::size_t index) const {
    double computations = 0;
    for (const Pipeline& pipeline : made.plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        computations += 2.0 * pipeline.micro_batches * static_cast<double>(stage.devices.size());
    if (computations > max_computations)
      throw table_.error(index,
                         fmt::format("the run has {:.3g} computations per iteration; the maximum is {:.3g}",
                                     computations, max_computations));
    auto work = std::make_shared<const sim::Workload>(std::move(made));
    with_cell_position(index,
                       [&] { sim::iteration_graph(work->problem_with({}), shorten_plan(work->plan)); });
    return work;
  }

  const RunsContext& context_;
  const std::filesystem::path& folder_;
  CsvTable table_;
  std::vector<Column> columns_;
  std::size_t named_bytes_left_ = named_size_limit;
  std::map<std::string, PlanFile> files_;
  std::map<std::string, double> log_seconds_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, std::shared_ptr<const Topology>> topologies_;
  // Keyed by topology, job, file of the plan, and numbers of stages and pipelines.
  std::map<std::tuple<const Topology*, std::string, std::string, int, int>,
           std::shared_ptr<const sim::Workload>>
      workloads_;
};

}  // namespace

std::vector<sim::MeasuredRun> parse_runs(const std::string& text, const std::string& file,
                                         const std::filesystem::path& folder, const RunsContext& context) {
  return RunsReader(text, file, folder, context).read();
}

std::vector<sim::MeasuredRun> read_runs(const std::filesystem::path& file, const RunsContext& context) {
  const std::string text = validate_text(read_file(file, runs_size_limit), file.string());
  return parse_runs(text, file.string(), file.parent_path(), context);
}

}  // namespace dtfm::io
