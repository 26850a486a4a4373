// Imports network measurements, from which a topology file is written. A new format is one file import_*.cpp,
// one row in the table in network_measurements.cpp and one test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {

/// A measured site, or a measured machine of a site.
struct MeasuredEndpoint {
  std::string site;
  std::string machine = {};  // name of the machine; empty if the endpoint stands for its whole site
  std::string gpu = {};      // name in the catalogue; empty if unknown
  int hosts = 1, gpus_per_host = 1;

  /// Name by which links refer to the endpoint.
  const std::string& name() const { return machine.empty() ? site : machine; }
  friend bool operator==(const MeasuredEndpoint&, const MeasuredEndpoint&) = default;
};

/// One measurement from one endpoint to another. Members are nullopt if it did not measure them.
struct LinkSample {
  std::optional<Seconds> latency;          // one way
  std::optional<BitsPerSecond> bandwidth;  // of one flow
  std::optional<BitsPerSecond> capacity;   // of several flows together
  std::optional<BitsPerSecond> spread;     // standard deviation of `bandwidth` over time
  std::string time = {};                   // of the measurement, UTC; empty if unknown
};

struct NetworkMeasurements {
  std::vector<MeasuredEndpoint> endpoints;
  std::map<std::pair<int, int>, std::vector<LinkSample>> samples;  // by endpoint indices: from, to
  std::string description;                                         // for the comment in the topology file

  /// Index of the endpoint called `name`, which is added if it does not exist.
  int endpoint(const std::string& name);
};

/// The link that is written to the topology for a pair of endpoints.
struct LinkSummary {
  Seconds latency;
  BitsPerSecond bandwidth;
  std::optional<BitsPerSecond> capacity, spread;
  std::string time = {};
  bool is_assumed = false;  // whether it was not measured but copied from the other direction
};

struct MeasurementFile {
  std::string name, text;  // UTF-8
};

/// Facts that the files do not contain, given by the user; empty or nullopt if not given.
struct MeasurementSettings {
  std::optional<std::pair<std::string, std::string>> between;  // sites of sender and receiver, for one file
  std::map<std::string, std::string> names;                    // site of each host that the files mention
  std::string collective;                                      // of nccl-tests: sendrecv or all_reduce
  Unit latency_unit{"", 0}, bandwidth_unit{"", 0};             // of matrices; name is empty if not given
  bool is_round_trip = false;                                  // whether the latency matrix has round trips
  std::optional<Seconds> latency;  // one way; overrides the latency of iperf3 and nccl-tests
  bool is_symmetric = false;       // whether a missing direction is copied from the other one

  /// Site of a host in a file; the host itself unless `names` has another name for it.
  std::string site_of(const std::string& host) const;
};

struct MeasurementFormat {
  std::string_view name, files;  // such as "iperf3"; description of the files it reads
  std::size_t min_files, max_files, max_bytes;
  NetworkMeasurements (*import)(std::span<const MeasurementFile> files, const MeasurementSettings& settings);
};

std::span<const MeasurementFormat> measurement_formats();

/// Reads and imports `files`. Throws Error, with file and position, for content that does not match the
/// format.
NetworkMeasurements import_network_measurements(const MeasurementFormat& format,
                                                std::span<const std::filesystem::path> files,
                                                const MeasurementSettings& settings);

// The importers of measurement_formats().
NetworkMeasurements import_measurements(std::span<const MeasurementFile> files,
                                        const MeasurementSettings& settings);
NetworkMeasurements import_iperf3(std::span<const MeasurementFile> files,
                                  const MeasurementSettings& settings);
NetworkMeasurements import_matrices(std::span<const MeasurementFile> files,
                                    const MeasurementSettings& settings);
NetworkMeasurements import_nccl_tests(std::span<const MeasurementFile> files,
                                      const MeasurementSettings& settings);

/// The link between the `gpus` GPUs of one host: latency and bandwidth fitted to a run of sendrecv_perf or
/// all_reduce_perf (also if the text does not name it) with one rank per GPU of the host.
LinkSample import_nccl_tests_of_host(const MeasurementFile& file, std::size_t gpus);

/// The links between all pairs of endpoints in both directions: medians of the samples, and the latest time.
/// If several flows get no more than one flow plus its spread, the capacity is the bandwidth of one flow.
/// Throws Error for a pair without latency or bandwidth.
std::map<std::pair<int, int>, LinkSummary> summarize_links(const NetworkMeasurements& measurements,
                                                           const MeasurementSettings& settings);

/// Throws Error at `where` if `name` cannot be the name of a site or a machine: if it is empty, longer than
/// 128 bytes, contains `/`, `:` or control characters, or is `*` or `host`.
void check_endpoint_name(const std::string& name, const std::string& where);

inline constexpr std::size_t max_endpoints = 256;  // every pair is a line of the topology file

}  // namespace dtfm::io
