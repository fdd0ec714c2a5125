// Specs of the encoder-decoder families, from their configs.
#include "model/layers/model.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tp/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using test::spec_of;

nlohmann::json bart_like(const std::string& architecture) {
  return {{"architectures", {architecture}}, {"d_model", 64},           {"decoder_attention_heads", 4},
          {"decoder_ffn_dim", 96},           {"decoder_layers", 3},     {"encoder_attention_heads", 8},
          {"encoder_ffn_dim", 128},          {"encoder_layers", 2},     {"num_hidden_layers", 2},
          {"max_position_embeddings", 50},   {"scale_embedding", true}, {"vocab_size", 100}};
}

const AttentionSpec& attention_of_layer(const ModelSpec& spec, std::size_t layer) {
  return std::get<AttentionSpec>(spec.blocks[layer].attention);
}

TEST(Seq2SeqFamilies, HaveLayersAndHeadsOfEitherHalf) {
  const ModelSpec spec = spec_of(bart_like("BartForConditionalGeneration"));
  ASSERT_NE(spec.encoder, nullptr);
  EXPECT_EQ(spec.blocks.size(), 3U);
  EXPECT_EQ(spec.encoder->blocks.size(), 2U);
  EXPECT_EQ(attention_of_layer(spec, 0).num_attention_heads, 4U);
  EXPECT_EQ(attention_of_layer(*spec.encoder, 0).num_attention_heads, 8U);
  EXPECT_EQ(attention_of_layer(*spec.encoder, 0).head_dim, 8U);
  EXPECT_EQ(std::get<PlainMlpSpec>(spec.encoder->blocks[0].feed_forward).intermediate_size, 128U);
  EXPECT_TRUE(attention_of_layer(spec, 0).pattern.causal);
  EXPECT_FALSE(attention_of_layer(*spec.encoder, 0).pattern.causal);
  EXPECT_TRUE(spec.blocks[0].cross_attention.has_value());
  EXPECT_FALSE(spec.encoder->blocks[0].cross_attention.has_value());
}

TEST(Seq2SeqFamilies, DifferInNormsAndPositions) {
  const auto norms_before = [](const ModelSpec& spec) {
    return spec.blocks[0].wiring == BlockSpec::Wiring::sequential && spec.blocks[0].input_norm &&
           spec.blocks[0].pre_feed_forward_norm && spec.final_norm && !spec.blocks[0].post_attention_norm;
  };
  const ModelSpec bart = spec_of(bart_like("BartForConditionalGeneration"));
  EXPECT_EQ(bart.blocks[0].wiring, BlockSpec::Wiring::post_norm);
  EXPECT_EQ(bart.learned_positions, 52U);
  EXPECT_EQ(bart.first_learned_position, 2U);
  EXPECT_TRUE(bart.embedding_norm.has_value());
  EXPECT_FALSE(bart.final_norm.has_value());

  const ModelSpec mbart = spec_of(bart_like("MBartForConditionalGeneration"));
  EXPECT_TRUE(norms_before(mbart) && norms_before(*mbart.encoder));
  EXPECT_TRUE(mbart.blocks[0].cross_attention_norm.has_value());
  EXPECT_EQ(mbart.learned_positions, 52U);
  EXPECT_TRUE(mbart.embedding_norm.has_value());
  EXPECT_FLOAT_EQ(mbart.embedding_scale, 8.0F);

  const ModelSpec pegasus = spec_of(bart_like("PegasusForConditionalGeneration"));
  EXPECT_TRUE(norms_before(pegasus) && norms_before(*pegasus.encoder));
  EXPECT_TRUE(pegasus.sinusoidal_positions && pegasus.encoder->sinusoidal_positions);
  EXPECT_EQ(pegasus.learned_positions, 0U);
  EXPECT_FALSE(pegasus.embedding_norm.has_value());

  const ModelSpec marian = spec_of(bart_like("MarianMTModel"));
  EXPECT_EQ(marian.encoder->blocks[0].wiring, BlockSpec::Wiring::post_norm);
  EXPECT_TRUE(marian.sinusoidal_positions);
}

// 2 matrices of the MLP, 4 of attention in the encoder, 8 in the decoder; biases and norms.
TEST(Seq2SeqFamilies, HaveTheParametersOfTheirLayersAndOneTokenTable) {
  const std::size_t h = 64;
  const auto attention = 4 * h * h + 4 * h;
  const auto mlp = [&](std::size_t size) { return 2 * h * size + size + h; };
  const std::size_t norm = 2 * h;
  const std::size_t encoder = 2 * (attention + mlp(128) + 2 * norm);
  const std::size_t decoder = 3 * (2 * attention + mlp(96) + 3 * norm);
  const std::size_t both = encoder + decoder + 100 * h + 100;  // and final_logits_bias
  EXPECT_EQ(count_parameters(spec_of(bart_like("MarianMTModel"))), both);
  EXPECT_EQ(count_parameters(spec_of(bart_like("PegasusForConditionalGeneration"))), both + 2 * norm);
  EXPECT_EQ(count_parameters(spec_of(bart_like("BartForConditionalGeneration"))), both + 2 * (norm + 52 * h));
  EXPECT_EQ(count_parameters(spec_of(bart_like("MBartForConditionalGeneration"))),
            both + 2 * (2 * norm + 52 * h));
}

TEST(Seq2SeqFamilies, ReadT5sFeedForward) {
  nlohmann::json config = {{"architectures", {"T5ForConditionalGeneration"}},
                           {"d_model", 64},
                           {"d_kv", 16},
                           {"d_ff", 128},
                           {"num_heads", 6},
                           {"num_layers", 2},
                           {"vocab_size", 100}};
  const ModelSpec first = spec_of(config);
  EXPECT_EQ(std::get<PlainMlpSpec>(first.blocks[0].feed_forward).activation, Activation::relu);
  EXPECT_EQ(attention_of_layer(first, 0).head_dim, 16U);
  EXPECT_FLOAT_EQ(attention_of_layer(first, 0).scale, 1.0F);
  EXPECT_FLOAT_EQ(first.logit_scale, 0.125F);
  EXPECT_TRUE(first.encoder->relative_bias->bidirectional);
  EXPECT_FALSE(first.relative_bias->bidirectional);
  EXPECT_EQ(first.blocks.size(), 2U);
  config.update(
      {{"feed_forward_proj", "gated-gelu"}, {"num_decoder_layers", 3}, {"tie_word_embeddings", false}});
  const ModelSpec second = spec_of(config);
  EXPECT_EQ(std::get<GatedMlpSpec>(second.blocks[0].feed_forward).activation, Activation::gelu_tanh);
  EXPECT_FLOAT_EQ(second.logit_scale, 1.0F);
  EXPECT_EQ(second.blocks.size(), 3U);
  EXPECT_EQ(second.encoder->blocks.size(), 2U);
  config["feed_forward_proj"] = "gated-silu";
  EXPECT_EQ(std::get<GatedMlpSpec>(spec_of(config).blocks[0].feed_forward).activation, Activation::silu);
}

TEST(Seq2SeqFamilies, RefuseVocabulariesOfTheirOwnForTheDecoder) {
  const auto error_of = [](const nlohmann::json& fields) {
    nlohmann::json config = bart_like("MarianMTModel");
    config.update(fields);
    return test::refusal_of(config);
  };
  EXPECT_EQ(error_of({{"decoder_vocab_size", 200}}),
            "config.json: decoder_vocab_size must be vocab_size, 100, as encoder and decoder share their "
            "embedding, found 200; use a model that shares it");
  EXPECT_CONTAINS(error_of({{"share_encoder_decoder_embeddings", false}}),
                  "share_encoder_decoder_embeddings must be true for MarianMTModel, found false");
  EXPECT_EQ(error_of({{"encoder_attention_heads", 7}}),
            "config.json: hidden_size must be a multiple of encoder_attention_heads, found 64 and 7; check "
            "config.json");
}

}  // namespace
}  // namespace tp
