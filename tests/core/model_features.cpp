// What models have beyond plain blocks.
#include "core/model/model_features.hpp"

#include <array>

#include "tests/support/catch.hpp"
#include "tests/support/llama.hpp"

using namespace dtfm;

TEST_CASE("a model with equal blocks of attention and one MLP has no features") {
  CHECK(beyond_plain_blocks(llama_of(4)).empty());
  CHECK(beyond_plain_blocks(Transformer{4, 1024, 16, 512, 50257}).empty());
  Transformer model = llama_of(4);
  model.experts = {.count = 4, .per_token = 2, .width = 64};
  CHECK(beyond_plain_blocks(model) == "experts");
  model.blocks.assign(4, {Mixer::attention, Mlp::dense});  // no block has the experts
  CHECK(beyond_plain_blocks(model) == "blocks of several kinds");
}

TEST_CASE("the first feature that is not supported is named") {
  Transformer model = llama_of(2);
  model.latent = {.kv_rank = 64, .nope_dim = 32, .rope_dim = 16, .value_dim = 32};
  model.predicted_tokens = 1;
  model.norms = 4;
  CHECK(unsupported_feature(model, {}) == "latent attention");
  CHECK(unsupported_feature(model, std::array{ModelFeature::latent_attention}) ==
        "modules for multi-token prediction");
  CHECK(unsupported_feature(model, std::array{ModelFeature::prediction, ModelFeature::latent_attention}) ==
        "other than two norms per block");
  model.norms = 2;
  CHECK(unsupported_feature(model, std::array{ModelFeature::prediction, ModelFeature::latent_attention})
            .empty());
}

TEST_CASE("biases of matrices that a model does not have do not matter") {
  Transformer model = llama_of(2);
  CHECK(bias_pattern(model) == BiasPattern::none);
  model.biases = {true, true, true, false};
  CHECK(bias_pattern(model) == BiasPattern::all);
  model.biases = {true, true, false, false};
  CHECK(bias_pattern(model) == BiasPattern::other);
  model.experts = {.count = 4, .per_token = 2, .width = 64, .biases = true, .router_bias = true};
  CHECK(bias_pattern(model) == BiasPattern::all);  // there is no dense MLP
  model.experts.router_bias = false;
  CHECK(bias_pattern(model) == BiasPattern::other);
  model.experts.biases = false;
  model.biases = {true, false, true, false};
  CHECK(bias_pattern(model) == BiasPattern::qkv);
  model.biases.head = true;
  CHECK(beyond_plain_blocks(model) == "experts");
  model.experts = {};
  model.biases = {true, true, true, true};
  CHECK(beyond_plain_blocks(model) == "biases of some matrices only");
}
