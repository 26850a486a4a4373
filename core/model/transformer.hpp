// A transformer, or a hybrid with linear attention or state spaces, by the sizes that decide its cost.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm {

/// Matrices that have biases.
struct Biases {
  bool qkv = true, output = true;  // of attention: queries, keys and values; output projection
  bool mlp = true;
  bool head = false;  // a bias per token of the vocabulary

  friend bool operator==(const Biases&, const Biases&) = default;
};

inline constexpr Biases no_biases{false, false, false, false};

/// Parameters of a norm: scales and shifts, scales alone (layer or RMS norm), or none (OLMo).
enum class Norm : unsigned char { layer, layer_without_bias, rms, none };

/// Norms of queries and keys: none; one of the width of a head, which all heads share; one of the width of
/// all heads.
enum class QkNorm : unsigned char { none, head, all_heads };

/// What mixes the tokens of a block, or nothing.
enum class Mixer : unsigned char { none, attention, window_attention, mamba_2, delta_net };

/// What follows it: nothing, one MLP, or experts.
enum class Mlp : unsigned char { none, dense, experts };

/// A row for each value, in the order of the enum.
template <class Kind>
struct ModuleTraits {
  Kind kind;
  std::string_view name;        // in jobs
  std::string_view label = "";  // of mixers and MLPs, in names of kinds of layers
};

std::span<const ModuleTraits<Norm>> norm_table();
std::span<const ModuleTraits<QkNorm>> qk_norm_table();
std::span<const ModuleTraits<Mixer>> mixer_table();
std::span<const ModuleTraits<Mlp>> mlp_table();
std::string_view name_of(Norm norm);
std::string_view name_of(QkNorm norm);
std::string_view name_of(Mixer mixer);
std::string_view name_of(Mlp mlp);

struct BlockKind {
  Mixer mixer = Mixer::attention;
  Mlp mlp = Mlp::dense;

  friend bool operator==(const BlockKind&, const BlockKind&) = default;
  friend auto operator<=>(const BlockKind&, const BlockKind&) = default;
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values are expanded
/// from a latent vector of width `kv_rank`, queries from one of `query_rank`. Per head, queries and keys have
/// `nope_dim` numbers without and `rope_dim` with rotary positions; the latter are one key for all heads.
struct LatentAttention {
  int kv_rank = 0;     // 0: the model has ordinary attention
  int query_rank = 0;  // 0: queries are projected directly
  int nope_dim = 0, rope_dim = 0, value_dim = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A layer of experts, of which a router chooses `per_token` for every token.
struct Experts {
  int count = 0;  // routed experts; 0: none
  int per_token = 0;
  int width = 0;         // MLP width of one
  int shared_width = 0;  // total width of the experts that all tokens visit
  bool biases = false;   // of the matrices of routed experts
  bool router_bias = false;
  bool shared_gate = false;  // a sigmoid weight of the shared experts, hidden → 1 (Qwen2-MoE)

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// Mamba-2 (Dao and Gu, arXiv 2405.21060).
struct Mamba2 {
  int heads = 0, head_dim = 0, groups = 0, state = 0;  // inner width: heads · head_dim
  int convolution = 4;                                 // kernel
  int chunk = 256;                                     // tokens between which the scan is a matrix product
  bool convolution_bias = true, biases = false;        // of the input and output projection

  friend bool operator==(const Mamba2&, const Mamba2&) = default;
};

/// Gated delta net (Yang et al., arXiv 2412.06464), as in Qwen3-Next.
struct DeltaNet {
  int key_heads = 0, key_dim = 0, value_heads = 0, value_dim = 0;
  int convolution = 4;

  friend bool operator==(const DeltaNet&, const DeltaNet&) = default;
};

/// Blocks between an embedding and a head. The defaults are those of GPT-2.
struct Transformer {
  int layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
  int kv_heads = 0;         // key-value heads (grouped-query attention); 0: as many as `heads`
  int head_dim = 0;         // width of a head; 0: hidden ÷ heads (`head_width`)
  int feed_forward = 0;     // MLP width; 0: 4 · hidden
  int embedding_width = 0;  // of tokens, projected to and from `hidden` without biases; 0: hidden
  int positions = 0;        // rows of the position table; 0: as many as `sequence`
  bool gated = false;       // MLP with three matrices instead of two (SwiGLU)
  Biases biases = {};
  Norm norm = Norm::layer;
  int norms = 2;  // per block: 1 if attention and MLP are parallel, 4 if their outputs are normalized, too
  QkNorm qk_norm = QkNorm::none;
  bool learned_positions = true;  // a position table; otherwise rotary or ALiBi, without parameters
  bool tied = true;               // embedding and head share one matrix
  bool embedding_norm = false;    // a norm after the embedding
  bool final_norm = true;
  bool encoder = false;           // BERT: token types, embedding norm, transform before the head
  bool pooler = true;             // of an encoder
  bool next_sentence = false;     // of an encoder with a pooler: whether a sentence follows the other (BERT)
  int token_types = 2;            // of an encoder
  bool flash_attention = false;   // the attention core keeps nothing of size sequence²
  bool eager_kernels = false;     // separate operations instead of fused ones, each of which keeps its result
  bool dropout = true;            // of the embedding and of the outputs of attention and MLP
  bool attention_dropout = true;  // without flash attention: dropout of attention probabilities
  bool attention_gate = false;    // a gate per number of the attention's output, projected like queries
  bool attention_sinks = false;   // a learned logit per head
  int window = 0;                 // tokens that a token attends to in window attention
  LatentAttention latent = {};
  Experts experts = {};
  Mamba2 mamba = {};
  DeltaNet delta_net = {};
  int predicted_tokens = 0;            // modules that predict further tokens (multi-token prediction)
  std::vector<BlockKind> blocks = {};  // by layer; empty: equal blocks (`block_kind`)

  friend bool operator==(const Transformer&, const Transformer&) = default;
};

/// Width of an attention head.
inline int head_width(const Transformer& model) {
  return model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
}

inline int token_width(const Transformer& model) {
  return model.embedding_width > 0 ? model.embedding_width : model.hidden;
}

inline int kv_head_count(const Transformer& model) {
  return model.kv_heads > 0 ? model.kv_heads : model.heads;
}

inline int mlp_width(const Transformer& model) {
  return model.feed_forward > 0 ? model.feed_forward : 4 * model.hidden;
}

/// The kind of a layer's block. Without `blocks`, all have attention, with the window if there is one, and
/// experts if there are any.
BlockKind block_kind(const Transformer& model, int layer);

/// Whether some block has the mixer or the MLP.
bool has_block(const Transformer& model, Mixer mixer);
bool has_block(const Transformer& model, Mlp mlp);

/// Name of a kind of block, as part of the model: `dense`, `moe`, `dense-window`, `mamba-moe` …
std::string name_of(const BlockKind& kind);

/// Whether it has the modules of Llama: RMS norms, gated MLPs, no learned positions.
inline bool is_llama_like(const Transformer& model) {
  return model.norm == Norm::rms && model.gated && !model.learned_positions;
}

}  // namespace dtfm
