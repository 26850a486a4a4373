#include "simulator/io/chrome_trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/core/index.hpp"
#include "simulator/observation/stretch_times.hpp"

namespace dtfm::io {
namespace {

constexpr double gigabit = 1e9 / bits_per_byte, gigabyte = 1e9;  // bytes

/// Process 0 is the run.
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

std::string title(const sim::Stretch& stretch) {
  switch (stretch.kind) {
    case sim::Stretch::Kind::iteration:
      break;
    case sim::Stretch::Kind::lost_iteration:
      return fmt::format("iteration {} (lost)", stretch.iteration);
    case sim::Stretch::Kind::recovery:
      return "recovery";
    case sim::Stretch::Kind::checkpoint:
      return "checkpoint";
    case sim::Stretch::Kind::part:
      return fmt::format("iteration {} (up to a departure)", stretch.iteration);
  }
  return fmt::format("iteration {}", stretch.iteration);
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

void ChromeTrace::slice(int process, int row, const std::string& name, std::int64_t begin, std::int64_t end) {
  event(fmt::format(R"("ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "name": {})", process, row,
                    microseconds(begin), microseconds(end - begin), quoted(name)));
}

/// The thread of the first row of its kind in which nothing is under way: rows of a kind are `rows` apart.
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
  // Kinds below each other, not lane by lane.
  constexpr int most_lanes = 1'000'000;
  event(fmt::format(
      R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_sort_index", "args": {{"sort_index": {}}})",
      process_of(device), thread, static_cast<int>(row) * most_lanes + lane));
  return thread;
}

void ChromeTrace::task_slices(const sim::Stretch& stretch, int number) {
  const sim::Task& task = stretch.graph.graph.tasks[at(number)];
  const auto time = sim::busy(stretch.replay.tasks[at(number)], stretch);
  const std::int64_t begin = nanoseconds(time.begin), end = nanoseconds(time.end);
  const std::string name = sim::label_text(stretch.graph.labels[at(number)]);
  const auto on = [&](int device, Row row) {
    slice(process_of(device), free_row(device, row, begin, end), name, begin, end);
  };
  if (task.kind == sim::TaskKind::compute) return on(task.host, Row::compute);
  on(task.host, Row::send);
  on(task.destination, Row::receive);
}

void ChromeTrace::count(const sim::Stretch& stretch, int number, bool is_start) {
  const sim::Task& task = stretch.graph.graph.tasks[at(number)];
  const sim::TaskRecord& record = stretch.replay.tasks[at(number)];
  const auto [begin, end] = sim::busy(record, stretch);
  if (!sim::is_message(task) || end <= begin) return;
  // How much of a message that was cut off has moved is not known.
  const double rate = std::isnan(record.finish) ? 0 : task.amount / (end - begin);
  const std::pair sites(topology_.devices[at(task.host)].site, topology_.devices[at(task.destination)].site);
  Load& load = loads_[sites];
  load.messages += is_start ? 1 : -1;
  load.rate += (is_start ? 1 : -1) * rate;
  if (load.messages == 0) load.rate = 0;  // exactly
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

/// At one date ends come before starts.
std::vector<ChromeTrace::Moment> ChromeTrace::moments_of(const sim::Stretch& stretch) {
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < stretch.replay.tasks.size(); ++i) {
    const sim::TaskRecord& record = stretch.replay.tasks[i];
    const sim::Task& task = stretch.graph.graph.tasks[i];
    if (!sim::has_started(record) || (task.kind != sim::TaskKind::compute && !sim::is_message(task))) continue;
    const auto [begin, end] = sim::busy(record, stretch);
    moments.push_back({nanoseconds(begin), true, static_cast<int>(i)});
    moments.push_back({nanoseconds(end), false, static_cast<int>(i)});
  }
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::tie(a.date, a.is_start, a.task) < std::tie(b.date, b.is_start, b.task);
  });
  return moments;
}

void ChromeTrace::see(const sim::Stretch& stretch) {
  slice(0, 0, title(stretch), nanoseconds(stretch.start), nanoseconds(stretch.end));
  const std::vector<sim::MemoryStep> memory = sim::memory_steps(stretch, memory_of_);
  const std::vector<Moment> moments = moments_of(stretch);
  auto step = memory.begin();
  for (auto moment = moments.begin(); moment != moments.end() || step != memory.end();) {
    const bool is_memory =
        moment == moments.end() || (step != memory.end() && nanoseconds(step->date) <= moment->date);
    if (is_memory) {
      write_memory(*step++);
      continue;
    }
    if (moment->is_start) task_slices(stretch, moment->task);
    count(stretch, moment->task, moment->is_start);
    const std::int64_t date = moment->date;
    if (++moment == moments.end() || moment->date != date) write_loads(date);
  }
}

}  // namespace dtfm::io
