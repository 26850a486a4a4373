#include "core/model/model.hpp"
#include "core/model/model_summary.hpp"

#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

Transformer llama_3_8b() {
  Transformer model{32, 4096, 32, 8192, 128256};
  model.kv_heads = 8;
  model.feed_forward = 14336;
  model.gated = true;
  model.norm = Norm::rms;
  model.biases = no_biases;
  model.learned_positions = model.tied = false;
  return model;
}

double all_parameters(const Model& model) {
  return parameters_of(layer_chain(model, 2), {0, layer_count(model)});
}

}  // namespace

// GPT-2: 124,439,808 in its published checkpoint. LLaMA-3-8B: 8,030,261,248. BERT-base: 109,482,240 for the
// encoder with its pooler, plus 768² + 768 + 2 · 768 + 30,522 for the masked-language-model head, is 110.1 M
// for pre-training.
TEST_CASE("transformers have as many parameters as the published checkpoints") {
  CHECK(all_parameters(Transformer{12, 768, 12, 1024, 50257}) == 124439808);
  CHECK(all_parameters(llama_3_8b()) == 8030261248);
  Transformer bert{12, 768, 12, 512, 30522};
  bert.encoder = true;
  CHECK(all_parameters(bert) == 109482240 + 768 * 768 + 768 + 2 * 768 + 30522);
}

// Qwen3-4B. Matrices of a block: queries and output 2 · 2560 · 32 · 128, keys and values 2 · 2560 · 8 · 128,
// MLP 3 · 2560 · 9728, together 100,925,440. With two norms of 2560, 36 blocks have 3,633,500,160 parameters;
// with the tied embedding, 151,936 · 2560, and the final norm 4,022,458,880; the norms of queries and keys
// add 36 · 2 · 128. Forward: 36 (2 · 4096 · 100,925,440 + 4 · 4096² · 32 · 128) + 2 · 4096 · 2560 · 151,936
// FLOPs.
TEST_CASE("heads may have another width than hidden ÷ heads") {
  Transformer model{36, 2560, 32, 4096, 151936};
  model.kv_heads = 8;
  model.head_dim = 128;
  model.feed_forward = 9728;
  model.gated = model.flash_attention = true;
  model.norm = Norm::rms;
  model.biases = no_biases;
  model.learned_positions = false;
  CHECK(all_parameters(model) == 4022458880);
  double flops = 0;
  for (const Layer& layer : layer_chain(Model(model), 2)) flops += (layer.forward + layer.backward).value();
  CHECK(flops == 3 * 42846056873984.0);  // 1.28538e14
  // Queries and keys before their norms: 2 · 4096 · (4096 + 1024) bytes.
  const double kept = layer_kinds(model, 2).kinds[1].activation_memory.value();
  model.qk_norm = QkNorm::head;
  CHECK(all_parameters(model) == 4022468096);
  CHECK(layer_kinds(model, 2).kinds[1].activation_memory.value() - kept == 2 * 4096 * (4096 + 1024));
  // Layer norms have twice as many: also those of the 72 norms of 2560 and the final one.
  model.norm = Norm::layer;
  CHECK(all_parameters(model) == 4022468096 + 73 * 2560 + 36 * 2 * 128);
}

// h = 6, a = 2 heads of width 4, so that q = k = 8; s = 16, f = 24. Biases of queries, keys, values and the
// output 8 + 8 + 8 + 6, of the MLP 24 + 6; two norms of 12. It keeps norms 4 s h, attention 2 s h + 8 s q,
// its core 5 a s², MLP 2 s h + 4 s f and masks 2 s h.
TEST_CASE("the width of heads counts in biases and activations") {
  Transformer model{3, 6, 2, 16, 100};
  model.head_dim = 4;
  const Layer block = layer_kinds(model, 2).kinds[1];
  CHECK(block.parameters == 4 * 6 * 8 + 2 * 6 * 24 + 30 + 30 + 24);
  CHECK(block.activation_memory.value() == 16 * (10 * 6 + 8 * 8 + 4 * 24) + 5 * 2 * 256);
  CHECK(block.replicated_memory.value() == 10 * 16 * 6);
}

// Vocabulary 50,304, hidden 2048, sequence 2048, untied head and embedding: the first three blocks with the
// embedding, two blocks, and two blocks with the head and the final norm.
TEST_CASE("stages of a transformer have the parameters of their blocks and embedding and head") {
  Transformer model{7, 2048, 16, 2048, 50304};
  model.tied = false;
  const std::vector<Layer> chain = layer_chain(Model(model), 2);
  CHECK(parameters_of(chain, {0, 3}) == 258291712);
  CHECK(parameters_of(chain, {3, 5}) == 100716544);
  CHECK(parameters_of(chain, {5, 7}) == 203743232);
}

// h = 8, s = 16, a = 2, t = 4.
TEST_CASE("without sequence parallelism a device keeps s h (10 + 24 ÷ t + 5 a s ÷ (h t)) bytes") {
  const std::vector<Layer> chain = layer_chain(Model(Transformer{3, 8, 2, 16, 100}), 2);
  const double sh = 16 * 8;
  const Layer whole = with_activations_of_device(chain[1], 4, false),
              divided = with_activations_of_device(chain[1], 4, true);
  CHECK(whole.activation_memory.value() == sh * (10 + 24.0 / 4 + 5.0 * 2 * 16 / (8 * 4)));
  CHECK(divided.activation_memory.value() == sh * (34 + 5.0 * 2 * 16 / 8) / 4);
  CHECK(whole.attention_memory == divided.attention_memory);
  CHECK(whole.output == chain[1].output);
  CHECK(divided.output.value() == 2 * sh / 4);
  CHECK(whole.parameters == chain[1].parameters);
  CHECK(with_activations_of_device(chain[1], 1, false) == chain[1]);
}

// h = 8, s = 16, a = 2: forward 24 s h² + 4 s² h, activations s h (34 + 5 a s ÷ h), of which 10 s h are not
// divided by tensor parallelism.
TEST_CASE("a GPT block has the operations and activations given in the literature") {
  const LayerKinds kinds = layer_kinds(Transformer{3, 8, 2, 16, 100}, 2);
  REQUIRE(kinds.kinds.size() == 3);
  const Layer &embedding = kinds.kinds[0], &block = kinds.kinds[1], &head = kinds.kinds[2];
  CHECK(kinds.kinds_of_layer == std::vector<std::vector<int>>{{0, 1}, {1}, {1, 2}});
  CHECK(block.parameters == 12 * 64 + 13 * 8);
  CHECK(block.forward.value() == 24 * 16 * 64 + 4 * 256 * 8);
  CHECK(block.backward.value() == 2 * block.forward.value());
  CHECK(block.activation_memory.value() == 16 * 8 * (34 + 5 * 2 * 16 / 8));
  CHECK(block.attention_memory.value() == 5 * 2 * 256);
  CHECK(block.replicated_memory.value() == 10 * 16 * 8);
  CHECK(block.output.value() == 2 * 16 * 8);
  CHECK(embedding.forward.value() == 0);
  CHECK(embedding.activation_memory.value() == 8 * 16 + 16 * 8);
  CHECK(embedding.replicated_memory == embedding.activation_memory);
  CHECK(head.forward.value() == 2 * 16 * 8 * 100);
  CHECK(head.activation_memory.value() == 4 * 16 * 8 + 4 * 16 * 100);
  CHECK(head.replicated_memory.value() == 4 * 16 * 8);
  // In 32 bits everything doubles except the one-byte masks, 2 s h + a s², and the logits, which are fp32
  // anyway.
  const LayerKinds wide = layer_kinds(Transformer{3, 8, 2, 16, 100}, 4);
  CHECK(wide.kinds[1].activation_memory.value() ==
        2 * block.activation_memory.value() - (2 * 16 * 8 + 2 * 256));
  CHECK(wide.kinds[1].replicated_memory.value() == 2 * 8 * 16 * 8 + 2 * 16 * 8);
  CHECK(wide.kinds[1].attention_memory.value() == 2 * 4 * 2 * 256 + 2 * 256);
  CHECK(wide.kinds[2].activation_memory.value() == 2 * 4 * 16 * 8 + 4 * 16 * 100);

  Transformer flash{3, 8, 2, 16, 100};
  flash.flash_attention = true;
  CHECK(layer_kinds(flash, 2).kinds[1].activation_memory.value() == 34 * 16 * 8);
  flash.dropout = false;
  CHECK(layer_kinds(flash, 2).kinds[1].activation_memory.value() == 32 * 16 * 8);
  CHECK(layer_kinds(flash, 2).kinds[0].activation_memory.value() == 8 * 16);
  // Without dropout, eager attention keeps the probabilities alone: 2 or 4 bytes of each.
  Transformer plain{3, 8, 2, 16, 100};
  plain.attention_dropout = false;
  CHECK(layer_kinds(plain, 2).kinds[1].attention_memory.value() == 2 * 2 * 256);
  CHECK(layer_kinds(plain, 4).kinds[1].attention_memory.value() == 4 * 2 * 256);
  CHECK(layer_kinds(plain, 2).kinds[1].activation_memory.value() == 34 * 16 * 8 + 2 * 2 * 256);
}

// q = 8 and k = 4 numbers of rotated queries and keys, f = 12 of the gate's activation; 100 logits. A device
// of four holds the inputs of attention, MLP and head, 2 s h each, whole.
TEST_CASE("eager kernels keep the results of separate operations and gathered inputs") {
  Transformer fused{3, 8, 2, 16, 100};
  fused.kv_heads = 1;
  fused.feed_forward = 12;
  fused.gated = fused.flash_attention = true;
  fused.learned_positions = false;
  Transformer eager = fused;
  eager.eager_kernels = true;
  const LayerKinds of_fused = layer_kinds(fused, 2), of_eager = layer_kinds(eager, 2);
  const auto memory = [](const Layer& layer) { return layer.activation_memory.value(); };
  const auto of_device = [](const Layer& layer, bool sequence_parallel) {
    return with_activations_of_device(layer, 4, sequence_parallel).activation_memory.value();
  };
  const Layer &block = of_eager.kinds[1], &head = of_eager.kinds[2];
  CHECK(memory(block) == memory(of_fused.kinds[1]) + 2 * 16 * (8 + 4 + 12));
  CHECK(memory(head) == memory(of_fused.kinds[2]) + 6 * 16 * 100);
  CHECK(of_device(block, true) == memory(block) / 4 + 2 * 2 * 16 * 8 * 0.75);
  CHECK(of_device(head, true) == memory(head) / 4 + 2 * 16 * 8 * 0.75);
  CHECK(of_device(of_fused.kinds[1], true) == memory(of_fused.kinds[1]) / 4);
  // In 32 bits the product needs no copy.
  CHECK(memory(layer_kinds(eager, 4).kinds[2]) == memory(layer_kinds(fused, 4).kinds[2]) + 4 * 16 * 100);
  // Quantized products of blocks have inputs of one byte, the head's is not quantized.
  const LayerKinds quantized = layer_kinds(eager, {2, 1});
  CHECK(quantized.kinds[1].gathered_memory.value() == 2 * 16 * 8);
  CHECK(quantized.kinds[2].gathered_memory.value() == 2 * 16 * 8);
  // Without sequence parallelism they are whole anyway.
  CHECK(of_device(head, false) == of_device(of_fused.kinds[2], false) + 6 * 16 * 100 / 4.0);
  CHECK(of_eager.kinds[0] == of_fused.kinds[0]);
  CHECK(block.forward == of_fused.kinds[1].forward);
  // Learned positions are not rotated, and an MLP without a gate keeps both sides of its activation function.
  fused.learned_positions = eager.learned_positions = true;
  fused.gated = eager.gated = false;
  CHECK(memory(layer_kinds(eager, 2).kinds[1]) == memory(layer_kinds(fused, 2).kinds[1]));
}

TEST_CASE("eager kernels keep more of experts and of latent attention") {
  Transformer fused{3, 8, 2, 16, 100};
  fused.gated = fused.flash_attention = true;
  fused.learned_positions = false;
  fused.experts = {.count = 4, .per_token = 2, .width = 6, .shared_width = 10};
  fused.latent = {.kv_rank = 7, .query_rank = 5, .nope_dim = 4, .rope_dim = 2, .value_dim = 3};
  Transformer eager = fused;
  eager.eager_kernels = true;
  const Layer block = layer_kinds(eager, 2).kinds[1], of_fused = layer_kinds(fused, 2).kinds[1];
  // Two experts per token, shared experts; rotary parts of two queries and of one key.
  CHECK((block.activation_memory - of_fused.activation_memory).value() == 2 * 16 * (2 * 6 + 10 + 3 * 2));
  CHECK((block.routed_memory - of_fused.routed_memory).value() == 2 * 16 * 2 * 6);
}

// Queries and output 2 · 4096², keys and values 2 · 4096 · 1024, three matrices of 4096 · 14336; 8192 tokens.
TEST_CASE("grouped queries and gated MLPs have their own operations and activations") {
  const Layer block = layer_kinds(llama_3_8b(), 2).kinds[1];
  const double matrices = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336, s = 8192;
  CHECK(block.parameters == matrices + 2 * 4096);
  CHECK(block.forward.value() == 2 * s * matrices + 4 * s * s * 4096);
  // Norms 4 h; input, queries, attention output and a mask 7 h; keys and values 4 · 1024; the MLP's input and
  // mask 3 h; gate, other factor and product 6 · 14336.
  CHECK(block.activation_memory.value() == s * (14.0 * 4096 + 4 * 1024 + 6.0 * 14336) + 5 * 32 * s * s);
}

TEST_CASE("the first and last layers of a chain are sums of their kinds") {
  const LayerKinds kinds = layer_kinds(Transformer{1, 8, 2, 16, 100}, 2);
  CHECK(kinds.kinds_of_layer == std::vector<std::vector<int>>{{0, 1, 2}});
  const Layer only = layer_chain(kinds).front();
  CHECK(only.forward.value() == kinds.kinds[1].forward.value() + kinds.kinds[2].forward.value());
  CHECK(only.head.value() == kinds.kinds[2].forward.value());
  // The vocabulary matrix once, positions, the block, the final norm.
  CHECK(parameters_of({only}, {0, 1}) == 800 + 128 + 872 + 16);
}

TEST_CASE("equal layers of a chain are one kind") {
  Layer wide, narrow;
  wide.parameters = 2;
  narrow.parameters = 1;
  const LayerKinds kinds = layer_kinds(LayerChain{1, {wide, narrow, wide, wide}}, 2);
  CHECK(kinds.kinds == std::vector<Layer>{wide, narrow});
  CHECK(kinds.kinds_of_layer == std::vector<std::vector<int>>{{0}, {1}, {0}, {0}});
  CHECK(layer_chain(kinds) == std::vector<Layer>{wide, narrow, wide, wide});
}

// h = 8, s = 16, E = 4 experts of width 6, of which a token visits 2, and shared experts of width 10. Per
// expert 3 · 8 · 6 = 144 weights; shared 3 · 8 · 10 = 240; router 8 · 4. Attention 4 · 64, two RMS norms
// of 8. Kept, beside attention (2 s h + 8 s h) and norms (4 s h), masks (2 s h): the input 2 s h, router 8 s
// E; per visit the input 2 s h and 6 s · 6; 6 s · 10 for the shared experts.
TEST_CASE("a mixture of experts has the operations of the experts that a token visits") {
  Transformer model{3, 8, 2, 16, 100};
  model.gated = model.flash_attention = true;
  model.biases = no_biases;
  model.norm = Norm::rms;
  model.experts = {.count = 4, .per_token = 2, .width = 6, .shared_width = 10};
  const Layer block = layer_kinds(model, 2).kinds[1];
  CHECK(block.parameters == 4 * 144 + 240 + 32 + 256 + 16);
  CHECK(block.expert_parameters == 4 * 144);
  CHECK(block.forward.value() == 2 * 16 * (2 * 144 + 240 + 32 + 256) + 4 * 256 * 8);
  CHECK(block.activation_memory.value() ==
        16 * (10 * 8 + 4 * 8 + 2 * 8 + 2 * 8 + 8 * 4 + 2 * (2 * 8 + 6 * 6) + 6 * 10));
}

// h = 8, s = 16, 2 heads with 4 + 2 numbers in queries and keys and 3 in values; latent widths 5 and 7. The
// matrices: 8 · 5 and 5 · 12 for queries, 8 · (7 + 2) and 7 · 2 · (4 + 3) for keys and values, 6 · 8 for the
// output; norms of 5 and 7. Scores take 2 s² · 12 FLOPs, the weighted sum 2 s² · 6.
TEST_CASE("latent attention has projections to and from latent vectors") {
  Transformer model{3, 8, 2, 16, 100};
  model.flash_attention = true;
  model.biases = no_biases;
  model.norm = Norm::rms;
  model.latent = {.kv_rank = 7, .query_rank = 5, .nope_dim = 4, .rope_dim = 2, .value_dim = 3};
  const double matrices = 40 + 60 + 72 + 98 + 48, mlp = 2 * 8 * 32;
  Layer block = layer_kinds(model, 2).kinds[1];
  CHECK(block.parameters == matrices + 12 + mlp + 16);
  CHECK(block.attention.value() == 2 * 256 * (12 + 6));
  CHECK(block.forward.value() == 2 * 16 * (matrices + mlp) + block.attention.value());
  // Norms, both inputs and masks 10 s h; latent vectors 4 s · 5 and 4 s · 7, the rotary key 2 s · 2; queries
  // and keys 4 s · 12; values and the output 4 s · 6; MLP 4 s · 32.
  CHECK(block.activation_memory.value() == 16 * (10 * 8 + 20 + 28 + 4 + 48 + 24 + 128));
  model.latent.query_rank = 0;  // 8 · 12 for queries
  block = layer_kinds(model, 2).kinds[1];
  CHECK(block.parameters == 96 + matrices - 100 + 7 + mlp + 16);
}

TEST_CASE("a window limits the operations of flash attention") {
  Transformer model{3, 8, 2, 16, 100};
  model.window = 4;
  CHECK(layer_kinds(model, 2).kinds[1].attention.value() == 4 * 256 * 8);
  model.flash_attention = true;
  CHECK(layer_kinds(model, 2).kinds[1].attention.value() == 4 * 16 * 4 * 8);
  CHECK(summarize_model(model, 2).attention.value() == 3 * 4 * 256 * 8);
}

TEST_CASE("blocks of several kinds are kinds of layers in the order in which they appear") {
  Transformer model{4, 8, 2, 16, 100};
  model.window = 4;
  model.experts = {.count = 4, .per_token = 1, .width = 6};
  model.blocks = {{Mixer::attention, Mlp::dense},
                  {Mixer::window_attention, Mlp::experts},
                  {Mixer::attention, Mlp::dense},
                  {Mixer::window_attention, Mlp::experts}};
  const LayerKinds kinds = layer_kinds(model, 2);
  std::vector<std::string> names;
  for (const Layer& kind : kinds.kinds) names.push_back(kind.name);
  CHECK(names == std::vector<std::string>{"embedding", "dense", "moe-window", "head"});
  CHECK(kinds.kinds_of_layer == std::vector<std::vector<int>>{{0, 1}, {2}, {1}, {2, 3}});
}

// DeepSeek-V3's module has norms of the hidden state, of the embedding and before the head, a projection
// 2 h × h, and a block; embedding and head are those of the model.
TEST_CASE("modules for multi-token prediction count apart from the model") {
  Transformer model{3, 8, 2, 16, 100};
  model.tied = false;
  const ModelSummary without = summarize_model(model, 2);
  model.predicted_tokens = 2;
  const LayerKinds kinds = layer_kinds(model, 2);
  const ModelSummary with = summarize_model(model, 2);
  CHECK(with.parameters == without.parameters);
  CHECK(with.forward == without.forward);
  CHECK(with.prediction_parameters == 2 * (kinds.kinds[1].parameters + 3 * 16 + 128));
  // Only a stage without the first layer has a copy of the embedding, for both modules.
  const std::vector<Layer> chain = layer_chain(kinds);
  CHECK(chain.back().tied_parameters == 100 * 8);
  CHECK(parameters_of(chain, {0, 3}) == with.parameters + with.prediction_parameters);
}

// Gated delta net with 1 key head of 4 and 2 value heads of 3, so that 4 + 4 + 6 = 14 numbers are convolved:
// projections 8 · (14 + 6 + 4) and 6 · 8; convolution 14 · 4; 2 + 2 + 3 further parameters. Mamba-2 with 2
// heads of 3, 1 group, state 5, so that 6 + 10 = 16 are: projections 8 · (6 + 16 + 2) and 6 · 8; convolution
// with biases 16 · 5; 3 · 2 + 6. All tokens are in one chunk of 256: scores and sums per head take 5 + 3
// products of 256 · 256, its state 2 · 256 for each of 6 · 5 numbers, and the states of all chunks, of which
// there are 2 with the initial one, 2².
TEST_CASE("linear attention and state spaces are kinds of blocks") {
  Transformer model{2, 8, 2, 16, 100};
  model.delta_net = {.key_heads = 1, .key_dim = 4, .value_heads = 2, .value_dim = 3};
  model.mamba = {.heads = 2, .head_dim = 3, .groups = 1, .state = 5};
  model.blocks = {{Mixer::delta_net, Mlp::none}, {Mixer::mamba_2, Mlp::none}};
  const LayerKinds kinds = layer_kinds(model, 2);
  const Layer &delta_net = kinds.kinds[1], &mamba = kinds.kinds[2];
  CHECK(delta_net.parameters == 192 + 48 + 56 + 7 + 16);
  CHECK(delta_net.forward.value() ==
        2 * 16 * (192 + 48 + 56) + 2 * 16 * 2 * (2 * 64 * 4 + 64 * 3 + 3 * 4 * 3));
  CHECK(mamba.parameters == 192 + 48 + 80 + 12 + 16);
  CHECK(mamba.forward.value() ==
        2 * 16 * (192 + 48 + 64) + 2 * 256 * 256 * (2 * 5 + 6) + 2 * 30 * (2 * 256 + 4));
}

// Attention and MLP read one norm, and each keeps 2 s h less: of the 34 s h bytes of a GPT block, one norm
// and one input.
TEST_CASE("parallel attention and MLP keep their input once") {
  Transformer model{3, 8, 2, 16, 100};
  model.flash_attention = true;
  model.norms = 1;
  CHECK(layer_kinds(model, 2).kinds[1].activation_memory.value() == (34 - 2 - 2) * 16 * 8);
  model.blocks = {
      {Mixer::attention, Mlp::none}, {Mixer::attention, Mlp::none}, {Mixer::attention, Mlp::none}};
  // A norm 2 s h, attention 10 s h, and one mask.
  CHECK(layer_kinds(model, 2).kinds[1].activation_memory.value() == (2 + 10 + 1) * 16 * 8);
}
