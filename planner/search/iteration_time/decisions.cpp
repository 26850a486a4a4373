#include "planner/search/iteration_time/decisions.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/target.hpp"
#include "planner/search/iteration_time/device_order.hpp"

namespace dtfm::search {
namespace {

/// Ratios of fp16 activations and gradients: uncompressed, 8 bits, 4 bits.
constexpr double strongest = 0.25, compressions[] = {1, 0.5, strongest};

/// Whether the heads of a transformer are a multiple of `tensor`, and the job's target can divide it. The
/// widths of other models are not known; they are assumed to be multiples of powers of two.
bool divides(const Job& job, int tensor) {
  const auto* transformer = std::get_if<Transformer>(&job.model);
  if (transformer == nullptr) return std::has_single_bit(static_cast<unsigned>(tensor));
  return transformer->heads % tensor == 0 &&
         (!job.target || tensor_obstacle(traits(*job.target), job, tensor).empty());
}

/// Degrees that the job allows, up to the number of devices of the largest host. If a degree does not divide
/// that number, some devices stay unused, which may be better than exceeding memory.
std::vector<int> tensor_degrees(const Topology& topology, const Job& job) {
  std::map<int, int> devices;  // by host
  int largest = 1;
  for (const Device& device : topology.devices) largest = std::max(largest, ++devices[device.host]);
  std::vector<int> degrees;
  for (int degree = 1; degree <= largest; ++degree)
    if (divides(job, degree) && is_choice(job, Setting::tensor, degree)) degrees.push_back(degree);
  return degrees;
}

/// Returns `most` and the smaller degrees, ascending, such that each is a multiple of the previous one.
std::vector<int> chain_of(const std::vector<int>& degrees, int most) {
  std::vector<int> chain = {most};
  for (auto degree = degrees.rbegin(); degree != degrees.rend(); ++degree)
    if (*degree < chain.back() && chain.back() % *degree == 0) chain.push_back(*degree);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// The numbers of chunks to try with a schedule; nullopt: it has none.
std::vector<std::optional<int>> chunk_counts(const ScheduleTraits& schedule) {
  if (!schedule.has_chunks) return {std::nullopt};
  return {2, 4};
}

/// Numbers of recomputed layers to try: all (nullopt), powers of two, and 1.5 times these.
std::vector<std::optional<int>> recomputed_counts(const Job& job) {
  const int all = layer_count(job.model);
  std::vector<std::optional<int>> counts = {std::nullopt};
  for (int count = 1; count < all; count *= 2) {
    counts.emplace_back(count);
    if (count > 1 && count * 3 / 2 < all) counts.emplace_back(count * 3 / 2);
  }
  return counts;
}

/// Whether hosts offer groups of the largest degree and others.
bool has_different_groups(const DecidedJob& job) {
  const auto largest = std::count_if(job.tensor_groups.begin(), job.tensor_groups.end(), [&](const auto& it) {
    return static_cast<int>(it.size()) == job.problem.job.parallelism.tensor;
  });
  return largest > 0 && largest < std::ssize(job.tensor_groups);
}

/// Expert-parallel degrees to try: those that the job lists, or powers of two, because hosts have so many
/// devices.
std::vector<int> expert_degrees(const Job& job) {
  const int experts = expert_count(job.model);
  std::vector<int> degrees = {1};
  for (int degree = 2; degree <= experts; ++degree) {
    const bool is_listed = !listed_values(job, Setting::expert).empty();
    if (experts % degree == 0 && (is_listed || std::has_single_bit(static_cast<unsigned>(degree))))
      degrees.push_back(degree);
  }
  std::erase_if(degrees, [&](int it) { return !is_choice(job, Setting::expert, it); });
  return degrees;
}

/// Context-parallel degrees to try: those that the job lists, or powers of two with which a device has at
/// least 4,096 tokens of a sequence. Chosen by hand: shorter parts are left to other kinds of parallelism,
/// because every degree multiplies the combinations to try.
std::vector<int> context_degrees(const Job& job) {
  constexpr int min_tokens = 4096;
  std::vector<int> degrees;
  for (const SettingValue& it : listed_values(job, Setting::context)) degrees.push_back(std::get<int>(it));
  if (!degrees.empty()) return degrees;
  for (int degree = 1; degree == 1 || degree <= sequence_length(job.model) / min_tokens; degree *= 2)
    if (is_choice(job, Setting::context, degree)) degrees.push_back(degree);
  return degrees;
}

/// The degrees that the job leaves open, those of experts with the smallest `stage_data` that they need.
std::vector<Job> open_meshes(const Topology& topology, const Job& job, const Job& undecided) {
  const auto degrees_of = [&](Setting setting, int decided, const auto& open) {
    return undecided.automatic[setting] ? open() : std::vector{decided};
  };
  const std::vector<int> tensors = degrees_of(Setting::tensor, job.parallelism.tensor,
                                              [&] { return tensor_degrees(topology, job); }),
                         contexts = degrees_of(Setting::context, job.execution.context,
                                               [&] { return context_degrees(job); }),
                         experts = degrees_of(Setting::expert, job.execution.expert,
                                              [&] { return expert_degrees(job); });
  std::vector<Job> meshes;
  for (const int tensor : tensors)
    for (const int context : contexts)
      for (const int expert : experts) {
        Job& it = meshes.emplace_back(job);
        it.parallelism.tensor = tensor;
        it.execution.context = context;
        it.execution.expert = expert;
        if (!undecided.execution.stage_data) fit_stage_data(it);
        if (devices_per_stage(it) > topology.size()) meshes.pop_back();
      }
  return meshes;
}

/// Whether the sharding, the messages and the recomputation can run with the other settings. Algorithms with
/// instances are tried only with a sharded optimizer. With partitioned gradients all schedules are the same.
bool is_consistent(const Job& job, const SettingSet& undecided) {
  if (!mesh_obstacle(job).empty()) return false;
  const bool is_sharded = traits(job.execution.optimizer_sharding).optimizer;
  if (undecided[Setting::gradient_sync] && traits(job.execution.gradient_sync).has_instances && !is_sharded)
    return false;
  if (!can_shard(job.execution) || !can_run(job.execution.messaging, job.execution.schedule)) return false;
  if (!can_split(job)) return false;
  return !requires_single_devices(job) ||
         (devices_per_stage(job) == 1 &&
          (!undecided[Setting::schedule] || job.execution.schedule == first_schedule(job)));
}

/// The synchronizations with which a sharding may run.
std::vector<GradientSync> syncs_with_halves(const Job& job, const SettingSet& undecided) {
  if (!undecided[Setting::gradient_sync]) return {job.execution.gradient_sync};
  std::vector<GradientSync> syncs;
  for (const GradientSyncTraits& sync : gradient_sync_table())
    if (sync.has_halves && is_choice(job, Setting::gradient_sync, sync.name)) syncs.push_back(sync.kind);
  return syncs;
}

/// The job with every recomputation that is open.
std::vector<Job> open_recomputations(const Job& job, const SettingSet& undecided) {
  if (!undecided[Setting::recompute]) return {job};
  std::vector<Job> jobs;
  for (const RecomputationTraits& it : recomputation_table()) {
    if (!is_choice(job, Setting::recompute, it.name)) continue;
    Job& other = jobs.emplace_back(job);
    other.execution.recomputation = it.kind;
    if (it.kind != Recomputation::full) other.execution.recompute_layers.reset();
  }
  return jobs;
}

/// Adds the job with every sharding, and with the settings with which it can run. Partitioned gradients are
/// communicated once per micro-batch, so they are tried with every size that is open, and as memory depends
/// on both, with every recomputation.
void add_shardings(const Job& job, const SettingSet& undecided, std::vector<Job>& jobs) {
  for (const OptimizerShardingTraits& sharding : optimizer_sharding_table()) {
    if (!is_choice(job, Setting::optimizer_sharding, sharding.name)) continue;
    Job other = job;
    other.execution.optimizer_sharding = sharding.kind;
    if (!sharding.optimizer) {
      jobs.push_back(other);
      continue;
    }
    if (sharding.gradients && undecided[Setting::schedule]) {
      other.execution.schedule = first_schedule(job);
      other.execution.chunks.reset();
    }
    if (sharding.gradients && undecided[Setting::tensor] && is_choice(job, Setting::tensor, 1))
      other.parallelism.tensor = 1;
    if (sharding.gradients && undecided[Setting::expert] && is_choice(job, Setting::expert, 1)) {
      other.execution.expert = 1;
      other.execution.stage_data.reset();
    }
    if (sharding.gradients && undecided[Setting::context] && is_choice(job, Setting::context, 1))
      other.execution.context = 1;
    const std::vector<int> sizes = sharding.gradients && undecided[Setting::micro_batch]
                                       ? open_micro_batches(job)
                                       : std::vector{job.execution.micro_batch};
    const std::vector<Job> recomputations =
        sharding.gradients ? open_recomputations(other, undecided) : std::vector{other};
    for (const GradientSync sync : syncs_with_halves(other, undecided))
      for (const int size : sizes)
        for (Job recomputed : recomputations) {
          recomputed.execution.gradient_sync = sync;
          recomputed.execution.micro_batch = size;
          jobs.push_back(std::move(recomputed));
        }
  }
}

/// The job with every optimizer sharding that is open and can run, with one synchronization each.
std::vector<Job> open_shardings(const Job& job, const SettingSet& undecided) {
  if (!undecided[Setting::optimizer_sharding]) return {job};
  std::vector<Job> jobs;
  for (const OptimizerShardingTraits& sharding : optimizer_sharding_table()) {
    if (!is_choice(job, Setting::optimizer_sharding, sharding.name)) continue;
    Job other = job;
    other.execution.optimizer_sharding = sharding.kind;
    if (sharding.optimizer) {
      const std::vector<GradientSync> syncs = syncs_with_halves(other, undecided);
      if (syncs.empty()) continue;
      other.execution.gradient_sync = syncs.front();
    }
    jobs.push_back(std::move(other));
  }
  return jobs;
}

/// Micro-batch, recomputation and the degrees inside a stage determine memory together.
bool is_joint(Setting setting) {
  return setting == Setting::micro_batch || setting == Setting::recompute || setting == Setting::tensor ||
         setting == Setting::context || setting == Setting::expert;
}

/// Whether stages may differ in tensor degree. With expert or context parallelism, or data parallelism inside
/// stages, all stages have the same degree.
bool may_mix_degrees(const Job& job) {
  return job.execution.expert == 1 && job.execution.token_parts() == 1;
}

bool has_all(const DecidedJob& job, const std::vector<int>& degrees) {
  return std::all_of(degrees.begin(), degrees.end(), [&](int it) { return job.model.has_degree(at(it)); });
}

}  // namespace

bool covers_one_f_one_b(const Job& undecided) {
  const auto is_open = [&](Schedule it) { return is_choice(undecided, Setting::schedule, name_of(it)); };
  return undecided.automatic[Setting::schedule] && is_open(Schedule::one_f_one_b) &&
         is_open(Schedule::eager_one_f_one_b) &&
         can_run(undecided.execution.messaging, Schedule::eager_one_f_one_b);
}

std::string decisions_key(const Job& job) {
  std::string key;
  for (const SettingTraits& it : setting_table())
    if ((it.may_be_auto && !it.none_is_open) || it.open_with)
      key += format_value(without_preset(it.get(job))) + " ";
  return key;
}

namespace {

/// Removes offload from the choices of an open `recompute` unless every GPU has a `host_link`.
Problem without_impossible_offload(Problem problem) {
  const std::vector<Device>& devices = problem.topology->devices;
  const bool is_possible = std::all_of(devices.begin(), devices.end(), [&](const Device& it) {
    return it.gpu < 0 || problem.topology->gpus[at(it.gpu)].host_link.has_value();
  });
  if (is_possible || !problem.job.automatic[Setting::recompute]) return problem;
  std::vector<SettingValue> possible = choices(problem.job, Setting::recompute);
  if (std::erase(possible, SettingValue(name_of(Recomputation::offload))) > 0 && !possible.empty())
    problem.job.listed[Setting::recompute] = std::move(possible);
  return problem;
}

}  // namespace

Decisions::Decisions(const Problem& problem, std::vector<int> excluded)
    : problem_(without_impossible_offload(problem)),
      excluded_(std::move(excluded)),
      network_(std::make_shared<const cost::NetworkCost>(problem_.topology, problem_.constants)) {}

void Decisions::exclude(const std::vector<int>& devices) {
  excluded_.insert(excluded_.end(), devices.begin(), devices.end());
  std::sort(excluded_.begin(), excluded_.end());
  known_.clear();
  unusable_.clear();
}

std::shared_ptr<const DecidedJob> Decisions::first() {
  Job job = problem_.job;
  if (job.automatic[Setting::schedule]) job.execution.schedule = first_schedule(job);
  if (job.execution.schedule == Schedule::one_f_one_b && covers_one_f_one_b(job) &&
      !requires_single_devices(job))
    job.execution.schedule = Schedule::eager_one_f_one_b;
  if (job.automatic[Setting::recompute]) {
    std::optional<Recomputation> chosen;  // `full` comes before the rows by stage and needs least memory
    for (const RecomputationTraits& it : recomputation_table())
      if (is_choice(job, Setting::recompute, it.name) &&
          !(it.is_per_stage() && chosen == Recomputation::full) && !(it.offloads && chosen))
        chosen = it.kind;
    if (chosen) job.execution.recomputation = *chosen;
  }
  if (job.execution.recomputation != Recomputation::full) job.execution.recompute_layers.reset();
  if (!job.execution.compression.throughput) {  // compression takes no time, so the strongest is best
    if (job.automatic[Setting::activations]) job.execution.compression.activations = strongest;
    if (job.automatic[Setting::gradients]) job.execution.compression.gradients = strongest;
  }
  job.automatic = {};
  fit_mesh(job);
  const Problem begin{problem_.topology, job, problem_.constants, problem_.roofline};
  const cost::StageCosts costs(begin, devices_per_stage(job));
  for (int device = 0; device < problem_.topology->size(); ++device)
    if (!costs.unknown(device).empty()) unusable_.emplace_back(device, costs.unknown(device));
  if (static_cast<int>(unusable_.size()) == problem_.topology->size())
    throw Error("", unusable_.front().second);
  order_ = nearness_order(problem_.topology, *network_, costs.boundary_bytes(costs.layers() / 2));
  const int devices = devices_per_stage(job);
  const auto place = job.execution.token_parts() > 1 ? "site" : "host";
  auto result = decide_job(std::move(job));
  if (!result && !excluded_.empty())
    throw Error("",
                fmt::format("no {} has {} devices of known price and compute times, which every stage needs",
                            place, devices));
  if (!result) throw Error("", fmt::format("no {} has {} devices, which every stage needs", place, devices));
  return result;
}

/// The job with tensor-parallel groups of these degrees; smaller groups are made of the devices that larger
/// ones leave on a host. Null if no host has enough devices with known compute times for a stage.
std::shared_ptr<DecidedJob> Decisions::make_job(const Job& job, const std::vector<int>& tensors,
                                                const std::vector<int>& max_degrees) const {
  std::vector<int> sizes = tensors;
  for (int& it : sizes) it *= job.execution.token_parts();
  auto result = std::make_shared<DecidedJob>(problem_, job, sizes, network_);
  std::vector<int> usable;
  for (const int device : order_)
    if (result->model.unknown(device).empty() &&
        !std::binary_search(excluded_.begin(), excluded_.end(), device))
      usable.push_back(device);
  std::vector<int> of_device;
  if (!max_degrees.empty())
    for (const Device& device : problem_.topology->devices)
      of_device.push_back(max_degrees[at(device.gpu + 1)]);
  result->max_degrees = max_degrees;
  result->tensor_groups = tensors.size() > 1
                              ? stage_tensor_groups(problem_.topology, usable, tensors, of_device)
                              : stage_groups(problem_.topology, usable, sizes.front(), tensors.front());
  return result->tensor_groups.empty() ? nullptr : result;
}

/// Sets the smallest tensor degree and micro-batch that are open and fit the other degrees of a stage.
void Decisions::fit_mesh(Job& job) const {
  const SettingSet& undecided = problem_.job.automatic;
  if (!problem_.job.execution.stage_data) fit_stage_data(job);
  std::string obstacle = mesh_obstacle(job);
  if (obstacle.empty()) return;
  for (const int tensor : undecided[Setting::tensor] ? tensor_degrees(problem_.topology, job)
                                                     : std::vector{job.parallelism.tensor}) {
    Job fitted = job;
    fitted.parallelism.tensor = tensor;
    if (!problem_.job.execution.stage_data) fit_stage_data(fitted);
    for (const int size : undecided[Setting::micro_batch] ? open_micro_batches(problem_.job)
                                                          : std::vector{job.execution.micro_batch}) {
      fitted.execution.micro_batch = size;
      if (mesh_obstacle(fitted).empty()) return void(job = std::move(fitted));
    }
  }
  throw Error("", obstacle);
}

/// Null if no host has enough devices with known compute times for a stage.
std::shared_ptr<const DecidedJob> Decisions::decide_job(Job job, const std::vector<int>& max_degrees) {
  const auto [position, is_new] =
      known_.emplace(fmt::format("{} {}", decisions_key(job), fmt::join(max_degrees, " ")), nullptr);
  if (!is_new) return position->second;
  std::vector<int> tensors = {job.parallelism.tensor};
  if (!max_degrees.empty())
    tensors = chain_of(tensor_degrees(problem_.topology, job), job.parallelism.tensor);
  position->second = make_job(job, tensors, max_degrees);
  return position->second;
}

std::vector<int> Decisions::same_degrees(int degree) const {
  return std::vector(problem_.topology->gpus.size() + 1, degree);
}

std::shared_ptr<const DecidedJob> Decisions::decide_like(const DecidedJob& base, const Job& other,
                                                         const Plan& plan) {
  Job job = base.problem.job;
  const SettingSet& undecided = problem_.job.automatic;
  for (const SettingTraits& it : setting_table()) {
    const SettingTraits& decided = traits(it.open_with.value_or(it.kind));
    if (undecided[decided.kind] && !it.is_degree && is_choice(job, decided.kind, decided.get(other)))
      it.set(job, it.get(other));
  }
  if (!can_run(job.execution.messaging, job.execution.schedule) || !can_split(job)) {
    job.execution.schedule = base.problem.job.execution.schedule;
    job.execution.chunks = base.problem.job.execution.chunks;
  }
  if (!can_split(job)) job.execution.recomputation = base.problem.job.execution.recomputation;
  if (!can_shard(job.execution)) job.execution.optimizer_sharding = OptimizerSharding::none;
  if (job.execution.recomputation != Recomputation::full) job.execution.recompute_layers.reset();
  if (!can_synchronize(job)) job.execution.gradient_sync = GradientSync::ring;
  if (!problem_.job.execution.stage_data) job.execution.stage_data = plan.execution.stage_data;
  const std::vector<int> degrees = ::dtfm::tensor_degrees(plan);
  const bool are_possible = std::all_of(degrees.begin(), degrees.end(), [&](int it) {
    return divides(job, it) && is_choice(job, Setting::tensor, it) && degrees.back() % it == 0;
  });
  Job with_degree = job;
  if (undecided[Setting::tensor] && are_possible) with_degree.parallelism.tensor = degrees.back();
  if (!mesh_obstacle(with_degree).empty()) return decide_job(base.problem.job);
  if (!undecided[Setting::tensor] || !are_possible) return decide_job(std::move(job));
  job.parallelism.tensor = degrees.back();
  const bool is_mixed = degrees.size() > 1;
  if (auto it = decide_job(job, is_mixed ? same_degrees(degrees.back()) : std::vector<int>());
      it && has_all(*it, degrees))
    return it;
  return make_job(job, degrees, is_mixed ? same_degrees(degrees.back()) : std::vector<int>());
}

bool Decisions::may_vary_degrees(const DecidedJob& base) const {
  return problem_.job.automatic[Setting::tensor] && !requires_uniform_pipelines(base) &&
         !requires_single_devices(base.problem.job) && may_mix_degrees(base.problem.job);
}

std::vector<std::shared_ptr<const DecidedJob>> Decisions::mixed_degrees(const DecidedJob& base) {
  std::vector<std::shared_ptr<const DecidedJob>> result;
  if (!may_vary_degrees(base)) return result;
  for (const int tensor : tensor_degrees(problem_.topology, base.problem.job)) {
    Job job = base.problem.job;
    job.parallelism.tensor = tensor;
    if (auto it = decide_job(std::move(job), same_degrees(tensor)); it && has_different_groups(*it))
      result.push_back(std::move(it));
  }
  return result;
}

std::shared_ptr<const DecidedJob> Decisions::with_any_degree(const DecidedJob& base) {
  if (!may_vary_degrees(base) || base.has_mixed_degrees()) return nullptr;
  const std::vector<int> degrees = tensor_degrees(problem_.topology, base.problem.job);
  for (auto most = degrees.rbegin(); most != degrees.rend() && *most > 1; ++most) {
    const std::vector<int> chain = chain_of(degrees, *most);
    Job job = base.problem.job;
    if (std::find(chain.begin(), chain.end(), job.parallelism.tensor) == chain.end()) continue;
    job.parallelism.tensor = *most;
    return decide_job(std::move(job), same_degrees(*most));
  }
  return nullptr;
}

std::vector<std::shared_ptr<const DecidedJob>> Decisions::degrees_by_gpu(const DecidedJob& base) {
  std::vector<std::shared_ptr<const DecidedJob>> result;
  if (!may_vary_degrees(base)) return result;
  std::set<int> models;
  for (const Device& device : problem_.topology->devices) models.insert(device.gpu + 1);
  if (models.size() < 2) return result;
  const std::vector<int> now =
      base.max_degrees.empty() ? same_degrees(base.problem.job.parallelism.tensor) : base.max_degrees;
  for (const int model : models)
    for (const int degree : tensor_degrees(problem_.topology, base.problem.job)) {
      if (now[at(model)] == degree) continue;
      std::vector<int> degrees = now;
      degrees[at(model)] = degree;
      Job job = base.problem.job;
      job.parallelism.tensor = 1;
      for (const int it : models) job.parallelism.tensor = std::max(job.parallelism.tensor, degrees[at(it)]);
      // Jobs that differ only in the degrees of models without devices are equal.
      for (int& it : degrees) it = std::min(it, job.parallelism.tensor);
      if (auto it = decide_job(std::move(job), degrees); it && has_different_groups(*it))
        result.push_back(std::move(it));
    }
  return result;
}

std::vector<int> Decisions::usable() const {
  std::vector<int> devices;
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const bool is_unusable =
        std::any_of(unusable_.begin(), unusable_.end(), [&](const auto& it) { return it.first == device; });
    if (!is_unusable && !std::binary_search(excluded_.begin(), excluded_.end(), device))
      devices.push_back(device);
  }
  return devices;
}

std::vector<std::vector<Job>> Decisions::least_memory_jobs() const {
  const SettingSet& undecided = problem_.job.automatic;
  Job begin = problem_.job;
  if (undecided[Setting::schedule]) begin.execution.schedule = first_schedule(begin);
  if (undecided[Setting::gradients])
    begin.execution.compression.gradient_preset.reset();  // no error feedback
  if (undecided[Setting::recompute_layers]) begin.execution.recompute_layers = layer_count(begin.model);
  begin.automatic = {};
  const std::vector<int> sizes = undecided[Setting::micro_batch] ? open_micro_batches(problem_.job)
                                                                 : std::vector{begin.execution.micro_batch};
  std::map<std::string, std::vector<Job>> groups;
  const auto add = [&](Job job) {
    for (const int size : sizes) {
      job.execution.micro_batch = size;
      if (!is_consistent(job, undecided)) continue;
      Job other_degree = job;
      other_degree.parallelism.tensor = 1;
      groups[decisions_key(other_degree)].push_back(std::move(job));
      return;
    }
  };
  for (const Job& mesh : open_meshes(problem_.topology, begin, problem_.job))
    for (const RecomputationTraits& recomputation : recomputation_table()) {
      if (undecided[Setting::recompute] ? !is_choice(begin, Setting::recompute, recomputation.name)
                                        : recomputation.kind != begin.execution.recomputation)
        continue;
      // `full` needs no more memory than any choice by stage.
      if (undecided[Setting::recompute] && recomputation.is_per_stage() &&
          is_choice(begin, Setting::recompute, name_of(Recomputation::full)))
        continue;
      Job job = mesh;
      job.execution.recomputation = recomputation.kind;
      if (recomputation.kind != Recomputation::full) job.execution.recompute_layers.reset();
      for (Job& it : open_shardings(job, undecided)) add(std::move(it));
    }
  std::vector<std::vector<Job>> result;
  for (auto& [key, jobs] : groups) result.push_back(std::move(jobs));
  return result;
}

std::vector<std::shared_ptr<const DecidedJob>> Decisions::alternatives(const DecidedJob& base) {
  const Job& job = base.problem.job;
  const SettingSet& undecided = problem_.job.automatic;
  std::vector<Job> jobs;
  const auto add = [&](const auto& change) {
    Job other = job;
    change(other);
    jobs.push_back(std::move(other));
  };
  // is_joint
  const std::vector<int> sizes =
      undecided[Setting::micro_batch] ? open_micro_batches(job) : std::vector{job.execution.micro_batch};
  for (const Job& mesh : open_meshes(problem_.topology, job, problem_.job))
    for (const int size : sizes)
      for (Job& it : open_recomputations(mesh, undecided)) {
        it.execution.micro_batch = size;
        jobs.push_back(std::move(it));
      }
  if (undecided[Setting::recompute_layers])
    for (const std::optional<int> count : recomputed_counts(job))
      add([&](Job& it) {
        it.execution.recomputation = Recomputation::full;
        it.execution.recompute_layers = count;
      });
  for (const SettingTraits& setting : setting_table()) {
    if (!undecided[setting.kind] || is_joint(setting.kind) || has_no_effect(job, setting.kind)) continue;
    if (setting.kind == Setting::optimizer_sharding) {
      add_shardings(job, undecided, jobs);
      continue;
    }
    for (const SettingValue& value : choices(job, setting.kind)) {
      Job other = job;
      setting.set(other, value);
      if (setting.kind == Setting::schedule && other.execution.schedule == Schedule::one_f_one_b &&
          covers_one_f_one_b(problem_.job) && !requires_single_devices(job))
        continue;
      if (setting.kind == Setting::schedule)
        for (const std::optional<int> chunks : chunk_counts(traits(other.execution.schedule)))
          add([&](Job& it) {
            it = other;
            it.execution.chunks = chunks;
          });
      else
        jobs.push_back(std::move(other));
    }
  }
  for (const double ratio : compressions) {
    if (!job.execution.compression.throughput) break;  // see first()
    if (undecided[Setting::activations]) add([&](Job& it) { it.execution.compression.activations = ratio; });
    if (undecided[Setting::gradients]) add([&](Job& it) { it.execution.compression.gradients = ratio; });
  }
  // GPU models with the largest degree of `base` get the new largest degree, which also limits the others.
  const auto degrees_of = [&](const Job& other) {
    std::vector<int> degrees = base.max_degrees;
    for (int& it : degrees)
      it = it == job.parallelism.tensor ? other.parallelism.tensor : std::min(it, other.parallelism.tensor);
    return degrees;
  };
  for (Job& other : jobs)  // so that identical plans are tried once, and possible ones with other degrees
    for (const Setting setting : {Setting::context_exchange, Setting::expert_dispatch})
      if (undecided[setting] && (has_no_effect(other, setting) || !mesh_obstacle(other).empty()))
        traits(setting).set(other, traits(setting).get(problem_.job));
  const bool is_mixed = !base.max_degrees.empty();
  std::erase_if(jobs, [&](const Job& other) {
    return !is_consistent(other, undecided) || (is_mixed && !may_mix_degrees(other));
  });
  std::vector<std::shared_ptr<const DecidedJob>> result;
  for (Job& other : jobs)
    if (decisions_key(other) != decisions_key(job))
      if (auto it = decide_job(other, degrees_of(other));
          it && (!has_different_groups(base) || has_different_groups(*it)) &&
          std::find(result.begin(), result.end(), it) == result.end())
        result.push_back(std::move(it));
  return result;
}

}  // namespace dtfm::search
