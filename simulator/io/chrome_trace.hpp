// Writes a run as a timeline that Perfetto (ui.perfetto.dev) and chrome://tracing can open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/io/task_csv.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/memory_use.hpp"

namespace dtfm::io {

/// Writes the Trace Event Format (Duca and Sinclair) while the run is simulated, in order of time. Process 0
/// is the run: a row of its iterations, and for each ordered pair of sites a counter with the sum of the mean
/// rates of the messages in transit, each its bytes ÷ its duration (0 for aborted messages). Process 1 + d is
/// device d: rows compute, send and receive, with additional rows of a kind (`send 2`) where several messages
/// are in transit at once, and a counter of memory. What belongs to a complete iteration has its number as an
/// argument. Times are microseconds, exact to the nanosecond. Where iterations overlap, because they have no
/// barrier, the counters of rates alternate between those of the two.
class ChromeTrace : public sim::RunObserver {
 public:
  /// `topology` must outlive this.
  ChromeTrace(const Topology& topology, sim::StageMemoryOf memory_of, TextSink sink);
  void on_interval(const sim::RunInterval& run_interval) override;
  /// Writes the end of the file. Must be the last call.
  void finish();

 private:
  enum class Row { compute, send, receive };
  static constexpr int rows = 3;
  struct Load {
    int messages = 0;
    double rate = 0, written = 0;  // bytes per second
  };
  struct Transition {
    std::int64_t date;  // ns
    bool is_start;
    int task;
  };

  void event(const std::string& fields);
  void name_process(int process, const std::string& name);
  void slice(int process, int row, const std::string& name, std::int64_t begin, std::int64_t end,
             const std::string& more = "");
  int free_row(int device, Row row, std::int64_t begin, std::int64_t end);
  void task_slices(const sim::RunInterval& run_interval, int task);
  void count(const sim::RunInterval& run_interval, int task, bool is_start);
  void write_loads(std::int64_t date);
  void write_memory(const sim::MemoryStep& step);
  static std::vector<Transition> transitions_of(const sim::RunInterval& run_interval);

  const Topology& topology_;
  sim::StageMemoryOf memory_of_;
  TextSink sink_;
  bool is_first_ = true;
  std::int64_t run_until_ = 0;                         // the end of the last interval, ns
  std::vector<std::vector<std::int64_t>> busy_until_;  // [device and kind][row of that kind], ns
  std::map<std::pair<int, int>, Load> loads_;          // by pair of sites
  std::vector<std::pair<int, int>> changed_;
};

}  // namespace dtfm::io
