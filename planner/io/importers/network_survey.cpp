#include "planner/io/importers/network_survey.hpp"
#include "planner/io/text/control_characters.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/io/text/control_characters.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t most_bytes_in_all = 1024 * mebibyte;

constexpr SurveyFormat formats[] = {
    {"measurements", "what scripts/measure.sh leaves in raw/", 1, most_places* most_places, 16 * mebibyte,
     import_measurements},
    {"iperf3", "what iperf3 -J prints, a file each", 1, most_places* most_places, 16 * mebibyte,
     import_iperf3},
    {"csv", "a matrix of latencies, then one of bandwidths", 2, 2, 16 * mebibyte, import_matrices},
    {"nccl-tests", "what sendrecv_perf or all_reduce_perf prints, a file each", 1, most_places* most_places,
     4 * mebibyte, import_nccl_tests}};

template <class Quantity>
std::optional<Quantity> median(std::vector<Quantity> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class Quantity>
std::optional<Quantity> median_of(const std::vector<SurveySample>& samples,
                                  std::optional<Quantity> SurveySample::*field) {
  std::vector<Quantity> values;
  for (const SurveySample& sample : samples)
    if (sample.*field) values.push_back(*(sample.*field));
  return median(std::move(values));
}

Error missing(const Survey& survey, std::pair<int, int> pair, std::string_view what,
              std::string_view way_out) {
  return Error("",
               fmt::format("no {} from {} to {}; {}", what, in_quotes(survey.places[at(pair.first)].name()),
                           in_quotes(survey.places[at(pair.second)].name()), way_out));
}

/// Of all flows together. Without a measurement of several it is not known; `unlimited`, which a topology
/// takes then, is wrong where several flows got no more than one.
std::optional<BitsPerSecond> shared_rate(const SurveyLink& link, std::optional<BitsPerSecond> several) {
  if (!several) return std::nullopt;
  return *several > link.bandwidth + link.spread.value_or(BitsPerSecond(0)) ? *several : link.bandwidth;
}

SurveyLink link_of(const Survey& survey, std::pair<int, int> pair, const std::vector<SurveySample>& samples,
                   const SurveySettings& settings) {
  const auto latency = median_of(samples, &SurveySample::latency);
  const auto bandwidth = median_of(samples, &SurveySample::bandwidth);
  if (!latency && !settings.latency) throw missing(survey, pair, "latency", "give one by --latency");
  if (!bandwidth) throw missing(survey, pair, "bandwidth of one flow", "measure it");
  SurveyLink link{latency ? *latency : *settings.latency, *bandwidth, {}, {}};
  link.spread = median_of(samples, &SurveySample::spread);
  link.capacity = shared_rate(link, median_of(samples, &SurveySample::capacity));
  for (const SurveySample& sample : samples) link.time = std::max(link.time, sample.time);
  return link;
}

/// Throws Error for a host that is not in the files.
void check_names(const SurveySettings& settings, const Survey& survey) {
  std::set<std::string> measured;
  for (const SurveyPlace& place : survey.places) measured.insert(place.name());
  for (const auto& [host, site] : settings.names)
    if (!measured.contains(site))
      throw Error("--name",
                  fmt::format("no host {} is in the files, or --between names it", in_quotes(host)));
}

}  // namespace

int Survey::place(const std::string& name) {
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i].name() == name) return static_cast<int>(i);
  places.push_back({name});
  return static_cast<int>(places.size()) - 1;
}

std::string SurveySettings::site_of(const std::string& host) const {
  const auto known = names.find(host);
  return known == names.end() ? host : known->second;
}

std::span<const SurveyFormat> survey_formats() {
  return formats;
}

Survey import_survey(const SurveyFormat& format, std::span<const std::filesystem::path> paths,
                     const SurveySettings& settings) {
  if (paths.size() < format.fewest_files || paths.size() > format.most_files)
    throw Error("--format",
                fmt::format("{} reads {}; found {} files", format.name, format.files, paths.size()));
  std::vector<SurveyFile> files;
  std::size_t bytes = 0;
  for (const auto& path : paths) {
    const std::string name = checked_text(path.string(), "the name of a file");
    files.push_back({name, checked_text(read_file(path, format.most_bytes), name)});
    bytes += files.back().text.size();
    if (bytes > most_bytes_in_all)
      throw Error(name,
                  fmt::format("the files are larger than {} MiB together", most_bytes_in_all / mebibyte));
  }
  const Survey survey = format.import(files, settings);
  check_names(settings, survey);
  return survey;
}

std::map<std::pair<int, int>, SurveyLink> survey_links(const Survey& survey, const SurveySettings& settings) {
  if (survey.places.size() > most_places)
    throw Error("", fmt::format("{} hosts; at most {} can be imported", survey.places.size(), most_places));
  std::map<std::pair<int, int>, SurveyLink> links;
  for (const auto& [pair, samples] : survey.samples)
    links.emplace(pair, link_of(survey, pair, samples, settings));
  const int size = static_cast<int>(survey.places.size());
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) {
      if (from == to || links.contains({from, to})) continue;
      const auto back = links.find({to, from});
      if (back == links.end()) throw missing(survey, {from, to}, "measurement", "every pair must have one");
      if (!settings.is_symmetric)
        throw missing(survey, {from, to}, "measurement", "--symmetric takes that of the other direction");
      SurveyLink assumed = back->second;
      assumed.is_assumed = true;
      links.emplace(std::pair(from, to), assumed);
    }
  return links;
}

void check_place_name(const std::string& name, const std::string& where) {
  constexpr std::size_t longest = 128;
  if (name.empty() || name.size() > longest || has_control_character(name) || name == "*" || name == "host" ||
      name.find_first_of("/:") != std::string::npos)
    throw Error(where, fmt::format("{} cannot be the name of a site (no `/`, `:`, `*` or `host`, at most {} "
                                   "bytes); --name HOST=SITE gives it another",
                                   in_quotes(name), longest));
}

}  // namespace dtfm::io
