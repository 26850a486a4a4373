#include "core/model/token_layer.hpp"

#include <algorithm>
#include <utility>

namespace dtfm {

TokenLayer::TokenLayer(std::string name, double tokens, double hidden, ActivationBytes bytes)
    : tokens_(tokens), bytes_(bytes) {
  layer_.name = std::move(name);
  layer_.output = Bytes(tokens * hidden * bytes.element);
}

namespace {

/// Five iterations of X ← a X + (b A + c A²) X with A = X Xᵀ, for a matrix of m × n, m ≤ n (Newton-Schulz;
/// Jordan et al., 2024, kellerjordan.github.io/posts/muon).
double orthogonalization_flops(double rows, double columns) {
  constexpr double iterations = 5;
  const double m = std::min(rows, columns), n = std::max(rows, columns);
  return iterations * (4 * m * m * n + 2 * m * m * m);
}

}  // namespace

TokenLayer& TokenLayer::project(double in, double out, bool bias, double tokens) {
  layer_.orthogonalization += Flops(orthogonalization_flops(in, out));
  layer_.parameters += in * out + (bias ? out : 0);
  layer_.matrix_parameters += in * out;
  layer_.forward += Flops(2 * tokens * in * out);
  return *this;
}

TokenLayer& TokenLayer::project_by_shared(double in, double out) {
  layer_.forward += Flops(2 * tokens_ * in * out);
  return *this;
}

TokenLayer& TokenLayer::add_parameters(double count) {
  layer_.parameters += count;
  return *this;
}

TokenLayer& TokenLayer::add_experts(const ExpertSizes& it) {
  const double weights = it.matrices * it.hidden * it.width, parameters = it.count * (weights + it.biases);
  layer_.parameters += parameters;
  layer_.expert_parameters += parameters;
  layer_.dispatched += Bytes(tokens_ * it.per_token * it.hidden * bytes_.element);
  layer_.matrix_parameters += it.count * weights;
  layer_.forward += Flops(2 * tokens_ * it.per_token * weights);
  layer_.routed += Flops(2 * tokens_ * it.per_token * weights);
  layer_.orthogonalization += Flops(it.count * it.matrices * orthogonalization_flops(it.hidden, it.width));
  return *this;
}

TokenLayer& TokenLayer::route_mlp() {
  layer_.routed_mlps += 1;
  return *this;
}

TokenLayer& TokenLayer::count_mlp(const TokenLayer& before) {
  layer_.mlps += layer_.forward - before.layer_.forward;
  layer_.mlp_memory += layer_.activation_memory - before.layer_.activation_memory;
  return *this;
}

TokenLayer& TokenLayer::count_routed(const TokenLayer& before) {
  layer_.routed_memory += layer_.activation_memory - before.layer_.activation_memory;
  return *this;
}

TokenLayer& TokenLayer::keep_expert_outputs(double width) {
  const Bytes before = layer_.activation_memory;
  keep_product_input(width);
  layer_.expert_outputs_memory += layer_.activation_memory - before;
  return *this;
}

TokenLayer& TokenLayer::add_attention(double flops, double skipped, Bytes memory) {
  layer_.forward += Flops(flops);
  layer_.attention += Flops(flops);
  layer_.skipped_attention += Flops(skipped);
  layer_.activation_memory += memory;
  layer_.attention_memory += memory;
  return *this;
}

TokenLayer& TokenLayer::add_attention_vectors(double keys_values, double queries_outputs) {
  layer_.keys_values += Bytes(tokens_ * keys_values * bytes_.element);
  layer_.queries_outputs += Bytes(tokens_ * queries_outputs * bytes_.element);
  return *this;
}

TokenLayer& TokenLayer::add_flops(double flops) {
  layer_.forward += Flops(flops);
  layer_.unweighted += Flops(flops);
  return *this;
}

TokenLayer& TokenLayer::keep(double width) {
  return keep_bytes(width * bytes_.element);
}

TokenLayer& TokenLayer::keep_replicated(double width) {
  return keep_replicated_bytes(width * bytes_.element);
}

TokenLayer& TokenLayer::keep_product_input(double width, bool is_kept) {
  if (bytes_.product_input > 0) return keep_bytes(width * bytes_.product_input);
  return is_kept ? *this : keep(width);
}

TokenLayer& TokenLayer::keep_replicated_product_input(double width) {
  return bytes_.product_input > 0 ? keep_replicated_bytes(width * bytes_.product_input)
                                  : keep_replicated(width);
}

TokenLayer& TokenLayer::gather_product_input(double width) {
  return gather(width * (bytes_.product_input > 0 ? bytes_.product_input : bytes_.element));
}

TokenLayer& TokenLayer::gather(double bytes) {
  layer_.gathered_memory += Bytes(tokens_ * bytes);
  return *this;
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

TokenLayer& TokenLayer::outside_of_blocks() {
  layer_.orthogonalization = {};
  layer_.matrix_parameters = 0;
  return *this;
}

TokenLayer& TokenLayer::as_head() {
  outside_of_blocks();
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
