// GGUF files of Kimi-Linear and Kimi-K3. Source of names, shapes and values: llama.cpp,
// conversion/kimi_linear.py, conversion/kimi_k3.py, src/models/kimi-linear.cpp and src/models/kimi-k3.cpp.
#include "model/config/config.h"
#include "tests/model/layers/glm_modules.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::GgufConversion;
using test::TensorValues;

void write_metadata(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  std::vector<std::int32_t> kv_heads;
  for (const std::string& type : config.layer_types) kv_heads.push_back(type == "full_attention" ? 1 : 0);
  to.numbers("attention.head_count_kv", GgufKind::i32, kv_heads);
  to.whole("ssm.conv_kernel", config.delta_net.conv_kernel_dim);
  to.whole("kda.head_dim", config.delta_net.key_head_dim);
  to.whole("rope.dimension_count", config.latent.qk_rope_head_dim);
  to.whole("attention.kv_lora_rank", config.latent.kv_lora_rank);
  to.whole("attention.key_length_mla", config.latent.qk_nope_head_dim + config.latent.qk_rope_head_dim);
  to.whole("attention.value_length_mla", config.latent.v_head_dim);
  to.whole("leading_dense_block_count", config.experts.first_k_dense_replace);
  to.whole("expert_shared_count", config.experts.n_shared_experts);
  to.number("expert_weights_scale", config.experts.routed_scaling_factor);
  to.whole("expert_gating_func", 2);
}

// Convolutions are [channels, 1, taps], and decays are a column of negative numbers.
void write_delta_attention(GgufConversion& to, std::size_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  const std::string block = fmt::format("blk.{}.", layer);
  if (!to.contains(prefix + "A_log")) return;
  to.copy_block(layer,
                {{"ssm_conv1d_q.weight", "q_conv1d.weight"},
                 {"ssm_conv1d_k.weight", "k_conv1d.weight"},
                 {"ssm_conv1d_v.weight", "v_conv1d.weight"},
                 {"ssm_f_a.weight", "f_a_proj.weight"},
                 {"ssm_f_b.weight", "f_b_proj.weight"},
                 {"ssm_g_a.weight", "g_a_proj.weight"},
                 {"ssm_g_b.weight", "g_b_proj.weight"},
                 {"ssm_g.weight", "g_proj.weight"},
                 {"ssm_beta.weight", "b_proj.weight"},
                 {"ssm_a", "A_log"},
                 {"ssm_dt.bias", "dt_bias"},
                 {"ssm_norm.weight", "o_norm.weight"}},
                prefix);
  for (const char* const conv : {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"}) {
    to.change(block + conv + ".weight", [](TensorValues& values) {
      values.shape = {values.shape.front(), 1, values.shape.back()};
    });
  }
  to.change(block + "ssm_a", [](TensorValues& logs) {
    logs.shape = {logs.elements.size(), 1};
    for (float& value : logs.elements) value = -std::exp(value);
  });
}

// Each head's key rows, transposed, and its value rows.
void write_latent_attention(GgufConversion& to, std::size_t layer) {
  const CheckpointConfig& config = to.config();
  const std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  const std::string block = fmt::format("blk.{}.", layer);
  if (!to.contains(prefix + "kv_b_proj.weight")) return;
  to.copy_block(layer,
                {{"attn_q_a.weight", "q_a_proj.weight"},
                 {"attn_q_a_norm.weight", "q_a_layernorm.weight"},
                 {"attn_q_b.weight", "q_b_proj.weight"},
                 {"attn_gate.weight", "g_proj.weight"}},
                prefix);
  to.copy(block + "attn_kv_a_mqa.weight", prefix + "kv_a_proj_with_mqa.weight");
  to.copy(block + "attn_kv_a_norm.weight", prefix + "kv_a_layernorm.weight");
  TensorValues both = to.read(prefix + "kv_b_proj.weight");
  both.shape = {config.num_attention_heads, config.latent.qk_nope_head_dim + config.latent.v_head_dim,
                config.latent.kv_lora_rank};
  to.write(block + "attn_k_b.weight", transposed(rows_of(both, 0, config.latent.qk_nope_head_dim)));
  to.write(block + "attn_v_b.weight",
           rows_of(both, config.latent.qk_nope_head_dim, config.latent.v_head_dim));
}

GgufConversion kimi_file(const reference::Fixture& fixture, const std::string& architecture) {
  GgufConversion to(fixture, architecture);
  write_metadata(to);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                          {"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"},
                          {"ffn_gate_shexp.weight", "block_sparse_moe.shared_experts.gate_proj.weight"},
                          {"ffn_up_shexp.weight", "block_sparse_moe.shared_experts.up_proj.weight"},
                          {"ffn_down_shexp.weight", "block_sparse_moe.shared_experts.down_proj.weight"}});
    write_experts_one_by_one(to, layer, "block_sparse_moe.experts.", {"w1", "w3", "w2"});
    write_delta_attention(to, layer);
    write_latent_attention(to, layer);
  }
  return to;
}

class GgufKimi : public testing::Test {
 protected:
  reference::Fixture fixture_ = reference::fixture("kimilinear");
  GgufConversion file_ = kimi_file(fixture_, "kimi-linear");
};

TEST_F(GgufKimi, GivesTheLogitsOfTheCheckpoint) { test::expect_logits(file_, fixture_); }

TEST_F(GgufKimi, IsWrittenAsLlamaCppWritesIt) { test::expect_written_as(file_, fixture_); }

// llama.cpp's converter keeps all extents of these tensors.
TEST_F(GgufKimi, MayHaveMoreExtents) {
  for (std::size_t layer = 0; layer < file_.config().num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    for (const char* const name : {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"})
      file_.change(block + name, [](TensorValues& values) { values.shape.insert(values.shape.begin(), 1); });
    file_.change(block + "ssm_a", [](TensorValues& values) {
      values.shape = {1, 1, values.elements.size(), 1};
    });
  }
  test::expect_logits(file_, fixture_);
}

// The gain of a norm times the weight of a projection.
void write_product(GgufConversion& to, const std::string& name, const std::string& from) {
  TensorValues product = to.read(from + "_norm.weight");
  const TensorValues proj = to.read(from + "_proj.weight");
  for (std::size_t i = 0; i < product.elements.size(); ++i) product.elements[i] *= proj.elements[i];
  to.write(name, product);
}

TEST(GgufKimiK3, GivesTheLogitsOfTheCheckpoint) {
  const reference::Fixture fixture = reference::fixture("kimik3");
  GgufConversion file = kimi_file(fixture, "kimi-k3");
  const CheckpointConfig& config = file.config();
  file.whole("attention.q_lora_rank", config.latent.q_lora_rank);
  file.number("kda.gate_lower_bound", config.delta_net.decay_floor);
  file.whole("expert_latent_length", config.experts.moe_latent_size);
  file.whole("attn_res.block_size", config.attn_res_block_size);
  file.number("activation.situ_beta", config.experts.situ_beta);
  file.number("activation.situ_linear_beta", config.experts.situ_linear_beta);
  write_product(file, "output_res_score.weight", "model.output_attn_res");
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    write_product(file, block + "attn_res_score.weight", prefix + "self_attention_res");
    write_product(file, block + "ffn_res_score.weight", prefix + "mlp_res");
    file.copy_block(layer, {{"ffn_routed_down.weight", "block_sparse_moe.routed_expert_down_proj.weight"},
                            {"ffn_routed_up.weight", "block_sparse_moe.routed_expert_up_proj.weight"},
                            {"ffn_routed_norm.weight", "block_sparse_moe.routed_expert_norm.weight"}});
    file.change(block + "ssm_a", [](TensorValues& values) { values.shape = {values.elements.size()}; });
  }
  test::expect_logits(file, fixture);
}

// GLM-5.3: Kimi-Linear's layers, with GLM-5's indexers and DeepSeek-V4's hyper-connections. Source:
// llama.cpp's pull request 27752, and files by Unsloth.
GgufConversion glm_file(const reference::Fixture& fixture) {
  GgufConversion file = kimi_file(fixture, "glm5next");
  const CheckpointConfig& config = file.config();
  file.whole("attention.q_lora_rank", config.latent.q_lora_rank);
  file.number("kda.gate_lower_bound", config.delta_net.decay_floor);
  file.boolean("expert_weights_norm", true);
  file.whole("attention.indexer.head_count", config.indexer.n_heads);
  file.whole("attention.indexer.key_length", config.indexer.head_dim);
  file.whole("attention.indexer.top_k", config.indexer.topk);
  file.whole("attention.indexer.kpool", config.indexer.pool);
  file.whole("hyper_connection.count", config.hyper_connection.mult);
  file.whole("hyper_connection.sinkhorn_iterations", config.hyper_connection.sinkhorn_iters);
  file.number("hyper_connection.epsilon", config.hyper_connection.eps);
  const std::vector<float> limits(config.num_hidden_layers, static_cast<float>(config.experts.swiglu_limit));
  file.numbers("swiglu_clamp_exp", GgufKind::f32, limits);
  file.numbers("swiglu_clamp_shexp", GgufKind::f32, limits);
  const std::string indexer = "self_attn.indexer.";
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    test::write_experts_one_by_one(file, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
    file.copy_block(layer, {{"indexer.attn_q_b.weight", indexer + "wq_b.weight"},
                            {"indexer.attn_k.weight", indexer + "wk.weight"},
                            {"indexer.k_norm.weight", indexer + "k_norm.weight"},
                            {"indexer.k_norm.bias", indexer + "k_norm.bias"},
                            {"indexer.proj.weight", indexer + "weights_proj.weight"},
                            {"indexer_compressor_gate.weight", indexer + "index_kpool_compress_gate"},
                            {"indexer_compressor_ape.weight", indexer + "index_kpool_compress_ape"}});
    for (const std::string part : {"fn", "base", "scale"})
      file.copy_block(layer, {{"hc_attn_" + part + ".weight", "hc_attn_" + part},
                              {"hc_ffn_" + part + ".weight", "hc_ffn_" + part}});
  }
  return file;
}

TEST(GgufGlm53, GivesTheLogitsOfTheCheckpoint) {
  const reference::Fixture fixture = reference::fixture("glm5next");
  test::expect_logits(glm_file(fixture), fixture);
}

TEST(GgufGlm53, IsWrittenAsLlamaCppReadsIt) {
  const reference::Fixture fixture = reference::fixture("glm5next");
  test::expect_written_as(glm_file(fixture), fixture);
}

TEST(GgufGlm53, IsWrittenInTheSameWayFromTensorsWithTheNamesOfModules) {
  const reference::Fixture published = reference::fixture("glm5next");
  const test::TemporaryDirectory directory;
  test::write_glm_modules(directory.path(), test::config_in(published.folder), published);
  reference::Fixture modules = published;
  modules.folder = directory.path();
  test::expect_written_as(glm_file(published), modules);
}

}  // namespace
}  // namespace tp
