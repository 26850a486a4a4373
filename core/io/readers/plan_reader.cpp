#include "core/io/readers/plan_mesh.hpp"
#include "core/io/readers/plan_reader.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/plan_conflicts.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/pass_order.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr int max_value = 1'000'000'000;
constexpr std::size_t max_passes = 20'000'000;  // of all stages, as many as the simulator accepts
constexpr double max_period_s = 1e12;           // far beyond the longest horizon that a scenario may have
constexpr std::size_t plan_size_limit = std::size_t{256} << 20;

/// Returns "layer 3 is" or "layers 3 … 5 are".
std::string format_layers_with_verb(int first, int last) {
  return first == last ? fmt::format("layer {} is", first) : fmt::format("layers {} … {} are", first, last);
}

std::optional<double> read_checkpoint_period(const JsonCursor& file) {
  const auto recovery = file.optional("recovery");
  const auto period = recovery ? recovery->optional("checkpoint_period_s") : std::nullopt;
  if (!period) return std::nullopt;
  const double seconds = period->as_number(0, max_period_s);
  if (seconds == 0) period->fail("must be above zero");
  return seconds;
}

class PlanReader {
 public:
  PlanReader(const Topology& topology, const Job& job, const ExecutionConfig& execution)
      : topology_(topology), job_(job), execution_(execution) {
    for (int device = 0; device < topology.size(); ++device)
      index_of_.emplace(topology.devices[at(device)].id, device);
  }

  Plan plan(const JsonCursor& file) {
    check_topology(file);
    return read_plan_for_any_topology(file);
  }

  Plan read_plan_for_any_topology(const JsonCursor& file) {
    check_schema(file);
    Plan plan{1, execution_, {}};
    const JsonCursor list = file.required("pipelines");
    const std::size_t count = list.array_size("pipelines");
    if (count == 0) list.fail("there is no pipeline");
    for (std::size_t i = 0; i < count; ++i) plan.pipelines.push_back(pipeline(list.at(i)));
    read_micro_batches(list, plan);
    try {
      set_degrees(job_, plan);
    } catch (const Error& error) {
      list.fail(error.what());
    }
    check_parallelism(file, plan);
    check_groups(file, plan);
    check_ranks(file, plan);
    check_unused(file);
    read_checkpoint_period(file);  // throws Error for a bad one
    return plan;
  }

 private:
  static void check_schema(const JsonCursor& file) {
    const auto schema = file.optional("schema");
    if (schema && schema->as_string() != "dtfm-plan/1")
      schema->fail("expected `dtfm-plan/1`; found " + quote(schema->as_string()));
  }

  void check_topology(const JsonCursor& file) const {
    const auto made_for = file.optional("topology");
    const auto fingerprint = made_for ? made_for->optional("fingerprint") : std::nullopt;
    if (!fingerprint || fingerprint->as_string() == topology_.fingerprint()) return;
    const auto name = made_for->optional("name");
    fingerprint->fail(
        fmt::format("the plan is for topology {} with fingerprint {}; this is {} with fingerprint {}",
                    quote(name ? name->as_string() : "?"), quote(fingerprint->as_string()),
                    quote(topology_.name), quote(topology_.fingerprint())));
  }

  Pipeline pipeline(const JsonCursor& cursor) {
    const JsonCursor list = cursor.required("stages");
    const std::size_t count = list.array_size("stages");
    if (count == 0) list.fail("there is no stage");
    Pipeline pipeline;
    for (std::size_t i = 0; i < count; ++i) {
      const int covered = i == 0 ? 0 : pipeline.stages.back().layers.second;
      pipeline.stages.push_back(stage(list.at(i), covered));
      if (i > 0) check_warm_up(list.at(i), pipeline.stages[i - 1], pipeline.stages[i]);
    }
    check_passes(list, pipeline);
    const int covered = pipeline.stages.back().layers.second;
    if (covered != layer_count(job_.model))
      list.fail(fmt::format("{} in no stage: job {} has {} layers",
                            format_layers_with_verb(covered, layer_count(job_.model) - 1), job_.name,
                            layer_count(job_.model)));
    return pipeline;
  }

  Stage stage(const JsonCursor& cursor, int covered) {
    const JsonCursor list = cursor.required("devices");
    const std::size_t count = list.array_size("devices");
    if (count == 0) list.fail("there is no device");
    Stage stage{layers(cursor.required("layers"), covered), {}};
    for (std::size_t i = 0; i < count; ++i) stage.devices.push_back(device(list.at(i)));
    if (const auto own = cursor.optional("virtual_layers")) read_virtual_layers(*own, stage);
    const auto own = cursor.optional("warm_up");
    if (has_warm_ups_.value_or(own.has_value()) != own.has_value())
      cursor.fail("either all stages of a plan have a `warm_up`, or none");
    has_warm_ups_ = own.has_value();
    if (own) {
      if (!traits(execution_.schedule).has_planned_warm_up) own->fail("requires schedule `eager-1f1b`");
      stage.warm_up = own->as_int(0, max_value);
    }
    read_passes(cursor, stage);
    read_recompute_layers(cursor, stage);
    return stage;
  }

  /// A stage with a longer warm-up than the previous stage would deadlock.
  static void check_warm_up(const JsonCursor& cursor, const Stage& before, const Stage& stage) {
    if (stage.warm_up && *stage.warm_up >= *before.warm_up)
      cursor.fail(fmt::format("`warm_up` is {}, but must be less than the {} of the stage before",
                              *stage.warm_up, *before.warm_up));
  }

  void read_passes(const JsonCursor& cursor, Stage& stage) {
    const auto own = cursor.optional("passes");
    if (has_passes_.value_or(own.has_value()) != own.has_value())
      cursor.fail("either all stages of a plan have `passes`, or none");
    has_passes_ = own.has_value();
    if (!own) return;
    if (!traits(execution_.schedule).has_planned_passes) own->fail("requires schedule `zb-greedy`");
    try {
      stage.passes = parse_passes(own->as_string(), passes_left_);
    } catch (const Error& error) {
      own->fail(error.what());
    }
    if (stage.passes.empty()) own->fail("expected at least one pass");
    passes_left_ -= stage.passes.size();
  }

  void read_recompute_layers(const JsonCursor& cursor, Stage& stage) {
    for (const RecomputationTraits& it : recomputation_table())
      if (it.is_per_stage() && it.kind != execution_.recomputation)
        if (const auto other = cursor.optional(it.layers_name))
          other->fail(fmt::format("requires `recompute: {}`", it.name));
    const RecomputationTraits& recomputation = traits(execution_.recomputation);
    if (!recomputation.is_per_stage()) return;
    const auto own = cursor.optional(recomputation.layers_name);
    if (has_recompute_layers_.value_or(own.has_value()) != own.has_value())
      cursor.fail(fmt::format("either all stages of a plan have `{}`, or none", recomputation.layers_name));
    has_recompute_layers_ = own.has_value();
    if (own) stage.recompute_layers = own->as_int(0, stage.layers.second - stage.layers.first);
  }

  /// The stages of a pipeline must compute the same micro-batches, and not deadlock.
  static void check_passes(const JsonCursor& list, const Pipeline& pipeline) {
    if (pipeline.stages.front().passes.empty()) return;
    using Kind = Operation::Kind;
    const auto forwards = std::count(pipeline.stages.front().passes.begin(),
                                     pipeline.stages.front().passes.end(), Kind::forward);
    std::vector<const PassOrder*> stages;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const PassOrder* passes = stages.emplace_back(&pipeline.stages[i].passes);
      for (const auto& [kind, name] : {std::pair(Kind::forward, "forwards"),
                                       {Kind::backward, "input gradients"},
                                       {Kind::weight_gradient, "weight gradients"}})
        if (const auto count = std::count(passes->begin(), passes->end(), kind); count != forwards)
          list.at(i).fail(fmt::format("`passes` has {} {}, but the pipeline's first stage has {} forwards",
                                      count, name, forwards));
    }
    if (!can_complete(stages)) list.fail("with these `passes`, the stages of the pipeline deadlock");
  }

  void read_virtual_layers(const JsonCursor& list, Stage& stage) const {
    if (!traits(execution_.schedule).has_chunks) list.fail("requires schedule `interleaved`");
    const std::size_t count = list.array_size("numbers of layers"), chunks = at(stage_chunks(execution_));
    if (count != chunks)
      list.fail(fmt::format("expected the number of layers of each of {} chunks; found {}", chunks, count));
    std::vector<int> counts;
    long long sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += counts.emplace_back(list.at(i).as_int(0, max_value));
    if (const auto [begin, end] = stage.layers; sum != end - begin)
      list.fail(fmt::format("the sum is {}, but the stage has {}", sum, format_count(end - begin, "layer")));
    set_virtual_layers(stage, counts);
  }

  /// `covered` is the layer after the last one of the preceding stages.
  std::pair<int, int> layers(const JsonCursor& cursor, int covered) const {
    if (const auto size = cursor.array_size("two layers"); size != 2)
      cursor.fail(
          fmt::format("expected two numbers, the first layer and the one after the last; found {}", size));
    const int begin = cursor.at(0).as_int(0, max_value), end = cursor.at(1).as_int(0, max_value);
    if (end < begin) cursor.fail(fmt::format("[{}, {}] ends before it begins", begin, end));
    if (end > layer_count(job_.model))
      cursor.fail(
          fmt::format("[{}, {}], but job {} has {} layers", begin, end, job_.name, layer_count(job_.model)));
    if (begin > covered) cursor.fail(format_layers_with_verb(covered, begin - 1) + " in no stage");
    if (begin < covered) cursor.fail(fmt::format("layer {} is already in an earlier stage", begin));
    return {begin, end};
  }

  int find_device(const JsonCursor& cursor) const {
    const std::string& id = cursor.as_string();
    const auto found = index_of_.find(id);
    if (found == index_of_.end())
      cursor.fail(
          fmt::format("topology {} has no device {}; {}", topology_.name, quote(id), suggestion(id, ids())));
    return found->second;
  }

  int device(const JsonCursor& cursor) {
    const int device = find_device(cursor);
    const auto [first, is_new] = first_use_.emplace(device, cursor.path());
    if (!is_new) cursor.fail(fmt::format("device {} is used twice, first at {}", id(device), first->second));
    return device;
  }

  const std::string& id(int device) const { return topology_.devices[at(device)].id; }

  std::vector<std::string_view> ids() const {
    std::vector<std::string_view> ids;
    for (const Device& device : topology_.devices) ids.push_back(device.id);
    return ids;
  }

  void read_micro_batches(const JsonCursor& list, Plan& plan) const {
    const bool given = list.at(0).optional("micro_batches").has_value();
    const int total = job_.training.global_batch / execution_.micro_batch;
    const int count = static_cast<int>(plan.pipelines.size());
    for (int i = 0; i < count; ++i) {
      const JsonCursor pipeline = list.at(at(i));
      const auto micro_batches = pipeline.optional("micro_batches");
      if (micro_batches.has_value() != given)
        pipeline.fail("micro_batches must be given for every pipeline or for none");
      const auto [begin, end] = even_split(total, count, i);
      plan.pipelines[at(i)].micro_batches = given ? micro_batches->as_int(0, max_value) : end - begin;
    }
  }

  // The remaining keys are redundant: they follow from the pipelines and must agree with them if present.

  static void check_parallelism(const JsonCursor& file, const Plan& plan) {
    const auto given = file.optional("parallelism");
    if (!given) return;
    const auto check = [&](const char* key, int expected) {
      const auto number = given->optional(key);
      if (number && number->as_int(1, max_value) != expected)
        number->fail(fmt::format("{}, but the pipelines make it {}", number->as_int(1, max_value), expected));
    };
    check("pipeline", depth(plan));
    check("data", static_cast<int>(plan.pipelines.size()));
    check("tensor", plan.tensor);
  }

  std::vector<int> find_devices(const JsonCursor& list, std::size_t expected) const {
    const std::size_t count = list.array_size("devices");
    std::vector<int> devices;
    for (std::size_t i = 0; i < count; ++i) devices.push_back(find_device(list.at(i)));
    if (count != expected)
      list.fail(fmt::format("expected as many devices as in the pipelines, {}; found {}", expected, count));
    return devices;
  }

  /// The order of devices within a group does not matter.
  void check_groups(const JsonCursor& file, const Plan& plan) const {
    const auto list = file.optional("groups");
    if (!list) return;
    auto groups = stage_groups(plan);
    if (const std::size_t count = list->array_size("groups"); count != groups.size())
      list->fail(fmt::format("expected one group for each of {} stages; found {}", groups.size(), count));
    for (std::size_t stage = 0; stage < groups.size(); ++stage) {
      auto given = find_devices(list->at(stage), groups[stage].size());
      std::sort(given.begin(), given.end());
      std::sort(groups[stage].begin(), groups[stage].end());
      std::vector<int> missing;
      std::set_difference(groups[stage].begin(), groups[stage].end(), given.begin(), given.end(),
                          std::back_inserter(missing));
      if (!missing.empty())
        list->at(stage).fail(fmt::format("device {} is missing, although it is in stage {} of the pipelines",
                                         id(missing.front()), stage));
    }
  }

  void check_ranks(const JsonCursor& file, const Plan& plan) const {
    const auto ranks = file.optional("ranks");
    if (!ranks) return;
    const auto check = [&](const char* key, const std::vector<int>& expected) {
      const auto list = ranks->optional(key);
      if (!list) return;
      const auto given = find_devices(*list, expected.size());
      for (std::size_t rank = 0; rank < given.size(); ++rank)
        if (given[rank] != expected[rank])
          list->at(rank).fail(
              fmt::format("{}, but the pipelines make it {}", id(given[rank]), id(expected[rank])));
    };
    check("pipeline_major", pipeline_major(plan));
    check("stage_major", stage_major(plan));
  }

  void check_unused(const JsonCursor& file) const {
    const auto list = file.optional("unused");
    const std::size_t count = list ? list->array_size("devices") : 0;
    for (std::size_t i = 0; i < count; ++i)
      if (const auto used = first_use_.find(find_device(list->at(i))); used != first_use_.end())
        list->at(i).fail(fmt::format("device {} is used at {}", id(used->first), used->second));
  }

  const Topology& topology_;
  const Job& job_;
  const ExecutionConfig& execution_;
  std::unordered_map<std::string, int> index_of_;
  std::unordered_map<int, std::string> first_use_;
  std::optional<bool> has_warm_ups_, has_passes_, has_recompute_layers_;  // of the stages so far
  std::size_t passes_left_ = max_passes;
};

/// Throws Error if `parallelism`, which repeats values that are elsewhere in the file, at `place`, disagrees
/// with them.
void check_agrees(const JsonCursor& parallelism, const char* key, std::string_view place,
                  std::string_view expected) {
  const auto value = parallelism.optional(key);
  if (value && value->as_string() != expected)
    value->fail(fmt::format("{}, but {}/{} is {}", quote(value->as_string()), place, key, quote(expected)));
}

void check_agrees(const JsonCursor& plan, std::string_view place, const ExecutionConfig& execution) {
  const auto parallelism = plan.optional("parallelism");
  if (!parallelism) return;
  for (const SettingTraits& it : setting_table())
    if (it.is_in_plan_summary)
      check_agrees(*parallelism, it.name.data(), place, format_value(it.get_in_plan(execution)));
}

/// Sets a setting of type `name` of `decided`, which then is not automatic, if the plan has its key. Jobs
/// must be able to name the value.
void read_name(const JsonCursor& parallelism, const SettingTraits& setting, Job& decided) {
  const auto value = parallelism.optional(setting.name.data());
  if (!value) return;
  const std::vector<std::string_view> names = setting.names();
  const auto name = std::find(names.begin(), names.end(), value->as_string());
  if (name == names.end())
    value->fail(fmt::format("unknown {} {}; {}", setting.name, quote(value->as_string()),
                            suggestion(value->as_string(), names)));
  setting.set(decided, *name);
  decided.automatic[setting.kind] = false;
}

/// The settings of a plan file: its `execution`. Older files have them in `job`, and schedule and gradient
/// synchronization in `parallelism`, too. A file with neither takes those of `job`.
PlacedExecution read_execution(const JsonCursor& plan, const Job& job) {
  if (const auto execution = plan.optional("execution")) {
    PlacedExecution result = parse_execution(YamlDocument(*execution), job);
    check_agrees(plan, "/execution", result.execution);
    return result;
  }
  PlacedExecution result{job.execution, plan.file(), {}, job.automatic};
  if (const auto part = plan.optional("job")) {
    const Job own = parse_job(YamlDocument(*part));
    result.execution = own.execution;
    result.undecided = own.automatic & job.automatic;
  }
  const auto parallelism = plan.optional("parallelism");
  if (!parallelism) return result;
  Job decided;
  decided.execution = result.execution;
  decided.automatic = result.undecided;
  for (const SettingTraits& it : setting_table())
    if (it.is_in_plan_summary) read_name(*parallelism, it, decided);
  result.undecided = decided.automatic;
  ExecutionConfig& execution = result.execution = decided.execution;
  if (!traits(execution.schedule).has_chunks) execution.chunks.reset();
  if (traits(execution.schedule).has_chunks && !execution.chunks)
    parallelism->required("schedule")
        .fail(fmt::format("{} needs `execution` with `chunks`", quote(name_of(execution.schedule))));
  return result;
}

/// Throws Error at the first setting of the plan that contradicts the job. `is_own`: the job is in the same
/// file.
void check_job(const PlacedExecution& placed, const Job& job, bool is_own = false) {
  const std::vector<PlanConflict> conflicts = plan_conflicts({1, placed.execution, {}}, job);
  if (conflicts.empty()) return;
  const PlanConflict& first = conflicts.front();
  const auto place = placed.places.find(first.key);
  throw Error(place == placed.places.end() ? placed.place : place->second,
              is_own ? fmt::format("{}; {}", first.problem, first.fix) : format_conflict(first));
}

/// A topology with the devices that a plan names, which have no attributes other than their ids.
class DeviceNames {
 public:
  explicit DeviceNames(const JsonCursor& file) {
    topology_.name = "of the plan";
    const JsonCursor pipelines = file.required("pipelines");
    for (std::size_t p = 0; p < pipelines.array_size("pipelines"); ++p) {
      const JsonCursor stages = pipelines.at(p).required("stages");
      for (std::size_t s = 0; s < stages.array_size("stages"); ++s) add(stages.at(s).required("devices"));
    }
    if (const auto unused = file.optional("unused")) add(*unused);
  }
  const Topology& topology() const { return topology_; }
  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const Device& device : topology_.devices) ids.push_back(device.id);
    return ids;
  }

 private:
  void add(const JsonCursor& list) {
    for (std::size_t i = 0; i < list.array_size("devices"); ++i) {
      const std::string& id = list.at(i).as_string();
      if (!known_.insert(id).second) continue;  // PlanReader decides whether duplicates are allowed
      if (topology_.size() == max_devices) list.fail(fmt::format("more than {} devices in all", max_devices));
      topology_.devices.emplace_back().id = id;
    }
  }

  Topology topology_;
  std::set<std::string> known_;
};

}  // namespace

std::string read_plan_text(const std::filesystem::path& file) {
  return validate_text(read_file(file, plan_size_limit), file.string());
}

PlanFile::PlanFile(std::string_view text, std::string path)
    : path_(std::move(path)), json_(std::make_shared<const nlohmann::json>(parse_json(text, path_))) {}

JsonCursor PlanFile::root() const {
  return {*json_, path_};
}

bool PlanFile::has_job() const {
  return root().optional("job").has_value();
}

std::optional<Job> PlanFile::job() const {
  const auto part = root().optional("job");
  if (!part) return std::nullopt;
  Job job = parse_job(YamlDocument(*part));
  if (!root().optional("execution")) {
    check_agrees(root(), "/job/parallelism", job.execution);
    return job;
  }
  const PlacedExecution placed = read_execution(root(), job);
  job.execution = placed.execution;  // what the job lists is still checked
  check_job(placed, job, true);
  return job;
}

PlanAndNotes PlanFile::plan(const Topology& topology, const Job& job) const {
  const PlacedExecution placed = read_execution(root(), job);
  Plan plan = PlanReader(topology, job, placed.execution).plan(root());
  check_job(placed, job);
  return {std::move(plan), {}, placed.undecided, read_checkpoint_period(root())};
}

StandalonePlan PlanFile::standalone_plan(const Job& job) const {
  const DeviceNames names(root());
  const PlacedExecution placed = read_execution(root(), job);
  PlanReader reader(names.topology(), job, placed.execution);
  return {reader.read_plan_for_any_topology(root()), names.ids()};
}

void PlanFile::check_no_conflict(const Job& job) const {
  check_job(read_execution(root(), job), job);
}

std::vector<EstimatedMemory> PlanFile::memory() const {
  constexpr double max_bytes = 1e30;
  const auto estimate = root().optional("estimate");
  const auto list = estimate ? estimate->optional("memory") : std::nullopt;
  std::vector<EstimatedMemory> memory;
  for (std::size_t i = 0; list && i < list->array_size("devices"); ++i) {
    const JsonCursor row = list->at(i);
    const auto bytes = [&](const char* key) { return Bytes(row.required(key).as_number(0, max_bytes)); };
    memory.push_back({row.required("device").as_string(), bytes("needed_bytes"), bytes("capacity_bytes")});
  }
  return memory;
}

}  // namespace dtfm::io
