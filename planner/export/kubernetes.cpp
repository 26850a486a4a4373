// Kubernetes: one pod per rank, pinned to its node. Training operators are not used: they number pods
// themselves, so ranks could not be assigned to nodes.
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/text/json_format.hpp"

namespace dtfm::exporter {
namespace kubernetes {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view target_name = "kubernetes";
constexpr const char* file_name = "kubernetes.json";
constexpr const char* group = "dtfm";  // prefix of pod names

/// Rejects plans that assign specific GPUs: the device plugin of a node chooses which GPU a pod gets.
void check(const ExportBundle& bundle) {
  constexpr std::size_t max_label_length = 63;
  for (int rank = 0; rank < bundle.world_size(); ++rank)
    if (bundle.location(rank).address.size() > max_label_length)
      reject(target_name,
             fmt::format("{} exceeds a Kubernetes label, {} characters; give a shorter address with --hosts",
                         bundle.location(rank).address, max_label_length));
  if (bundle.launch.any_gpu) return;
  std::map<std::string, std::set<int>> gpus;  // including those that the plan does not use
  for (const GpuLocation& location : bundle.locations) gpus[location.host].insert(location.gpu);
  for (int rank = 0; rank < bundle.world_size(); ++rank)
    if (const GpuLocation& location = bundle.location(rank); gpus[location.host].size() > 1)
      reject(target_name,
             fmt::format(
                 "plan distinguishes GPUs of host {}; Kubernetes cannot choose a GPU index; use --any-gpu "
                 "if they are equal, or --to torchrun",
                 location.address));
}

ordered_json environment(const ExportBundle& bundle, int rank) {
  ordered_json list = ordered_json::array();
  const auto add = [&](const char* name, const std::string& value) {
    list.push_back({{"name", name}, {"value", value}});
  };
  add("RANK", fmt::format("{}", rank));
  add("WORLD_SIZE", fmt::format("{}", bundle.world_size()));
  add("LOCAL_RANK", "0");
  add("LOCAL_WORLD_SIZE", "1");
  add("MASTER_ADDR", fmt::format("rank-0.{}", group));
  add("MASTER_PORT", fmt::format("{}", bundle.launch.port));
  return list;
}

ordered_json pod(const ExportBundle& bundle, int rank) {
  const ordered_json container = {{"name", "trainer"},
                                  {"image", bundle.launch.image},
                                  {"env", environment(bundle, rank)},
                                  {"resources", {{"limits", {{"nvidia.com/gpu", 1}}}}}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", fmt::format("{}-rank-{}", group, rank)}, {"labels", {{"app", group}}}}},
          {"spec",
           {{"hostname", fmt::format("rank-{}", rank)},
            {"subdomain", group},
            {"restartPolicy", "Never"},
            {"nodeSelector", {{"kubernetes.io/hostname", bundle.location(rank).address}}},
            {"containers", ordered_json::array({container})}}}};
}

/// A headless service, which gives the pods DNS names, also before they are ready.
ordered_json service(const ExportBundle& bundle) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", {{"name", group}}},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{"app", group}}},
            {"ports", ordered_json::array({{{"name", "rendezvous"}, {"port", bundle.launch.port}}})}}}};
}

ExportFiles files(const ExportBundle& bundle) {
  ordered_json items = ordered_json::array({service(bundle)});
  for (int rank = 0; rank < bundle.world_size(); ++rank) items.push_back(pod(bundle, rank));
  return {{file_name, io::format_json({{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}})}};
}

ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  std::vector<RankRow> rows = read_table_rows(files);
  const auto json = nlohmann::json::parse(file_text(files, file_name));
  std::set<std::string> seen;
  for (const auto& item : json.at("items")) {
    if (item.at("kind") != "Pod") continue;
    const auto& spec = item.at("spec");
    std::map<std::string, std::string> env;
    for (const auto& variable : spec.at("containers").at(0).at("env"))
      env[variable.at("name")] = variable.at("value");
    DTFM_ASSERT(env["WORLD_SIZE"] == fmt::format("{}", rows.size()) &&
                env["MASTER_ADDR"] == fmt::format("rank-0.{}", group));
    DTFM_ASSERT(spec.at("hostname") == "rank-" + env["RANK"] &&
                env["MASTER_PORT"] == fmt::format("{}", bundle.launch.port));
    rows.at(std::stoul(env["RANK"])).address = spec.at("nodeSelector").at("kubernetes.io/hostname");
    DTFM_ASSERT(seen.insert(env["RANK"]).second);
  }
  DTFM_ASSERT(seen.size() == rows.size());
  return {std::move(rows), {}};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  if (!bundle.launch.any_gpu) return {};
  return {"a rank may get any GPU of its node, regardless of rank_table.json"};
}

}  // namespace
}  // namespace kubernetes

Exporter kubernetes_exporter() {
  using namespace kubernetes;
  return {
      .name = target_name,
      .what = "Kubernetes: one pod per rank, pinned to its node",
      .check = check,
      .files = files,
      .read_back = read_back,
      .usage =
          "Build an image whose program is a rank of your training, push it to a registry of the cluster, "
          "and export with\n"
          "`--image NAME`. `kubectl apply -f kubernetes.json` starts it with RANK, WORLD_SIZE, MASTER_ADDR "
          "and MASTER_PORT.\n"
          "The machines' addresses must be the nodes' `kubernetes.io/hostname`: pass others with `--hosts`.",
      .notes = notes};
}

}  // namespace dtfm::exporter
