#include "planner/io/plan_reader.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/io/json_reader.hpp"
#include "planner/io/suggest.hpp"
#include "planner/io/text_file.hpp"

namespace dtfm {
namespace {

constexpr int most = 1'000'000'000;
constexpr std::size_t plan_size_limit = std::size_t{256} << 20;

/// "layer 3 is", "layers 3 … 5 are"
std::string layers_in_words(int first, int last) {
  return first == last ? fmt::format("layer {} is", first) : fmt::format("layers {} … {} are", first, last);
}

class PlanReader {
 public:
  PlanReader(const Topology& topology, const Job& job) : topology_(topology), job_(job) {
    for (int device = 0; device < topology.size(); ++device)
      index_of_.emplace(topology.devices[static_cast<std::size_t>(device)].id, device);
  }

  Plan plan(const JsonCursor& file) {
    check_schema(file);
    check_topology(file);
    Plan plan{1, job_.parallelism.schedule, job_.parallelism.gradient_sync, {}};
    const JsonCursor list = file.required("pipelines");
    const std::size_t count = list.array_size("pipelines");
    if (count == 0) list.fail("there is no pipeline");
    for (std::size_t i = 0; i < count; ++i) plan.pipelines.push_back(pipeline(list.at(i)));
    read_micro_batches(list, plan);
    for (const Pipeline& pipeline : plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        plan.tensor = std::max(plan.tensor, static_cast<int>(stage.devices.size()));
    return plan;
  }

 private:
  static void check_schema(const JsonCursor& file) {
    const auto schema = file.optional("schema");
    if (schema && schema->as_string() != "dtfm-plan/1")
      schema->fail("expected `dtfm-plan/1`; found " + in_quotes(schema->as_string()));
  }

  void check_topology(const JsonCursor& file) const {
    const auto made_for = file.optional("topology");
    const auto fingerprint = made_for ? made_for->optional("fingerprint") : std::nullopt;
    if (!fingerprint || fingerprint->as_string() == topology_.fingerprint()) return;
    const auto name = made_for->optional("name");
    fingerprint->fail(
        fmt::format("the plan is for topology {} with fingerprint {}; this is {} with fingerprint {}",
                    in_quotes(name ? name->as_string() : "?"), in_quotes(fingerprint->as_string()),
                    in_quotes(topology_.name), in_quotes(topology_.fingerprint())));
  }

  Pipeline pipeline(const JsonCursor& cursor) {
    const JsonCursor list = cursor.required("stages");
    const std::size_t count = list.array_size("stages");
    if (count == 0) list.fail("there is no stage");
    Pipeline pipeline;
    for (std::size_t i = 0; i < count; ++i) {
      const int covered = i == 0 ? 0 : pipeline.stages.back().layers.second;
      pipeline.stages.push_back(stage(list.at(i), covered));
    }
    const int covered = pipeline.stages.back().layers.second;
    if (covered != job_.model.layers)
      list.fail(fmt::format("{} in no stage: job {} has {} layers",
                            layers_in_words(covered, job_.model.layers - 1), job_.name, job_.model.layers));
    return pipeline;
  }

  Stage stage(const JsonCursor& cursor, int covered) {
    const JsonCursor list = cursor.required("devices");
    const std::size_t count = list.array_size("devices");
    if (count == 0) list.fail("there is no device");
    Stage stage{layers(cursor.required("layers"), covered), {}};
    for (std::size_t i = 0; i < count; ++i) stage.devices.push_back(device(list.at(i)));
    return stage;
  }

  /// `covered`: the stages before end with this layer.
  std::pair<int, int> layers(const JsonCursor& cursor, int covered) const {
    if (const auto size = cursor.array_size("two layers"); size != 2)
      cursor.fail(
          fmt::format("expected two numbers, the first layer and the one after the last; found {}", size));
    const int begin = cursor.at(0).as_int(0, most), end = cursor.at(1).as_int(0, most);
    if (end < begin) cursor.fail(fmt::format("[{}, {}] ends before it begins", begin, end));
    if (end > job_.model.layers)
      cursor.fail(
          fmt::format("[{}, {}], but job {} has {} layers", begin, end, job_.name, job_.model.layers));
    if (begin > covered) cursor.fail(layers_in_words(covered, begin - 1) + " in no stage");
    if (begin < covered) cursor.fail(fmt::format("layer {} is already in an earlier stage", begin));
    return {begin, end};
  }

  int device(const JsonCursor& cursor) {
    const std::string& id = cursor.as_string();
    const auto found = index_of_.find(id);
    if (found == index_of_.end())
      cursor.fail(fmt::format("topology {} has no device {}; {}", topology_.name, in_quotes(id),
                              suggestion(id, ids())));
    const auto [first, fresh] = first_use_.emplace(found->second, cursor.path());
    if (!fresh) cursor.fail(fmt::format("device {} is used twice, first at {}", id, first->second));
    return found->second;
  }

  std::vector<std::string_view> ids() const {
    std::vector<std::string_view> ids;
    for (const Device& device : topology_.devices) ids.push_back(device.id);
    return ids;
  }

  void read_micro_batches(const JsonCursor& list, Plan& plan) const {
    const bool given = list.at(0).optional("micro_batches").has_value();
    const int all = job_.training.global_batch / job_.training.micro_batch;
    const int count = static_cast<int>(plan.pipelines.size());
    for (int i = 0; i < count; ++i) {
      const JsonCursor pipeline = list.at(static_cast<std::size_t>(i));
      const auto micro_batches = pipeline.optional("micro_batches");
      if (micro_batches.has_value() != given)
        pipeline.fail("micro_batches must be given for every pipeline or for none");
      const auto [begin, end] = even_split(all, count, i);
      plan.pipelines[static_cast<std::size_t>(i)].micro_batches =
          given ? micro_batches->as_int(0, most) : end - begin;
    }
  }

  const Topology& topology_;
  const Job& job_;
  std::unordered_map<std::string, int> index_of_;
  std::unordered_map<int, std::string> first_use_;
};

/// The first pipeline is what the others must be like.
void check_stages(const Plan& plan, const std::string& file) {
  const auto& first = plan.pipelines.front().stages;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    if (stages.size() != first.size())
      throw Error(
          file,
          fmt::format("/pipelines/{}: {} stage{} where /pipelines/0 has {}: the groups would be of unequal "
                      "size, and comm-cost needs them equal",
                      p, stages.size(), stages.size() == 1 ? "" : "s", first.size()));
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::string where = fmt::format("/pipelines/{}/stages/{}", p, s);
      if (stages[s].devices.size() != 1)
        throw Error(file, fmt::format("{}/devices: {} devices; comm-cost is about one device a stage", where,
                                      stages[s].devices.size()));
      if (stages[s].layers != first[s].layers)
        throw Error(
            file, fmt::format("{}/layers: [{}, {}] where /pipelines/0 has [{}, {}]; comm-cost needs the same "
                              "stages in every pipeline",
                              where, stages[s].layers.first, stages[s].layers.second, first[s].layers.first,
                              first[s].layers.second));
    }
  }
}

void check_all_used(const Placement& placement, const Topology& topology, const std::string& file) {
  std::vector<bool> used(topology.devices.size());
  for (const int device : placement.devices()) used[static_cast<std::size_t>(device)] = true;
  std::vector<std::string> unused;
  for (std::size_t device = 0; device < used.size(); ++device)
    if (!used[device]) unused.push_back(topology.devices[device].id);
  if (unused.empty()) return;
  const std::size_t count = unused.size();
  unused.resize(std::min<std::size_t>(count, 5));
  throw Error(file,
              fmt::format("/pipelines: comm-cost needs every device, and {} of {} {} in no pipeline: {}{}",
                          count, topology.size(), count == 1 ? "is" : "are", fmt::join(unused, ", "),
                          count > unused.size() ? ", …" : ""));
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& file, const Topology& topology, const Job& job) {
  const nlohmann::json json = parse_json(text, file);
  return PlanReader(topology, job).plan(JsonCursor(json, file));
}

Plan read_plan(const std::filesystem::path& file, const Topology& topology, const Job& job) {
  return parse_plan(checked_text(read_file(file, plan_size_limit), file.string()), file.string(), topology,
                    job);
}

Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file) {
  check_stages(plan, file);
  Placement placement(static_cast<int>(plan.pipelines.front().stages.size()),
                      static_cast<int>(plan.pipelines.size()));
  for (int stage = 0; stage < placement.stages(); ++stage)
    for (int replica = 0; replica < placement.replicas(); ++replica)
      placement.at(stage, replica) = plan.pipelines[static_cast<std::size_t>(replica)]
                                         .stages[static_cast<std::size_t>(stage)]
                                         .devices.front();
  check_all_used(placement, topology, file);
  return placement;
}

}  // namespace dtfm
