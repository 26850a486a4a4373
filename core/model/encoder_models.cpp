#include "core/model/encoder_models.hpp"

#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "core/model/transformer_layers.hpp"

namespace dtfm {
namespace {

/// Scores of T5 and ViT are stored: their trainers do not use flash attention, which has no relative
/// positions; dropout is not counted.
AttentionShape stored_attention(double heads, double width, double tokens, bool qkv_bias, bool output_bias) {
  return {heads, width, width, tokens, tokens, qkv_bias, output_bias, true, false};
}

class T5Maker {
 public:
  T5Maker(const EncoderDecoder& model, double element_bytes)
      : model_(model), element_bytes_(element_bytes), h_(model.hidden), s_(model.sequence) {}

  Layer embedding() const {
    TokenLayer layer(empty("embedding"));
    return layer.add_parameters(vocabulary()).keep_replicated_bytes(token_id_bytes + h_).layer();
  }

  Layer block(bool decodes, bool is_first, bool is_last) const {
    std::string name = decodes ? "decoder-dense" : "encoder-dense";
    if (is_first || is_last) name += is_first ? "-first" : "-last";
    TokenLayer layer(empty(std::move(name)));
    const double width = static_cast<double>(model_.heads) * model_.head_dim;
    for (int attention = 0; attention < (decodes ? 2 : 1); ++attention) {
      add_norm(layer, h_, h_);
      add_attention(layer, h_, stored_attention(model_.heads, width, s_, false, false));
    }
    add_norm(layer, h_, h_);
    add_mlp(layer, h_, model_.feed_forward, model_.gated, false);
    add_dropout_masks(layer, (decodes ? 3 : 2) * h_);  // one per module
    if (is_first || model_.tables_in_all_layers)
      layer.add_parameters(static_cast<double>(model_.relative_positions) * model_.heads);
    if (is_last && !decodes) add_norm(layer, h_, h_);  // the final norm of the encoder
    Layer result = layer.layer();
    if (decodes) result.output = 2 * result.output;
    return result;
  }

  Layer head() const {
    constexpr double fp32_bytes = 4;
    TokenLayer layer(empty("head"));
    add_norm(layer, h_, h_);
    layer.project(h_, model_.vocabulary, false)
        .keep_replicated(h_)
        .keep_bytes(fp32_bytes * model_.vocabulary);
    if (model_.tied) layer.tie(vocabulary());
    return layer.as_head().layer();
  }

 private:
  TokenLayer empty(std::string name) const { return {std::move(name), s_, h_, element_bytes_}; }
  double vocabulary() const { return h_ * model_.vocabulary; }

  const EncoderDecoder& model_;
  double element_bytes_, h_, s_;
};

/// The matrices of chains are not known, so that a chain is read back as it is written.
LayerChain with_unknown_matrices(LayerChain chain) {
  for (Layer& layer : chain.layers) layer.matrix_parameters = 0;
  return chain;
}

}  // namespace

LayerChain t5_model(const EncoderDecoder& model, double element_bytes) {
  const T5Maker maker(model, element_bytes);
  LayerChain chain;
  chain.sequence = model.sequence;
  chain.layers.push_back(maker.embedding());
  for (int layer = 0; layer < model.encoder_layers; ++layer)
    chain.layers.push_back(maker.block(false, layer == 0, layer == model.encoder_layers - 1));
  for (int layer = 0; layer < model.decoder_layers; ++layer)
    chain.layers.push_back(maker.block(true, layer == 0, false));
  chain.layers.push_back(maker.head());
  return with_unknown_matrices(std::move(chain));
}

LayerChain vit_model(const ImageEncoder& model, double element_bytes) {
  constexpr double fp32_bytes = 4;
  const double h = model.hidden, side = model.image / model.patch, patches = side * side, s = patches + 1,
               pixels = static_cast<double>(model.patch) * model.patch * model.channels;
  LayerChain chain;
  chain.input = ModelInput::images;
  chain.input_size = Bytes(patches * pixels * element_bytes);
  TokenLayer embedding("embedding", s, h, element_bytes);
  embedding.project(pixels, h, true, patches).add_parameters(s * h + h);  // positions and the class token
  chain.layers.push_back(embedding.keep_replicated_bytes(h).keep_replicated(pixels * patches / s).layer());
  TokenLayer block("block", s, h, element_bytes);
  for (int norm = 0; norm < 2; ++norm) add_norm(block, h, 2 * h);
  add_attention(block, h, stored_attention(model.heads, h, s, model.qkv_bias, true));
  add_mlp(block, h, model.feed_forward, false, true);
  add_dropout_masks(block, 2 * h);
  chain.layers.insert(chain.layers.end(), at(model.layers), block.layer());
  TokenLayer head("head", s, h, element_bytes);
  add_norm(head, h, 2 * h);
  head.project(h, model.classes, true, 1).keep_replicated_bytes(fp32_bytes * model.classes / s);
  Layer last = head.as_head().layer();
  last.output = Bytes(model.classes * element_bytes);
  chain.layers.push_back(last);
  // The first layer needs no gradient of its input.
  chain.layers.front().backward = chain.layers.front().forward;
  return with_unknown_matrices(std::move(chain));
}

}  // namespace dtfm
