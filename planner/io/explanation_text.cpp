#include "planner/io/explanation_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/units.hpp"
#include "core/io/writers/plan_text.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::io {
namespace {

class ExplanationFormatter {
 public:
  explicit ExplanationFormatter(const api::PlanAnswer& answer)
      : planned_(answer), topology_(answer.problem.topology), e_(answer.explanation.value()) {}

  std::vector<std::string> bottleneck_summary() const {
    const auto& [dominant, savings, shares, resource, parts, critical_path, peak_memory] = e_.bottleneck;
    std::vector<std::string> sentences = {
        fmt::format("{}: if it took no time, an iteration would take {} s instead of {} s (−{})",
                    format_bottleneck_kind(dominant.kind),
                    short_seconds(std::max(0.0, e_.now.iteration_s - dominant.seconds)),
                    short_seconds(e_.now.iteration_s), format_percent(dominant.share)),
        other_savings(), time_shares(shares)};
    sentences.push_back(fmt::format(
        "critical path of the slowest pipeline: {} s compute, {} s communication, during which other stages "
        "may compute",
        short_seconds(critical_path.compute_s), short_seconds(critical_path.sending_s)));
    sentences.push_back(fmt::format("largest critical-path share: {}, {} s", format_resource(resource),
                                    short_seconds(resource.seconds)));
    if (resource.latency_s > 0)
      sentences.push_back(fmt::format("of this, {} s is latency, and the rest depends on the number of bytes",
                                      short_seconds(resource.latency_s)));
    sentences.push_back(fmt::format(
        "warm-up and cool-down take {} s{}; the steady state takes {} s", short_seconds(parts.fill_s),
        parts.fill_s > parts.steady_s ? " (there are few micro-batches for this number of stages)" : "",
        short_seconds(parts.steady_s)));
    sentences.push_back(fmt::format(
        "after the pipelines: {} s exposed gradient synchronization, {} s optimizer step, {} s overhead",
        short_seconds(parts.sync_s), short_seconds(parts.update_s), short_seconds(parts.overhead_s)));
    if (peak_memory) sentences.push_back(memory(*peak_memory));
    return sentences;
  }

  std::string describe_change(const cost::WhatIf& what) const {
    const auto site = [&](int i) { return topology_.sites[at(i)].name; };
    switch (what.change) {
      case cost::Change::link_doubled:
        return what.first == what.second ? fmt::format("links inside {} twice as fast", site(what.first))
                                         : fmt::format("links between {} and {} twice as fast",
                                                       site(what.first), site(what.second));
      case cost::Change::access_doubled:
        return fmt::format("uplinks and downlinks of {} twice as fast", site(what.first));
      case cost::Change::pipeline_removed:
        return fmt::format("one device fewer, and so no pipeline {} ({})", what.first, ids(what.devices));
      case cost::Change::pipeline_added:
        return what.devices.empty()
                   ? "another pipeline"
                   : fmt::format("another pipeline, on unused devices ({})", ids(what.devices));
      case cost::Change::activations_halved:
        return "activations compressed × 2";
      case cost::Change::activations_quartered:
        return "activations compressed × 4";
      case cost::Change::gradients_halved:
        return "gradients compressed × 2";
      case cost::Change::gradients_quartered:
        return "gradients compressed × 4";
      case cost::Change::micro_batch_doubled:
        break;
    }
    return fmt::format("micro-batch {} instead of {}", 2 * planned_.problem.job.execution.micro_batch,
                       planned_.problem.job.execution.micro_batch);
  }

  /// Of messages between stages: first those that are exposed for longest.
  std::vector<std::string> messages() const {
    std::vector<cost::MessageReason> hops = e_.messages.hops;
    std::stable_sort(hops.begin(), hops.end(),
                     [](const auto& a, const auto& b) { return a.exposed_s > b.exposed_s; });
    std::vector<std::string> sentences;
    std::size_t shown = 0;
    for (; shown < std::min(hops.size(), max_shown); ++shown) {
      if (shown > 0 && hops[shown].exposed_s < min_share * e_.now.iteration_s) break;
      sentences.push_back(message(hops[shown]));
    }
    if (hops.size() > shown)
      sentences.push_back(fmt::format("{}: exposed for {} s or less",
                                      format_count(std::ssize(hops) - static_cast<long>(shown), "other hop"),
                                      short_seconds(hops[shown].exposed_s)));
    if (e_.messages.longer_warm_up) sentences.push_back(longer_warm_up(*e_.messages.longer_warm_up));
    return sentences;
  }

  /// Of the stages that compute least and have a reason, and of all unused devices.
  std::vector<std::string> devices() const {
    std::vector<cost::StageReason> stages;
    for (const cost::StageReason& it : e_.devices.stages)
      if (it.limit != cost::StageReason::Limit::busiest && it.limit != cost::StageReason::Limit::unknown)
        stages.push_back(it);
    std::stable_sort(stages.begin(), stages.end(),
                     [](const auto& a, const auto& b) { return a.busy_share < b.busy_share; });
    std::vector<std::string> sentences = host_waits();
    for (std::size_t i = 0; i < std::min(stages.size(), max_shown); ++i)
      sentences.push_back(stage_reason(stages[i]));
    for (const cost::IdleReason& it : e_.devices.idle) sentences.push_back(idle_reason(it));
    return sentences;
  }

  std::vector<std::string> scaling() const {
    std::vector<std::string> sentences = {fmt::format(
        "a plan is compute-bound if exposed communication, between stages and of gradients, takes "
        "less than {:g} % of the iteration",
        100 * cost::max_compute_bound_exposed_share)};
    if (e_.compute_bound_compression == 1) {
      sentences.emplace_back("this plan is compute-bound");
      return sentences;
    }
    sentences.push_back(
        e_.compute_bound_compression
            ? fmt::format(
                  "this plan would be compute-bound if activations and gradients were compressed × {:.3g} "
                  "more",
                  *e_.compute_bound_compression)
            : fmt::format("this plan would not be compute-bound even if activations and gradients were "
                          "compressed × {:g} more: latency{} remains",
                          cost::max_compression,
                          planned_.problem.job.execution.compression.bandwidth_threshold
                              ? ", and what is sent uncompressed,"
                              : ""));
    if (const auto* model = std::get_if<Transformer>(&planned_.problem.job.model))
      sentences.push_back(compute_bound_width_note(*model));
    return sentences;
  }

 private:
  static constexpr std::size_t max_shown = 5;
  static constexpr double min_share = 0.001;  // of the iteration; what saves less is not listed

  /// What else would be saved, the most first.
  std::string other_savings() const {
    std::vector<cost::Bottleneck> others;
    for (const cost::Bottleneck& it : e_.bottleneck.savings)
      if (it.kind != e_.bottleneck.dominant.kind && it.share >= min_share) others.push_back(it);
    std::stable_sort(others.begin(), others.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    if (others.empty()) return "each of the others alone would save less than 0.1 %";
    std::string text = "the same for each of the others:";
    for (std::size_t i = 0; i < others.size(); ++i)
      text += fmt::format("{} {} −{}", i > 0 ? "," : "", format_bottleneck_kind(others[i].kind),
                          format_percent(others[i].share));
    return text;
  }

  /// "where the time goes: 52.7 % compute of the busiest stage, 20.1 % exposed communication, …"
  std::string time_shares(const cost::TimeShares& shares) const {
    const double all_s = e_.now.iteration_s;
    std::string text = fmt::format("where the time goes: {} compute of the busiest stage",
                                   format_percent(all_s > 0 ? shares.compute_s / all_s : 0));
    if (shares.exchange_s > 0)
      text += fmt::format(" ({} of the iteration is communication inside the stage)",
                          format_percent(shares.exchange_s / all_s));
    const auto add = [&](double seconds, std::string_view name) {
      if (seconds > 0) text += fmt::format(", {} {}", format_percent(seconds / all_s), name);
    };
    add(shares.messages_s, "exposed communication between stages");
    add(shares.bubble_s, "bubble");
    add(shares.sync_s, "exposed gradient synchronization");
    add(shares.update_s, "optimizer step");
    add(shares.overhead_s, "overhead");
    return text;
  }

  std::string limit(const cost::RateLimit& it) const {
    const Device &from = topology_.devices[at(it.from)], &to = topology_.devices[at(it.to)];
    const auto site = [&](const Device& device) { return topology_.sites[at(device.site)].name; };
    const Device& end = it.is_up ? from : to;
    const char* direction = it.is_up ? "uplink" : "downlink";
    const std::string rate = format_rate(BitsPerSecond(it.bits_per_s));
    const std::string pair = from.site != to.site   ? fmt::format("from {} to {}", site(from), site(to))
                             : from.host == to.host ? fmt::format("inside {}", host_name(from))
                                                    : "inside " + site(from);
    using Kind = cost::RateLimit::Kind;
    switch (it.kind) {
      case Kind::link:
        return fmt::format("the link {}, {} per flow", pair, rate);
      case Kind::window:
        return fmt::format("the TCP window {}, {} per flow ({} in {} round trip)", pair, rate,
                           format_bytes(topology_.transport_between(it.from, it.to)->window),
                           format_seconds(topology_.round_trip(it.from, it.to)));
      case Kind::sender:
        return fmt::format("what {} sends {}, {}", from.id, pair, rate);
      case Kind::site_pair:
        return fmt::format("the capacity {}, {}", pair, rate);
      case Kind::devices:
        return fmt::format("the {} of {}, {}", direction, end.id, rate);
      case Kind::hosts:
        return fmt::format("the {} of the host of {}, {}", direction, end.id, rate);
      case Kind::sites:
        break;
    }
    return fmt::format("the {} of site {}, {}", direction, site(end), rate);
  }
  static std::string host_name(const Device& device) { return device.id.substr(0, device.id.find(':')); }

  /// How much of a message is exposed, and why.
  std::string exposure(const cost::MessageReason& it) const {
    using Exposure = cost::MessageReason::Exposure;
    const std::string exposed = fmt::format("{} s per iteration are exposed", short_seconds(it.exposed_s));
    switch (it.exposure) {
      case Exposure::hidden:
        return it.warm_up > 1 ? fmt::format(
                                    "{}, and the rest is hidden behind {} warm-up micro-batches that the "
                                    "stage computes ahead of the next one",
                                    exposed, it.warm_up)
                              : exposed + " at the beginning and the end, and the rest is hidden";
      case Exposure::busy_link:
        return exposed +
               ", because the link is busy for longer than any stage computes, so no schedule can hide it";
      case Exposure::round_trip:
        return it.warm_up > 1 ? fmt::format(
                                    "{}, because {} warm-up micro-batches ahead of the next stage do not "
                                    "cover the round trip",
                                    exposed, it.warm_up)
                              : exposed + ", because 1F1B waits for the round trip of every micro-batch";
      case Exposure::blocking:
        return exposed + ", because devices do not compute while they send or wait";
      case Exposure::order:
        break;
    }
    return fmt::format("{}, because the order in which {} computes waits for it", exposed,
                       name_of(planned_.plan.execution.schedule));
  }

  std::string message(const cost::MessageReason& it) const {
    const std::size_t count = planned_.plan.pipelines[at(it.pipeline)].stages.size();
    std::string text = fmt::format(
        "{} → {}: activations there and gradients back take {} s per micro-batch ({} s of it latency); {}",
        short_stage(it.pipeline, at(it.stage)), short_stage(it.pipeline, (at(it.stage) + 1) % count),
        short_seconds(it.trip_s), short_seconds(it.latency_s), exposure(it));
    if (it.flow.from >= 0) text += "; the limit is " + limit(it.flow);
    if (!it.shared) return text;
    const bool is_same = it.shared->kind == it.flow.kind && it.shared->is_up == it.flow.is_up;
    if (!is_same) text += ", and " + limit(*it.shared);
    text += fmt::format(", which all messages together keep busy for {} of the iteration",
                        format_percent(it.shared->busy_s / e_.now.iteration_s));
    return text;
  }

  std::string longer_warm_up(const cost::LongerWarmUp& it) const {
    const std::string saved = fmt::format("eager-1f1b with longer warm-ups would save {} s per iteration",
                                          short_seconds(it.saved_s));
    if (it.stage < 0) return saved + ", and fits in memory";
    return fmt::format("{}, but {} would hold {} and exceed memory by {:.1f} GB{}", saved,
                       short_stage(it.pipeline, at(it.stage)),
                       format_count(it.micro_batches, "more micro-batch"), it.deficit_bytes / 1e9,
                       it.fitting_s > 0
                           ? fmt::format("; what fits in memory would save {} s", short_seconds(it.fitting_s))
                           : "");
  }

  /// Of the stages that wait longest for their host links.
  std::vector<std::string> host_waits() const {
    std::vector<cost::StageReason> stages;
    for (const cost::StageReason& it : e_.devices.stages)
      if (it.host_wait_s > 0) stages.push_back(it);
    std::stable_sort(stages.begin(), stages.end(),
                     [](const auto& a, const auto& b) { return a.host_wait_s > b.host_wait_s; });
    std::vector<std::string> sentences;
    for (std::size_t i = 0; i < std::min(stages.size(), max_shown); ++i)
      sentences.push_back(fmt::format(
          "{}: {} s of its computation are waits for offloaded activations, which its host link limits",
          short_stage(stages[i].pipeline, at(stages[i].stage)), short_seconds(stages[i].host_wait_s)));
    return sentences;
  }

  std::string stage_reason(const cost::StageReason& it) const {
    using Limit = cost::StageReason::Limit;
    const double now_s = e_.now.iteration_s;
    std::string text =
        fmt::format("{}, {}: computes {} of the time; ", short_stage(it.pipeline, at(it.stage)),
                    format_count(it.layers, "layer"), format_percent(it.busy_share));
    const std::string change =
        fmt::format("{} s instead of {} s", short_seconds(it.more_s), short_seconds(now_s));
    if (it.limit == Limit::memory)
      text += fmt::format("one more layer would exceed memory by {:.1f} GB", it.deficit_bytes / 1e9);
    if (it.limit == Limit::compute)
      text += fmt::format("with one more layer it would be the busiest stage ({})", change);
    if (it.limit == Limit::messages)
      text +=
          fmt::format("one more layer would not help ({}), because the iteration waits for messages", change);
    if (it.limit == Limit::none) text += fmt::format("one more layer would help: {}", change);
    if (it.without_s > 0)
      text += fmt::format(
          "; without this stage, the iteration would take {} s{}", short_seconds(it.without_s),
          it.shortens_round_trip ? ", because its few layers shorten a round trip for which 1F1B waits" : "");
    return text;
  }

  std::string idle_reason(const cost::IdleReason& it) const {
    const Device& first = topology_.devices[at(it.devices.front())];
    std::string text = fmt::format("{} at {} unused", format_count(std::ssize(it.devices), "device"),
                                   topology_.sites[at(first.site)].name);
    if (first.gpu >= 0) text += fmt::format(" ({})", topology_.gpus[at(first.gpu)].name);
    if (!it.unknown.empty()) return fmt::format("{}: {}", text, it.unknown);
    if (it.deficit_bytes > 0)
      return fmt::format("{}: another stage of one layer there would exceed memory by {:.1f} GB", text,
                         it.deficit_bytes / 1e9);
    if (it.with_s > 0)
      return fmt::format(
          "{}: another stage of one layer there, at its best place, would make the iteration {} s instead of "
          "{} s",
          text, short_seconds(it.with_s), short_seconds(e_.now.iteration_s));
    return fmt::format("{}: another stage was not tried, because {}", text, no_stage_reason());
  }

  /// Why cost::explain_devices tries no stage on unused devices.
  std::string no_stage_reason() const {
    const Job& job = planned_.problem.job;
    if (stage_chunks(job) > 1)
      return fmt::format("every device has {} chunks in schedule {}", stage_chunks(job),
                         name_of(job.execution.schedule));
    if (traits(job.execution.optimizer_sharding).gradients)
      return fmt::format("{} requires the same stages in all pipelines",
                         name_of(job.execution.optimizer_sharding));
    if (job.parallelism.uniform_pipelines) return "all pipelines must be uniform";
    return "no host has enough of them, or no stage has two layers";
  }

  /// "stage 2 (cloud/0:5)"
  std::string short_stage(int pipeline, std::size_t stage) const {
    return fmt::format("stage {} ({})", stage,
                       ids(planned_.plan.pipelines[at(pipeline)].stages[stage].devices));
  }

  /// "oregon/0, oregon/1"; after four ids, "…".
  std::string ids(const std::vector<int>& devices) const {
    constexpr std::size_t max_ids = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(max_ids, devices.size()); ++i)
      text += (i > 0 ? ", " : "") + topology_.devices[at(devices[i])].id;
    return devices.size() > max_ids ? text + ", …" : text;
  }

  std::string stage(int pipeline, std::size_t stage) const {
    const Pipeline& it = planned_.plan.pipelines[at(pipeline)];
    return fmt::format("stage {} ({}, layers {})", stage, ids(it.stages[stage].devices),
                       format_layers(layers_by_stage(it, stage_chunks(planned_.problem.job))[stage]));
  }

  std::string format_resource(const cost::PipelineResource& resource) const {
    const std::size_t count = planned_.plan.pipelines[at(resource.pipeline)].stages.size();
    if (!resource.is_hop)
      return fmt::format("{} of pipeline {}", stage(resource.pipeline, at(resource.stage)),
                         resource.pipeline);
    return fmt::format("the hop from {} to {} of pipeline {}", stage(resource.pipeline, at(resource.stage)),
                       stage(resource.pipeline, (at(resource.stage) + 1) % count), resource.pipeline);
  }

  static std::string_view format_bottleneck_kind(cost::Bottleneck::Kind kind) {
    constexpr std::array<std::string_view, cost::bottleneck_kinds> text = {
        "compute",         "communication between stages",
        "pipeline bubble", "gradient synchronization",
        "optimizer step",  "iteration overhead"};
    return text[static_cast<std::size_t>(kind)];
  }

  std::string memory(const cost::DeviceMemory& it) const {
    return fmt::format(
        "{} uses the largest share of its memory, {:.1f} of {:.1f} GB ({:.0f} %): {:.1f} GB weights, "
        "gradients, optimizer, {:.1f} GB activations{}{}",
        topology_.devices[at(it.device)].id, it.needed / 1e9, it.capacity / 1e9,
        100 * it.needed / it.capacity, it.state / 1e9, (it.needed - it.state) / 1e9,
        it.needed > it.capacity ? "; exceeds memory" : "",
        it.is_near_limit() ? fmt::format("; near the limit: 95 % of predictions are within {:.3g} %",
                                         100 * cost::memory_error)
                           : "");
  }

  std::string compute_bound_width_note(const Transformer& model) const {
    if (e_.compute_bound_width)
      return fmt::format("it would be compute-bound with a hidden size of {} or more (× {})",
                         model.hidden * *e_.compute_bound_width, *e_.compute_bound_width);
    const bool is_sync_limited = e_.now.sync_s >= cost::max_compute_bound_exposed_share * e_.now.iteration_s;
    return fmt::format("it would not be compute-bound with any hidden size up to × {}{}", cost::max_width,
                       is_sync_limited ? ": gradients grow as fast as compute" : "");
  }

  const api::PlanAnswer& planned_;
  const Topology& topology_;
  const cost::PlanExplanation& e_;
};

}  // namespace

ExplanationText explanation_text(const api::PlanAnswer& answer) {
  const ExplanationFormatter formatter(answer);
  ExplanationText text{
      formatter.bottleneck_summary(), formatter.messages(), formatter.devices(), {}, formatter.scaling()};
  for (const cost::WhatIf& what : answer.explanation->what_ifs)
    text.changes.push_back(formatter.describe_change(what));
  return text;
}

}  // namespace dtfm::io
