#include "simulator/io/availability_reader.hpp"

#include <cmath>
#include <deque>
#include <map>
#include <set>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/io/text/csv_table.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// Who is there, and the events from the first on that come after the start.
class Fleet {
 public:
  explicit Fleet(const std::vector<int>& devices) : devices_(devices) {
    for (std::size_t i = 0; i < devices.size(); ++i) missing_.insert(missing_.end(), i);
  }

  void advance(double date) {
    if (date > 0 && date_ == 0) finish_start();
    date_ = date;
  }
  /// `place` is a position in the list of devices.
  void join(std::size_t place) {
    missing_.erase(place);
    note(place, sim::DeviceEvent::Kind::join);
  }
  void leave(std::size_t place) {
    missing_.insert(place);
    note(place, sim::DeviceEvent::Kind::leave);
  }
  std::size_t size() const { return devices_.size(); }
  std::size_t first_missing() const { return missing_.empty() ? size() : *missing_.begin(); }
  std::vector<sim::DeviceEvent> take_events() {
    if (date_ == 0) finish_start();
    return std::move(events_);
  }

 private:
  void note(std::size_t place, sim::DeviceEvent::Kind kind) {
    if (date_ > 0) events_.push_back({date_, devices_[place], kind});
  }
  void finish_start() {
    for (const std::size_t place : missing_) events_.push_back({0, devices_[place]});
  }

  const std::vector<int>& devices_;
  std::set<std::size_t> missing_;  // places of those that are not there
  double date_ = 0;
  std::vector<sim::DeviceEvent> events_;
};

class NodeList {
 public:
  explicit NodeList(Fleet& fleet) : fleet_(fleet) {}

  void read_row(const CsvTable& table) {
    table.expect_cells(3);
    const std::string_view action = table.cells()[1].text, node = table.cells()[2].text;
    if (node.empty()) throw table.error(2, "the node is missing");
    if (action == "add")
      add(table, node);
    else if (action == "remove")
      remove(table, node);
    else
      throw table.error(
          1, fmt::format("unknown {}; {}", in_quotes(action), suggestion(action, {"add", "remove"})));
  }

 private:
  void add(const CsvTable& table, std::string_view node) {
    const std::size_t place = fleet_.first_missing();
    const auto [entry, is_new] = places_.try_emplace(std::string(node), place);
    if (!is_new) throw table.error(2, fmt::format("{} joins, but it is there already", in_quotes(node)));
    if (place < fleet_.size())
      fleet_.join(place);
    else
      waiting_.push_back(entry->first);
  }

  void remove(const CsvTable& table, std::string_view node) {
    const auto entry = places_.find(node);
    if (entry == places_.end())
      throw table.error(2, fmt::format("{} leaves, but it is not there", in_quotes(node)));
    const std::size_t place = entry->second;
    places_.erase(entry);
    if (place == fleet_.size()) return;  // it waits; whoever comes to it will see that it is gone
    fleet_.leave(place);
    while (!waiting_.empty()) {
      const auto next = places_.find(waiting_.front());
      waiting_.pop_front();
      if (next == places_.end() || next->second != fleet_.size()) continue;
      next->second = place;
      return fleet_.join(place);
    }
  }

  Fleet& fleet_;
  std::map<std::string, std::size_t, std::less<>> places_;  // of the nodes that are there; the size: none
  std::deque<std::string> waiting_;
};

class HeadCount {
 public:
  explicit HeadCount(Fleet& fleet) : fleet_(fleet) {}

  void read_row(const CsvTable& table) {
    table.expect_cells(2);
    const double alive = table.number(1, {"", 0}, "the number alive");
    if (alive != std::floor(alive)) throw table.error(1, "expected a whole number of machines");
    const auto size = fleet_.size();
    const std::size_t wanted = alive < static_cast<double>(size) ? static_cast<std::size_t>(alive) : size;
    while (there_ > wanted) fleet_.leave(--there_);
    while (there_ < wanted) fleet_.join(there_++);
  }

 private:
  Fleet& fleet_;
  std::size_t there_ = 0;
};

template <class Rows>
std::vector<sim::DeviceEvent> read_rows(CsvTable& table, const AvailabilityFormat& format) {
  Fleet fleet(format.devices);
  Rows rows(fleet);
  for (double last = 0; table.has_row(); table.next()) {
    const double date = table.number(0, format.time, "the time");
    if (date < last) throw table.error(0, fmt::format("time goes back: {} s after {} s", date, last));
    fleet.advance(last = date);
    rows.read_row(table);
  }
  return fleet.take_events();
}

}  // namespace

std::vector<sim::DeviceEvent> parse_availability(std::string text, const std::string& file,
                                            const AvailabilityFormat& format) {
  const std::string checked = checked_text(std::move(text), file);
  CsvTable table(checked, file);
  table.take_header();
  if (!table.has_row())
    throw table.error(0, format.counts
                             ? "an empty trace: expected lines with a time and how many are alive"
                             : "an empty trace: expected lines with a time, add or remove, and a node");
  return format.counts ? read_rows<HeadCount>(table, format) : read_rows<NodeList>(table, format);
}

}  // namespace dtfm::io
