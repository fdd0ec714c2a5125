// GGUF files of LFM2 and Muse Glimmer, with the names and values that llama.cpp's converter writes.
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::BlockTensors;
using test::GgufConversion;

const BlockTensors kLfm2Block = {{"attn_norm.weight", "operator_norm.weight"},
                                 {"ffn_norm.weight", "ffn_norm.weight"},
                                 {"shortconv.in_proj.weight", "conv.in_proj.weight"},
                                 {"shortconv.out_proj.weight", "conv.out_proj.weight"},
                                 {"shortconv.conv.weight", "conv.conv.weight"},
                                 {"attn_q.weight", "self_attn.q_proj.weight"},
                                 {"attn_k.weight", "self_attn.k_proj.weight"},
                                 {"attn_v.weight", "self_attn.v_proj.weight"},
                                 {"attn_output.weight", "self_attn.out_proj.weight"},
                                 {"attn_q_norm.weight", "self_attn.q_layernorm.weight"},
                                 {"attn_k_norm.weight", "self_attn.k_layernorm.weight"},
                                 {"ffn_gate.weight", "feed_forward.w1.weight"},
                                 {"ffn_down.weight", "feed_forward.w2.weight"},
                                 {"ffn_up.weight", "feed_forward.w3.weight"},
                                 {"ffn_gate_inp.weight", "feed_forward.gate.weight"},
                                 {"exp_probs_b.bias", "feed_forward.expert_bias"}};

GgufConversion lfm2_file(const std::string& name, const std::vector<std::uint32_t>& kv_heads) {
  GgufConversion to(reference::fixture(name), name);
  to.whole("shortconv.l_cache", to.config().short_convolution.l_cache);
  to.numbers("attention.head_count_kv", GgufKind::u32, kv_heads);
  to.number("attention.layer_norm_rms_epsilon", to.config().layer_norm_eps);
  to.whole("leading_dense_block_count", to.config().experts.first_k_dense_replace);
  to.whole("expert_gating_func", 2);
  to.copy("token_embd_norm.weight", "model.embedding_norm.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLfm2Block);
    test::write_experts_one_by_one(to, layer, "feed_forward.experts.", {"w1", "w3", "w2"});
  }
  return to;
}

TEST(GgufConverted, HasLfm2sConvolutionsInLayersWithoutKeys) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  test::expect_logits(lfm2_file("lfm2", {0, 0, 2, 0, 2}), reference::fixture("lfm2"));
  test::expect_logits(lfm2_file("lfm2moe", {0, 0, 2, 0, 0}), reference::fixture("lfm2moe"));
}

TEST(GgufConverted, RefusesLayersWithDifferentHeads) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", lfm2_file("lfm2", {0, 0, 2, 0, 4}).file());
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { load_config(path); }),
                  "lfm2.attention.head_count_kv must be a whole number that is not negative, the same for "
                  "all layers, found a list of 5 u32");
}

const BlockTensors kMuseBlock = {{"attn_norm.weight", "input_layernorm.weight"},
                                 {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                 {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
                                 {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
                                 {"attn_gate.weight", "self_attn.gate_proj.weight"}};

// `last_factor`: the gain of the last layer's query norm.
GgufConversion muse_file(double last_factor) {
  GgufConversion to(reference::fixture("museglimmer"), "muse-glimmer");
  const CheckpointConfig& config = to.config();
  to.whole("attention.sliding_window", config.sliding_window);
  to.numbers("attention.sliding_window_pattern", GgufKind::boolean,
             std::vector<std::uint8_t>{1, 0, 1, 1, 1, 0});
  to.number("final_logit_softcapping", config.final_logit_softcapping);
  to.number("logit_scale", config.logit_scale);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, kMuseBlock);
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"})
      to.change(block + norm + ".weight", test::add_one);
    interleave_query_key(to, layer);
    const auto norm = [&](const char* which, double gain) {
      const std::vector<float> gains(config.head_dim, static_cast<float>(gain));
      to.write(block + which, {{config.head_dim}, gains});
    };
    norm("attn_q_norm.weight", layer + 1 == config.num_hidden_layers ? last_factor : config.qk_scale_factor);
    norm("attn_k_norm.weight", 1.0);
  }
  return to;
}

TEST(GgufConverted, HasMuseGlimmersScaleAsGainsOfNorms) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  test::expect_logits(muse_file(3.87), reference::fixture("museglimmer"));
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", muse_file(3.0).file());
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { load_config(path); }),
                  "the gains of attn_q_norm and attn_k_norm must be those of layer 0, 3.87, in layer 5, "
                  "found 3; convert the checkpoint to GGUF again");
}

}  // namespace
}  // namespace tp
