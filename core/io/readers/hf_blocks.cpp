#include "core/io/readers/hf_blocks.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/readers/transformer_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

using nlohmann::json;

constexpr std::string_view block_keys[] = {"layer_types",
                                           "attention_layers",
                                           "attention_types",
                                           "num_dense_layers",
                                           "layers_block_type",
                                           "hybrid_override_pattern",
                                           "attn_layer_indices",
                                           "full_attention_interval",
                                           "sliding_window_pattern",
                                           "global_attn_every_n_layers",
                                           "use_sliding_window",
                                           "max_window_layers",
                                           "mlp_layer_types",
                                           "first_k_dense_replace",
                                           "moe_layer_freq",
                                           "mlp_only_layers",
                                           "decoder_sparse_step",
                                           "moe_layers",
                                           "interleave_moe_layer_step",
                                           "moe_layer_start_index",
                                           "moe_layer_end_index",
                                           "moe_layer_interval"};

class BlockReader {
 public:
  BlockReader(const JsonCursor& config, const json& defaults, const Transformer& model)
      : config_(config), defaults_(defaults, config.file()), model_(model) {}

  std::vector<BlockKind> read() const {
    const bool has_experts = model_.experts.count > 0;
    std::vector<BlockKind> blocks(at(model_.layers),
                                  {Mixer::attention, has_experts ? Mlp::experts : Mlp::dense});
    if (has_experts) read_mlps(blocks);
    read_mixers(blocks);
    return blocks;
  }

 private:
  /// The value of a key, or what the family assumes if it is missing or null; nothing if that is null, too.
  std::optional<JsonCursor> find(const char* key) const {
    const auto given = config_.optional(key);
    const auto value = given && !given->value().is_null() ? given : defaults_.optional(key);
    return value && !value->value().is_null() ? value : std::nullopt;
  }

  std::optional<int> number(const char* key, int min_value) const {
    const auto value = find(key);
    return value ? std::optional(value->as_int(min_value, max_layers)) : std::nullopt;
  }

  std::optional<std::set<int>> indices(const char* key) const {
    const auto value = find(key);
    if (!value || !value->is_array()) return std::nullopt;
    std::set<int> result;
    for (std::size_t i = 0; i < value->array_size("layers"); ++i)
      result.insert(value->at(i).as_int(0, max_layers));
    return result;
  }

  template <class Choose>
  static void set_experts(std::vector<BlockKind>& blocks, const Choose& has_experts) {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (!has_experts(static_cast<int>(i))) blocks[i].mlp = Mlp::dense;
  }

  void read_mlps(std::vector<BlockKind>& blocks) const {
    if (const auto list = find("mlp_layer_types"); list && list->is_array()) {
      check_length(*list, "kinds");
      return set_experts(blocks, [&](int i) { return list->at(at(i)).as_string() != "dense"; });
    }
    if (const auto layers = indices("moe_layers"))
      return set_experts(blocks, [&](int i) { return layers->count(i) > 0; });
    if (const auto list = find("moe_layer_freq"); list && list->is_array()) {
      check_length(*list, "layers");
      return set_experts(blocks, [&](int i) { return list->at(at(i)).as_int(0, 1) == 1; });
    }
    const std::set<int> dense = indices("mlp_only_layers").value_or(std::set<int>());
    int first = 0;
    for (const char* key : {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"})
      first = std::max(first, number(key, 0).value_or(0));
    const int last = number("moe_layer_end_index", -1).value_or(-1),
              every = number("moe_layer_freq", 1).value_or(1);
    int step = 1;
    for (const char* key : {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"})
      step = number(key, 1).value_or(step);
    set_experts(blocks, [&](int i) {
      return i >= first && (last < 0 || i <= last) && i % every == 0 && (i + 1) % step == 0 &&
             dense.count(i) == 0;
    });
  }

  void read_mixers(std::vector<BlockKind>& blocks) const {
    for (const char* key : {"layer_types", "layers_block_type", "attention_layers"})
      if (const auto list = find(key); list && list->is_array()) return read_types(*list, blocks);
    if (const auto runs = find("attention_types"); runs && runs->is_array()) return read_runs(*runs, blocks);
    if (const auto pattern = find("hybrid_override_pattern")) return read_letters(*pattern, blocks);
    if (const auto attention = indices("attn_layer_indices")) {
      for (std::size_t i = 0; i < blocks.size(); ++i)
        if (attention->count(static_cast<int>(i)) == 0) blocks[i].mixer = linear();
      return;
    }
    if (const auto interval = number("full_attention_interval", 1)) {
      for (std::size_t i = 0; i < blocks.size(); ++i)
        if ((i + 1) % at(*interval) != 0) blocks[i].mixer = linear();
      return;
    }
    if (model_.window > 0) read_windows(blocks);
  }

  void read_windows(std::vector<BlockKind>& blocks) const {
    if (const auto use = find("use_sliding_window"); use && !use->as_bool()) return;
    const int first = number("max_window_layers", 0).value_or(0);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (static_cast<int>(i) >= first && is_in_pattern(i)) blocks[i].mixer = Mixer::window_attention;
  }

  /// Whether a layer is not one of those at regular distances that attend to everything.
  bool is_in_pattern(std::size_t layer) const {
    const auto pattern = find("sliding_window_pattern");
    if (pattern && pattern->is_string()) {
      const std::string& letters = pattern->as_string();
      return !letters.empty() && letters[layer % letters.size()] == 'L' && layer + 1 < at(model_.layers);
    }
    if (pattern) return (layer + 1) % at(pattern->as_int(1, max_layers)) != 0;
    if (const auto every = number("global_attn_every_n_layers", 1)) return layer % at(*every) != 0;
    return true;
  }

  void check_length(const JsonCursor& list, std::string_view elements) const {
    if (const std::size_t size = list.array_size(elements); size != at(model_.layers))
      list.fail(fmt::format("has {} {}, but the model has {} layers", size, elements, model_.layers));
  }

  Mixer linear() const { return model_.mamba.heads > 0 ? Mixer::mamba_2 : Mixer::delta_net; }

  void read_types(const JsonCursor& list, std::vector<BlockKind>& blocks) const {
    check_length(list, "types");
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const JsonCursor item = list.at(i);
      const std::string& type = item.as_string();
      if (has_window(type))
        blocks[i].mixer = model_.window > 0 ? Mixer::window_attention : Mixer::attention;
      else if (type == "linear_attention" || type == "mamba" || type == "mamba2")
        require_linear(item, blocks[i].mixer);
      else if (type == "mlp" || type == "moe")
        blocks[i] = {Mixer::none, type == "moe" ? Mlp::experts : Mlp::dense};
      else if (type != "full_attention" && type != "attention" && type != "global")
        item.fail(
            fmt::format("unknown type of layer {}; known: full_attention, sliding_attention, "
                        "chunked_attention, linear_attention, mamba, mlp, moe",
                        quote(type)));
      if (has_single_modules() && blocks[i].mixer != Mixer::none) blocks[i].mlp = Mlp::none;
    }
  }

  static bool has_window(const std::string& type) {
    return type == "sliding_attention" || type == "chunked_attention" || type == "local";
  }

  /// GPT-Neo: pairs of types in turn, and of how often they are repeated.
  void read_runs(const JsonCursor& runs, std::vector<BlockKind>& blocks) const {
    std::size_t layer = 0;
    for (std::size_t run = 0; run < runs.array_size("runs"); ++run) {
      const JsonCursor types = runs.at(run).at(0);
      const int repeats = runs.at(run).at(1).as_int(0, max_layers);
      if (types.array_size("types") == 0) types.fail("must not be empty");
      for (int repeat = 0; repeat < repeats && layer <= blocks.size(); ++repeat)
        for (std::size_t i = 0; i < types.array_size("types"); ++i, ++layer)
          if (layer < blocks.size() && model_.window > 0 && has_window(types.at(i).as_string()))
            blocks[layer].mixer = Mixer::window_attention;
    }
    if (layer != blocks.size())
      runs.fail(fmt::format("has {} types, but the model has {} layers", layer, blocks.size()));
  }

  /// In Nemotron-H, which has this key, a layer is a mixer or an MLP. In models with layers that are MLPs
  /// alone, the others have none.
  bool has_single_modules() const {
    if (find("layers_block_type")) return true;
    const auto list = find("layer_types");
    return list && std::any_of(list->value().begin(), list->value().end(),
                               [](const json& type) { return type == "mlp" || type == "moe"; });
  }

  void require_linear(const JsonCursor& item, Mixer& mixer) const {
    if (model_.mamba.heads == 0 && model_.delta_net.key_heads == 0)
      item.fail("the model has neither Mamba-2 nor gated delta nets of known sizes");
    mixer = linear();
  }

  /// Nemotron-H: M Mamba-2, * attention, - MLP, E experts.
  void read_letters(const JsonCursor& pattern, std::vector<BlockKind>& blocks) const {
    const std::string& letters = pattern.as_string();
    if (letters.size() != blocks.size())
      pattern.fail(fmt::format("has {} letters, but the model has {} layers", letters.size(), blocks.size()));
    for (std::size_t i = 0; i < blocks.size(); ++i) switch (letters[i]) {
        case 'M':
          blocks[i] = {Mixer::mamba_2, Mlp::none};
          break;
        case '*':
          blocks[i] = {Mixer::attention, Mlp::none};
          break;
        case '-':
          blocks[i] = {Mixer::none, Mlp::dense};
          break;
        case 'E':
          blocks[i] = {Mixer::none, Mlp::experts};
          break;
        default:
          pattern.fail("unknown letter; known: M, *, - and E");
      }
  }

  const JsonCursor& config_;
  const JsonCursor defaults_;
  const Transformer& model_;
};

}  // namespace

bool is_block_key(const std::string& key) {
  return std::find(std::begin(block_keys), std::end(block_keys), key) != std::end(block_keys);
}

std::vector<BlockKind> read_block_kinds(const JsonCursor& config, const json& defaults,
                                        const Transformer& model) {
  return BlockReader(config, defaults, model).read();
}

int listed_layers(const JsonCursor& config, const json& defaults) {
  for (const char* key : {"layers_block_type", "layer_types", "hybrid_override_pattern"})
    for (const JsonCursor& source : {config, JsonCursor(defaults, config.file())})
      if (const auto list = source.optional(key); list && !list->value().is_null())
        return static_cast<int>(list->is_string() ? list->as_string().size() : list->array_size("types"));
  return 0;
}

void reduce_blocks(Transformer& model) {
  const auto any = [&](const auto& has) {
    return std::any_of(model.blocks.begin(), model.blocks.end(), has);
  };
  if (!any([](const BlockKind& it) { return it.mixer == Mixer::window_attention; })) model.window = 0;
  if (!any([](const BlockKind& it) { return it.mixer == Mixer::mamba_2; })) model.mamba = {};
  if (!any([](const BlockKind& it) { return it.mixer == Mixer::delta_net; })) model.delta_net = {};
  if (!any([](const BlockKind& it) { return it.mlp == Mlp::experts; })) model.experts = {};
  Transformer uniform = model;
  uniform.blocks.clear();
  if (!any([&](const BlockKind& it) { return it != block_kind(uniform, 0); })) model.blocks.clear();
}

}  // namespace dtfm::io
