#include "simulator/io/chrome_trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/stoppable_sort.hpp"
#include "simulator/observation/interval_times.hpp"

namespace dtfm::io {
namespace {

constexpr double gigabit = 1e9 / bits_per_byte, gigabyte = 1e9;  // bytes

/// Process 0 represents the run.
int process_of(int device) {
  return device + 1;
}

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string title(const sim::RunInterval& run_interval) {
  switch (run_interval.kind) {
    case sim::RunInterval::Kind::iteration:
      break;
    case sim::RunInterval::Kind::lost_iteration:
      return fmt::format("iteration {} (lost)", run_interval.iteration);
    case sim::RunInterval::Kind::recovery:
      return "recovery";
    case sim::RunInterval::Kind::checkpoint:
      return "checkpoint";
    case sim::RunInterval::Kind::part:
      return fmt::format("iteration {} (up to a failure)", run_interval.iteration);
  }
  return fmt::format("iteration {}", run_interval.iteration);
}

}  // namespace

ChromeTrace::ChromeTrace(const Topology& topology, sim::StageMemoryOf memory_of, TextSink sink)
    : topology_(topology),
      memory_of_(std::move(memory_of)),
      sink_(std::move(sink)),
      busy_until_(topology.devices.size() * rows) {
  sink_("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  name_process(0, topology.name);
  event(R"("ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "iterations"})");
  for (int device = 0; device < topology.size(); ++device)
    name_process(process_of(device), topology.devices[at(device)].id);
}

void ChromeTrace::finish() {
  sink_("\n]}\n");
}

void ChromeTrace::event(const std::string& fields) {
  sink_(is_first_ ? "\n{" : ",\n{");
  sink_(fields);
  sink_("}");
  is_first_ = false;
}

void ChromeTrace::name_process(int process, const std::string& name) {
  event(fmt::format(R"("ph": "M", "pid": {}, "name": "process_name", "args": {{"name": {}}})", process,
                    quoted(name)));
  event(fmt::format(R"("ph": "M", "pid": {0}, "name": "process_sort_index", "args": {{"sort_index": {0}}})",
                    process));
}

void ChromeTrace::slice(int process, int row, const std::string& name, std::int64_t begin, std::int64_t end,
                        const std::string& more) {
  event(fmt::format(R"("ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "name": {}{})", process, row,
                    microseconds(begin), microseconds(end - begin), quoted(name), more));
}

/// The thread of the first row of this kind that is free. Thread numbers of rows of a kind are `rows` apart.
int ChromeTrace::free_row(int device, Row row, std::int64_t begin, std::int64_t end) {
  auto& lanes = busy_until_[at(device * rows + static_cast<int>(row))];
  const auto free = std::find_if(lanes.begin(), lanes.end(), [&](auto busy) { return busy <= begin; });
  const int lane = static_cast<int>(free - lanes.begin()), thread = static_cast<int>(row) + rows * lane;
  if (free != lanes.end()) {
    *free = end;
    return thread;
  }
  lanes.push_back(end);
  constexpr std::array<const char*, rows> names = {"compute", "send", "receive"};
  const std::string number = lane == 0 ? "" : fmt::format(" {}", lane + 1);
  event(fmt::format(R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_name", "args": {{"name": "{}{}"}})",
                    process_of(device), thread, names[static_cast<std::size_t>(row)], number));
  // Sorts rows by kind first, then by number.
  constexpr int max_lanes = 1'000'000;
  event(fmt::format(
      R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_sort_index", "args": {{"sort_index": {}}})",
      process_of(device), thread, static_cast<int>(row) * max_lanes + lane));
  return thread;
}

void ChromeTrace::task_slices(const sim::RunInterval& run_interval, int number) {
  const sim::Task& task = run_interval.graph.graph.tasks[at(number)];
  const auto time = sim::busy(run_interval.replay.tasks[at(number)], run_interval);
  const std::int64_t begin = nanoseconds(time.begin), end = nanoseconds(time.end);
  const std::string name = sim::format_label(run_interval.graph.labels[at(number)]);
  std::string iteration;
  if (run_interval.kind == sim::RunInterval::Kind::iteration)
    iteration = fmt::format(R"(, "args": {{"iteration": {}}})", run_interval.iteration);
  const auto add_slice = [&](int device, Row row) {
    slice(process_of(device), free_row(device, row, begin, end), name, begin, end, iteration);
  };
  if (task.kind == sim::TaskKind::compute) return add_slice(task.host, Row::compute);
  add_slice(task.host, Row::send);
  add_slice(task.destination, Row::receive);
}

void ChromeTrace::count(const sim::RunInterval& run_interval, int number, bool is_start) {
  const sim::Task& task = run_interval.graph.graph.tasks[at(number)];
  const sim::TaskRecord& record = run_interval.replay.tasks[at(number)];
  const auto [begin, end] = sim::busy(record, run_interval);
  if (!sim::is_message(task) || end <= begin) return;
  // It is unknown how many bytes of an aborted message were sent.
  const double rate = std::isnan(record.finish) ? 0 : task.amount / (end - begin);
  const std::pair sites(topology_.devices[at(task.host)].site, topology_.devices[at(task.destination)].site);
  Load& load = loads_[sites];
  load.messages += is_start ? 1 : -1;
  load.rate += (is_start ? 1 : -1) * rate;
  if (load.messages == 0) load.rate = 0;  // removes rounding errors
  changed_.push_back(sites);
}

void ChromeTrace::write_loads(std::int64_t date) {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  for (const auto& sites : changed_) {
    Load& load = loads_[sites];
    if (load.rate == load.written) continue;
    load.written = load.rate;
    const std::string name =
        topology_.sites[at(sites.first)].name + " → " + topology_.sites[at(sites.second)].name;
    event(fmt::format(R"("ph": "C", "pid": 0, "ts": {}, "name": {}, "args": {{"Gbps": {:.6g}}})",
                      microseconds(date), quoted(name), load.rate / gigabit));
  }
  changed_.clear();
}

void ChromeTrace::write_memory(const sim::MemoryStep& step) {
  event(fmt::format(R"("ph": "C", "pid": {}, "ts": {}, "name": "memory", "args": {{"GB": {:.6g}}})",
                    process_of(step.device), microseconds(nanoseconds(step.date)), step.bytes / gigabyte));
}

/// Starts and ends of all tasks in order of time; at equal times ends come before starts.
std::vector<ChromeTrace::Transition> ChromeTrace::transitions_of(const sim::RunInterval& run_interval) {
  std::vector<Transition> transitions;
  for (std::size_t i = 0; i < run_interval.replay.tasks.size(); ++i) {
    const sim::TaskRecord& record = run_interval.replay.tasks[i];
    const sim::Task& task = run_interval.graph.graph.tasks[i];
    if (!sim::has_started(record) || (task.kind != sim::TaskKind::compute && !sim::is_message(task)))
      continue;
    const auto [begin, end] = sim::busy(record, run_interval);
    transitions.push_back({nanoseconds(begin), true, static_cast<int>(i)});
    transitions.push_back({nanoseconds(end), false, static_cast<int>(i)});
  }
  stable_sort_unless_stopped(transitions.begin(), transitions.end(), run_interval.stop,
                             [](const Transition& a, const Transition& b) {
                               return std::tie(a.date, a.is_start, a.task) <
                                      std::tie(b.date, b.is_start, b.task);
                             });
  return transitions;
}

void ChromeTrace::on_interval(const sim::RunInterval& run_interval) {
  const std::vector<sim::MemoryStep> memory = sim::memory_steps(run_interval, memory_of_);
  const std::vector<Transition> transitions = transitions_of(run_interval);
  // Without an iteration barrier, an iteration may start before the previous one has ended.
  const std::int64_t begin = std::max(run_until_, nanoseconds(run_interval.start));
  run_until_ = nanoseconds(run_interval.end);
  slice(0, 0, title(run_interval), begin, run_until_);
  std::size_t written = 0;
  auto step = memory.begin();
  for (auto transition = transitions.begin(); transition != transitions.end() || step != memory.end();) {
    throw_if_stopped(run_interval.stop, written++);
    const bool is_memory = transition == transitions.end() ||
                           (step != memory.end() && nanoseconds(step->date) <= transition->date);
    if (is_memory) {
      write_memory(*step++);
      continue;
    }
    if (transition->is_start) task_slices(run_interval, transition->task);
    count(run_interval, transition->task, transition->is_start);
    const std::int64_t date = transition->date;
    if (++transition == transitions.end() || transition->date != date) write_loads(date);
  }
}

}  // namespace dtfm::io
