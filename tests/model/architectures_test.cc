#include "model/architectures.h"

#include "model/decoder.h"
#include "tp/error.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

ModelConfig two_blocks() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.vocab_size = 100;
  config.tie_word_embeddings = true;
  return config;
}

// The founding texts count 5,244,928 parameters in two blocks of hidden 512, 8 heads and FFN 1024. That is
// what the blocks themselves hold, without embedding, final norm and LM head:
//   2 x (q, k, v, o: 4 x 512 x 512; gate, up, down: 3 x 512 x 1024; two norms: 2 x 512).
TEST(Architectures, CountTheParametersOfTheFoundingTextsExample) {
  const DecoderSpec spec = make_spec(two_blocks());
  const std::size_t around_the_blocks = 100 * 512 + 512;
  EXPECT_EQ(count_parameters(spec) - around_the_blocks, 5244928U);
}

TEST(Architectures, CountEmbeddingAndHeadOnceIfTheyAreTied) {
  ModelConfig config = two_blocks();
  const std::size_t tied = count_parameters(make_spec(config));
  config.tie_word_embeddings = false;
  EXPECT_EQ(count_parameters(make_spec(config)) - tied, 100U * 512);
}

TEST(Architectures, CountBiases) {
  ModelConfig config = two_blocks();
  const std::size_t without = count_parameters(make_spec(config));
  config.attention_bias = true;
  const std::size_t attention = count_parameters(make_spec(config));
  EXPECT_EQ(attention - without, 2U * 4 * 512);
  config.mlp_bias = true;
  EXPECT_EQ(count_parameters(make_spec(config)) - attention, 2U * (2 * 1024 + 512));
}

TEST(Architectures, CountOverRanksIsTheModelPlusWhatIsReplicated) {
  const DecoderSpec spec = make_spec(two_blocks());
  for (const std::size_t ranks : {2U, 4U, 8U}) {
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) total += count_local_parameters(spec, {rank, ranks});
    const std::size_t norms = (2 * 2 + 1) * 512;  // every rank holds them
    EXPECT_EQ(total, count_parameters(spec) + (ranks - 1) * norms);
  }
}

TEST(Architectures, ScaleScoresByTheHeadsWidth) {
  const DecoderSpec spec = make_spec(two_blocks());
  EXPECT_FLOAT_EQ(spec.blocks.front().attention.scale, 0.125F);
  EXPECT_FALSE(spec.blocks.front().attention.sliding_window.has_value());
}

TEST(Architectures, RefuseAFamilyThatIsNotSupported) {
  ModelConfig config = two_blocks();
  config.architecture = "MambaForCausalLM";
  try {
    make_spec(config);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("models of the family MambaForCausalLM are not supported; supported are "), 0U)
        << text;
    EXPECT_NE(text.find("LlamaForCausalLM"), std::string::npos) << text;
  }
}

TEST(Architectures, RefuseAnActivationThatTheyDoNotKnow) {
  ModelConfig config = two_blocks();
  config.hidden_act = "quick_gelu";
  try {
    make_spec(config);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "hidden_act \"quick_gelu\" is not supported for LlamaForCausalLM; supported are silu, gelu, "
                 "gelu_new, gelu_pytorch_tanh and relu");
  }
}

}  // namespace
}  // namespace tp
