#include "model/config/config.h"

#include "model/config/architectures.h"
#include "model/config/config_archive.h"
#include "parallel/exchange/archive.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {
namespace {

using nlohmann::json;
using test::damage_of;
using test::damage_with;
using test::error_of;
using test::parse;
using test::refusal_of;
using test::refusal_with;
using test::small_config;

const char* const kAdvice = "; the file may be damaged: get it again from where the model comes from";

TEST(Config, ReadsTheFile) {
  json object = small_config();
  object.update({{"head_dim", 24},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 500000.0},
                 {"attention_bias", true},
                 {"mlp_bias", true},
                 {"tie_word_embeddings", true},
                 {"eos_token_id", {2, 7}}});
  const CheckpointConfig config = parse(object);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.intermediate_size, 160U);
  EXPECT_EQ(config.num_hidden_layers, 2U);
  EXPECT_EQ(config.num_attention_heads, 8U);
  EXPECT_EQ(config.num_key_value_heads, 4U);
  EXPECT_EQ(config.head_dim, 24U);
  EXPECT_EQ(config.vocab_size, 320U);
  EXPECT_EQ(config.max_position_embeddings, 256U);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000.0);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_TRUE(config.mlp_bias);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.torch_dtype, DType::bf16);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{2, 7}));
}

TEST(Config, HasTheDefaultsOfTransformers) {
  json object = small_config();
  object.erase("num_key_value_heads");
  object.erase("torch_dtype");
  object["head_dim"] = nullptr;  // null counts as absent
  const CheckpointConfig config = parse(object);
  EXPECT_EQ(config.num_key_value_heads, 8U);
  EXPECT_EQ(config.head_dim, 8U);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::none);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.hidden_act, "silu");
  EXPECT_EQ(config.torch_dtype, DType::f32);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(Config, AcceptsOneOrSeveralEosTokens) {
  json object = small_config();
  object["eos_token_id"] = 2;
  EXPECT_EQ(parse(object).eos_token_ids, std::vector<TokenId>{2});
  object["eos_token_id"] = {128001, 128008, 128009};
  EXPECT_EQ(parse(object).eos_token_ids, (std::vector<TokenId>{128001, 128008, 128009}));
  object["eos_token_id"] = nullptr;
  EXPECT_TRUE(parse(object).eos_token_ids.empty());
}

TEST(Config, NamesAFieldThatIsMissing) {
  for (const char* field :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
    json object = small_config();
    object.erase(field);
    EXPECT_EQ(
        damage_of(object),
        fmt::format("config.json: cannot use the file: found no '{0}' in it, expected a value for '{0}'{1}",
                    field, kAdvice));
  }
}

TEST(Config, RejectsInvalidSizes) {
  EXPECT_EQ(damage_with("num_attention_heads", 0),
            std::string("config.json: cannot use num_attention_heads: found 0, expected a whole number from "
                        "1 to 2147483647") +
                kAdvice);
  EXPECT_EQ(damage_with("hidden_size", "64"),
            std::string("config.json: cannot use hidden_size: found the string '64', expected a whole number "
                        "from 1 to 2147483647") +
                kAdvice);
  EXPECT_EQ(damage_with("num_hidden_layers", -1),
            std::string("config.json: cannot use num_hidden_layers: found -1, expected a whole number "
                        "from 1 to 2147483647") +
                kAdvice);
  EXPECT_EQ(
      damage_with("vocab_size", 3.5),
      std::string(
          "config.json: cannot use vocab_size: found 3.5, expected a whole number from 1 to 2147483647") +
          kAdvice);
  EXPECT_EQ(damage_with("intermediate_size", std::uint64_t{1} << 63),
            std::string("config.json: cannot use intermediate_size: found 9223372036854775808, expected a "
                        "whole number from 1 to 2147483647") +
                kAdvice);
  EXPECT_EQ(damage_with("max_position_embeddings", json::array({1})),
            std::string("config.json: cannot use max_position_embeddings: found a value of type array, "
                        "expected a whole number from 1 to 2147483647") +
                kAdvice);
}

TEST(Config, RefusesOtherWrongTypes) {
  EXPECT_EQ(damage_with("rms_norm_eps", "1e-5"),
            std::string("config.json: cannot use rms_norm_eps: found the string '1e-5', expected a number") +
                kAdvice);
  EXPECT_EQ(damage_with("attention_bias", 1),
            std::string("config.json: cannot use attention_bias: found 1, expected true or false") + kAdvice);
  EXPECT_EQ(damage_with("hidden_act", 3),
            std::string("config.json: cannot use hidden_act: found 3, expected a string") + kAdvice);
  EXPECT_EQ(damage_with("eos_token_id", "</s>"),
            std::string("config.json: cannot use eos_token_id: found the string '</s>', expected a token id "
                        "or a list of token ids") +
                kAdvice);
  EXPECT_EQ(
      damage_with("eos_token_id", {2, 2.5}),
      std::string(
          "config.json: cannot use eos_token_id[1]: found 2.5, expected a token id or a list of token ids") +
          kAdvice);
  EXPECT_EQ(
      damage_with("rope_scaling", "linear"),
      std::string("config.json: cannot use rope_scaling: found the string 'linear', expected an object") +
          kAdvice);
  EXPECT_EQ(refusal_with("torch_dtype", "int8"),
            "config.json: torch_dtype must be float32, float16 or bfloat16, found \"int8\"");
}

TEST(Config, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(refusal_with("num_key_value_heads", 3),
            "config.json: num_attention_heads must be a multiple of num_key_value_heads, found 8 and 3");
  EXPECT_EQ(refusal_with("num_key_value_heads", 16),
            "config.json: num_attention_heads must be a multiple of num_key_value_heads, found 8 and 16");
  EXPECT_EQ(refusal_with("hidden_size", 65),
            "config.json: hidden_size must be a multiple of num_attention_heads where head_dim is not given, "
            "found 65 and 8");
  EXPECT_EQ(refusal_with("head_dim", 7),
            "config.json: head_dim must be even, because RoPE rotates pairs, found 7");
}

TEST(Config, RefusesNumbersThatCannotWork) {
  EXPECT_EQ(
      refusal_with("rope_theta", 0),
      "config.json: expected rms_norm_eps >= 0, layer_norm_eps >= 0 and rope_theta > 0, found 1e-06, 1e-05 "
      "and 0");
  EXPECT_EQ(
      refusal_with("rms_norm_eps", -1e-5),
      "config.json: expected rms_norm_eps >= 0, layer_norm_eps >= 0 and rope_theta > 0, found -1e-05, 1e-05 "
      "and 10000");
}

TEST(Config, RejectsArchitecturesThatAreNotAList) {
  for (const json& none : {json(nullptr), json::array()})
    EXPECT_CONTAINS(refusal_with("architectures", none), "architectures must be a list with");
  for (const json& wrong : {json("LlamaForCausalLM"), json::array({3})})
    EXPECT_CONTAINS(damage_with("architectures", wrong), "cannot use architectures");
  json object = small_config();
  object.erase("architectures");
  EXPECT_CONTAINS(refusal_of(object), "architectures");
}

TEST(Config, ReadsTheNamesThatGpt2HasForItsFields) {
  const CheckpointConfig config = parse({{"architectures", {"GPT2LMHeadModel"}},
                                         {"n_embd", 64},
                                         {"n_head", 4},
                                         {"n_layer", 3},
                                         {"n_positions", 128},
                                         {"n_inner", nullptr},
                                         {"layer_norm_epsilon", 1e-4},
                                         {"activation_function", "relu"},
                                         {"vocab_size", 100}});
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.num_attention_heads, 4U);
  EXPECT_EQ(config.num_hidden_layers, 3U);
  EXPECT_EQ(config.max_position_embeddings, 128U);
  EXPECT_EQ(config.intermediate_size, 256U);
  EXPECT_EQ(config.layer_norm_eps, 1e-4);
  EXPECT_EQ(config.hidden_act, "relu");
}

TEST(Config, ReadsFalconsKvHeadsByItsGeneration) {
  json object = {{"architectures", {"FalconForCausalLM"}},
                 {"hidden_size", 64},
                 {"num_attention_heads", 8},
                 {"num_hidden_layers", 2},
                 {"vocab_size", 100},
                 {"num_kv_heads", 2},
                 {"multi_query", true}};
  EXPECT_EQ(parse(object).num_key_value_heads, 1U);
  object["new_decoder_architecture"] = true;
  EXPECT_EQ(parse(object).num_key_value_heads, 2U);
  object["bias"] = true;
  EXPECT_TRUE(parse(object).attention_bias && parse(object).mlp_bias);
}

TEST(Config, TakesNullAsNoneIfTheFamilyHasADefault) {
  json object = small_config();
  object["architectures"] = {"Gemma2ForCausalLM"};
  EXPECT_EQ(parse(object).sliding_window, 4096U);
  EXPECT_EQ(parse(object).attn_logit_softcapping, 50.0);
  EXPECT_EQ(parse(object).final_logit_softcapping, 30.0);
  object.update({{"sliding_window", nullptr},
                 {"attn_logit_softcapping", nullptr},
                 {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(parse(object).sliding_window, 0U);
  EXPECT_EQ(parse(object).attn_logit_softcapping, 0.0);
  EXPECT_EQ(parse(object).final_logit_softcapping, 0.0);
}

// Gemma 3 4B on the Hub: fields that differ from the defaults, and outside of them fields of any checkpoint.
TEST(Config, TakesALanguageModelFromTextConfig) {
  const json object = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"model_type", "gemma3"},
                       {"hidden_size", 7},
                       {"eos_token_id", {1, 106}},
                       {"torch_dtype", "bfloat16"},
                       {"text_config",
                        {{"architectures", {"Gemma3ForCausalLM"}},
                         {"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"num_hidden_layers", 34},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024},
                         {"torch_dtype", nullptr}}},
                       {"vision_config", {{"hidden_size", 1152}}}};
  const CheckpointConfig config = parse(object);
  EXPECT_EQ(config.architecture, "Gemma3ForConditionalGeneration");
  EXPECT_EQ(config.hidden_size, 2560U);
  EXPECT_EQ(config.num_attention_heads, 8U);
  EXPECT_EQ(config.num_key_value_heads, 4U);
  EXPECT_EQ(config.head_dim, 256U);
  EXPECT_EQ(config.vocab_size, 262208U);
  EXPECT_EQ(config.sliding_window, 1024U);
  EXPECT_EQ(config.rope_local_base_freq, 1e4);
  EXPECT_EQ(config.rope_scaling.factor, 8.0);
  EXPECT_EQ(config.torch_dtype, DType::bf16);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{1, 106}));
  EXPECT_TRUE(config.tie_word_embeddings);
}

std::string windows_of(const CheckpointConfig& config) {
  std::string windows;
  for (const std::string& type : config.layer_types) windows += type == "sliding_attention" ? 'L' : 'G';
  return windows;
}

TEST(Config, TakesWindowsFromAPatternIfLayerTypesAreMissing) {
  json object = small_config();
  object.update({{"architectures", {"Gemma3ForCausalLM"}}, {"num_hidden_layers", 7}});
  EXPECT_EQ(windows_of(parse(object)), "LLLLLGL");
  object["sliding_window_pattern"] = 3;
  EXPECT_EQ(windows_of(parse(object)), "LLGLLGL");
  object["sliding_window_pattern"] = "LLLG";
  EXPECT_EQ(windows_of(parse(object)), "LLLGLLL");
  object["sliding_window_pattern"] = "LXG";
  EXPECT_CONTAINS(damage_of(object), "sliding_window_pattern: found the string 'LXG', expected a number");
  object["sliding_window_pattern"] = 1;
  EXPECT_EQ(windows_of(parse(object)), "GGGGGGG");
  object["sliding_window_pattern"] = 3;
  object["sliding_window"] = nullptr;
  EXPECT_EQ(windows_of(parse(object)), "");
  object["sliding_window"] = 8;
  object["layer_types"] = std::vector<std::string>(7, "full_attention");
  EXPECT_EQ(windows_of(parse(object)), "GGGGGGG");
}

TEST(Config, NamesTheLayersWithoutRope) {
  json object = small_config();
  object.update({{"architectures", {"SmolLM3ForCausalLM"}}, {"num_hidden_layers", 5}});
  EXPECT_EQ(parse(object).no_rope_layers, (std::vector<std::size_t>{1, 1, 1, 0, 1}));
  object["no_rope_layer_interval"] = 2;
  EXPECT_EQ(parse(object).no_rope_layers, (std::vector<std::size_t>{1, 0, 1, 0, 1}));
  object["no_rope_layers"] = {0, 1, 1, 1, 1};
  EXPECT_EQ(parse(object).no_rope_layers, (std::vector<std::size_t>{0, 1, 1, 1, 1}));
  EXPECT_FALSE(std::get<AttentionSpec>(make_spec(parse(object)).blocks[0].attention).rope.has_value());
  EXPECT_TRUE(std::get<AttentionSpec>(make_spec(parse(object)).blocks[1].attention).rope.has_value());
  object["no_rope_layers"] = {0, 1};
  EXPECT_EQ(
      refusal_of(object),
      "config.json: no_rope_layers must have an entry for every layer, expected 5 (num_hidden_layers), found "
      "2");
}

TEST(Config, RejectsDecodersWithBidirectionalAttention) {
  json object = small_config();
  object.update({{"architectures", {"Gemma3ForCausalLM"}}, {"use_bidirectional_attention", true}});
  EXPECT_CONTAINS(refusal_of(object),
                  "expected a model that generates text, found use_bidirectional_attention");
}

TEST(Config, RefusesSlidingLayersWithoutAWindow) {
  const auto error_with = [](const json& fields) {
    json object = small_config();
    object.update(fields);
    return test::error_of<ConfigError>([&] { make_spec(parse(object)); });
  };
  const json types = {"sliding_attention", "full_attention"};
  EXPECT_CONTAINS(
      error_with(
          {{"architectures", {"MistralForCausalLM"}}, {"layer_types", types}, {"sliding_window", nullptr}}),
      "expected a `sliding_window` for them, and found none");
  EXPECT_CONTAINS(
      error_with({{"architectures", {"Qwen2ForCausalLM"}}, {"layer_types", types}, {"sliding_window", 8}}),
      "found `use_sliding_window` false");
}

TEST(Config, RefusesLayerTypesThatDoNotFit) {
  EXPECT_EQ(refusal_with("layer_types", {"full_attention"}),
            "config.json: layer_types must have an entry for every layer, expected 2 (num_hidden_layers), "
            "found 1");
  EXPECT_EQ(refusal_with("layer_types", {"full_attention", "linear_attention"}),
            "config.json: layer_types must be full_attention, sliding_attention for LlamaForCausalLM "
            "(chunked_attention with an attention_chunk_size), found \"linear_attention\"; use a model "
            "without such "
            "layers");
  EXPECT_EQ(
      damage_with("layer_types", "full_attention"),
      std::string("config.json: cannot use layer_types: found the string 'full_attention', expected a list") +
          kAdvice);
}

TEST(Config, RefusesAPartOfAHeadThatHasNoPairs) {
  EXPECT_EQ(refusal_with("partial_rotary_factor", 0.4),
            "config.json: partial_rotary_factor must select an even number of a head's 8 elements, "
            "found 0.4");
  EXPECT_CONTAINS(refusal_with("partial_rotary_factor", -1.0), "of a head's 8 elements, found -1");
}

// Infinity is not a JSON number, and YaRN's factor needs every digit.
TEST(Config, SurvivesTheWayToOtherRanks) {
  std::string text = small_config().dump();
  text.insert(
      1,
      R"("attention_dropout": Infinity, "rope_scaling": {"type": "yarn", "factor": 4.1, "beta_slow": 2},)");
  const CheckpointConfig sent = parse_config(text, "config.json");
  CheckpointConfig received;
  from_archive(to_archive(sent), received);
  EXPECT_TRUE(received == sent);
  EXPECT_EQ(received.rope_scaling.factor, 4.1);
  EXPECT_EQ(to_archive(received), to_archive(sent));
}

TEST(Config, SurvivesArchivingForEachFamily) {
  const std::vector<std::string> supported = supported_architectures();
  for (const auto& [name, architecture] : reference::fixture_architectures("logits")) {
    if (std::ranges::find(supported, architecture) == supported.end()) continue;
    const CheckpointConfig sent = load_config(reference::seeded_folder("logits", name));
    CheckpointConfig received;
    from_archive(to_archive(sent), received);
    EXPECT_TRUE(received == sent) << name;
    EXPECT_EQ(received.document.file, sent.document.file);
  }
}

}  // namespace
}  // namespace tp
