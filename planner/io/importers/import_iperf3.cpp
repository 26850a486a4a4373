// iperf3 -J, one file a run: the rate at the receiver; of one flow the bandwidth, of several (-P) the
// capacity. Its JSON has round trips too, but those of a busy line: half of the least is at most too long.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/io/importers/iperf3_result.hpp"
#include "planner/io/importers/network_survey.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr double least_rate = 1e-3, most_rate = 1e18;  // bit/s, as in topologies
constexpr int most_flows = 1024;

struct Interval {
  double seconds, rate;
};

/// Sums of the intervals that count. A server's are better than its client's: they are of what has arrived.
std::vector<Interval> intervals_of(const JsonCursor& root) {
  constexpr double most_seconds = 1e9;
  const auto server = root.optional("server_output_json");
  const auto listed = server ? server->optional("intervals") : root.optional("intervals");
  std::vector<Interval> intervals;
  for (std::size_t i = 0, size = listed ? listed->array_size("intervals") : 0; i < size; ++i) {
    const JsonCursor sum = listed->at(i).required("sum");
    const auto omitted = sum.optional("omitted");
    if (omitted && omitted->as_bool()) continue;
    intervals.push_back({sum.required("seconds").as_number(0, most_seconds),
                         sum.required("bits_per_second").as_number(0, most_rate)});
  }
  return intervals;
}

/// Of the rates; without the rest of an interval at the end, in which little comes.
std::optional<BitsPerSecond> deviation(const std::vector<Interval>& intervals) {
  double longest = 0, mean = 0, squares = 0;
  for (const Interval& interval : intervals) longest = std::max(longest, interval.seconds);
  std::vector<double> rates;
  for (const Interval& interval : intervals)
    if (interval.seconds >= longest / 2) rates.push_back(interval.rate);
  if (rates.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(rates.size());
  for (const double rate : rates) mean += rate / count;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  return BitsPerSecond(std::sqrt(squares / (count - 1)));
}

std::optional<Seconds> least_rtt_of(const JsonCursor& end) {
  constexpr double microsecond = 1e-6, most_microseconds = 1e12;
  std::optional<Seconds> least;
  const auto streams = end.optional("streams");
  for (std::size_t i = 0, size = streams ? streams->array_size("streams") : 0; i < size; ++i) {
    const auto sender = streams->at(i).optional("sender");
    const auto rtt = sender ? sender->optional("min_rtt") : std::nullopt;
    const double value = rtt ? rtt->as_number(0, most_microseconds) * microsecond : 0;
    if (value > 0 && (!least || Seconds(value) < *least)) least = Seconds(value);
  }
  return least;
}

bool is_set(const JsonCursor& test, const char* key) {
  const auto value = test.optional(key);
  return value && value->as_int(0, 1) == 1;
}

void set_ends(const JsonCursor& start, bool is_reverse, Iperf3Result& result) {
  const JsonCursor connected = start.required("connected");
  if (connected.array_size("connections") == 0) connected.fail("expected a connection; found none");
  result.sender = connected.at(0).required("local_host").as_string();
  result.receiver = connected.at(0).required("remote_host").as_string();
  if (is_reverse) std::swap(result.sender, result.receiver);
}

SurveySample sample_of(const Iperf3Result& result) {
  SurveySample sample;
  if (result.least_rtt) sample.latency = *result.least_rtt / 2;
  if (result.flows > 1) {
    sample.capacity = result.received;
  } else {
    sample.bandwidth = result.received;
    sample.spread = result.spread;
  }
  return sample;
}

}  // namespace

Iperf3Result iperf3_result(const JsonCursor& root) {
  if (const auto error = root.optional("error")) root.fail("iperf3 failed: " + in_quotes(error->as_string()));
  const JsonCursor start = root.required("start"), end = root.required("end");
  const JsonCursor test = start.required("test_start");
  if (const auto protocol = test.optional("protocol"); protocol && protocol->as_string() != "TCP")
    protocol->fail("expected TCP, as training uses; found " + in_quotes(protocol->as_string()));
  if (is_set(test, "bidir"))
    test.fail("both directions at once disturb each other; measure one after the other");
  Iperf3Result result;
  result.flows = test.required("num_streams").as_int(1, most_flows);
  set_ends(start, is_set(test, "reverse"), result);
  result.received = BitsPerSecond(
      end.required("sum_received").required("bits_per_second").as_number(least_rate, most_rate));
  result.spread = deviation(intervals_of(root));
  result.least_rtt = least_rtt_of(end);
  return result;
}

Survey import_iperf3(std::span<const SurveyFile> files, const SurveySettings& settings) {
  if (settings.between && files.size() != 1)
    throw Error("--between", "is for one file; --name HOST=SITE names the hosts of several");
  Survey survey;
  survey.how = "iperf3 over TCP; latency is at most half the least round trip that it saw while it sent";
  for (const auto& [name, text] : files) {
    const nlohmann::json root =
        parse_json(text, name, RepeatedKeys::last_counts);  // iperf3 3.12 repeats keys
    const Iperf3Result result = iperf3_result(JsonCursor(root, name));
    const std::string from = settings.between ? settings.between->first : settings.site_of(result.sender);
    const std::string to = settings.between ? settings.between->second : settings.site_of(result.receiver);
    check_place_name(from, name);
    check_place_name(to, name);
    if (from == to) throw Error(name, fmt::format("is from {} to itself", in_quotes(from)));
    const int sender = survey.place(from), receiver = survey.place(to);
    SurveySample sample = sample_of(result);
    if (settings.latency) sample.latency = settings.latency;
    survey.samples[{sender, receiver}].push_back(sample);
  }
  return survey;
}

}  // namespace dtfm::io
