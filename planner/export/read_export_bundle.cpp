#include "planner/export/read_export_bundle.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/host_addresses.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::exporter {
namespace {

Job job_or_error(const io::PlanFile& plan, const std::optional<Job>& job) {
  if (job) return *job;
  if (auto plan_job = plan.job()) return std::move(*plan_job);
  throw Error(plan.path(), "contains no job; give one with --job");
}

/// Swaps a pipeline that begins on `master` with the first one. Throws Error if there is none.
void put_first(Plan& plan, const std::vector<GpuLocation>& locations, const std::string& master) {
  std::set<std::string> first_addresses;
  for (Pipeline& pipeline : plan.pipelines) {
    const GpuLocation& location = locations[at(pipeline.stages.front().devices.front())];
    if (location.address == master || location.host == master)
      return std::swap(plan.pipelines.front(), pipeline);
    first_addresses.insert(location.address);
  }
  const std::size_t count = first_addresses.size();
  std::vector<std::string> named(first_addresses.begin(), first_addresses.end());
  named.resize(std::min<std::size_t>(count, 5));
  throw Error("--master",
              fmt::format("no pipeline begins on {}, but rank 0 must begin one; pipelines begin on {}{}",
                          io::quote(master), fmt::join(named, ", "), count > 5 ? ", …" : ""));
}

/// The topology index of each id, or −1.
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

ExportBundle read_export_bundle(const io::NamedFile& plan, const std::optional<Job>& job,
                                const ExportChoices& choices) {
  ExportBundle bundle;
  bundle.plan_text = plan.text;
  const io::PlanFile file(plan.text, plan.path);
  bundle.job = job_or_error(file, job);
  auto [named, ids] = file.standalone_plan(bundle.job);
  bundle.plan = std::move(named);
  if (job) file.check_no_conflict(*job);
  bundle.job.execution = bundle.plan.execution;
  const std::size_t used = pipeline_major(bundle.plan).size();
  bundle.locations = locate_gpus(ids, used, choices.hosts, plan.path);
  if (choices.master) put_first(bundle.plan, bundle.locations, *choices.master);
  bundle.order = choices.order;
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, bundle.order);
  bundle.memory = file.memory();
  bundle.launch = choices.launch;
  if (choices.topology) {
    // Throws if the plan is for another topology.
    file.plan(*choices.topology, bundle.job);
    bundle.topology = choices.topology;
    bundle.topology_device = topology_devices(*choices.topology, ids);
  }
  return bundle;
}

}  // namespace dtfm::exporter
