#include "planner/io/explanation_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/writers/plan_text.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::io {
namespace {

class ExplanationFormatter {
 public:
  explicit ExplanationFormatter(const api::PlanAnswer& answer)
      : planned_(answer), topology_(answer.problem.topology), e_(answer.explanation.value()) {}

  std::vector<std::string> bottleneck_summary() const {
    const auto& [dominant, resource, parts, critical_path, peak_memory] = e_.bottleneck;
    std::vector<std::string> sentences = {fmt::format(
        "{}: {} of {} s ({})", format_bottleneck_kind(dominant.kind), short_seconds(dominant.seconds),
        short_seconds(e_.now.iteration_s), format_percent(dominant.share))};
    sentences.push_back(fmt::format("critical path of the slowest pipeline: {} s compute, {} s communication",
                                    short_seconds(critical_path.compute_s),
                                    short_seconds(critical_path.sending_s)));
    sentences.push_back(fmt::format("largest critical-path share: {}, {} s", format_resource(resource),
                                    short_seconds(resource.seconds)));
    if (resource.latency_s > 0)
      sentences.push_back(fmt::format("of these, {} s are latency and the rest depends on the bytes",
                                      short_seconds(resource.latency_s)));
    sentences.push_back(fmt::format("warm-up and cool-down take {} s{}; the steady state takes {} s",
                                    short_seconds(parts.fill_s),
                                    parts.fill_s > parts.steady_s ? " (few micro-batches for the depth)" : "",
                                    short_seconds(parts.steady_s)));
    sentences.push_back(fmt::format(
        "after it: {} s exposed gradient synchronization, {} s optimizer step, {} s overhead",
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
        return fmt::format("one device fewer: without pipeline {} ({})", what.first, ids(what.devices));
      case cost::Change::pipeline_added:
        return what.devices.empty()
                   ? "one device more: another pipeline"
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

  std::vector<std::string> scaling() const {
    std::vector<std::string> sentences = {
        fmt::format("a plan is compute-bound if the critical path of every pipeline has more compute than "
                    "communication, and exposed gradient synchronization takes less than {:g} %",
                    100 * cost::max_compute_bound_sync_share)};
    if (e_.compute_bound_compression == 1) {
      sentences.emplace_back("this plan is compute-bound");
      return sentences;
    }
    sentences.push_back(
        e_.compute_bound_compression
            ? fmt::format("this plan would be compute-bound with × {:.3g} more compression of activations "
                          "and gradients",
                          *e_.compute_bound_compression)
            : fmt::format(
                  "this plan would not be compute-bound even with × {:g} more compression of activations and "
                  "gradients: latency{} remains",
                  cost::max_compression,
                  planned_.problem.job.execution.compression.bandwidth_threshold
                      ? ", and what is sent uncompressed,"
                      : ""));
    if (const auto* model = std::get_if<Transformer>(&planned_.problem.job.model))
      sentences.push_back(compute_bound_width_note(*model));
    return sentences;
  }

 private:
  /// "oregon/0, oregon/1"; after four ids, "…".
  std::string ids(const std::vector<int>& devices) const {
    constexpr std::size_t max_shown = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(max_shown, devices.size()); ++i)
      text += (i > 0 ? ", " : "") + topology_.devices[at(devices[i])].id;
    return devices.size() > max_shown ? text + ", …" : text;
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
    constexpr std::array<std::string_view, 5> text = {"compute", "communication between stages",
                                                      "gradient synchronization", "optimizer step",
                                                      "iteration overhead"};
    return text[static_cast<std::size_t>(kind)];
  }

  std::string memory(const cost::DeviceMemory& it) const {
    return fmt::format(
        "{} uses the largest share of its memory, {:.1f} of {:.1f} GB ({:.0f} %): {:.1f} GB weights, "
        "gradients, optimizer, {:.1f} GB activations{}",
        topology_.devices[at(it.device)].id, it.needed / 1e9, it.capacity / 1e9,
        100 * it.needed / it.capacity, it.state / 1e9, (it.needed - it.state) / 1e9,
        it.needed > it.capacity ? "; exceeds memory" : "");
  }

  std::string compute_bound_width_note(const Transformer& model) const {
    if (e_.compute_bound_width)
      return fmt::format("it would be compute-bound with a hidden size of {} or more (× {})",
                         model.hidden * *e_.compute_bound_width, *e_.compute_bound_width);
    const bool is_sync_limited = e_.now.sync_s >= cost::max_compute_bound_sync_share * e_.now.iteration_s;
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
  ExplanationText text{formatter.bottleneck_summary(), {}, formatter.scaling()};
  for (const cost::WhatIf& what : answer.explanation->what_ifs)
    text.changes.push_back(formatter.describe_change(what));
  return text;
}

}  // namespace dtfm::io
