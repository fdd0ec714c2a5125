// GGUF files of RWKV-7. Source of names, shapes and values: llama.cpp, conversion/rwkv.py.
#include "model/config/block_names.h"
#include "model/config/config.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::GgufConversion;
using test::TensorValues;

const test::BlockTensors kRwkv7Block = {{"attn_norm.weight", "attn_norm.weight"},
                                        {"attn_norm.bias", "attn_norm.bias"},
                                        {"attn_norm_2.weight", "ffn_norm.weight"},
                                        {"attn_norm_2.bias", "ffn_norm.bias"},
                                        {"time_mix_w0.weight", "attn.w_lora.lora.2.bias"},
                                        {"time_mix_w1.weight", "attn.w_lora.lora.0.weight"},
                                        {"time_mix_w2.weight", "attn.w_lora.lora.2.weight"},
                                        {"time_mix_a0.weight", "attn.a_lora.lora.2.bias"},
                                        {"time_mix_a1.weight", "attn.a_lora.lora.0.weight"},
                                        {"time_mix_a2.weight", "attn.a_lora.lora.2.weight"},
                                        {"time_mix_v0.weight", "attn.v_lora.lora.2.bias"},
                                        {"time_mix_v1.weight", "attn.v_lora.lora.0.weight"},
                                        {"time_mix_v2.weight", "attn.v_lora.lora.2.weight"},
                                        {"time_mix_g1.weight", "attn.g_lora.lora.0.weight"},
                                        {"time_mix_g2.weight", "attn.g_lora.lora.2.weight"},
                                        {"time_mix_k_k.weight", "attn.k_k"},
                                        {"time_mix_k_a.weight", "attn.k_a"},
                                        {"time_mix_r_k.weight", "attn.r_k"},
                                        {"time_mix_receptance.weight", "attn.r_proj.weight"},
                                        {"time_mix_key.weight", "attn.k_proj.weight"},
                                        {"time_mix_value.weight", "attn.v_proj.weight"},
                                        {"time_mix_output.weight", "attn.o_proj.weight"},
                                        {"time_mix_ln.weight", "attn.g_norm.weight"},
                                        {"time_mix_ln.bias", "attn.g_norm.bias"},
                                        {"channel_mix_lerp_k.weight", "ffn.x_k"},
                                        {"channel_mix_key.weight", "ffn.key.weight"},
                                        {"channel_mix_value.weight", "ffn.value.weight"}};

GgufConversion rwkv7_file(const Fixture& fixture) {
  GgufConversion to(fixture, "rwkv7");
  const Rwkv7Config& rwkv = to.config().rwkv7;
  to.whole("wkv.head_size", rwkv.head_dim);
  to.whole("attention.decay_lora_rank", rwkv.decay_low_rank_dim);
  to.whole("attention.iclr_lora_rank", rwkv.a_low_rank_dim);
  to.whole("attention.value_residual_mix_lora_rank", rwkv.v_low_rank_dim);
  to.whole("attention.gate_lora_rank", rwkv.gate_low_rank_dim);
  to.whole("attention.head_count", 0);
  for (const char* const key : {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                                "attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base"})
    to.remove(key);
  to.copy("token_embd.weight", "model.embeddings.weight");
  to.copy("token_embd_norm.weight", "model.layers.0.pre_norm.weight");
  to.copy("token_embd_norm.bias", "model.layers.0.pre_norm.bias");
  to.copy("output_norm.bias", "model.norm.bias");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    to.copy_block(layer, kRwkv7Block);
    to.change(block + "time_mix_r_k.weight",
              [](TensorValues& values) { values.shape = {values.elements.size()}; });
    TensorValues mixes;
    for (const char input : {'r', 'w', 'k', 'v', 'a', 'g'}) {
      const TensorValues one = to.read(fmt::format("model.layers.{}.attn.x_{}", layer, input));
      mixes.elements.insert(mixes.elements.end(), one.elements.begin(), one.elements.end());
    }
    to.write(block + "time_mix_lerp_fused.weight", mixes);
    to.change(block + "time_mix_lerp_fused.weight", [&](TensorValues& values) {
      values.shape = {6, 1, 1, to.config().hidden_size};
    });
  }
  // The converter writes them so that llama.cpp finds the tensors of all layers.
  for (const char number : {'0', '1', '2'}) {
    const TensorValues copied = to.tensors().at(fmt::format("blk.0.time_mix_a{}.weight", number));
    to.write(fmt::format("blk.0.time_mix_v{}.weight", number), copied);
  }
  return to;
}

TEST(GgufRwkv7, GivesTheLogitsOfTheCheckpoint) {
  if (test::world().size() > 2) GTEST_SKIP() << "two heads";
  const Fixture fixture = reference::fixture("rwkv7");
  test::expect_logits(rwkv7_file(fixture), fixture);
}

TEST(GgufRwkv7, IsWrittenAsLlamaCppWritesIt) {
  const Fixture fixture = reference::fixture("rwkv7");
  test::expect_written_as(rwkv7_file(fixture), fixture);
}

TEST(GgufRwkv7, KeepsThePairsOfLayersInFloats) {
  EXPECT_FALSE(may_be_quantized("blk.1.time_mix_w1.weight"));
  EXPECT_FALSE(may_be_quantized("blk.1.time_mix_g2.weight"));
  EXPECT_FALSE(may_be_quantized("blk.1.time_mix_lerp_fused.weight"));
  EXPECT_TRUE(may_be_quantized("blk.1.time_mix_receptance.weight"));
  EXPECT_TRUE(may_be_quantized("blk.1.channel_mix_value.weight"));
}

}  // namespace
}  // namespace tp
