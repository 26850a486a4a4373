// Imports the output of NVIDIA's nccl-tests: rows of size (B) and time (µs), to which latency α and bandwidth
// β are fitted:
//   sendrecv_perf    each of n ranks sends to the next one:              t = α + S / β
//   all_reduce_perf  2 (n − 1) steps around a ring, S / n bytes each:    t = 2 (n − 1) (α + S / (n β))
// so that β is what NCCL calls bus bandwidth. The out-of-place times are used. α includes the launch of the
// operation. There must be one rank per host; with more than two hosts, the result reflects the slowest hop
// and is used for every pair. Output whose results were wrong, or that comes from ranks which measured only
// themselves, is rejected.
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
  std::set<std::string, std::less<>> ranks;
  std::vector<Row> rows;
  /// Whether the bandwidth of the algorithm, and that of the bus, are above 0 in any row. For two or more
  /// ranks the second is no less than the first, for one it is 0; slow links may have 0.00 in both.
  bool has_bandwidth = false, has_traffic = false;
};

/// Indices of the columns of the out-of-place results. 0: the output has no such column; it always has
/// `time`.
struct Columns {
  std::size_t time = 0, bandwidth = 0, bus_bandwidth = 0, wrong = 0;
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

/// The columns that a header line "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time …"
/// names; nullopt for other lines. Versions differ in the columns before the time.
std::optional<Columns> find_columns(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[0] != "#" || words[1] != "size") return std::nullopt;
  const auto column = [&](std::string_view name) {
    const auto found = std::find(words.begin(), words.end(), name);
    return found == words.end() ? std::size_t{0} : static_cast<std::size_t>(found - words.begin()) - 1;
  };
  const Columns columns{column("time"), column("algbw"), column("busbw"), column("#wrong")};
  if (columns.time == 0) return std::nullopt;
  return columns;
}

/// Reads the host of a rank from "#  Rank  0 Group  0 Pid  1234 on  HOST device  0 …" and the collective from
/// "# Collective test starting: sendrecv_perf". Throws Error for a rank that is listed twice, and for
/// "# Out of bounds values : 50 FAILED".
void read_comment(const std::vector<std::string_view>& words, NcclRun& run, const std::string& where) {
  const auto word_after = [&](std::string_view word) {
    const auto found = std::find(words.begin(), words.end(), word);
    return found == words.end() || found + 1 == words.end() ? std::string() : std::string(found[1]);
  };
  if (words.size() < 2) return;
  if (words[1] == "Rank") {
    run.hosts.push_back(word_after("on"));
    if (const std::string rank = word_after("Rank"); !run.ranks.insert(rank).second)
      throw Error(where,
                  fmt::format("rank {} is listed twice: each rank measured only itself; build nccl-tests "
                              "with MPI=1",
                              rank));
  }
  if (words[1] == "Collective") run.collective = word_after("starting:");
  if (words[1] == "Out" && words.back() == "FAILED")
    throw Error(where,
                fmt::format("nccl-tests found {} wrong results, so its times are invalid", word_after(":")));
}

/// Appends the size from the first column and the out-of-place time. Throws Error for wrong results.
void read_row(const std::vector<std::string_view>& words, const std::optional<Columns>& columns, NcclRun& run,
              const std::string& where) {
  if (!columns)
    throw Error(
        where,
        "a row precedes the header (`# size count type … time …`), which gives the column of the time");
  if (words.size() <= columns->time)
    throw Error(where, fmt::format("expected the time in column {}; found {} columns", columns->time + 1,
                                   words.size()));
  const auto number = [&](std::string_view word, const Unit& unit) {
    try {
      return parse_in_unit(word, unit);
    } catch (const Error& cause) {
      throw Error(where, cause.what());
    }
  };
  const Row row{number(words[0], size_unit("B")), number(words[columns->time], time_unit("us"))};
  if (row.bytes < 0 || row.seconds <= 0) throw Error(where, "expected a size and a time above zero");
  run.rows.push_back(row);
  const auto word = [&](std::size_t column) {
    return column > 0 && column < words.size() ? words[column] : std::string_view();
  };
  // It is "N/A" if nccl-tests did not check its results.
  const std::string_view wrong = word(columns->wrong);
  if (!wrong.empty() && wrong.find_first_not_of("0123456789") == std::string_view::npos &&
      wrong.find_first_not_of('0') != std::string_view::npos)
    throw Error(where, fmt::format("{} results are wrong (#wrong), so the times are invalid", wrong));
  const auto is_above_0 = [&](std::size_t column) {
    return word(column).find_first_of("123456789") != std::string_view::npos;
  };
  run.has_bandwidth |= is_above_0(columns->bandwidth);
  run.has_traffic |= columns->bus_bandwidth == 0 || is_above_0(columns->bus_bandwidth);
}

NcclRun read_run(const MeasurementFile& file) {
  NcclRun run;
  std::optional<Columns> columns;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    const auto words = split_words(std::string_view(file.text).substr(begin, end - begin));
    ++number;
    begin = end + 1;
    if (words.empty()) continue;
    const bool is_row = words[0].find_first_not_of("0123456789") == std::string_view::npos;
    if (const auto header = find_columns(words)) columns = header;
    const std::string where = position(file.name, number, 1);
    if (const auto test = std::find(words.begin(), words.end(), "Test");
        test != words.end() && std::find(test, words.end(), "failure") != words.end())
      throw Error(where, "nccl-tests failed, so its rows may be incomplete; run it again");
    if (words[0].starts_with('#'))
      read_comment(words, run, where);
    else if (is_row)
      read_row(words, columns, run, where);
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

NcclRun read_valid_run(const MeasurementFile& file) {
  NcclRun run = read_run(file);
  if (run.rows.empty())
    throw Error(file.name,
                "no rows of size and time; expected the output of sendrecv_perf or all_reduce_perf");
  if (run.has_bandwidth && !run.has_traffic)
    throw Error(
        file.name,
        "the bus bandwidth (busbw) of every row is 0: a single rank sends nothing; run the test on two "
        "or more ranks");
  return run;
}

/// The link whose latency and bandwidth fit the rows, of a run of so many ranks.
LinkSample fit_link(const LinearFit& line, const CollectiveSteps& steps) {
  LinkSample sample;
  sample.latency = Seconds(line.intercept / steps.count);
  sample.bandwidth = BitsPerSecond(bits_per_byte * steps.count * steps.share / line.slope);
  return sample;
}

/// Adds the samples of one file to `measurements` and returns the largest relative error of a row.
double import_run(const MeasurementFile& file, const MeasurementSettings& settings,
                  NetworkMeasurements& measurements) {
  const NcclRun run = read_valid_run(file);
  if (settings.between && !run.hosts.empty() && run.hosts.size() != 2)
    throw Error(file.name, fmt::format("--between names two ranks; found {}", run.hosts.size()));
  const std::vector<std::string> sites = rank_sites(run, settings, file.name);
  for (const std::string& site : sites) check_endpoint_name(site, file.name);
  const CollectiveSteps steps = collective_steps(
      settings.collective.empty() ? run.collective : settings.collective, sites.size(), file.name);
  const LinearFit line = fit_line(run.rows, file.name);
  LinkSample sample = fit_link(line, steps);
  if (settings.latency) sample.latency = settings.latency;
  for (const std::string& from : sites)
    for (const std::string& to : sites)
      if (from != to)
        measurements.samples[{measurements.endpoint(from), measurements.endpoint(to)}].push_back(sample);
  return line.max_error;
}

}  // namespace

LinkSample import_nccl_tests_of_host(const MeasurementFile& file, std::size_t gpus) {
  const NcclRun run = read_valid_run(file);
  if (gpus < 2 || (!run.hosts.empty() && run.hosts.size() != gpus))
    throw Error(file.name, fmt::format("expected {} ranks; found {}", gpus, run.hosts.size()));
  return fit_link(fit_line(run.rows, file.name),
                  collective_steps(run.collective.empty() ? "all_reduce" : run.collective, gpus, file.name));
}

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
