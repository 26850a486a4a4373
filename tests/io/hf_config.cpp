#include "core/io/readers/hf_config.hpp"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/model_reader.hpp"
#include "core/model/model_features.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;

namespace {

Model read(const std::string& text) {
  return io::parse_hf_config(text, "config.json", std::nullopt, 2);
}

Transformer decoder(const std::string& text) {
  return std::get<Transformer>(read(text));
}

std::string error(const std::string& text) {
  return error_message([&] { read(text); });
}

/// A small Llama with these keys, too.
std::string llama(const std::string& keys = "") {
  return "{" +
         std::string(R"("model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
                        "num_hidden_layers": 3, "intermediate_size": 96)") +
         (keys.empty() ? "" : ", " + keys) + "}";
}

}  // namespace

// Missing keys: as many heads of keys as of queries, head and embedding apart. Rotary positions do not limit
// the sequence.
TEST_CASE("missing keys of a config.json have the defaults of transformers") {
  const Transformer model = decoder(llama());
  CHECK(model.sequence == 4096);
  CHECK(kv_head_count(model) == 4);
  CHECK(!model.tied);
  CHECK(model.biases == no_biases);
  CHECK(model.flash_attention);
  CHECK(beyond_plain_blocks(model).empty());
}

TEST_CASE("a config.json decides biases, widths and ties") {
  const Transformer model = decoder(llama(
      R"("attention_bias": true, "head_dim": 32, "num_key_value_heads": 2, "tie_word_embeddings": true)"));
  CHECK(model.biases == Biases{true, true, false, false});
  CHECK(head_width(model) == 32);
  CHECK(model.kv_heads == 2);
  CHECK(model.tied);
}

TEST_CASE("the sequence is at most 4,096 tokens by default") {
  CHECK(decoder(llama(R"("max_position_embeddings": 131072)")).sequence == 4096);
  CHECK(decoder(R"({"model_type": "gpt2"})").sequence == 1024);
  CHECK(std::get<Transformer>(io::parse_hf_config(llama(), "config.json", 8192, 2)).sequence == 8192);
}

TEST_CASE("keys without effect on costs are ignored, and others are errors") {
  CHECK(decoder(llama(R"("rope_theta": 1e6, "torch_dtype": "bfloat16", "bos_token_id": 1, "foo": null)")) ==
        decoder(llama()));
  CHECK_THAT(error(llama(R"("low_rank_width": 7)")),
             contains("config.json: /low_rank_width: unknown key of model_type llama"));
  CHECK_THAT(error(llama(R"("num_local_experts": 8)")),
             contains("/num_local_experts: models of model_type llama do not have this key"));
  CHECK_THAT(error(R"({"model_type": "lama"})"),
             contains("/model_type: unknown model_type `lama`; did you mean"));
  CHECK_THAT(error(R"({"hidden_size": 64})"), contains("missing key `model_type`"));
  CHECK_THAT(error(llama(R"("architectures": ["LlamaForSequenceClassification"])")),
             contains("/architectures: class `LlamaForSequenceClassification` is not supported"));
  CHECK_THAT(error(llama(R"("num_key_value_heads": 3)")), contains("3 kv_heads do not divide heads 4"));
  CHECK_THAT(error(llama(R"("head_dim": -1)")), contains("/head_dim: expected"));
  CHECK_THAT(error("[1]"), contains("config.json"));
}

TEST_CASE("a model is found by its class, and a multimodal one by its part for text") {
  const std::string text = llama();
  CHECK(decoder(R"({"text_config": )" + text + R"(, "vision_config": {"hidden_size": 5}})") == decoder(text));
  CHECK(decoder(R"({"tie_word_embeddings": true, "text_config": )" + text + "}").tied);
  CHECK(decoder(R"({"model_type": "my_llama", "architectures": ["LlamaForCausalLM"],)" +
                text.substr(text.find("\"hidden_size"))) == decoder(text));
}

// The first layer is dense; of the others, each has 4 experts of width 32 and one that all tokens visit.
TEST_CASE("DeepSeek's layers have latent attention, experts and predictions") {
  const Transformer model =
      decoder(R"({"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 3,
      "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96, "moe_intermediate_size": 32,
      "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "q_lora_rank": null,
      "num_nextn_predict_layers": 1})");
  CHECK(model.latent == LatentAttention{512, 0, 128, 64, 128});
  CHECK(model.experts.shared_width == 32);
  CHECK(model.predicted_tokens == 1);
  CHECK(model.blocks == std::vector<BlockKind>{{Mixer::attention, Mlp::dense},
                                               {Mixer::attention, Mlp::experts},
                                               {Mixer::attention, Mlp::experts}});
  CHECK_THAT(error(R"({"model_type": "deepseek_v3", "num_experts_per_tok": 300})"),
             contains("a token cannot visit 300 of 256 experts"));
}

TEST_CASE("the model of a job is read back as it is written") {
  for (const std::string& text :
       {llama(), llama(R"("attention_bias": true)"), std::string(R"({"model_type": "deepseek_v3"})"),
        std::string(R"({"model_type": "gpt2"})"), std::string(R"({"model_type": "t5"})"),
        std::string(R"({"model_type": "vit", "architectures": ["ViTForImageClassification"]})")}) {
    const Model model = read(text);
    const std::string job = fmt::format(
        "{{\"version\": 1, \"name\": \"x\", \"training\": {{\"global_batch\": 8}}, \"model\": {}}}",
        io::model_json(model).dump());
    const Model again = io::parse_job(job, "job.yaml").model;
    CHECK(io::model_json(again).dump() == io::model_json(model).dump());
    CHECK(again == model);
  }
}

TEST_CASE("parts that no form has are errors") {
  CHECK_THAT(error(R"({"model_type": "gpt2", "add_cross_attention": true})"),
             contains("/add_cross_attention: unknown key"));
  CHECK_THAT(error(R"({"model_type": "gpt_neo", "attention_types": [[[], 100000]]})"),
             contains("must not be empty"));
  CHECK_THAT(error(R"({"architectures": ["Qwen3VLModel"], "text_config": {"model_type": "qwen3_vl_text"}})"),
             contains("class `Qwen3VLModel` is not supported"));
}

TEST_CASE("sizes that are too large are errors") {
  CHECK_THAT(error(llama(R"("num_hidden_layers": 400000000)")), contains("duplicate key"));
  CHECK_THAT(error(R"({"model_type": "llama", "num_hidden_layers": 400000000})"),
             contains("has 400000000 layers, more than 100000"));
  CHECK_THAT(error(R"({"model_type": "llama", "hidden_size": 900000000})"),
             contains("/hidden_size: expected"));
  CHECK_THAT(error(R"({"model_type": "llama", "hidden_size": 400000000})"), contains("config.json"));
  CHECK_THAT(
      error(R"({"model_type": "deepseek_v3", "n_shared_experts": 100000, "moe_intermediate_size": 100000})"),
      contains("a size of 100000 × 100000 is too large"));
  CHECK_THAT(error(R"({"model_type": "t5", "num_decoder_layers": 400000000})"),
             contains("has 400000000 layers"));
  CHECK_THAT(error(R"({"model_type": "vit", "patch_size": 0})"), contains("a size of the model is 0"));
  CHECK_THAT(error(R"({"model_type": "llama", "num_attention_heads": 0})"), contains("config.json"));
}
