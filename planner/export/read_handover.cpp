#include "planner/export/read_handover.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/host_addresses.hpp"
#include "planner/io/readers/plan_reader.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::exporter {
namespace {

Job job_for(const io::NamedFile& plan, const std::optional<Job>& job) {
  if (job) return *job;
  if (auto own = io::parse_plan_job(plan.text, plan.path)) return std::move(*own);
  throw Error(plan.path, "says no job; give one with --job");
}

/// The pipeline that begins on the master comes first.
void put_first(Plan& plan, const std::vector<GpuPlace>& places, const std::string& master) {
  std::set<std::string> firsts;
  for (Pipeline& pipeline : plan.pipelines) {
    const GpuPlace& place = places[at(pipeline.stages.front().devices.front())];
    if (place.address == master || place.host == master) return std::swap(plan.pipelines.front(), pipeline);
    firsts.insert(place.address);
  }
  const std::size_t count = firsts.size();
  std::vector<std::string> named(firsts.begin(), firsts.end());
  named.resize(std::min<std::size_t>(count, 5));
  throw Error("--master", fmt::format("no pipeline begins on {}, and rank 0 begins one; those that do: {}{}",
                                      io::in_quotes(master), fmt::join(named, ", "), count > 5 ? ", …" : ""));
}

/// The index of each id in the topology.
std::vector<int> topology_devices(const Topology& topology, const std::vector<std::string>& ids) {
  std::map<std::string_view, int> index_of;
  for (int i = 0; i < topology.size(); ++i) index_of.emplace(topology.devices[at(i)].id, i);
  std::vector<int> devices;
  for (const std::string& id : ids) {
    const auto known = index_of.find(id);
    devices.push_back(known == index_of.end() ? -1 : known->second);
  }
  return devices;
}

}  // namespace

Handover read_handover(const io::NamedFile& plan, const std::optional<Job>& job, const HandoverChoices& choices) {
  Handover handover;
  handover.job = job_for(plan, job);
  auto [named, ids] = io::parse_named_plan(plan.text, plan.path, handover.job);
  handover.plan = std::move(named);
  const std::size_t used = pipeline_major(handover.plan).size();
  handover.places = gpu_places(ids, used, choices.hosts, plan.path);
  if (choices.master) put_first(handover.plan, handover.places, *choices.master);
  handover.order = choices.order;
  handover.seats = seats_of(handover.plan, handover.job, handover.order);
  handover.memory = io::parse_plan_memory(plan.text, plan.path);
  handover.launch = choices.launch;
  if (choices.topology) {
    io::parse_plan(plan.text, plan.path, *choices.topology, handover.job);  // that it is for this topology
    handover.topology = choices.topology;
    handover.topology_device = topology_devices(*choices.topology, ids);
  }
  return handover;
}

}  // namespace dtfm::exporter
