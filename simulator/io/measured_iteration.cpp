#include "simulator/io/measured_iteration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr int max_number = 1'000'000'000;  // of processes and threads
constexpr double max_us = 1e15;            // thirty years
constexpr const char* events_key = "traceEvents";

struct IterationTimes {
  int number = 0;
  double start_us = 0, end_us = 0;
  double length() const { return end_us - start_us; }
};

bool has_text(const JsonCursor& event, const char* key, std::string_view text) {
  const auto value = event.optional(key);
  return value && value->is_string() && value->as_string() == text;
}

double time_of(const JsonCursor& event, const char* key) {
  return event.required(key).as_number(0, max_us);
}

/// The number in "iteration 7"; nullopt for other names.
std::optional<int> iteration_number(std::string_view name) {
  constexpr std::string_view prefix = "iteration ";
  if (!name.starts_with(prefix)) return std::nullopt;
  int number = 0;
  const char* end = name.data() + name.size();
  const auto [read, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc() && read == end ? std::optional(number) : std::nullopt;
}

/// The iteration that an activity belongs to, if the trace says so.
std::optional<int> iteration_of(const JsonCursor& event) {
  const auto args = event.optional("args");
  const auto number = args ? args->optional("iteration") : std::nullopt;
  return number ? std::optional(number->as_int(0, max_number)) : std::nullopt;
}

/// Devices by process, and the iterations. Process 0 is the run.
class TraceIndex {
 public:
  TraceIndex(std::string_view text, const std::string& file, const Topology& topology) {
    for (int device = 0; device < topology.size(); ++device)
      device_of_.emplace(topology.devices[at(device)].id, device);
    read_json_items(text, file, events_key, [&](const JsonCursor& event) { add(event); });
    if (iterations_.empty())
      throw Error(file, "has no iterations; expected a file written by train.py --trace");
  }

  IterationTimes median() {
    if (iterations_.size() > 1) iterations_.erase(iterations_.begin());
    std::stable_sort(
        iterations_.begin(), iterations_.end(),
        [](const IterationTimes& a, const IterationTimes& b) { return a.length() < b.length(); });
    return iterations_[iterations_.size() / 2];
  }

  /// The device of an event; nullopt if its process is not one.
  std::optional<int> device(const JsonCursor& event) const {
    const auto known = processes_.find(event.required("pid").as_int(0, max_number));
    return known == processes_.end() ? std::nullopt : std::optional(known->second);
  }

 private:
  void add(const JsonCursor& event) {
    const bool is_name = has_text(event, "ph", "M") && has_text(event, "name", "process_name");
    if (!is_name && !has_text(event, "ph", "X")) return;
    const int process = event.required("pid").as_int(0, max_number);
    if (is_name && process > 0) add_device(process, event.required("args").required("name"));
    if (is_name || process > 0) return;
    if (const auto number = iteration_number(event.required("name").as_string())) {
      const double start = time_of(event, "ts");
      iterations_.push_back({*number, start, start + time_of(event, "dur")});
    }
  }

  void add_device(int process, const JsonCursor& name) {
    constexpr std::string_view first_gpu = ":0";
    std::string_view id = name.as_string();
    auto known = device_of_.find(id);
    if (known == device_of_.end() && id.ends_with(first_gpu)) {
      id.remove_suffix(first_gpu.size());
      known = device_of_.find(id);
    }
    if (known == device_of_.end())
      name.fail(fmt::format("the topology has no device {}", quote(name.as_string())));
    processes_[process] = known->second;
  }

  std::map<std::string_view, int> device_of_;  // by id
  std::map<int, int> processes_;
  std::vector<IterationTimes> iterations_;
};

}  // namespace

sim::Timeline parse_measured_iteration(std::string_view text, const std::string& file,
                                       const Topology& topology) {
  using Track = sim::TimelineRow::Track;
  constexpr std::array tracks = {Track::compute, Track::send, Track::receive};
  TraceIndex index(text, file, topology);
  const IterationTimes chosen = index.median();
  constexpr double microsecond = 1e-6;
  const double length_s = chosen.length() * microsecond;
  double first_s = 0;
  std::map<std::pair<int, Track>, sim::TimelineRow> rows;
  read_json_items(text, file, events_key, [&](const JsonCursor& event) {
    if (!has_text(event, "ph", "X")) return;
    const auto device = index.device(event);
    const double start = time_of(event, "ts");
    const auto number = iteration_of(event);
    const bool is_in = number ? *number == chosen.number : start >= chosen.start_us && start < chosen.end_us;
    if (!device || !is_in) return;
    const auto label = sim::parse_label(event.required("name").as_string());
    if (!label) return;
    const int thread = event.required("tid").as_int(0, max_number);
    const Track track = tracks[static_cast<std::size_t>(thread) % tracks.size()];
    sim::TimelineRow& row = rows[{*device, track}];
    row.device = *device;
    row.track = track;
    row.spans.push_back({(start - chosen.start_us) * microsecond,
                         (start - chosen.start_us + time_of(event, "dur")) * microsecond,
                         sim::kind_of(label->activity), 1, label->micro_batch});
    first_s = std::min(first_s, row.spans.back().start);
  });
  // Without a barrier, activities may start before the previous iteration ends, at negative times, and end
  // later than it. Shift all so that the first starts at 0.
  double end_s = length_s;
  std::vector<sim::TimelineRow> list;
  for (auto& [place, row] : rows) {
    for (sim::TimelineSpan& it : row.spans) {
      it.start -= first_s;
      it.end -= first_s;
      end_s = std::max(end_s, it.end);
    }
    list.push_back(std::move(row));
  }
  return sim::make_timeline(fmt::format("iteration {}", chosen.number), {0, end_s}, length_s, std::move(list));
}

}  // namespace dtfm::io
