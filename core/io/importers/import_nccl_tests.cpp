// Imports the output of NVIDIA's nccl-tests: rows of size (B) and time (µs), to which latency α and bandwidth
// β are fitted:
//   sendrecv_perf    each of n ranks sends to the next one:              t = α + S / β
//   all_reduce_perf  2 (n − 1) steps around a ring, S / n bytes each:    t = 2 (n − 1) (α + S / (n β))
// so that β is what NCCL calls bus bandwidth. The out-of-place times are used. α includes the launch of the
// operation. There must be one rank per host; with more than two hosts, the result reflects the slowest hop
// and is used for every pair.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

struct Row {
  double bytes, seconds;
};

struct NcclRun {
  std::string collective;          // such as sendrecv_perf; empty if the text does not say
  std::vector<std::string> hosts;  // of the ranks
  std::vector<Row> rows;
};

std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < line.size();) {
    while (begin < line.size() && is_csv_blank(line[begin])) ++begin;
    std::size_t end = begin;
    while (end < line.size() && !is_csv_blank(line[end])) ++end;
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

/// Index of the first time column, given the words of a header line
/// "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time …"; nullopt for other lines. Versions
/// differ in the columns before it.
std::optional<std::size_t> find_time_column(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[0] != "#" || words[1] != "size") return std::nullopt;
  const auto time = std::find(words.begin(), words.end(), "time");
  if (time == words.end()) return std::nullopt;
  return static_cast<std::size_t>(time - words.begin()) - 1;
}

/// Reads the host of a rank from "#  Rank  0 Group  0 Pid  1234 on  HOST device  0 …" and the collective from
/// "# Collective test starting: sendrecv_perf".
void read_comment(const std::vector<std::string_view>& words, NcclRun& run) {
  const auto word_after = [&](std::string_view word) {
    const auto found = std::find(words.begin(), words.end(), word);
    return found == words.end() || found + 1 == words.end() ? std::string() : std::string(found[1]);
  };
  if (words.size() > 1 && words[1] == "Rank") run.hosts.push_back(word_after("on"));
  if (words.size() > 1 && words[1] == "Collective") run.collective = word_after("starting:");
}

/// Reads the size from the first column and the out-of-place time from the column that the header gives.
Row parse_row(const std::vector<std::string_view>& words, const std::optional<std::size_t>& time_column,
              const std::string& where) {
  if (!time_column)
    throw Error(
        where,
        "a row precedes the header (`# size count type … time …`), which gives the column of the time");
  if (words.size() <= *time_column)
    throw Error(where, fmt::format("expected the time in column {}; found {} columns", *time_column + 1,
                                   words.size()));
  const auto number = [&](std::string_view word, const Unit& unit) {
    try {
      return parse_in_unit(word, unit);
    } catch (const Error& cause) {
      throw Error(where, cause.what());
    }
  };
  const Row row{number(words[0], size_unit("B")), number(words[*time_column], time_unit("us"))};
  if (row.bytes < 0 || row.seconds <= 0) throw Error(where, "expected a size and a time above zero");
  return row;
}

NcclRun read_run(const MeasurementFile& file) {
  NcclRun run;
  std::optional<std::size_t> time_column;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    const auto words = split_words(std::string_view(file.text).substr(begin, end - begin));
    ++number;
    begin = end + 1;
    if (words.empty()) continue;
    const bool is_row = words[0].find_first_not_of("0123456789") == std::string_view::npos;
    if (const auto column = find_time_column(words)) time_column = column;
    if (words[0].starts_with('#'))
      read_comment(words, run);
    else if (is_row)
      run.rows.push_back(parse_row(words, time_column, position(file.name, number, 1)));
  }
  return run;
}

struct LinearFit {
  double intercept, slope;
  double max_error = 0;  // largest relative error of a row
};

/// Fits time = intercept + slope · bytes by least squares of relative errors, so that small messages
/// determine the latency and large ones the bandwidth.
LinearFit fit_line(const std::vector<Row>& rows, const std::string& file) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const Row& row : rows) {
    const double weight = 1 / (row.seconds * row.seconds);
    w += weight;
    wx += weight * row.bytes;
    wxx += weight * row.bytes * row.bytes;
    wy += weight * row.seconds;
    wxy += weight * row.bytes * row.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  const bool has_two_sizes =
      std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.bytes != rows[0].bytes; });
  double slope = has_two_sizes ? (w * wxy - wx * wy) / determinant : 0;
  double intercept = (wy - slope * wx) / w;
  if (has_two_sizes && intercept < 0) {  // times cannot be negative: fit the best line through 0 instead
    intercept = 0;
    slope = wxy / wxx;
  }
  if (!has_two_sizes || !std::isfinite(slope) || !std::isfinite(intercept) || slope <= 0)
    throw Error(file, "expected rows of several sizes, with longer times for larger sizes");
  LinearFit line{intercept, slope};
  for (const Row& row : rows)
    line.max_error =
        std::max(line.max_error, std::abs(line.intercept + slope * row.bytes - row.seconds) / row.seconds);
  return line;
}

/// Number of steps of a collective, and the fraction of its bytes that each step transfers.
struct CollectiveSteps {
  double count, share;
};

CollectiveSteps collective_steps(std::string collective, std::size_t ranks, const std::string& file) {
  if (collective.ends_with("_perf")) collective.resize(collective.size() - 5);
  if (collective.empty())
    throw Error(file, "does not name its collective; set --collective sendrecv or all_reduce");
  const auto n = static_cast<double>(ranks);
  if (collective == "sendrecv") return {1, 1};
  if (collective == "all_reduce") return {2 * (n - 1), 1 / n};
  throw Error(file, fmt::format("expected sendrecv_perf or all_reduce_perf; found {}", quote(collective)));
}

std::vector<std::string> rank_sites(const NcclRun& run, const MeasurementSettings& settings,
                                    const std::string& file) {
  if (settings.between) return {settings.between->first, settings.between->second};
  std::vector<std::string> sites;
  for (const std::string& host : run.hosts) sites.push_back(settings.site_of(host));
  const std::set<std::string> distinct(sites.begin(), sites.end());
  if (sites.size() < 2 || distinct.size() != sites.size())
    throw Error(
        file, fmt::format("expected one rank per host; found {} ranks on {} hosts (--between A B names two)",
                          sites.size(), distinct.size()));
  return sites;
}

/// Adds the samples of one file to `measurements` and returns the largest relative error of a row.
double import_run(const MeasurementFile& file, const MeasurementSettings& settings,
                  NetworkMeasurements& measurements) {
  const NcclRun run = read_run(file);
  if (run.rows.empty())
    throw Error(file.name,
                "no rows of size and time; expected the output of sendrecv_perf or all_reduce_perf");
  if (settings.between && !run.hosts.empty() && run.hosts.size() != 2)
    throw Error(file.name, fmt::format("--between names two ranks; found {}", run.hosts.size()));
  const std::vector<std::string> sites = rank_sites(run, settings, file.name);
  for (const std::string& site : sites) check_endpoint_name(site, file.name);
  const CollectiveSteps steps = collective_steps(
      settings.collective.empty() ? run.collective : settings.collective, sites.size(), file.name);
  const LinearFit line = fit_line(run.rows, file.name);
  LinkSample sample;
  sample.latency = settings.latency.value_or(Seconds(line.intercept / steps.count));
  sample.bandwidth = BitsPerSecond(bits_per_byte * steps.count * steps.share / line.slope);
  for (const std::string& from : sites)
    for (const std::string& to : sites)
      if (from != to)
        measurements.samples[{measurements.endpoint(from), measurements.endpoint(to)}].push_back(sample);
  return line.max_error;
}

}  // namespace

NetworkMeasurements import_nccl_tests(std::span<const MeasurementFile> files,
                                      const MeasurementSettings& settings) {
  if (settings.between && files.size() != 1)
    throw Error("--between", "requires exactly one file; for several, use --name HOST=SITE");
  NetworkMeasurements measurements;
  measurements.description =
      "nccl-tests: latency a and bandwidth b fitted to t = a + S/b (sendrecv) or t = 2 (n-1) (a + S/(n b)) "
      "(all_reduce of n ranks), least squares of relative errors; a includes the launch of the operation";
  double max_error = 0;
  for (const MeasurementFile& file : files)
    max_error = std::max(max_error, import_run(file, settings, measurements));
  measurements.description += fmt::format("; the largest error of a row is {:.2g} %", 100 * max_error);
  return measurements;
}

}  // namespace dtfm::io
