// What scripts/measure.sh leaves of each pair and direction:
//   {"schema": "dtfm-measurement/1", "from": {"name": "SITE" or "SITE/MACHINE", "gpu": …, "count": …}, "to":
//   …,
//    "time": "2026-01-31T12:00:00Z", "rtt_ms": [pings], "one_flow": {iperf3 -J}, "several_flows": {iperf3
//    -J}}
// gpu, count (of GPUs in the machine) and several_flows may be left out.
#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/io/importers/iperf3_result.hpp"
#include "planner/io/importers/network_survey.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr const char* schema = "dtfm-measurement/1";
constexpr int most_gpus = 1024;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// It stands in a comment of the topology: nothing but such a time may.
std::string time_of(const JsonCursor& value) {
  constexpr std::string_view form = "0000-00-00T00:00:00Z";
  const std::string& time = value.as_string();
  const bool fits = std::equal(time.begin(), time.end(), form.begin(), form.end(), [](char c, char expected) {
    return expected == '0' ? is_digit(c) : c == expected;
  });
  if (!fits)
    value.fail(fmt::format("expected a time such as 2026-01-31T12:00:00Z; found {}", in_quotes(time)));
  return time;
}

SurveyPlace place_of(const JsonCursor& value, const std::string& file) {
  const std::string& name = value.required("name").as_string();
  const std::size_t slash = std::min(name.find('/'), name.size());
  SurveyPlace place{name.substr(0, slash), slash < name.size() ? name.substr(slash + 1) : ""};
  check_place_name(place.site, file);
  if (slash < name.size()) check_place_name(place.machine, file);
  if (const auto gpu = value.optional("gpu")) place.gpu = gpu->as_string();
  if (const auto count = value.optional("count")) place.gpus_per_host = count->as_int(1, most_gpus);
  return place;
}

int known_place(const SurveyPlace& place, Survey& survey, const JsonCursor& value) {
  const std::size_t known = survey.places.size();
  const int index = survey.place(place.name());
  if (survey.places.size() > known)
    survey.places[at(index)] = place;
  else if (survey.places[at(index)] != place)
    value.fail(fmt::format("{} is another host here than in a file before", in_quotes(place.name())));
  return index;
}

/// Half the median: the least of few pings is luck, the mean has those that waited.
Seconds latency_of(const JsonCursor& pings) {
  constexpr double most_milliseconds = 1e9, millisecond = 1e-3;
  std::vector<double> times;
  for (std::size_t i = 0, size = pings.array_size("round trips"); i < size; ++i)
    times.push_back(pings.at(i).as_number(0, most_milliseconds));
  if (times.empty()) pings.fail("expected a round trip; found none");
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return Seconds(median * millisecond / 2);
}

SurveySample sample_of(const JsonCursor& root) {
  SurveySample sample;
  sample.time = time_of(root.required("time"));
  sample.latency = latency_of(root.required("rtt_ms"));
  const JsonCursor one_flow = root.required("one_flow");
  const Iperf3Result one = iperf3_result(one_flow);
  if (one.flows != 1) one_flow.fail(fmt::format("expected one flow; found {}", one.flows));
  sample.bandwidth = one.received;
  sample.spread = one.spread;
  if (const auto several = root.optional("several_flows")) sample.capacity = iperf3_result(*several).received;
  return sample;
}

}  // namespace

Survey import_measurements(std::span<const SurveyFile> files, const SurveySettings&) {
  Survey survey;
  survey.how =
      "scripts/measure.sh: latency is half the median ping, bandwidth and capacity are of one and of several "
      "TCP flows";
  for (const auto& [name, text] : files) {
    const nlohmann::json json = parse_json(text, name, RepeatedKeys::last_counts);  // as iperf3 does
    const JsonCursor root(json, name);
    const JsonCursor found = root.required("schema");
    if (found.as_string() != schema)
      found.fail(fmt::format("expected {}; found {}", schema, in_quotes(found.as_string())));
    const JsonCursor from = root.required("from"), to = root.required("to");
    const int sender = known_place(place_of(from, name), survey, from);
    const int receiver = known_place(place_of(to, name), survey, to);
    if (sender == receiver) root.fail("is from a host to itself");
    survey.samples[{sender, receiver}].push_back(sample_of(root));
  }
  return survey;
}

}  // namespace dtfm::io
