#include "cli/explanation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "cli/plan_words.hpp"
#include "cli/words.hpp"
#include "planner/core/index.hpp"
#include "planner/cost/plan_explanation.hpp"

namespace dtfm {
namespace {

constexpr double least_gain = 0.001;  // of a link that is worth a line
constexpr std::size_t most_links = 5;

std::string_view name_of(Bottleneck::Kind kind) {
  constexpr std::array<std::string_view, 6> names = {"stage",    "hop",    "fill",
                                                     "exchange", "update", "overhead"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Change change) {
  constexpr std::array<std::string_view, 9> names = {
      "link_doubled",     "access_doubled",      "pipeline_removed",
      "pipeline_added",   "activations_halved",  "activations_quartered",
      "gradients_halved", "gradients_quartered", "micro_batch_doubled"};
  return names[static_cast<std::size_t>(change)];
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

class Words {
 public:
  Words(const PlannedProblem& planned, const PlanExplanation& explained)
      : planned_(planned), topology_(planned.problem.topology), e_(explained) {}

  std::vector<std::string> what_binds() const {
    const auto& [fill, steady, exchange, update, overhead] = e_.bottleneck.parts;
    std::vector<std::string> sentences = {
        binds() + fmt::format(": {} of {} s ({})", short_seconds(e_.bottleneck.binds.seconds),
                              short_seconds(e_.now.iteration_s), percent(e_.bottleneck.binds.share))};
    const Station& station = e_.bottleneck.station;
    if (!is_of_pipeline())
      sentences.push_back(fmt::format("in the slowest pipeline most hangs on {}: {} s", place(station),
                                      short_seconds(station.seconds)));
    if (station.latency_s > 0)
      sentences.push_back(fmt::format("{} s of that hop's hang on its latency, the rest on its bytes",
                                      short_seconds(station.latency_s)));
    sentences.push_back(
        fmt::format("the slowest pipeline fills and drains for {} s and is in its steady state for {} s; "
                    "exchanges after it take {} s, updates {} s, overhead {} s",
                    short_seconds(fill), short_seconds(steady), short_seconds(exchange),
                    short_seconds(update), short_seconds(overhead)));
    sentences.push_back(fmt::format("of that pipeline's time {} s hang on computing, {} s on sending",
                                    short_seconds(e_.bottleneck.reasons.compute_s),
                                    short_seconds(e_.bottleneck.reasons.sending_s)));
    if (e_.bottleneck.fullest) sentences.push_back(memory(*e_.bottleneck.fullest));
    return sentences;
  }

  std::string of(const WhatIf& what) const {
    const auto site = [&](int i) { return topology_.sites[at(i)].name; };
    switch (what.change) {
      case Change::link_doubled:
        return what.first == what.second ? fmt::format("links inside {} twice as fast", site(what.first))
                                         : fmt::format("links between {} and {} twice as fast",
                                                       site(what.first), site(what.second));
      case Change::access_doubled:
        return fmt::format("uplinks and downlinks of {} twice as fast", site(what.first));
      case Change::pipeline_removed:
        return fmt::format("a device less: without pipeline {} ({})", what.first, ids(what.devices));
      case Change::pipeline_added:
        return what.devices.empty()
                   ? "a device more: another pipeline"
                   : fmt::format("another pipeline, on devices not used now ({})", ids(what.devices));
      case Change::activations_halved:
        return "activations compressed × 2";
      case Change::activations_quartered:
        return "activations compressed × 4";
      case Change::gradients_halved:
        return "gradients compressed × 2";
      case Change::gradients_quartered:
        return "gradients compressed × 4";
      case Change::micro_batch_doubled:
        break;
    }
    return fmt::format("micro-batch {} in place of {}", 2 * planned_.problem.job.training.micro_batch,
                       planned_.problem.job.training.micro_batch);
  }

  std::vector<std::string> scaling() const {
    std::vector<std::string> sentences;
    if (e_.twice_as_wide) sentences.push_back(twice_as_wide(*e_.twice_as_wide));
    const std::string definition = fmt::format(
        "compute-bound (in every pipeline a stage binds, and exchanges take less than {:g} % of "
        "the iteration)",
        100 * compute_bound_exchanges);
    if (e_.compute_bound_compression == 1) {
      sentences.push_back("the plan is " + definition);
      return sentences;
    }
    const std::string compression = e_.compute_bound_compression
                                        ? fmt::format("from activations and gradients compressed × {:.3g} on",
                                                      *e_.compute_bound_compression)
                                        : fmt::format("with no compression up to × {:g}", most_compression);
    sentences.push_back(fmt::format("{} {}{}", definition, compression, width()));
    return sentences;
  }

 private:
  bool is_of_pipeline() const {
    const auto kind = e_.bottleneck.binds.kind;
    return kind == Bottleneck::Kind::stage || kind == Bottleneck::Kind::hop;
  }

  /// "oregon/0+oregon/1", at most a few.
  std::string ids(const std::vector<int>& devices) const {
    constexpr std::size_t most = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, devices.size()); ++i)
      text += (i > 0 ? ", " : "") + topology_.devices[at(devices[i])].id;
    return devices.size() > most ? text + ", …" : text;
  }

  std::string stage(int pipeline, std::size_t stage) const {
    const Stage& it = planned_.plan.pipelines[at(pipeline)].stages[stage];
    return fmt::format("stage {} ({}, layers {})", stage, ids(it.devices), layers_in_words(it.layers));
  }

  std::string place(const Station& station) const {
    const std::size_t count = planned_.plan.pipelines[at(station.pipeline)].stages.size();
    if (!station.is_hop)
      return fmt::format("{} of pipeline {}", stage(station.pipeline, at(station.stage)), station.pipeline);
    return fmt::format("the hop from {} to {} of pipeline {}", stage(station.pipeline, at(station.stage)),
                       stage(station.pipeline, (at(station.stage) + 1) % count), station.pipeline);
  }

  std::string binds() const {
    switch (e_.bottleneck.binds.kind) {
      case Bottleneck::Kind::stage:
      case Bottleneck::Kind::hop:
        return place(e_.bottleneck.station);
      case Bottleneck::Kind::fill:
        return "the fill and drain of the slowest pipeline: few micro-batches for its depth";
      case Bottleneck::Kind::exchange:
        return "the exchange of gradients after the pipelines";
      case Bottleneck::Kind::update:
        return "the optimizer's updates";
      case Bottleneck::Kind::overhead:
        break;
    }
    return "the overhead of every iteration";
  }

  std::string memory(const FullestDevice& fullest) const {
    const auto [device, needed, capacity] = fullest.memory;
    return fmt::format(
        "{} is the fullest device: {:.1f} of {:.1f} GB ({:.0f} %), {:.1f} GB of weights, "
        "gradients and optimizer, {:.1f} GB of activations and buffers{}",
        topology_.devices[at(device)].id, needed / 1e9, capacity / 1e9, 100 * needed / capacity,
        fullest.state / 1e9, (needed - fullest.state) / 1e9, needed > capacity ? "; memory binds" : "");
  }

  static std::string ratio(const PlanPace& pace) {
    if (pace.communication_s <= 0) return "compute alone";
    return fmt::format("compute : communication {:.3g} : 1", pace.compute_s / pace.communication_s);
  }

  std::string twice_as_wide(const PlanPace& wide) const {
    return fmt::format(
        "hidden size doubled: {:.4g} s an iteration, {} tokens/s, {:.4g} model TFLOP/s, {}{}; now {:.4g} s, "
        "{} "
        "tokens/s, {:.4g} model TFLOP/s, {}",
        wide.iteration_s, with_thousands(std::llround(wide.tokens_per_s)), wide.model_flops_per_s / 1e12,
        ratio(wide), wide.lacking > 0 ? " (but it does not fit the memory)" : "", e_.now.iteration_s,
        with_thousands(std::llround(e_.now.tokens_per_s)), e_.now.model_flops_per_s / 1e12, ratio(e_.now));
  }

  std::string width() const {
    const auto* model = std::get_if<Transformer>(&planned_.problem.job.model);
    if (model == nullptr) return "";
    if (!e_.compute_bound_width) return fmt::format("; with no hidden size up to × {}", most_width);
    return fmt::format(", or from hidden size {} (× {}) on", model->hidden * *e_.compute_bound_width,
                       *e_.compute_bound_width);
  }

  const PlannedProblem& planned_;
  const Topology& topology_;
  const PlanExplanation& e_;
};

PlanRecord::Explanation::Pace recorded(const PlanPace& pace) {
  return {pace.iteration_s, pace.tokens_per_s,    pace.model_flops_per_s,
          pace.compute_s,   pace.communication_s, pace.lacking <= 0};
}

bool is_link(const PlanRecord::Explanation::Change& change) {
  return change.change == name_of(Change::link_doubled);
}

}  // namespace

PlanRecord::Explanation explanation_of(const PlanCandidate& candidate, int threads) {
  const PlannedProblem planned{candidate.job->problem, candidate.plan, candidate.flush};
  const PlanExplanation explained = plan_explanation(planned, candidate.job->model.shared_network, threads);
  const Words words(planned, explained);
  const auto& [binds, station, parts, reasons, fullest] = explained.bottleneck;
  PlanRecord::Explanation record;
  record.binds = name_of(binds.kind);
  record.pipeline = binds.pipeline;
  record.stage = binds.stage;
  record.seconds = binds.seconds;
  record.share = binds.share;
  record.parts_s = {{"fill and drain", parts.fill_s},
                    {"steady state", parts.steady_s},
                    {"exchanges after them", parts.exchange_s},
                    {"updates after both", parts.update_s},
                    {"overhead", parts.overhead_s}};
  if (fullest)
    record.fullest = {fullest->memory.device, fullest->memory.needed, fullest->memory.capacity,
                      fullest->state};
  record.what_binds = words.what_binds();
  for (const WhatIf& what : explained.what_ifs)
    record.changes.push_back({std::string(name_of(what.change)), words.of(what), what.iteration_s, what.gain,
                              what.lacking <= 0, what.impossible});
  record.now = recorded(explained.now);
  if (explained.twice_as_wide) record.twice_as_wide = recorded(*explained.twice_as_wide);
  record.compute_bound_compression = explained.compute_bound_compression;
  if (explained.compute_bound_width) record.compute_bound_width = *explained.compute_bound_width;
  record.scaling = words.scaling();
  return record;
}

std::string explanation_text(const PlanRecord::Explanation& explanation) {
  std::string text = "What binds\n";
  for (const std::string& sentence : explanation.what_binds) text += "  " + sentence + "\n";
  Rows rows = {{"What would help, one change at a time", "estimated s", "gain"}};
  std::string impossible;
  std::size_t links = 0, other_links = 0;
  for (const auto& change : explanation.changes) {
    if (!change.impossible.empty()) {
      impossible += fmt::format("  not possible: {}: {}\n", change.words, change.impossible);
      continue;
    }
    if (is_link(change) && (change.gain < least_gain || ++links > most_links)) {
      ++other_links;
      continue;
    }
    rows.push_back({"  " + change.words, short_seconds(change.iteration_time_s),
                    percent(change.gain) + (change.fits ? "" : "; does not fit the memory")});
  }
  text += "\n" + table(rows);
  if (other_links > 0)
    text +=
        fmt::format("  {} twice as fast: less\n", counted(static_cast<long long>(other_links), "other link"));
  text += impossible + "\nWhen computing binds\n";
  for (const std::string& sentence : explanation.scaling) text += "  " + sentence + "\n";
  return text;
}

}  // namespace dtfm
