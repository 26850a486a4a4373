// Imports the files that scripts/measure.sh writes for each pair and direction:
//   {"schema": "dtfm-measurement/1",
//    "from": {"name": "SITE" or "SITE/MACHINE", "gpu": …, "count": …}, "to": …,
//    "time": "2026-01-31T12:00:00Z", "rtt_ms": [pings],
//    "one_flow": {iperf3 -J}, "several_flows": {iperf3 -J}}
// gpu, count (GPUs in the machine) and several_flows are optional.
#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/iperf3_result.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr const char* schema = "dtfm-measurement/1";
constexpr int max_gpus = 1024;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Strict, because the text is copied into a comment of the topology file.
std::string parse_time(const JsonCursor& value) {
  constexpr std::string_view pattern = "0000-00-00T00:00:00Z";
  const std::string& time = value.as_string();
  const bool fits =
      std::equal(time.begin(), time.end(), pattern.begin(), pattern.end(),
                 [](char c, char expected) { return expected == '0' ? is_digit(c) : c == expected; });
  if (!fits) value.fail(fmt::format("expected a time such as 2026-01-31T12:00:00Z; found {}", quote(time)));
  return time;
}

MeasuredEndpoint parse_endpoint(const JsonCursor& value, const std::string& file) {
  const std::string& name = value.required("name").as_string();
  const std::size_t slash = std::min(name.find('/'), name.size());
  MeasuredEndpoint endpoint{name.substr(0, slash), slash < name.size() ? name.substr(slash + 1) : ""};
  check_endpoint_name(endpoint.site, file);
  if (slash < name.size()) check_endpoint_name(endpoint.machine, file);
  if (const auto gpu = value.optional("gpu")) endpoint.gpu = gpu->as_string();
  if (const auto count = value.optional("count")) endpoint.gpus_per_host = count->as_int(1, max_gpus);
  return endpoint;
}

int find_or_add_endpoint(const MeasuredEndpoint& endpoint, NetworkMeasurements& measurements,
                         const JsonCursor& value) {
  const std::size_t known = measurements.endpoints.size();
  const int index = measurements.endpoint(endpoint.name());
  if (measurements.endpoints.size() > known)
    measurements.endpoints[at(index)] = endpoint;
  else if (measurements.endpoints[at(index)] != endpoint)
    value.fail(
        fmt::format("{} differs from the host of that name in an earlier file", quote(endpoint.name())));
  return index;
}

/// Half the median ping. The minimum of a few pings is a matter of luck, and the mean includes queueing.
Seconds median_latency(const JsonCursor& pings) {
  constexpr double max_milliseconds = 1e9, millisecond = 1e-3;
  std::vector<double> times;
  for (std::size_t i = 0, size = pings.array_size("round trips"); i < size; ++i)
    times.push_back(pings.at(i).as_number(0, max_milliseconds));
  if (times.empty()) pings.fail("expected a round trip; found none");
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return Seconds(median * millisecond / 2);
}

LinkSample make_sample(const JsonCursor& root) {
  LinkSample sample;
  sample.time = parse_time(root.required("time"));
  sample.latency = median_latency(root.required("rtt_ms"));
  const JsonCursor one_flow = root.required("one_flow");
  const Iperf3Result one = parse_iperf3_result(one_flow);
  if (one.flows != 1) one_flow.fail(fmt::format("expected one flow; found {}", one.flows));
  sample.bandwidth = one.received_rate;
  sample.spread = one.spread;
  if (const auto several = root.optional("several_flows"))
    sample.capacity = parse_iperf3_result(*several).received_rate;
  return sample;
}

}  // namespace

NetworkMeasurements import_measurements(std::span<const MeasurementFile> files, const MeasurementSettings&) {
  NetworkMeasurements measurements;
  measurements.description =
      "scripts/measure.sh: latency is half the median ping, bandwidth and capacity are the rates of one and "
      "of several "
      "TCP flows";
  for (const auto& [name, text] : files) {
    const nlohmann::json json = parse_json(text, name, DuplicateKeys::last_wins);  // as iperf3 writes them
    const JsonCursor root(json, name);
    const JsonCursor found = root.required("schema");
    if (found.as_string() != schema)
      found.fail(fmt::format("expected {}; found {}", schema, quote(found.as_string())));
    const JsonCursor from = root.required("from"), to = root.required("to");
    const int sender = find_or_add_endpoint(parse_endpoint(from, name), measurements, from);
    const int receiver = find_or_add_endpoint(parse_endpoint(to, name), measurements, to);
    if (sender == receiver) root.fail("is a measurement from a host to itself");
    measurements.samples[{sender, receiver}].push_back(make_sample(root));
  }
  return measurements;
}

}  // namespace dtfm::io
