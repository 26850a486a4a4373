#include "core/model/token_layer.hpp"

#include <utility>

namespace dtfm {

TokenLayer::TokenLayer(std::string name, double tokens, double hidden, double element_bytes)
    : tokens_(tokens), element_bytes_(element_bytes) {
  layer_.name = std::move(name);
  layer_.output = Bytes(tokens * hidden * element_bytes);
}

TokenLayer& TokenLayer::project(double in, double out, bool bias, double tokens) {
  layer_.parameters += in * out + (bias ? out : 0);
  layer_.forward += Flops(2 * tokens * in * out);
  return *this;
}

TokenLayer& TokenLayer::add_parameters(double count) {
  layer_.parameters += count;
  return *this;
}

TokenLayer& TokenLayer::add_experts(double parameters, double flops) {
  layer_.parameters += parameters;
  layer_.expert_parameters += parameters;
  layer_.forward += Flops(flops);
  return *this;
}

TokenLayer& TokenLayer::add_attention(double flops, Bytes memory) {
  layer_.forward += Flops(flops);
  layer_.attention += Flops(flops);
  layer_.activation_memory += memory;
  layer_.attention_memory += memory;
  return *this;
}

TokenLayer& TokenLayer::add_flops(double flops) {
  layer_.forward += Flops(flops);
  return *this;
}

TokenLayer& TokenLayer::keep(double width) {
  return keep_bytes(width * element_bytes_);
}

TokenLayer& TokenLayer::keep_replicated(double width) {
  return keep_replicated_bytes(width * element_bytes_);
}

TokenLayer& TokenLayer::keep_bytes(double bytes) {
  layer_.activation_memory += Bytes(tokens_ * bytes);
  return *this;
}

TokenLayer& TokenLayer::keep_replicated_bytes(double bytes) {
  layer_.activation_memory += Bytes(tokens_ * bytes);
  layer_.replicated_memory += Bytes(tokens_ * bytes);
  return *this;
}

TokenLayer& TokenLayer::as_head() {
  layer_.head = layer_.forward;
  return *this;
}

TokenLayer& TokenLayer::tie(double count) {
  layer_.tied_parameters += count;
  return *this;
}

Layer TokenLayer::layer() const {
  Layer result = layer_;
  result.backward = 2 * result.forward;
  return result;
}

}  // namespace dtfm
