#include "kernels/transformer.hpp"

#include <algorithm>
#include <string>

#include "kernels/attention.hpp"
#include "kernels/norm.hpp"
#include "kernels/platform/device.hpp"

namespace dtfm::kernels {
namespace {

// sequences of a micro-batch, which are the z dimension of attention's grids
constexpr int max_sequences = 65535;

void require(bool good, const std::string& what) {
  if (!good) throw DeviceError("shape: " + what);
}

AttentionShape attention_of(const TransformerShape& s, const RankWidths& w) {
  return {s.batch, s.sequence, w.heads, w.kv_heads, w.head_size, s.causal};
}

/// Multiply-adds per token, without attention.
double multiply_adds(const TransformerShape& s, const RankWidths& w, LayerKind kind) {
  const double hidden = s.hidden;
  switch (kind) {
    case LayerKind::embedding:
      return 0;
    case LayerKind::block:
      return hidden * (w.qkv + w.q + w.up + w.ffn);
    case LayerKind::head:
      return hidden * w.vocabulary;
  }
  return 0;
}

double attention_of_layer(const TransformerShape& s, const RankWidths& w, LayerKind kind) {
  return kind == LayerKind::block ? attention_flops(attention_of(s, w)) : 0;
}

}  // namespace

void check_shape(const TransformerShape& s) {
  for (const int number :
       {s.batch, s.sequence, s.hidden, s.heads, s.kv_heads, s.ffn, s.vocabulary, s.tensor_parallel})
    require(number > 0, "every number must be positive");
  const int t = s.tensor_parallel;
  if (s.head_size == 0)
    require(s.hidden % s.heads == 0 && (s.hidden / s.heads == 64 || s.hidden / s.heads == 128),
            "hidden ÷ heads must be 64 or 128, not " + std::to_string(s.hidden) + " ÷ " +
                std::to_string(s.heads));
  else
    require(s.head_size == 64 || s.head_size == 128,
            "the head size must be 64 or 128, not " + std::to_string(s.head_size));
  require(s.heads % s.kv_heads == 0, "heads must be a multiple of key and value heads");
  require(s.heads % t == 0 && (s.kv_heads % t == 0 || t % s.kv_heads == 0),
          "heads cannot be divided among " + std::to_string(t) + " ranks");
  require(s.ffn % t == 0 && s.ffn / t % 8 == 0, "ffn ÷ tensor_parallel must be a multiple of 8");
  const int widest = max_norm_bytes / bytes_of(s.dtype);
  require(s.hidden <= widest, "hidden must be at most " + std::to_string(widest) + " in " +
                                  std::to_string(8 * bytes_of(s.dtype)) + " bits, not " +
                                  std::to_string(s.hidden));
  require(s.batch <= max_sequences, "a micro-batch has at most " + std::to_string(max_sequences) +
                                        " sequences, not " + std::to_string(s.batch));
  require(static_cast<std::int64_t>(s.batch) * s.sequence <= 1 << 22, "too many tokens in a micro-batch");
}

RankWidths rank_widths(const TransformerShape& s) {
  RankWidths w;
  const int t = s.tensor_parallel;
  w.rows = s.batch * s.sequence;
  w.head_size = s.head_size > 0 ? s.head_size : s.hidden / s.heads;
  w.heads = s.heads / t;
  w.kv_heads = std::max(1, s.kv_heads / t);
  w.q = w.heads * w.head_size;
  w.kv = w.kv_heads * w.head_size;
  w.qkv = w.q + 2 * w.kv;
  w.ffn = s.ffn / t;
  w.up = s.gated ? 2 * w.ffn : w.ffn;
  w.vocabulary = (s.vocabulary + t - 1) / t;
  w.padded_vocabulary = (w.vocabulary + 127) / 128 * 128;
  return w;
}

std::int64_t layer_parameters(const TransformerShape& s, LayerKind kind) {
  const RankWidths w = rank_widths(s);
  const std::int64_t hidden = s.hidden, norm = s.rms ? hidden : 2 * hidden;
  switch (kind) {
    case LayerKind::embedding:
      return hidden * (w.padded_vocabulary + (s.rotary ? 0 : s.sequence));
    case LayerKind::block:
      return 2 * norm + hidden * (w.qkv + w.q + w.up + w.ffn) + (s.rms ? 0 : w.qkv + w.up + 2 * hidden);
    case LayerKind::head:
      return norm + hidden * w.padded_vocabulary;
  }
  return 0;
}

double forward_flops(const TransformerShape& s, LayerKind kind) {
  const RankWidths w = rank_widths(s);
  return 2.0 * w.rows * multiply_adds(s, w, kind) + attention_of_layer(s, w, kind);
}

double backward_flops(const TransformerShape& s, LayerKind kind) {
  const RankWidths w = rank_widths(s);
  return 4.0 * w.rows * multiply_adds(s, w, kind) + 2.5 * attention_of_layer(s, w, kind);
}

}  // namespace dtfm::kernels
