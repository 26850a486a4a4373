#include "core/plan/layer_times.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/target.hpp"

namespace dtfm {
namespace {

/// Returns the shape with defaults filled in and without what affects only parameters or memory.
Transformer timing_shape(Transformer model) {
  model.layers = model.positions = 0;
  model.tied = model.dropout = model.attention_dropout = true;
  model.kv_heads = kv_head_count(model);
  model.feed_forward = mlp_width(model);
  model.head_dim = head_width(model);
  return model;
}

/// A measured profile is valid for all kernels, because it contains those that were measured, whichever the
/// job names.
bool same_layers(const LayerProfile& profile, const Transformer& model) {
  Transformer a = timing_shape(*profile.shape), b = timing_shape(model);
  if (profile.source == LayerProfile::Source::measured) {
    a.flash_attention = b.flash_attention;
    a.eager_kernels = b.eager_kernels;
  }
  return a == b;
}

bool has_comparable_shape(const LayerProfile& profile, const Job& job) {
  return profile.shape && std::holds_alternative<Transformer>(job.model);
}

/// Throws Error if two kinds of layers have the same name, because profiles identify layers by name.
void check_names(const LayerProfile& profile, const LayerKinds& kinds) {
  std::set<std::string> names;
  for (const Layer& kind : kinds.kinds)
    if (!names.insert(kind.name).second)
      throw Error(
          "", fmt::format("different layers of the model have the name `{}`, so the profile of GPU {} cannot "
                          "distinguish them; give them different names",
                          kind.name, profile.gpu));
}

void check_profile_matches(const LayerProfile& profile, const Job& job) {
  const auto mismatch = [&](const std::string& what) {
    return Error("", fmt::format("the profile of GPU {} ({}) does not match the job: {}", profile.gpu,
                                 profile.model, what));
  };
  if (profile.precision != job.training.precision)
    throw mismatch(
        fmt::format("its precision is {}, but the job's is {}; set `precision: {}`, or use another "
                    "profile or `profile: {{analytic: true, efficiency: SHARE}}`",
                    name_of(profile.precision), name_of(job.training.precision), name_of(profile.precision)));
  if (const MatmulFormat matmul = job.training.matmul; matmul != MatmulFormat::precision)
    throw mismatch(fmt::format("its products are in {}, but the job's in {}; remove `profile`",
                               name_of(profile.precision), name_of(matmul)));
  if (has_comparable_shape(profile, job) && !same_layers(profile, std::get<Transformer>(job.model)))
    throw mismatch("its transformer has different sizes");
}

/// A layer without FLOPs, such as a table look-up, repeats nothing.
double recomputed_share(const Layer& kind, Recomputation recomputation) {
  return kind.forward.value() == 0 ? 0 : traits(recomputation).repeated_share(kind);
}

/// Share of the backward without recomputation that computes gradients of parameters: every matrix product of
/// the forward with parameters has one such product of equal FLOPs (Qi et al., arXiv 2401.10241, table 1).
/// The attention core has no parameters, nor have scans.
double weight_gradient_share(const Layer& kind) {
  if (kind.parameters == 0 || kind.backward.value() == 0) return 0;
  return std::clamp((kind.forward - kind.attention - kind.unweighted).value() / kind.backward.value(), 0.0,
                    1.0);
}

/// Of the FLOPs of the forward, and so of the backward.
double attention_share(const Layer& kind) {
  return kind.forward.value() > 0 ? kind.attention / kind.forward : 0;
}

/// What the device with the busiest experts computes. (Only products are counted, of which the backward has
/// twice as many.)
Layer with_routed_load(Layer kind, double load) {
  const Flops more = kind.routed * (load - 1);
  kind.forward += more;
  kind.mlps += more;
  kind.routed += more;
  kind.backward += 2 * more;
  return kind;
}

double tied_share(const Layer& kind) {
  return kind.parameters > 0 ? kind.tied_parameters / kind.parameters : 0;
}

bool has_other_optimizer(const LayerProfile& profile, const Training& training) {
  return !traits(training.optimizer).has_profiled_step_time &&
         traits(training.optimizer).host_link_bytes == 0 &&
         std::any_of(profile.rows.begin(), profile.rows.end(),
                     [](const ProfileRow& row) { return row.update && row.update->median_s > 0; });
}

/// `dtfm-profile` measures Adam; imported profiles do not name their optimizer.
std::string optimizer_note(const LayerProfile& profile, Optimizer optimizer) {
  return fmt::format("optimizer steps on GPU {} take the time in its profile, {}; the time of {} is unknown",
                     profile.gpu,
                     profile.source == LayerProfile::Source::measured ? "which is that of Adam"
                                                                      : "which does not name the optimizer",
                     name_of(optimizer));
}

/// Formats up to four names of kinds for a note; returns nothing if the note concerns all kinds.
std::string format_layer_names(const std::vector<std::string>& names, std::size_t layer_kind_count) {
  constexpr std::size_t max_shown = 4;
  if (names.size() == layer_kind_count) return "";
  const auto shown = std::span(names).first(std::min(names.size(), max_shown));
  return fmt::format(
      " for {}{}", fmt::join(shown, ", "),
      names.size() > max_shown ? fmt::format(" and {} more layers", names.size() - max_shown) : "");
}

/// Whatever its precision.
const LayerProfile* find_profile(const Job& job, const Gpu& gpu) {
  const auto found = std::find_if(job.profiles.begin(), job.profiles.end(),
                                  [&](const LayerProfile& profile) { return profile.gpu == gpu.name; });
  return found == job.profiles.end() ? nullptr : &*found;
}

/// Why `profile_of` has nothing. Without a profile of the GPU it names those that have one.
std::string format_missing_profile(const Job& job, const Gpu& gpu) {
  if (const LayerProfile* other = find_profile(job, gpu))
    return fmt::format("its profile is in {}, which target {} does not run", name_of(other->precision),
                       name_of(job.target.value()));
  std::vector<std::string_view> gpus;
  for (const LayerProfile& it : job.profiles) gpus.push_back(it.gpu);
  return fmt::format("the job has no profile of it{}",
                     gpus.empty() ? "" : fmt::format(", only of {}", fmt::join(gpus, ", ")));
}

}  // namespace

const LayerProfile* profile_of(const Job& job, const Gpu& gpu) {
  const LayerProfile* found = find_profile(job, gpu);
  if (!found || !job.target) return found;
  const auto precisions = traits(*job.target).precisions;
  return precisions.empty() || has(precisions, found->precision) ? found : nullptr;
}

BitsPerSecond required_host_link(const Gpu& gpu, std::string_view time) {
  if (!gpu.host_link)
    throw Error("",
                fmt::format("{} cannot be estimated: GPU {} has no `host_link`; add it to the GPU catalogue",
                            time, gpu.name));
  return *gpu.host_link;
}

/// Counts the FLOPs that every kernel must execute: of the attention core only half, because a causal mask
/// hides the rest; its backward takes twice as many as its forward.
bool is_beyond_peak(const Gpu& gpu, const Layer& kind, int micro_batch, int tensor, double seconds) {
  const double flops = (kind.forward + kind.backward - 1.5 * kind.attention).value() * micro_batch / tensor;
  double highest = 0;
  for (const auto& peak : {gpu.peak, gpu.peak_tf32, gpu.peak_fp32})
    if (peak) highest = std::max(highest, peak->value());
  return highest > 0 && flops > highest * seconds;
}

LayerTimes::LayerTimes(const Problem& problem, const ExecutionConfig& execution, std::vector<int> stage_sizes)
    : job_(problem.job),
      execution_(execution),
      topology_(problem.topology),
      kinds_(layer_kinds(job_.model, activation_bytes(job_.training))),
      stage_sizes_(std::move(stage_sizes)),
      times_(topology_.gpus.size()) {
  std::vector<bool> is_used(topology_.gpus.size());
  for (const Device& device : topology_.devices)
    if (device.gpu >= 0) is_used[at(device.gpu)] = true;
  for (std::size_t gpu = 0; gpu < topology_.gpus.size(); ++gpu) {
    if (!is_used[gpu]) continue;
    if (const LayerProfile* profile = profile_of(job_, topology_.gpus[gpu])) {
      check_profile_matches(*profile, job_);
      check_names(*profile, kinds_);
    }
    for (const int devices : stage_sizes_)
      times_[gpu].push_back(gpu_times(topology_.gpus[gpu], devices, problem));
  }
}

std::vector<std::string> LayerTimes::notes(std::span<const int> devices) const {
  std::set<int> gpus;
  for (const int device : devices)
    if (const int gpu = topology_.devices[at(device)].gpu; gpu >= 0) gpus.insert(gpu);
  std::vector<std::string> notes;
  for (const int gpu : gpus) {
    const std::string& name = topology_.gpus[at(gpu)].name;
    const LayerProfile* profile = profile_of(job_, topology_.gpus[at(gpu)]);
    if (!profile && !job_.efficiency)
      notes.push_back(fmt::format("times on GPU {} are estimates: {}", name,
                                  format_missing_profile(job_, topology_.gpus[at(gpu)])));
    if (profile && profile->source == LayerProfile::Source::estimated)
      notes.push_back(
          fmt::format("times on GPU {} are estimates: its profile was estimated, not measured", name));
    if (profile && !has_comparable_shape(*profile, job_) && profile->model != job_.name)
      notes.push_back(
          fmt::format("the profile of GPU {} is for model {}, which is assumed to be that of job {}", name,
                      profile->model, job_.name));
    if (profile && has_comparable_shape(*profile, job_) &&
        profile->shape->flash_attention != std::get<Transformer>(job_.model).flash_attention)
      notes.push_back(
          fmt::format("the profile of GPU {} is for another kind of attention than job {}; memory is "
                      "estimated for the attention of the job",
                      name, job_.name));
    if (profile && has_other_optimizer(*profile, job_.training))
      notes.push_back(optimizer_note(*profile, job_.training.optimizer));
    if (const auto& times = times_[at(gpu)];
        std::any_of(times.begin(), times.end(), [](const Times& it) { return it.has_unknown_updates; }))
      notes.push_back(
          fmt::format("the profile of GPU {} has no times of optimizer steps, which are counted as 0", name));
    for (std::size_t size = 0; size < stage_sizes_.size(); ++size)
      if (const auto& layers = times_[at(gpu)][size].extrapolated; !layers.empty())
        notes.push_back(fmt::format(
            "times on GPU {} are extrapolated{}: its profile does not contain micro-batch {} at tensor "
            "degree {}",
            name, format_layer_names(layers, kinds_.kinds.size()),
            execution_.micro_batch / execution_.stage_data.value_or(1),
            stage_mesh(execution_, at(stage_sizes_[size])).tensor));
    for (const Times& times : times_[at(gpu)]) {
      if (times.beyond_peak.empty()) continue;
      notes.push_back(
          fmt::format("times on GPU {}{} are shorter than its peak allows: its profile is incomplete or for "
                      "another model",
                      name, format_layer_names(times.beyond_peak, kinds_.kinds.size())));
      break;  // other degrees have the same error
    }
  }
  const auto* transformer = std::get_if<Transformer>(&job_.model);
  for (const int size : stage_sizes_)
    if (const int tensor = stage_mesh(execution_, at(size)).tensor;
        transformer != nullptr && transformer->heads % tensor != 0)
      notes.push_back(
          fmt::format("trainers cannot divide {} attention heads evenly among {} tensor-parallel devices",
                      transformer->heads, tensor));
  return notes;
}

/// Scales the times of the only measured row to the micro-batch of a device by the ratio of roofline
/// estimates without calibration. The time to launch kernels is at most the measured time.
void LayerTimes::scale_by_roofline(ProfiledTime& time, const Gpu& gpu, const Layer& kind,
                                   const StageMesh& mesh, const RooflineConstants& estimated) const {
  const ProfileRow& row = *time.scaled_from;
  const int own_micro_batch = execution_.micro_batch / mesh.data;
  const double tensor_scale = static_cast<double>(row.tensor) / mesh.tensor;
  const auto scaled_s = [&](const Timing ProfileRow::*pass) {
    const double measured_s = (row.*pass).median_s;
    RooflineConstants constants = estimated;
    const bool has_collectives = job_.parallelism.sequence_parallel && row.tensor > 1;
    constants.launch_s =
        std::min(estimated.launch_s * (has_collectives ? estimated.tensor_launch : 1), measured_s);
    constants.tensor_launch = 1;
    const auto estimate_s = [&](int micro_batch) {
      return (estimated_row(gpu, kind, job_.training, constants, micro_batch, {.tensor = row.tensor},
                            job_.parallelism.sequence_parallel).*
              pass)
          .median_s;
    };
    const double from_s = estimate_s(row.micro_batch);
    const double growth = from_s > 0 ? estimate_s(own_micro_batch) / from_s
                                     : static_cast<double>(own_micro_batch) / row.micro_batch;
    return measured_s * growth * tensor_scale;
  };
  time.forward_s = scaled_s(&ProfileRow::forward);
  time.backward_s = scaled_s(&ProfileRow::backward);
}

/// Of a device that computes its part of the micro-batch. Its expert layers are assumed to take as long as if
/// it had all experts, each of which then has fewer tokens.
ProfiledTime LayerTimes::profiled_on_mesh(const LayerProfile& profile, const Gpu& gpu, const Layer& kind,
                                          const StageMesh& mesh, const RooflineConstants& estimated) const {
  ProfiledTime time = profiled_time(profile, kind.name, execution_.micro_batch / mesh.data, mesh.tensor);
  if (time.scaled_from && !job_.efficiency && can_estimate(gpu, job_.training))
    scale_by_roofline(time, gpu, kind, mesh, estimated);
  time.forward_s /= mesh.context;
  time.backward_s /= mesh.context;
  if (time.update_s && mesh.divides_experts() && kind.parameters > 0)
    *time.update_s *= mesh.held_parameters(kind) / (kind.parameters / mesh.tensor);
  return time;
}

/// Seconds per parameter of an update on the host: gradients cross the link, the CPUs update the weights, and
/// these return. All devices of a host share its CPUs; devices of other hosts are counted with those of the
/// largest host that has such a GPU. Throws Error if the GPU has no `host_link`.
double LayerTimes::host_update_s(const Gpu& gpu) const {
  const BitsPerSecond link = required_host_link(
      gpu, fmt::format("the update time of optimizer {}", name_of(job_.training.optimizer)));
  std::map<int, int> devices;  // by host
  for (const Device& it : topology_.devices) ++devices[it.host];
  int most = 1;
  for (const Device& it : topology_.devices)
    if (it.gpu >= 0 && topology_.gpus[at(it.gpu)].name == gpu.name) most = std::max(most, devices[it.host]);
  return (Bytes(traits(job_.training.optimizer).host_link_bytes) / link).value() +
         host_update_s_per_parameter * most;
}

LayerTimes::Times LayerTimes::gpu_times(const Gpu& gpu, int devices, const Problem& problem) const {
  const StageMesh mesh = stage_mesh(execution_, at(devices));
  const bool shards_updates = traits(execution_.optimizer_sharding).optimizer,
             updates_on_host = traits(job_.training.optimizer).host_link_bytes > 0;
  const Calibration& constants = problem.constants;
  const double scale = constants.compute_scale;
  const RooflineConstants& estimated = problem.roofline.of(gpu, job_.training);
  const RooflineConstants roofline = estimated.scaled(scale, constants.launch_scale);
  const LayerProfile* profile = profile_of(job_, gpu);
  const auto row_of = [&](const Layer& kind) {
    return job_.efficiency ? analytic_row(gpu, kind, job_.training, *job_.efficiency / scale,
                                          execution_.micro_batch, mesh)
                           : estimated_row(gpu, kind, job_.training, roofline, execution_.micro_batch, mesh,
                                           job_.parallelism.sequence_parallel);
  };
  Times times;
  try {
    for (const Layer& kind : kinds_.kinds) {
      ProfiledTime time;
      if (profile) {
        time = profiled_on_mesh(*profile, gpu, kind, mesh, estimated);
        if (time.extrapolated) times.extrapolated.push_back(kind.name);
        if (is_beyond_peak(gpu, kind, execution_.micro_batch, devices, time.forward_s + time.backward_s))
          times.beyond_peak.push_back(kind.name);
        time.forward_s *= scale;
        time.backward_s *= scale;
        if (time.update_s) *time.update_s *= scale;
        times.includes_all_reduces = times.includes_all_reduces || time.includes_all_reduces;
        times.has_unknown_updates =
            times.has_unknown_updates || (kind.parameters > 0 && !time.update_s && !updates_on_host);
      } else {
        const ProfileRow row = row_of(kind);
        time = {row.forward.median_s, row.backward.median_s, row.update.value_or(Timing{}).median_s};
      }
      const Layer busiest = with_routed_load(kind, mesh.routed_load());
      if (kind.forward.value() > 0) time.forward_s *= busiest.forward / kind.forward;
      if (kind.backward.value() > 0) time.backward_s *= busiest.backward / kind.backward;
      const double recompute_s = time.forward_s * recomputed_share(busiest, execution_.recomputation);
      double update =
          updates_on_host ? mesh.held_parameters(kind) * host_update_s(gpu) : time.update_s.value_or(0);
      if (shards_updates && kind.parameters > 0)
        update *= kind.parameters / mesh.devices() / mesh.held_parameters(kind);
      // All steps of the attention but the last, which needs the last keys and values.
      const double hidden = traits(execution_.context_exchange).overlaps
                                ? attention_share(busiest) * (mesh.context - 1) / mesh.context
                                : 0;
      const bool repeats_attention = traits(execution_.recomputation).repeats_attention;
      times.by_kind.push_back({time.forward_s, time.backward_s + recompute_s, update,
                               update * tied_share(kind), time.backward_s * weight_gradient_share(busiest),
                               hidden * time.forward_s,
                               hidden * (time.backward_s + (repeats_attention ? time.forward_s : 0))});
      LayerTime& kept = times.kept_by_kind.emplace_back(times.by_kind.back());
      kept.backward_s = time.backward_s;
      kept.hidden_backward_s = hidden * time.backward_s;
    }
  } catch (const Error& error) {
    times.error = error.what();
  }
  return times;
}

const LayerTimes::Times& LayerTimes::times_of(int device, int devices) const {
  const auto size = std::find(stage_sizes_.begin(), stage_sizes_.end(), devices);
  DTFM_ASSERT(size != stage_sizes_.end());
  const int gpu = topology_.devices[at(device)].gpu;
  return times_[at(gpu)][static_cast<std::size_t>(size - stage_sizes_.begin())];
}

bool LayerTimes::includes_all_reduces(int device, int devices) const {
  return topology_.devices[at(device)].gpu >= 0 && times_of(device, devices).includes_all_reduces;
}

LayerTime LayerTimes::of(int layer, int device, int devices, bool recomputed) const {
  const Device& it = topology_.devices[at(device)];
  if (it.gpu < 0)
    throw Error("", fmt::format("the speed of device {} is unknown: it has no `gpu` in the topology", it.id));
  const Times& times = times_of(device, devices);
  if (!times.error.empty()) throw Error("", fmt::format("device {}: {}", it.id, times.error));
  // A slower device does not slow its host down.
  const double update_speed = traits(job_.training.optimizer).host_link_bytes > 0 ? 1 : it.speed;
  LayerTime sum;
  for (const int kind : kinds_.kinds_of_layer[at(layer)]) {
    const LayerTime& time = (recomputed ? times.by_kind : times.kept_by_kind)[at(kind)];
    sum.forward_s += time.forward_s / it.speed;
    sum.backward_s += time.backward_s / it.speed;
    sum.update_s += time.update_s / update_speed;
    sum.tied_update_s += time.tied_update_s / update_speed;
    sum.weight_gradient_s += time.weight_gradient_s / it.speed;
    sum.hidden_forward_s += time.hidden_forward_s / it.speed;
    sum.hidden_backward_s += time.hidden_backward_s / it.speed;
  }
  return sum;
}

}  // namespace dtfm
