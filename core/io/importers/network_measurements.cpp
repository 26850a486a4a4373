#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/control_characters.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t max_total_bytes = 1024 * mebibyte;

constexpr MeasurementFormat formats[] = {
    {"measurements", "files that scripts/measure.sh writes to raw/", 1, max_endpoints* max_endpoints,
     16 * mebibyte, import_measurements},
    {"iperf3", "output of iperf3 -J, one file per run", 1, max_endpoints* max_endpoints, 16 * mebibyte,
     import_iperf3},
    {"csv", "a matrix of latencies, then one of bandwidths", 2, 2, 16 * mebibyte, import_matrices},
    {"nccl-tests", "output of sendrecv_perf or all_reduce_perf, one file per run", 1,
     max_endpoints* max_endpoints, 4 * mebibyte, import_nccl_tests}};

template <class Quantity>
std::optional<Quantity> median(std::vector<Quantity> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class Quantity>
std::optional<Quantity> sample_median(const std::vector<LinkSample>& samples,
                                      std::optional<Quantity> LinkSample::*field) {
  std::vector<Quantity> values;
  for (const LinkSample& sample : samples)
    if (sample.*field) values.push_back(*(sample.*field));
  return median(std::move(values));
}

Error missing_error(const NetworkMeasurements& measurements, std::pair<int, int> pair, std::string_view what,
                    std::string_view hint) {
  return Error(
      "", fmt::format("no {} from {} to {}; {}", what, quote(measurements.endpoints[at(pair.first)].name()),
                      quote(measurements.endpoints[at(pair.second)].name()), hint));
}

/// Capacity, given the median rate of several flows together. Without that measurement it is unknown
/// (nullopt). If several flows got no more than one flow within its spread, one flow's bandwidth is the
/// capacity: the topology's default, `unlimited`, would be wrong.
std::optional<BitsPerSecond> shared_rate(const LinkSummary& link, std::optional<BitsPerSecond> several) {
  if (!several) return std::nullopt;
  return *several > link.bandwidth + link.spread.value_or(BitsPerSecond(0)) ? *several : link.bandwidth;
}

LinkSummary summarize_link(const NetworkMeasurements& measurements, std::pair<int, int> pair,
                           const std::vector<LinkSample>& samples, const MeasurementSettings& settings) {
  const auto latency = sample_median(samples, &LinkSample::latency);
  const auto bandwidth = sample_median(samples, &LinkSample::bandwidth);
  if (!latency && !settings.latency)
    throw missing_error(measurements, pair, "latency", "set it with --latency");
  if (!bandwidth) throw missing_error(measurements, pair, "bandwidth of one flow", "measure it");
  LinkSummary link{latency ? *latency : *settings.latency, *bandwidth, {}, {}};
  link.spread = sample_median(samples, &LinkSample::spread);
  link.capacity = shared_rate(link, sample_median(samples, &LinkSample::capacity));
  for (const LinkSample& sample : samples) link.time = std::max(link.time, sample.time);
  return link;
}

/// Throws Error if --name mentions a host that is not in the files.
void check_names(const MeasurementSettings& settings, const NetworkMeasurements& measurements) {
  std::set<std::string> measured;
  for (const MeasuredEndpoint& endpoint : measurements.endpoints) measured.insert(endpoint.name());
  for (const auto& [host, site] : settings.names)
    if (!measured.contains(site))
      throw Error("--name", fmt::format("host {} is not in the files or is named by --between", quote(host)));
}

}  // namespace

int NetworkMeasurements::endpoint(const std::string& name) {
  for (std::size_t i = 0; i < endpoints.size(); ++i)
    if (endpoints[i].name() == name) return static_cast<int>(i);
  endpoints.push_back({name});
  return static_cast<int>(endpoints.size()) - 1;
}

std::string MeasurementSettings::site_of(const std::string& host) const {
  const auto known = names.find(host);
  return known == names.end() ? host : known->second;
}

std::span<const MeasurementFormat> measurement_formats() {
  return formats;
}

NetworkMeasurements import_network_measurements(const MeasurementFormat& format,
                                                std::span<const std::filesystem::path> paths,
                                                const MeasurementSettings& settings) {
  if (paths.size() < format.min_files || paths.size() > format.max_files)
    throw Error("--format",
                fmt::format("{} reads {}; found {} files", format.name, format.files, paths.size()));
  std::vector<MeasurementFile> files;
  std::size_t bytes = 0;
  for (const auto& path : paths) {
    const std::string name = validate_text(path.string(), "the name of a file");
    files.push_back({name, validate_text(read_file(path, format.max_bytes), name)});
    bytes += files.back().text.size();
    if (bytes > max_total_bytes)
      throw Error(name, fmt::format("the files are larger than {} MiB together", max_total_bytes / mebibyte));
  }
  const NetworkMeasurements measurements = format.import(files, settings);
  check_names(settings, measurements);
  return measurements;
}

std::map<std::pair<int, int>, LinkSummary> summarize_links(const NetworkMeasurements& measurements,
                                                           const MeasurementSettings& settings) {
  if (measurements.endpoints.size() > max_endpoints)
    throw Error("", fmt::format("{} hosts; at most {} can be imported", measurements.endpoints.size(),
                                max_endpoints));
  std::map<std::pair<int, int>, LinkSummary> links;
  for (const auto& [pair, samples] : measurements.samples)
    links.emplace(pair, summarize_link(measurements, pair, samples, settings));
  const int size = static_cast<int>(measurements.endpoints.size());
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) {
      if (from == to || links.contains({from, to})) continue;
      const auto back = links.find({to, from});
      if (back == links.end())
        throw missing_error(measurements, {from, to}, "measurement", "every pair must have one");
      if (!settings.is_symmetric)
        throw missing_error(measurements, {from, to}, "measurement",
                            "use --symmetric to copy the other direction");
      LinkSummary assumed = back->second;
      assumed.is_assumed = true;
      links.emplace(std::pair(from, to), assumed);
    }
  return links;
}

void check_endpoint_name(const std::string& name, const std::string& where) {
  constexpr std::size_t max_length = 128;
  if (name.empty() || name.size() > max_length || has_control_character(name) || name == "*" ||
      name == "host" || name.find_first_of("/:") != std::string::npos)
    throw Error(where, fmt::format("{} cannot be the name of a site (no `/`, `:`, `*` or `host`, at most {} "
                                   "bytes); rename it with --name HOST=SITE",
                                   quote(name), max_length));
}

}  // namespace dtfm::io
