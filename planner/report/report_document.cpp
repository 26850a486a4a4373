#include "planner/report/report_document.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/link_range.hpp"
#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/io/json_values.hpp"
#include "simulator/report/critical_path.hpp"

namespace dtfm::report {
namespace {

using nlohmann::ordered_json;

constexpr int max_sites_for_links = 64;   // beyond this, only links with traffic are in the document
constexpr std::size_t max_links = 4096;   // those with the most traffic
constexpr std::size_t max_listed = 2000;  // iterations, samples, events, steps

/// All devices or, if there are very many, the first ones of each site, since the work is quadratic in their
/// number.
std::vector<int> sampled_devices(const Topology& topology) {
  constexpr int limit = 2048;
  const int per_site_limit =
      topology.size() <= limit ? limit : std::max(2, limit / static_cast<int>(topology.sites.size()));
  std::vector<int> taken(topology.sites.size()), devices;
  for (int device = 0; device < topology.size(); ++device)
    if (taken[at(topology.devices[at(device)].site)]++ < per_site_limit) devices.push_back(device);
  return devices;
}

/// Sites × sites, row = sender: link ranges over pairs of devices on different hosts, or else on the same
/// host.
std::vector<LinkRange> site_link_ranges(const Topology& topology) {
  const std::size_t sites = topology.sites.size();
  std::vector<LinkRange> ranges(sites * sites), within_hosts(sites * sites);
  const std::vector<int> devices = sampled_devices(topology);
  for (const int from : devices) {
    for (const int to : devices) {
      if (from == to) continue;
      const Device &a = topology.devices[at(from)], &b = topology.devices[at(to)];
      auto& into = a.host == b.host ? within_hosts : ranges;
      into[at(a.site) * sites + at(b.site)].add(topology.link(from, to));
    }
  }
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (!ranges[i].has_links) ranges[i] = within_hosts[i];
  return ranges;
}

ordered_json links_json(const Topology& topology) {
  ordered_json links = ordered_json::array();
  const std::vector<LinkRange> ranges = site_link_ranges(topology);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i].has_links) continue;
    links.push_back({{"from", i / topology.sites.size()}, {"to", i % topology.sites.size()}});
    links.back().update(io::range_json(ranges[i]));
  }
  return links;
}

ordered_json sites_json(const Topology& topology) {
  ordered_json sites = ordered_json::array();
  for (const Site& site : topology.sites) sites.push_back({{"name", site.name}, {"devices", 0}});
  for (const Device& device : topology.devices) {
    auto& count = sites[at(device.site)]["devices"];
    count = count.get<int>() + 1;
  }
  return sites;
}

/// Returns one array per property (ids, indices of sites, indices of GPUs), because there may be thousands of
/// devices.
ordered_json devices_json(const Topology& topology) {
  ordered_json ids = ordered_json::array(), sites = ids, gpus = ids;
  for (const Device& device : topology.devices) {
    ids.push_back(device.id);
    sites.push_back(device.site);
    gpus.push_back(device.gpu);
  }
  return {{"id", std::move(ids)}, {"site", std::move(sites)}, {"gpu", std::move(gpus)}};
}

ordered_json topology_json(const Topology& topology) {
  ordered_json gpus = ordered_json::array();
  for (const Gpu& gpu : topology.gpus) gpus.push_back(gpu.name);
  ordered_json json = {{"name", topology.name},
                       {"fingerprint", topology.fingerprint()},
                       {"sites", sites_json(topology)},
                       {"gpus", std::move(gpus)},
                       {"devices", devices_json(topology)}};
  if (static_cast<int>(topology.sites.size()) <= max_sites_for_links) json["links"] = links_json(topology);
  return json;
}

/// Display names of span kinds, keyed by letter.
ordered_json kinds_json() {
  ordered_json json;
  for (const sim::SpanKind kind : sim::span_kinds())
    json[std::string(1, static_cast<char>(kind))] = name_of(kind);
  return json;
}

/// Returns the time unit in seconds: a power of ten, at least a nanosecond, of which the timeline spans at
/// most 10^8.
double tick_length(double length) {
  constexpr double nanosecond = 1e-9;
  if (length <= 0.1) return nanosecond;
  return std::pow(10, std::ceil(std::log10(length)) - 8);
}

/// Adds a column with one member of all spans, unless every span has the value `nothing`.
template <class Value>
void add_column(ordered_json& json, const char* name, const std::vector<sim::TimelineSpan>& spans,
                Value sim::TimelineSpan::*member, Value nothing) {
  ordered_json column = ordered_json::array();
  bool says_something = false;
  for (const sim::TimelineSpan& span : spans) {
    column.push_back(span.*member);
    says_something = says_something || span.*member != nothing;
  }
  if (says_something) json[name] = std::move(column);
}

/// Each start is relative to the previous one, the first to `origin`, in ticks of `tick` seconds. Kinds are
/// letters.
ordered_json row_json(const sim::TimelineRow& row, double origin, double tick) {
  constexpr const char* names[] = {"compute", "send", "receive"};
  ordered_json json = {{"device", row.device}, {"track", names[static_cast<std::size_t>(row.track)]}};
  ordered_json starts = ordered_json::array(), lengths = ordered_json::array();
  std::string kinds;
  long long before = 0;
  for (const sim::TimelineSpan& span : row.spans) {
    const long long start = std::llround((span.start - origin) / tick);
    starts.push_back(start - before);
    lengths.push_back(std::llround((span.end - origin) / tick) - start);
    kinds += static_cast<char>(span.kind);
    before = start;
  }
  json["start"] = std::move(starts);
  json["length"] = std::move(lengths);
  json["kind"] = std::move(kinds);
  add_column(json, "tasks", row.spans, &sim::TimelineSpan::tasks, 1);
  add_column(json, "micro_batch", row.spans, &sim::TimelineSpan::micro_batch, no_index);
  add_column(json, "peer", row.spans, &sim::TimelineSpan::peer, no_index);
  return json;
}

ordered_json timeline_json(const sim::Timeline& timeline) {
  const double tick = tick_length(timeline.end_s - timeline.start_s);
  ordered_json rows = ordered_json::array();
  for (const sim::TimelineRow& row : timeline.rows) rows.push_back(row_json(row, timeline.start_s, tick));
  ordered_json json = {{"title", timeline.title}, {"start_s", timeline.start_s}, {"end_s", timeline.end_s},
                       {"tick_s", tick},          {"tasks", timeline.tasks},     {"kinds", kinds_json()}};
  if (timeline.merged_below_s > 0) {
    json["merged_below_s"] = timeline.merged_below_s;
    json["merges_kinds"] = timeline.merges_kinds;
  }
  json["rows"] = std::move(rows);
  return json;
}

/// Truncates the list `json[key]` and records the number of omitted items. (Adding a key may move the others
/// in memory.)
void keep_first(ordered_json& json, const char* key, std::size_t limit) {
  if (!json[key].is_array() || json[key].size() <= limit) return;
  json["omitted"][key] = json[key].size() - limit;
  ordered_json& list = json[key];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(limit), list.end());
}

/// Reduces the mean times of many runs to `limit` evenly spaced quantiles.
void keep_quantiles(ordered_json& samples, std::size_t limit) {
  constexpr const char* key = "mean_iteration_time_s";
  std::vector<double> times = samples[key].get<std::vector<double>>();
  if (times.size() <= limit) return;
  std::sort(times.begin(), times.end());
  samples["omitted"][key] = times.size() - limit;
  ordered_json kept = ordered_json::array();
  for (std::size_t i = 0; i < limit; ++i) kept.push_back(times[i * (times.size() - 1) / (limit - 1)]);
  samples[key] = std::move(kept);
}

ordered_json shorten_lists(ordered_json simulation) {
  keep_first(simulation, "links", max_links);
  for (const char* key : {"iterations", "events", "critical_path"}) keep_first(simulation, key, max_listed);
  if (simulation.contains("samples")) keep_quantiles(simulation["samples"], max_listed);
  return simulation;
}

/// The whole critical path summed by description, as in the text summary. Shares are of the time from the
/// start of the first step to the end of the last, so they must be computed before the list of steps is
/// truncated.
ordered_json critical_path_json(const ordered_json& path) {
  std::vector<sim::CriticalStep> steps;
  for (const ordered_json& it : path) steps.push_back({it["text"], it["tasks"], it["start_s"], it["end_s"]});
  const double whole = steps.back().end_s - steps.front().start_s;
  ordered_json kinds = ordered_json::array();
  for (const auto& [text, tasks, seconds] : sim::sum_by_text(steps))
    kinds.push_back(
        {{"text", text}, {"tasks", tasks}, {"seconds", seconds}, {"share", whole > 0 ? seconds / whole : 0}});
  ordered_json json = {{"steps", steps.size()}, {"seconds", whole}, {"kinds", std::move(kinds)}};
  keep_first(json, "kinds", max_listed);
  return json;
}

/// Removes the lists of layers or operators and their times, which the page does not show.
void shorten_job(ordered_json& job) {
  job.erase("profile");
  ordered_json model = ordered_json::object();
  for (const auto& [key, value] : job["model"].items())
    if (!value.is_structured()) model[key] = value;
  job["model"] = std::move(model);
}

/// For the interleaved schedule, adds `computes`, the ranges of layers of each stage; `layers` gives only
/// their number there.
void add_virtual_stages(ordered_json& plan) {
  const ordered_json& parallelism = plan.at("job").at("parallelism");
  const int chunks = parallelism.value("chunks", 1);
  if (chunks == 1) return;
  for (ordered_json& pipeline : plan.at("pipelines")) {
    Pipeline its;
    for (const ordered_json& stage : pipeline.at("stages"))
      its.stages.push_back({stage.at("layers"), {}, stage.value("virtual_layers", std::vector<int>{})});
    const auto layers = layers_by_stage(its, chunks);
    for (std::size_t s = 0; s < layers.size(); ++s) pipeline["stages"][s]["computes"] = layers[s];
  }
}

}  // namespace

ordered_json report_document(ReportContent content) {
  ordered_json json = {{"schema", "dtfm-report/1"}, {"program", content.program}};
  if (!content.comparison.is_null()) json["comparison"] = std::move(content.comparison);
  if (!content.plan.is_null()) {
    content.plan.erase("ranks");
    content.plan.erase("groups");
    add_virtual_stages(content.plan);
    shorten_job(content.plan["job"]);
    json["plan"] = std::move(content.plan);
  }
  if (!content.simulation.is_null()) {
    const ordered_json& path = content.simulation.at("critical_path");
    if (!path.empty()) json["critical_path"] = critical_path_json(path);
    json["simulation"] = shorten_lists(std::move(content.simulation));
  }
  json["topology"] = topology_json(content.topology);
  if (content.timeline && !content.timeline->rows.empty())
    json["timeline"] = timeline_json(merged(std::move(*content.timeline), max_spans));
  if (content.measured)
    json["measured_timeline"] = timeline_json(merged(std::move(*content.measured), max_spans));
  return json;
}

}  // namespace dtfm::report
