#include "simulator/io/availability_reader.hpp"

#include <cmath>
#include <deque>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/csv_table.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// The set of available devices, and the events of those that join or leave after the start.
class DevicePool {
 public:
  explicit DevicePool(const std::vector<int>& devices) : devices_(devices) {
    for (std::size_t i = 0; i < devices.size(); ++i) missing_.insert(missing_.end(), i);
  }

  void advance(double date) {
    if (date > 0 && date_ == 0) record_initial_absences();
    date_ = date;
  }
  /// `slot` is an index into the list of devices.
  void join(std::size_t slot) {
    missing_.erase(slot);
    note(slot, sim::DeviceEvent::Kind::join);
  }
  void leave(std::size_t slot) {
    missing_.insert(slot);
    note(slot, sim::DeviceEvent::Kind::leave);
  }
  std::size_t size() const { return devices_.size(); }
  std::size_t first_missing() const { return missing_.empty() ? size() : *missing_.begin(); }
  std::vector<sim::DeviceEvent> take_events() {
    if (date_ == 0) record_initial_absences();
    return std::move(events_);
  }

 private:
  void note(std::size_t slot, sim::DeviceEvent::Kind kind) {
    if (date_ > 0) events_.push_back({date_, devices_[slot], kind});
  }
  void record_initial_absences() {
    for (const std::size_t slot : missing_) events_.push_back({0, devices_[slot]});
  }

  const std::vector<int>& devices_;
  std::set<std::size_t> missing_;  // slots of unavailable devices
  double date_ = 0;
  std::vector<sim::DeviceEvent> events_;
};

class NodeEvents {
 public:
  explicit NodeEvents(DevicePool& pool) : pool_(pool) {}

  void read_row(const CsvTable& table) {
    table.expect_cells(3);
    const std::string_view action = table.cells()[1].text, node = table.cells()[2].text;
    if (node.empty()) throw table.error(2, "the node is missing");
    if (action == "add")
      add(table, node);
    else if (action == "remove")
      remove(table, node);
    else
      throw table.error(1,
                        fmt::format("unknown {}; {}", quote(action), suggestion(action, {"add", "remove"})));
  }

 private:
  void add(const CsvTable& table, std::string_view node) {
    const std::size_t slot = pool_.first_missing();
    const auto [entry, is_new] = slots_.try_emplace(std::string(node), slot);
    if (!is_new) throw table.error(2, fmt::format("{} joins, but it is already available", quote(node)));
    if (slot < pool_.size())
      pool_.join(slot);
    else
      waiting_.push_back(entry->first);
  }

  void remove(const CsvTable& table, std::string_view node) {
    const auto entry = slots_.find(node);
    if (entry == slots_.end())
      throw table.error(2, fmt::format("{} leaves, but it is not available", quote(node)));
    const std::size_t slot = entry->second;
    slots_.erase(entry);
    if (slot == pool_.size()) return;  // it was waiting; its entry in `waiting_` is skipped later
    pool_.leave(slot);
    while (!waiting_.empty()) {
      const auto next = slots_.find(waiting_.front());
      waiting_.pop_front();
      if (next == slots_.end() || next->second != pool_.size()) continue;
      next->second = slot;
      return pool_.join(slot);
    }
  }

  DevicePool& pool_;
  std::map<std::string, std::size_t, std::less<>> slots_;  // by node; pool_.size() means it is waiting
  std::deque<std::string> waiting_;
};

class AliveCount {
 public:
  explicit AliveCount(DevicePool& pool) : pool_(pool) {}

  void read_row(const CsvTable& table) {
    table.expect_cells(2);
    const double alive = table.number(1, {"", 0}, "the number alive");
    if (alive != std::floor(alive)) throw table.error(1, "expected a whole number of machines");
    const auto size = pool_.size();
    const std::size_t target_count =
        alive < static_cast<double>(size) ? static_cast<std::size_t>(alive) : size;
    while (alive_count_ > target_count) pool_.leave(--alive_count_);
    while (alive_count_ < target_count) pool_.join(alive_count_++);
  }

 private:
  DevicePool& pool_;
  std::size_t alive_count_ = 0;
};

template <class Rows>
std::vector<sim::DeviceEvent> read_rows(CsvTable& table, const AvailabilityFormat& format) {
  DevicePool pool(format.devices);
  Rows rows(pool);
  for (double last = 0; table.has_row(); table.next()) {
    const double date = table.number(0, format.time, "the time");
    if (date < last) throw table.error(0, fmt::format("time goes back: {} s after {} s", date, last));
    pool.advance(last = date);
    rows.read_row(table);
  }
  return pool.take_events();
}

/// SkyPilot's spot traces are JSON: {"metadata": {"gap_seconds": …}, "data": [0, 1, …]}.
void reject_spot_traces(std::string_view text, const std::string& file) {
  if (text.find("\"gap_seconds\"") != std::string_view::npos && text.find('{') < text.find("\"gap_seconds\""))
    throw Error(file,
                "expected CSV; found a JSON trace of SkyPilot: for format `count`, write lines "
                "`SECONDS,COUNT`, one per entry of `data`, `gap_seconds` apart");
}

}  // namespace

std::vector<sim::DeviceEvent> parse_availability(std::string text, const std::string& file,
                                                 const AvailabilityFormat& format) {
  const std::string checked = validate_text(std::move(text), file);
  reject_spot_traces(checked, file);
  CsvTable table(checked, file);
  table.take_header();
  if (!table.has_row())
    throw table.error(0, format.has_counts
                             ? "an empty trace: expected lines with a time and how many are alive"
                             : "an empty trace: expected lines with a time, add or remove, and a node");
  return format.has_counts ? read_rows<AliveCount>(table, format) : read_rows<NodeEvents>(table, format);
}

}  // namespace dtfm::io
