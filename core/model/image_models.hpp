// Chains of heterogeneous layers, computed from their architecture: ResNet-50, VGG-16 and multilayer
// perceptrons.
#pragma once

#include <span>

#include "core/model/model.hpp"

namespace dtfm {

/// All quantities are per sample; a sample counts as a sequence of one token, or is one image. As for
/// transformers, operations are those of matrix products: 2 per multiply-add of a convolution or a linear
/// layer, none for norms, activations and pooling. Backward is twice the forward, except for the first layer,
/// whose input needs no gradient. `element_bytes` is the size of an activation: 2 or 4.
///
/// For an input of c × n × n and an output of d × m × m numbers: parameters · multiply-adds · kept for the
/// backward:
/// - convolution k × k: c d k² (+ d biases) · c d k² m² · its input;
/// - batch norm: 2 d · none · its input;
/// - linear: c n² d + d · c n² d · its input;
/// - max pooling: none · none · its input and, as in PyTorch, an index of 8 bytes per number of the output;
/// - average pooling: none · none · its input, which is the output of the ReLU;
/// - dropout: none · none · its input, for the same reason, and a mask of 1 byte per number.
///
/// A ReLU works in place and keeps its output; where that is the input of the next operation, it is counted
/// there. The last layer also keeps its outputs in fp32 for the loss, and no recomputation computes it again
/// (Layer::head), like the head of a transformer.

/// He et al., arXiv 1512.03385, table 1, with the stride in the 3 × 3 convolutions, as is common today
/// (torchvision): 25,557,032 parameters for 1000 classes, 4.09 G multiply-adds for images of 224 × 224. A
/// residual block is one layer of the chain: a cut inside it would have to carry the shortcut as well.
LayerChain resnet_50(int image, int classes, double element_bytes);

/// Simonyan and Zisserman, arXiv 1409.1556, table 1, column D: 138,357,544 parameters, 15.5 G multiply-adds
/// for images of 224 × 224. Images of other sizes (32 or more) are averaged to 7 × 7 before the first linear
/// layer, as in torchvision. A pooling belongs to the layer of the convolution before it.
LayerChain vgg_16(int image, int classes, double element_bytes);

/// Linear layers from each width to the next, each but the last followed by a ReLU. Expects at least two
/// widths.
LayerChain mlp_model(std::span<const int> widths, double element_bytes);

}  // namespace dtfm
