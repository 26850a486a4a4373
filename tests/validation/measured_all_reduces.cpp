#include "tests/validation/measured_all_reduces.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "core/base/error.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/lowering/gradient_sync.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace sim;
namespace {

constexpr double payload = 1448.0 / 1500;  // of a packet: without the headers of IP and TCP

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

GradientSync algorithm_of(const std::string& name) {
  return name == "ring" ? GradientSync::ring : name == "tree" ? GradientSync::tree : GradientSync::sharded_ps;
}

}  // namespace

std::vector<MeasuredAllReduce> read_measured_all_reduces(const std::string& file) {
  constexpr double max_spread = 0.1;
  std::map<std::vector<std::string>, std::vector<double>> seconds;  // by setting
  std::istringstream text(io::read_file(file, 1 << 20));
  std::vector<std::string> header;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> cells = cells_of(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    DTFM_ASSERT(cells.size() == header.size());
    const double time_s = std::stod(cells.back());
    cells.resize(cells.size() - 2);  // without the repetition and its time
    seconds[cells].push_back(time_s);
  }
  std::vector<MeasuredAllReduce> runs;
  for (const auto& [cells, times] : seconds) {
    const auto cell = [&](std::string_view name) {
      return cells[static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin())];
    };
    const auto number = [&](std::string_view name) { return std::stod(cell(name)); };
    const bool is_algorithm =
        cell("algorithm") == "ring" || cell("algorithm") == "tree" || cell("algorithm") == "sharded";
    const bool has_defaults = cell("congestion") == "cubic" && cell("rmem") == "6291456" &&
                              cell("wmem") == "4194304" && cell("slow_start_after_idle") == "1" &&
                              cell("mca").empty();
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    if (!is_algorithm || !has_defaults || number("queue_ms") < 2 * number("latency_ms") ||
        *most > (1 + max_spread) * *least)
      continue;
    runs.push_back({cell("library"), algorithm_of(cell("algorithm")), static_cast<int>(number("ranks")),
                    number("latency_ms") / 1e3, number("rate_mbps") * 1e6 / 8 * payload, number("bytes"),
                    std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size())});
  }
  return runs;
}

double simulated_seconds(const MeasuredAllReduce& run, bool with_transport) {
  const Link link = link_of(run.latency_s, run.bytes_per_s);
  Topology topology = flat_topology({run.ranks}, link, link);
  for (const Transport& it : transports)
    if (with_transport && it.library == run.library) topology.transport = it;
  const Calibration neutral;
  GraphBuilder builder(topology, neutral);
  SyncGroup group{std::vector<int>(at(run.ranks)), run.bytes, std::vector<int>(at(run.ranks), no_index), 0};
  std::iota(group.devices.begin(), group.devices.end(), 0);
  add_gradient_sync(builder, run.algorithm, group);
  return replay_makespan(builder.take());
}

}  // namespace dtfm
