// What somebody measured of a network, on its way to a topology file. A format of measurements is one file
// import_*.cpp, one line in the table of network_survey.cpp and one test.
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

#include "planner/core/units.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::io {

/// One that was measured: a site, or a machine of a site.
struct MeasuredEndpoint {
  std::string site;
  std::string machine = {};  // its own name; empty: the place stands for its site
  std::string gpu = {};      // name in the catalogue; empty: not known
  int hosts = 1, gpus_per_host = 1;

  /// What links call it.
  const std::string& name() const { return machine.empty() ? site : machine; }
  friend bool operator==(const MeasuredEndpoint&, const MeasuredEndpoint&) = default;
};

/// Measured once, from one place to another. Nothing: not by this measurement.
struct LinkSample {
  std::optional<Seconds> latency;          // one way
  std::optional<BitsPerSecond> bandwidth;  // of one flow
  std::optional<BitsPerSecond> capacity;   // of several flows together
  std::optional<BitsPerSecond> spread;     // standard deviation of `bandwidth` in time
  std::string time = {};                   // when; empty: not known
};

struct NetworkMeasurements {
  std::vector<MeasuredEndpoint> endpoints;
  std::map<std::pair<int, int>, std::vector<LinkSample>> samples;  // by places: from, to
  std::string description;  // a sentence for the reader of the topology

  /// The index of the place called `name`, which is added if there is none.
  int endpoint(const std::string& name);
};

/// What stands for a measured pair.
struct LinkSummary {
  Seconds latency;
  BitsPerSecond bandwidth;
  std::optional<BitsPerSecond> capacity, spread;
  std::string time = {};
  bool is_assumed = false;  // not measured: taken from the other direction
};

struct MeasurementFile {
  std::string name, text;  // UTF-8
};

/// What the files do not say. Empty or nothing where they say it.
struct MeasurementSettings {
  std::optional<std::pair<std::string, std::string>> between;  // who sent to whom in the only file
  std::map<std::string, std::string> names;                    // of a host in the files: the site that it is
  std::string collective;                                      // of nccl-tests: sendrecv or all_reduce
  Unit latency_unit{"", 0}, bandwidth_unit{"", 0};             // of matrices; without a name: not given
  bool is_round_trip = false;                                  // of a matrix of latencies
  std::optional<Seconds> latency;                              // one way, of pairs whose files have none
  bool is_symmetric = false;  // a direction without measurement is as the other

  /// The site of a host in a file.
  std::string site_of(const std::string& host) const;
};

struct MeasurementFormat {
  std::string_view name, files;  // "iperf3", what it reads
  std::size_t min_files, max_files, max_bytes;
  NetworkMeasurements (*import)(std::span<const MeasurementFile> files, const MeasurementSettings& settings);
};

std::span<const MeasurementFormat> measurement_formats();

/// Reads and imports. Throws Error, with file and place, for what is not of the format.
NetworkMeasurements import_network_measurements(const MeasurementFormat& format, std::span<const std::filesystem::path> files,
                     const MeasurementSettings& settings);

/// The formats.
NetworkMeasurements import_measurements(std::span<const MeasurementFile> files, const MeasurementSettings& settings);
NetworkMeasurements import_iperf3(std::span<const MeasurementFile> files, const MeasurementSettings& settings);
NetworkMeasurements import_matrices(std::span<const MeasurementFile> files, const MeasurementSettings& settings);
NetworkMeasurements import_nccl_tests(std::span<const MeasurementFile> files, const MeasurementSettings& settings);

/// The links of every pair of places, both directions: medians of the samples, and the last time. Several
/// flows that get no more than one by more than its spread share what one gets. Throws Error for a pair
/// without latency or bandwidth.
std::map<std::pair<int, int>, LinkSummary> summarize_links(const NetworkMeasurements& measurements, const MeasurementSettings& settings);

/// Throws Error at `where` for what cannot be the name of a site or a machine: empty, longer than 128 bytes,
/// with `/`, `:` or control characters, `*` or `host`.
void check_endpoint_name(const std::string& name, const std::string& where);

inline constexpr std::size_t max_endpoints = 256;  // pairs of them are lines of the topology

}  // namespace dtfm::io
