#include "model/quantize/type_choice.h"

#include <map>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::string_view type_of(const TypeChoice& choice, std::string_view tensor,
                         const std::vector<std::size_t>& shape = {512, 512}) {
  return choice.type_of(tensor, shape).name;
}

ModelFacts llama(std::size_t layers = 32) {
  return {.architecture = "llama", .layers = layers, .has_grouped_queries = true};
}

TEST(TypeChoice, QuantizesMatricesButNoRoutersAndPositions) {
  const std::vector<std::size_t> matrix = {8, 8};
  const std::vector<std::size_t> stack = {2, 8, 8};
  EXPECT_TRUE(TypeChoice::is_matrix("blk.0.attn_q.weight", matrix));
  EXPECT_TRUE(TypeChoice::is_matrix("blk.0.ffn_up_exps.weight", stack));
  EXPECT_TRUE(TypeChoice::is_matrix("token_embd.weight", matrix));
  EXPECT_FALSE(TypeChoice::is_matrix("blk.0.attn_norm.weight", std::vector<std::size_t>{8}));
  EXPECT_FALSE(TypeChoice::is_matrix("blk.0.attn_q_norm.weight", matrix));
  EXPECT_FALSE(TypeChoice::is_matrix("blk.0.attn_q.bias", std::vector<std::size_t>{8}));
  EXPECT_FALSE(TypeChoice::is_matrix("blk.0.ffn_gate_inp.weight", matrix));
  EXPECT_FALSE(TypeChoice::is_matrix("position_embd.weight", matrix));
}

TEST(TypeChoice, GivesTheHeadSixBitsWhereOthersHaveFewer) {
  EXPECT_EQ(type_of(TypeChoice("q4_k", llama()), "blk.3.attn_q.weight"), "Q4_K");
  EXPECT_EQ(type_of(TypeChoice("q4_k", llama()), "output.weight"), "Q6_K");
  EXPECT_EQ(type_of(TypeChoice("q4_k", llama()), "token_embd.weight"), "Q4_K");
  ModelFacts tied = llama();
  tied.has_lm_head = false;
  EXPECT_EQ(type_of(TypeChoice("int4", tied), "token_embd.weight"), "Q6_K");
  EXPECT_EQ(type_of(TypeChoice("int8", tied), "token_embd.weight"), "Q8_0");
  EXPECT_EQ(type_of(TypeChoice("bf16", tied), "token_embd.weight"), "BF16");
}

// llama.cpp's converter reports for Llama 3 8B with its 32 layers: ffn_down and attn_v of layers 0-3, 6, 9,
// 12, 15, 18, 21, 24, 27 and 28-31 are Q6_K.
TEST(TypeChoice, MixesAsLlamaCppDoes) {
  const TypeChoice mix("q4_k_m", llama());
  std::vector<int> more;
  for (int layer = 0; layer < 32; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    EXPECT_EQ(type_of(mix, block + "attn_q.weight"), "Q4_K");
    EXPECT_EQ(type_of(mix, block + "ffn_gate.weight"), "Q4_K");
    EXPECT_EQ(type_of(mix, block + "attn_v.weight"), type_of(mix, block + "ffn_down.weight"));
    if (type_of(mix, block + "ffn_down.weight") == "Q6_K") more.push_back(layer);
  }
  EXPECT_EQ(more, (std::vector<int>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}));
  EXPECT_EQ(type_of(mix, "blk.5.attn_qkv.weight"), "Q5_K");
  EXPECT_EQ(type_of(TypeChoice("q5_k_m", llama()), "blk.0.attn_v.weight"), "Q6_K");
  EXPECT_EQ(type_of(TypeChoice("q5_k_m", llama()), "blk.4.attn_v.weight"), "Q5_K");
  ModelFacts mixtral = llama();
  mixtral.experts = 8;
  EXPECT_EQ(type_of(TypeChoice("q4_k_m", mixtral), "blk.4.attn_k.weight"), "Q8_0");
  EXPECT_EQ(type_of(TypeChoice("q4_k_m", mixtral), "blk.4.attn_output.weight"), "Q5_K");
  EXPECT_EQ(type_of(TypeChoice("q4_k_m", llama(80)), "blk.10.attn_v.weight"), "Q5_K");
}

TEST(TypeChoice, FallsBackToShorterBlocks) {
  const std::map<std::string, std::string_view> shorter = {
      {"q2_k", "IQ4_NL"}, {"q3_k", "IQ4_NL"}, {"iq4_xs", "IQ4_NL"}, {"q4_k", "Q5_0"}, {"q5_k", "Q5_1"},
      {"q6_k", "Q8_0"},   {"q4_0", "Q4_0"},   {"mxfp4", "MXFP4"},   {"f32", "F32"}};
  for (const auto& [name, type] : shorter)
    EXPECT_EQ(type_of(TypeChoice(name, llama()), "blk.0.attn_q.weight", {8, 96}), type) << name;
  EXPECT_EQ(type_of(TypeChoice("q4_k", llama()), "output.weight", {8, 96}), "Q8_0");
  EXPECT_EQ(type_of(TypeChoice("q4_k", llama()), "blk.0.attn_q.weight", {8, 80}), "F16");
}

}  // namespace
}  // namespace tp
