// Chains of layers of models that are not decoders: T5 and vision transformers.
#pragma once

#include "core/model/model.hpp"

namespace dtfm {

/// T5 (Raffel et al., arXiv 1910.10683): RMS norms, no biases, relative positions in the first layer of each
/// stack. `sequence` tokens pass each stack.
struct EncoderDecoder {
  int encoder_layers = 0, decoder_layers = 0, hidden = 0, heads = 0, head_dim = 0, feed_forward = 0,
      vocabulary = 0, sequence = 0;
  int relative_positions = 32;  // buckets of the table, per head
  bool gated = false, tied = true;
  bool tables_in_all_layers = false;  // of relative positions (UMT5)
};

/// The layers are an embedding, the encoder, the decoder and the head. What leaves a decoder layer includes
/// the encoding, which all further layers read.
LayerChain t5_model(const EncoderDecoder& model, double element_bytes);

/// A vision transformer (Dosovitskiy et al., arXiv 2010.11929), which classifies images of `image` × `image`
/// pixels. A class token is added to the patches.
struct ImageEncoder {
  int layers = 0, hidden = 0, heads = 0, feed_forward = 0, image = 224, patch = 16, channels = 3,
      classes = 1000;
  bool qkv_bias = true;
};

/// The layers are the projection of patches, the blocks and the classifier, per image.
LayerChain vit_model(const ImageEncoder& model, double element_bytes);

}  // namespace dtfm
