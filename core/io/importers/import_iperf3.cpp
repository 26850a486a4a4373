// Imports the output of iperf3 -J, one file per run. The rate at the receiver is the bandwidth if the run had
// one flow, and the capacity if it had several (-P). The JSON also has round-trip times, but of a loaded
// link, so half of the smallest is an upper bound on the latency.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/importers/iperf3_result.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr double min_rate = 1e-3, max_rate = 1e18;  // bit/s, as in topologies
constexpr int max_flows = 1024;

struct ReportInterval {
  double seconds, rate;
};

/// The rates, summed over all streams, of the intervals that iperf3 does not omit. The server's intervals are
/// preferred to the client's, because they count the data that arrived.
std::vector<ReportInterval> read_intervals(const JsonCursor& root) {
  constexpr double max_seconds = 1e9;
  const auto server = root.optional("server_output_json");
  const auto listed = server ? server->optional("intervals") : root.optional("intervals");
  std::vector<ReportInterval> intervals;
  for (std::size_t i = 0, size = listed ? listed->array_size("intervals") : 0; i < size; ++i) {
    const JsonCursor sum = listed->at(i).required("sum");
    const auto omitted = sum.optional("omitted");
    if (omitted && omitted->as_bool()) continue;
    intervals.push_back({sum.required("seconds").as_number(0, max_seconds),
                         sum.required("bits_per_second").as_number(0, max_rate)});
  }
  return intervals;
}

/// Sample standard deviation of the rates over intervals; nullopt for fewer than two. Excludes intervals
/// shorter than half the longest, such as an incomplete one at the end, in which little arrives.
std::optional<BitsPerSecond> rate_deviation(const std::vector<ReportInterval>& intervals) {
  double longest_interval_s = 0, mean = 0, squares = 0;
  for (const ReportInterval& interval : intervals)
    longest_interval_s = std::max(longest_interval_s, interval.seconds);
  std::vector<double> rates;
  for (const ReportInterval& interval : intervals)
    if (interval.seconds >= longest_interval_s / 2) rates.push_back(interval.rate);
  if (rates.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(rates.size());
  for (const double rate : rates) mean += rate / count;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  return BitsPerSecond(std::sqrt(squares / (count - 1)));
}

std::optional<Seconds> read_min_rtt(const JsonCursor& end) {
  constexpr double microsecond = 1e-6, max_microseconds = 1e12;
  std::optional<Seconds> min_value;
  const auto streams = end.optional("streams");
  for (std::size_t i = 0, size = streams ? streams->array_size("streams") : 0; i < size; ++i) {
    const auto sender = streams->at(i).optional("sender");
    const auto rtt = sender ? sender->optional("min_rtt") : std::nullopt;
    const double value = rtt ? rtt->as_number(0, max_microseconds) * microsecond : 0;
    if (value > 0 && (!min_value || Seconds(value) < *min_value)) min_value = Seconds(value);
  }
  return min_value;
}

bool is_set(const JsonCursor& test, const char* key) {
  const auto value = test.optional(key);
  return value && value->as_int(0, 1) == 1;
}

/// Whether the test sent in both directions at once. Only newer versions say so (`bidir`); others write keys
/// for the second direction, or streams of both directions.
bool is_bidirectional(const JsonCursor& test, const JsonCursor& end) {
  if (is_set(test, "bidir") || end.optional("sum_sent_bidir_reverse") ||
      end.optional("sum_received_bidir_reverse"))
    return true;
  bool sends = false, receives = false;
  const auto streams = end.optional("streams");
  for (std::size_t i = 0, size = streams ? streams->array_size("streams") : 0; i < size; ++i) {
    const auto total = streams->at(i).optional("sender");
    const auto is_sender = total ? total->optional("sender") : std::nullopt;
    if (is_sender) (is_sender->as_bool() ? sends : receives) = true;
  }
  return sends && receives;
}

void set_endpoints(const JsonCursor& start, bool is_reverse, Iperf3Result& result) {
  const JsonCursor connected = start.required("connected");
  if (connected.array_size("connections") == 0) connected.fail("expected a connection; found none");
  result.sender = connected.at(0).required("local_host").as_string();
  result.receiver = connected.at(0).required("remote_host").as_string();
  if (is_reverse) std::swap(result.sender, result.receiver);
}

LinkSample make_sample(const Iperf3Result& result) {
  LinkSample sample;
  if (result.min_rtt) sample.latency = *result.min_rtt / 2;
  if (result.flows > 1) {
    sample.capacity = result.received_rate;
  } else {
    sample.bandwidth = result.received_rate;
    sample.spread = result.spread;
  }
  return sample;
}

/// Whether a text is the output of iperf3 --json-stream: lines {"event": …, "data": …}.
bool is_json_stream(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const auto skip_blank = [&] { text.remove_prefix(std::min(text.find_first_not_of(blank), text.size())); };
  skip_blank();
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  skip_blank();
  return text.starts_with("\"event\"");
}

}  // namespace

Iperf3Result parse_iperf3_result(const JsonCursor& root) {
  if (const auto error = root.optional("error")) root.fail("iperf3 failed: " + quote(error->as_string()));
  const JsonCursor start = root.required("start"), end = root.required("end");
  const JsonCursor test = start.required("test_start");
  if (const auto protocol = test.optional("protocol"); protocol && protocol->as_string() != "TCP")
    protocol->fail("expected TCP, as training uses; found " + quote(protocol->as_string()));
  if (is_bidirectional(test, end))
    test.fail("the two directions of a bidirectional test disturb each other; measure one at a time");
  Iperf3Result result;
  result.flows = test.required("num_streams").as_int(1, max_flows);
  set_endpoints(start, is_set(test, "reverse"), result);
  result.received_rate =
      BitsPerSecond(end.required("sum_received").required("bits_per_second").as_number(min_rate, max_rate));
  result.spread = rate_deviation(read_intervals(root));
  result.min_rtt = read_min_rtt(end);
  return result;
}

NetworkMeasurements import_iperf3(std::span<const MeasurementFile> files,
                                  const MeasurementSettings& settings) {
  if (settings.between && files.size() != 1)
    throw Error("--between", "requires exactly one file; for several, use --name HOST=SITE");
  NetworkMeasurements measurements;
  measurements.description =
      "iperf3 over TCP; latency is half the smallest round-trip time under load, an upper bound";
  for (const auto& [name, text] : files) {
    if (is_json_stream(text))
      throw Error(name, "events of iperf3 --json-stream are not supported; measure with -J alone");
    const nlohmann::json root =
        parse_json(text, name, DuplicateKeys::last_wins);  // iperf3 3.12 writes duplicate keys
    const Iperf3Result result = parse_iperf3_result(JsonCursor(root, name));
    const std::string from = settings.between ? settings.between->first : settings.site_of(result.sender);
    const std::string to = settings.between ? settings.between->second : settings.site_of(result.receiver);
    check_endpoint_name(from, name);
    check_endpoint_name(to, name);
    if (from == to) throw Error(name, fmt::format("is a measurement from {} to itself", quote(from)));
    const int sender = measurements.endpoint(from), receiver = measurements.endpoint(to);
    LinkSample sample = make_sample(result);
    if (settings.latency) sample.latency = settings.latency;
    measurements.samples[{sender, receiver}].push_back(sample);
  }
  return measurements;
}

}  // namespace dtfm::io
