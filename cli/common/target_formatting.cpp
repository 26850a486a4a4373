#include "cli/common/target_formatting.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "core/plan/target.hpp"

namespace dtfm::cli {
namespace {

template <class Kind>
std::string format_names(std::span<const Kind> kinds) {
  std::vector<std::string_view> names;
  for (const Kind it : kinds) names.push_back(name_of(it));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view name_of_cuts(LayerCuts cuts) {
  return cuts == LayerCuts::any ? "any" : "1 or more";
}

std::string_view name_of_flushes(FlushSupport flushes) {
  switch (flushes) {
    case FlushSupport::never:
      return "once per iteration";
    case FlushSupport::equal_rounds:
      return "in equal rounds";
    case FlushSupport::any:
      break;
  }
  return "after any number of micro-batches";
}

std::string format_compressions(std::span<const CompressionMethod> methods) {
  std::vector<std::string_view> names;
  for (const CompressionMethod it : methods) names.push_back(traits(it).description);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "adam-20 in fp16, adam-18 in bf16, adam-16 in tf32 and fp32"
std::string format_adam(const TargetTraits& target) {
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> by_optimizer;
  for (const PrecisionTraits& precision : precision_table()) {
    if (!target.precisions.empty() && !has(target.precisions, precision.kind)) continue;
    const std::string_view name = name_of(target.optimizer(Optimizer::adam_16, precision.kind));
    auto known = std::find_if(by_optimizer.begin(), by_optimizer.end(),
                              [&](const auto& other) { return other.first == name; });
    if (known == by_optimizer.end()) known = by_optimizer.insert(known, {name, {}});
    known->second.push_back(precision.name);
  }
  if (by_optimizer.size() == 1) return std::string(by_optimizer.front().first);
  std::vector<std::string> texts;
  for (const auto& [name, precisions] : by_optimizer)
    texts.push_back(fmt::format("{} in {}", name, fmt::join(precisions, " and ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string format_models(const TargetTraits& target) {
  if (target.llama_only) return "transformers like Llama; tied embeddings in one stage";
  std::string models = target.encoders ? "transformers" : "transformers that are decoders";
  if (!target.transformers_only) return models + "; others with modules of the user";
  std::vector<std::string_view> features;
  for (const ModelFeature it : target.features) features.push_back(name_of(it));
  return features.empty() ? models : fmt::format("{}, also with {}", models, fmt::join(features, ", "));
}

std::string format_tensor_degrees(const TargetTraits& target) {
  if (!target.tensor_parallelism) return "1";
  switch (target.tensor_division) {
    case TensorDivision::heads:
      break;
    case TensorDivision::widths:
      return "divides heads, MLP width and sequence, and divides key-value heads or is a multiple of them";
    case TensorDivision::widths_and_kv_heads:
      return "divides heads, key-value heads, MLP width and sequence";
  }
  return "any that divides the heads";
}

/// "1f1b-blocking, ring, tied-embedding-sync, no flush"
std::string format_changes_briefly(const std::vector<TargetChange>& changes) {
  std::vector<std::string> texts;
  for (const TargetChange& it : changes) {
    std::string key = it.key.substr(it.key.find('.') + 1);
    std::replace(key.begin(), key.end(), '_', '-');
    const bool is_number = it.to.find_first_not_of("0123456789.") == std::string::npos;
    texts.push_back(it.to == "true"                       ? key
                    : it.to == "false" || it.to == "none" ? "no " + key
                    : is_number || key == "recompute"     ? key + " " + it.to
                                                          : it.to);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string format_orders(std::span<const RankOrder> orders) {
  std::vector<std::string_view> names;
  for (const RankOrder it : orders) names.push_back(rank_order_name(it));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string format_target_table() {
  std::string text;
  for (const TargetTraits& it : target_table()) {
    const std::vector<std::vector<std::string>> rows = {
        {"  models", format_models(it)},
        {"  schedule", format_names(it.schedules)},
        {"  gradient_sync", format_names(it.gradient_syncs) + (it.overlap ? "; overlap: optional" : "")},
        {"  optimizer_sharding", format_names(it.optimizer_shardings)},
        {"  tied embeddings",
         it.tied_embedding_sync ? "all-reduced between the first and the last stage" : "not synchronized"},
        {"  recompute", format_names(it.recomputations)},
        {"  Adam", format_adam(it)},
        {"  pipelines", it.uniform_pipelines ? "uniform: the same layers, micro-batches and tensor degree"
                                             : "heterogeneous"},
        {"  layers per stage", std::string(name_of_cuts(it.cuts))},
        {"  stages",
         it.min_interleaved_stages > it.min_stages
             ? fmt::format("at least {}, interleaved {}", it.min_stages, it.min_interleaved_stages)
             : fmt::format("at least {}", it.min_stages)},
        {"  tensor degree", format_tensor_degrees(it)},
        {"  flushes", std::string(name_of_flushes(it.flushes))},
        {"  compression", it.compressions.empty() ? "none" : format_compressions(it.compressions)},
        {"  ranks", format_orders(it.orders)}};
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", it.name, table(rows, false));
  }
  return text;
}

std::string format_target_times(const std::vector<api::TargetTime>& times, double planned_s) {
  std::vector<std::vector<std::string>> rows;
  for (const api::TargetTime& it : times) {
    const std::string name(name_of(it.target));
    if (!it.obstacle.empty()) {
      const bool is_prefixed = it.obstacle.starts_with(name + ": ");
      rows.push_back({"  " + name, "–", "", it.obstacle.substr(is_prefixed ? name.size() + 2 : 0)});
      continue;
    }
    rows.push_back({"  " + name, fmt::format("{:.4f} s", it.seconds),
                    format_change_percent(it.seconds / planned_s - 1),
                    it.changes.empty() ? "as planned" : format_changes_briefly(it.changes)});
    if (it.exceeds_memory) rows.back()[3] += "; exceeds memory";
  }
  return styled(Style::heading, "Time in trainers") + "\n" + table(rows, false, unlimited_width);
}

}  // namespace dtfm::cli
