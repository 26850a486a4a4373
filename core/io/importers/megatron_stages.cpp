#include "core/io/importers/megatron_stages.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/io/importers/megatron_layout.hpp"

namespace dtfm::io {
namespace {

constexpr std::string_view layout_flag = "--pipeline-model-parallel-layout";
constexpr std::string_view first_flag = "--decoder-first-pipeline-num-layers";
constexpr std::string_view last_flag = "--decoder-last-pipeline-num-layers";
constexpr std::string_view embedding_flag = "--account-for-embedding-in-pipeline-split";
constexpr std::string_view loss_flag = "--account-for-loss-in-pipeline-split";
constexpr std::string_view chunk_layers_flag = "--num-layers-per-virtual-pipeline-stage";
constexpr std::string_view chunks_flag = "--num-virtual-stages-per-pipeline-rank";

int predicted_tokens(const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  return transformer ? transformer->predicted_tokens : 0;
}

class StageReader {
 public:
  StageReader(const MegatronFlags& flags, const std::string& file, int stages, const Job& job,
              InputErrors& errors)
      : flags_(flags),
        file_(file),
        stages_(stages),
        model_layers_(layer_count(job.model)),
        job_chunks_(stage_chunks(job)),
        predicted_tokens_(predicted_tokens(job.model)),
        errors_(errors) {}

  MegatronStages read() {
    check_exclusive();
    if (flags_.has(layout_flag)) return split_by_layout();
    if (flags_.has(first_flag) || flags_.has(last_flag)) return split_into_chunks(split_by_first_and_last());
    return split_evenly();
  }

 private:
  void reject_combination(std::string_view flag, std::initializer_list<std::string_view> others) {
    for (const std::string_view other : others)
      if (flags_.has(flag) && flags_.has(other))
        errors_.add(flags_.where(other), fmt::format("{} cannot be combined with {}", flag, other));
  }

  void check_exclusive() {
    reject_combination(layout_flag,
                       {first_flag, last_flag, embedding_flag, loss_flag, chunk_layers_flag, chunks_flag});
    reject_combination(first_flag, {embedding_flag, loss_flag});
    reject_combination(last_flag, {embedding_flag, loss_flag});
    reject_combination(chunk_layers_flag, {chunks_flag});
  }

  /// The stages of the layout are assigned round-robin to the devices: chunk 0 of each device, then chunk 1,
  /// …
  MegatronStages split_by_layout() {
    const std::string& where = flags_.where(layout_flag);
    const auto layout = parse_layout(flags_.text(layout_flag), where, errors_);
    if (!layout) return {};
    const std::vector<int>& layers = layout->layers;
    const int sum = std::accumulate(layers.begin(), layers.end(), 0);
    if (sum != model_layers_)
      errors_.add(where, fmt::format("the layout has {} layers (t), the job has {}", sum, model_layers_));
    if (layout->predictions != predicted_tokens_)
      errors_.add(where,
                  fmt::format("the layout has {} modules for multi-token prediction (m), the job has {}",
                              layout->predictions, predicted_tokens_));
    const int count = static_cast<int>(layers.size());
    if (count % stages_ != 0) {
      errors_.add(where, fmt::format("the layout has {} stages, which is not a multiple of "
                                     "--pipeline-model-parallel-size {}",
                                     count, stages_));
      return {};
    }
    MegatronStages result{std::vector<std::vector<int>>(at(stages_)), count / stages_};
    for (int i = 0; i < count; ++i) result.layers[at(i % stages_)].push_back(layers[at(i)]);
    return result;
  }

  /// Returns layers / parts. Adds an error and returns 0 if that is not an integer.
  int divide_evenly(int layers, int parts, const std::string& where, std::string_view what) {
    if (parts > 0 ? layers >= 0 && layers % parts == 0 : layers == 0) return parts > 0 ? layers / parts : 0;
    errors_.add(where, fmt::format("{} layers cannot be split evenly over {} {}; give a layout "
                                   "(--pipeline-model-parallel-layout)",
                                   layers, parts, what));
    return 0;
  }

  std::vector<int> split_by_first_and_last() {
    const auto first = flags_.number(first_flag), last = flags_.number(last_flag);
    const int ends = (first ? 1 : 0) + (last ? 1 : 0);
    // A flag may be present without a valid number, which has been reported already.
    const std::string& where = flags_.where(flags_.has(first_flag) ? first_flag : last_flag);
    if (stages_ < ends || (first && *first > model_layers_) || (last && *last > model_layers_)) {
      errors_.add(where, fmt::format("exceeds the {} layers of the model or the {} pipeline stages",
                                     model_layers_, stages_));
      return {};
    }
    const int middle = divide_evenly(model_layers_ - first.value_or(0) - last.value_or(0), stages_ - ends,
                                     where, "stages between");
    std::vector<int> layers(at(stages_), middle);
    if (first) layers.front() = *first;
    if (last) layers.back() = *last;
    return layers;
  }

  /// Equal virtual stages; with the corresponding flags, embedding and loss count as one layer each, of the
  /// first and the last one (Megatron-LM, megatron/core/transformer/transformer_block.py).
  MegatronStages split_evenly() {
    const int embedding = flags_.has(embedding_flag) ? 1 : 0, loss = flags_.has(loss_flag) ? 1 : 0;
    const int layers_per_stage =
        divide_evenly(model_layers_ + embedding + loss, stages_, file_, "pipeline stages");
    MegatronStages result = split_into_chunks(std::vector<int>(at(stages_), layers_per_stage));
    if (result.layers.empty()) return result;
    result.layers.front().front() -= embedding;
    result.layers.back().back() -= loss;
    return result;
  }

  /// Splits the layers of each pipeline rank evenly.
  MegatronStages split_into_chunks(const std::vector<int>& layers) {
    if (layers.empty()) return {};
    MegatronStages result{{}, chunks(layers)};
    if (!errors_.empty() || result.chunks != job_chunks_) return result;
    for (const int count : layers) result.layers.emplace_back(at(result.chunks), count / result.chunks);
    return result;
  }

  int chunks(const std::vector<int>& layers) {
    const std::string_view flag = flags_.has(chunks_flag) ? chunks_flag : chunk_layers_flag;
    if (!flags_.has(flag) || !flags_.number(flag)) return 1;
    const int number = *flags_.number(flag);
    const int chunks = flag == chunks_flag ? number : std::max(1, layers.front() / number);
    for (const int device_layers : layers)
      if (device_layers % chunks != 0 || (flag == chunk_layers_flag && device_layers != chunks * number)) {
        errors_.add(flags_.where(flag), fmt::format("{} {} does not divide the {} layers of a pipeline rank",
                                                    flag, number, device_layers));
        break;
      }
    return chunks;
  }

  const MegatronFlags& flags_;
  const std::string& file_;
  int stages_, model_layers_, job_chunks_, predicted_tokens_;
  InputErrors& errors_;
};

}  // namespace

MegatronStages megatron_stages(const MegatronFlags& flags, const std::string& file, int stages,
                               const Job& job, InputErrors& errors) {
  return StageReader(flags, file, stages, job, errors).read();
}

}  // namespace dtfm::io
