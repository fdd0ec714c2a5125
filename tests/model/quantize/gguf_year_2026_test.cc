// GGUF files of this year's decoders. Source of names, shapes and values: llama.cpp, conversion/internlm.py,
// laguna.py, mimo.py, step3.py, command_r.py and minicpm.py, and src/models/bailingmoe3.cpp, granite-swa.cpp
// and minicpm3.cpp.
#include "model/config/config.h"
#include "model/quantize/describing_vectors.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
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

using reference::Fixture;
using test::BlockTensors;
using test::GgufConversion;
using test::TensorValues;

bool has_heads_for_all(const Fixture& fixture) {
  return static_cast<std::size_t>(test::world().size()) <= load_config(fixture.folder).num_attention_heads;
}

std::vector<std::uint8_t> layers_with_windows(const CheckpointConfig& config) {
  std::vector<std::uint8_t> windows;
  for (const std::string& type : config.layer_types) windows.push_back(type == "sliding_attention" ? 1 : 0);
  return windows;
}

BlockTensors with(BlockTensors names, const BlockTensors& more) {
  for (const auto& [to, from] : more) names[to] = from;
  return names;
}

void write_router(GgufConversion& to) {
  const ExpertsConfig& experts = to.config().experts;
  to.whole("leading_dense_block_count", experts.first_k_dense_replace);
  to.number("expert_weights_scale", experts.routed_scaling_factor);
  to.boolean("expert_weights_norm", true);
  to.whole("expert_gating_func", 2);
}

void write_windows(GgufConversion& to, const std::vector<std::uint8_t>& windows) {
  to.whole("attention.sliding_window", to.config().sliding_window);
  to.numbers("attention.sliding_window_pattern", GgufKind::boolean, windows);
}

std::vector<std::uint32_t> heads_of_layers(const CheckpointConfig& config) {
  return {config.num_attention_heads_per_layer.begin(), config.num_attention_heads_per_layer.end()};
}

void expect_both(const GgufConversion& file, const Fixture& fixture) {
  if (!has_heads_for_all(fixture)) GTEST_SKIP() << "fewer heads than ranks";
  test::expect_logits(file, fixture);
  test::expect_written_as(file, fixture);
}

// Returns the rows of a fused projection that belong to queries, keys or values, in all groups.
TensorValues rows_of_groups(const TensorValues& whole, std::size_t groups, std::size_t first,
                            std::size_t count) {
  TensorValues stack = whole;
  stack.shape = {groups, whole.shape[0] / groups, whole.shape[1]};
  TensorValues rows = test::rows_of(stack, first, count);
  rows.shape = {groups * count, whole.shape[1]};
  return rows;
}

TEST(GgufYear2026, HasInternLm2sQueriesKeysAndValuesInThreeTensors) {
  const Fixture fixture = reference::fixture("internlm2");
  GgufConversion to(fixture, "internlm2");
  const CheckpointConfig& config = to.config();
  const std::size_t groups = config.num_key_value_heads;
  const std::size_t queries = config.num_attention_heads / groups * config.head_dim;
  to.copy("token_embd.weight", "model.tok_embeddings.weight");
  to.copy("output.weight", "output.weight");
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer, {{"attn_norm.weight", "attention_norm.weight"},
                          {"ffn_norm.weight", "ffn_norm.weight"},
                          {"attn_output.weight", "attention.wo.weight"},
                          {"ffn_gate.weight", "feed_forward.w1.weight"},
                          {"ffn_up.weight", "feed_forward.w3.weight"},
                          {"ffn_down.weight", "feed_forward.w2.weight"}});
    const TensorValues qkv = to.read(fmt::format("model.layers.{}.attention.wqkv.weight", layer));
    const std::string block = fmt::format("blk.{}.", layer);
    to.write(block + "attn_q.weight", rows_of_groups(qkv, groups, 0, queries));
    to.write(block + "attn_k.weight", rows_of_groups(qkv, groups, queries, config.head_dim));
    to.write(block + "attn_v.weight",
             rows_of_groups(qkv, groups, queries + config.head_dim, config.head_dim));
    test::interleave_query_key(to, layer);
  }
  expect_both(to, fixture);
}

TEST(GgufYear2026, HasLagunasHeadsOfEachLayer) {
  const Fixture fixture = reference::fixture("laguna");
  GgufConversion to(fixture, "laguna");
  const CheckpointConfig& config = to.config();
  write_router(to);
  write_windows(to, layers_with_windows(config));
  to.numbers("attention.head_count", GgufKind::u32, heads_of_layers(config));
  to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  to.whole("rope.dimension_count_swa", config.head_dim);
  to.number("rope.freq_base_swa", config.rope_local_base_freq);
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", config.rope_scaling.factor);
  to.whole("rope.scaling.original_context_length", config.rope_scaling.original_max_position_embeddings);
  to.number("rope.scaling.yarn_attn_factor", 1.0);
  to.number("rope.scaling.yarn_beta_fast", config.rope_scaling.beta_fast);
  to.number("rope.scaling.yarn_beta_slow", config.rope_scaling.beta_slow);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer,
                  with(test::kLlamaBlock, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                                           {"attn_gate.weight", "self_attn.g_proj.weight"},
                                           {"exp_probs_b.bias", "mlp.experts.e_score_correction_bias"},
                                           {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
                                           {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
                                           {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"}}));
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
  expect_both(to, fixture);
}

// `predictors`: layers for multi-token prediction, of which the fixture has parts of one.
GgufConversion mimo_file(const Fixture& fixture, std::size_t predictors) {
  GgufConversion to(fixture, "mimo2");
  const CheckpointConfig& config = to.config();
  const std::size_t layers = config.num_hidden_layers;
  std::vector<std::uint8_t> windows = layers_with_windows(config);
  windows.resize(layers + predictors, 1);
  std::vector<std::uint32_t> kv_heads;
  for (const std::uint8_t slides : windows)
    kv_heads.push_back(static_cast<std::uint32_t>(slides != 0 ? config.swa_num_key_value_heads
                                                              : config.num_key_value_heads));
  write_windows(to, windows);
  to.whole("block_count", layers + predictors);
  if (predictors != 0) to.whole("nextn_predict_layers", predictors);
  to.numbers("attention.head_count_kv", GgufKind::u32, kv_heads);
  to.whole("attention.value_length", config.v_head_dim);
  to.number("attention.value_scale", config.attention_value_scale);
  to.number("rope.freq_base_swa", config.rope_local_base_freq);
  to.whole("expert_gating_func", 2);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    to.copy_block(layer, with(test::kLlamaBlock, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                                                  {"attn_sinks.weight", "self_attn.attention_sink_bias"}}));
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
  for (std::size_t layer = 0; layer < predictors; ++layer)
    to.copy_block(layers + layer,
                  {{"nextn.eh_proj.weight", "eh_proj.weight"}, {"nextn.enorm.weight", "enorm.weight"}},
                  fmt::format("model.mtp.layers.{}.", layer));
  return to;
}

TEST(GgufYear2026, HasMiMosSmallerValuesAndSinks) {
  const Fixture fixture = reference::fixture("mimov2flash");
  expect_both(mimo_file(fixture, 0), fixture);
}

TEST(GgufYear2026, MayHaveMiMosLayersForMultiTokenPrediction) {
  const Fixture fixture = reference::fixture("mimov2flash");
  if (!has_heads_for_all(fixture)) GTEST_SKIP() << "fewer heads than ranks";
  const test::TemporaryDirectory directory;
  const std::vector<std::string> unused =
      test::expect_logits_in(directory.write("model.gguf", mimo_file(fixture, 1).file()), fixture);
  ASSERT_EQ(unused.size(), test::world().is_root() ? 1U : 0U);
  if (unused.empty()) return;
  EXPECT_CONTAINS(unused.front(), "multi-token prediction");
}

// llama.cpp's converter computes other factors of RoPE, as if layers without a window rotated whole heads.
TEST(GgufYear2026, HasStepsGatesAndLimits) {
  const Fixture fixture = reference::fixture("step35");
  GgufConversion to(fixture, "step35");
  const CheckpointConfig& config = to.config();
  write_router(to);
  to.whole("leading_dense_block_count", config.experts.moe_layers.front());
  write_windows(to, layers_with_windows(config));
  to.numbers("attention.head_count", GgufKind::u32, heads_of_layers(config));
  to.remove("rope.dimension_count");
  to.number("rope.freq_base", config.layer_rope_theta[0]);
  to.number("rope.freq_base_swa", config.layer_rope_theta[1]);
  to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  const auto as_floats = [](const std::vector<double>& limits) {
    return std::vector<float>(limits.begin(), limits.end());
  };
  to.numbers("swiglu_clamp_exp", GgufKind::f32, as_floats(config.experts.swiglu_limits));
  to.numbers("swiglu_clamp_shexp", GgufKind::f32, as_floats(config.experts.shared_swiglu_limits));
  for (const DescribingVector& factors : describing_vectors(make_spec(config)))
    to.write(factors.name, {{factors.values.size()}, factors.values});
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer,
                  with(test::kLlamaBlock, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                                           {"attn_gate.weight", "self_attn.g_proj.weight"},
                                           {"ffn_gate_inp.weight", "moe.gate.weight"},
                                           {"exp_probs_b.bias", "moe.router_bias"},
                                           {"ffn_gate_exps.weight", "moe.gate_proj.weight"},
                                           {"ffn_up_exps.weight", "moe.up_proj.weight"},
                                           {"ffn_down_exps.weight", "moe.down_proj.weight"},
                                           {"ffn_gate_shexp.weight", "share_expert.gate_proj.weight"},
                                           {"ffn_up_shexp.weight", "share_expert.up_proj.weight"},
                                           {"ffn_down_shexp.weight", "share_expert.down_proj.weight"}}));
    for (const char* const norm : {"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"})
      to.change(fmt::format("blk.{}.{}.weight", layer, norm), test::add_one);
  }
  to.change("output_norm.weight", test::add_one);
  expect_both(to, fixture);
}

// Convolutions are [channels, 1, taps], and decays are a column of positive numbers. The gates of the two
// kinds of layers have the same name in checkpoints.
void write_ling_attention(GgufConversion& to, std::size_t layer) {
  const CheckpointConfig& config = to.config();
  const std::string prefix = fmt::format("model.layers.{}.attention.", layer);
  const std::string block = fmt::format("blk.{}.", layer);
  if (to.contains(prefix + "A_log")) {
    to.copy_block(layer,
                  {{"attn_q.weight", "q_proj.weight"},
                   {"attn_k.weight", "k_proj.weight"},
                   {"attn_v.weight", "v_proj.weight"},
                   {"attn_output.weight", "o_proj.weight"},
                   {"ssm_conv1d_q.weight", "q_conv1d.weight"},
                   {"ssm_conv1d_k.weight", "k_conv1d.weight"},
                   {"ssm_conv1d_v.weight", "v_conv1d.weight"},
                   {"ssm_f_a.weight", "f_proj.weight"},
                   {"ssm_g_a.weight", "g_proj.weight"},
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
      for (float& value : logs.elements) value = std::exp(value);
    });
    return;
  }
  to.copy_block(layer,
                {{"attn_q.weight", "q_proj.weight"},
                 {"attn_kv_a_mqa.weight", "kv_a_proj_with_mqa.weight"},
                 {"attn_kv_a_norm.weight", "kv_a_layernorm.weight"},
                 {"attn_gate.weight", "g_proj.weight"},
                 {"attn_output.weight", "dense.weight"}},
                prefix);
  const std::size_t keys = config.latent.qk_nope_head_dim;
  TensorValues both = to.read(prefix + "kv_b_proj.weight");
  both.shape = {config.num_attention_heads, keys + config.latent.v_head_dim, config.latent.kv_lora_rank};
  to.write(block + "attn_k_b.weight", transposed(rows_of(both, 0, keys)));
  to.write(block + "attn_v_b.weight", rows_of(both, keys, config.latent.v_head_dim));
}

TEST(GgufYear2026, HasLing3sPositiveDecaysAndGates) {
  const Fixture fixture = reference::fixture("ling3");
  GgufConversion to(fixture, "bailingmoe3");
  const CheckpointConfig& config = to.config();
  std::vector<std::int32_t> kv_heads;
  for (const std::string& type : config.layer_types) kv_heads.push_back(type == "full_attention" ? 1 : 0);
  write_router(to);
  to.numbers("attention.head_count_kv", GgufKind::i32, kv_heads);
  to.whole("rope.dimension_count", config.latent.qk_rope_head_dim);
  to.whole("attention.kv_lora_rank", config.latent.kv_lora_rank);
  to.whole("attention.key_length_mla", config.latent.qk_nope_head_dim + config.latent.qk_rope_head_dim);
  to.whole("attention.value_length_mla", config.latent.v_head_dim);
  to.whole("ssm.conv_kernel", config.delta_net.conv_kernel_dim);
  to.whole("kda.head_dim", config.delta_net.key_head_dim);
  to.number("kda.gate_lower_bound", config.delta_net.decay_floor);
  to.boolean("kda.safe_gate", true);
  to.whole("expert_shared_count", config.experts.n_shared_experts);
  to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  to.whole("expert_group_count", config.experts.n_group);
  to.whole("expert_group_used_count", config.experts.topk_group);
  to.copy("token_embd.weight", "model.word_embeddings.weight");
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer, with(test::kLlamaBlock, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                                                  {"exp_probs_b.bias", "mlp.gate.expert_bias"}}));
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
    write_ling_attention(to, layer);
  }
  expect_both(to, fixture);
}

TEST(GgufYear2026, HasCommandAPlusWithOneOfTwoNorms) {
  const Fixture fixture = reference::fixture("cohere2moe");
  GgufConversion to(fixture, "cohere2moe");
  const CheckpointConfig& config = to.config();
  write_router(to);
  write_windows(to, layers_with_windows(config));
  to.remove("attention.layer_norm_epsilon");
  to.number("logit_scale", config.logit_scale);
  to.whole("feed_forward_length", config.experts.intermediate_size_mlp);
  to.whole("expert_shared_count", config.experts.n_shared_experts);
  to.whole("expert_shared_feed_forward_length",
           config.experts.n_shared_experts * config.experts.moe_intermediate_size);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
  expect_both(to, fixture);
}

// convert_hf_to_gguf.py scales theta by alpha = 1000, and names the size of the shared experts.
TEST(GgufYear2026, HasHunyuansSharedExpertsAndScaledTheta) {
  const Fixture fixture = reference::fixture("hunyuanmoe");
  GgufConversion to(fixture, "hunyuan-moe");
  const CheckpointConfig& config = to.config();
  const auto rotated = static_cast<double>(config.head_dim);
  to.number("rope.freq_base", 10000.0 * std::pow(1000.0, rotated / (rotated - 2.0)));
  to.whole("expert_shared_count", 1);
  to.whole("expert_shared_feed_forward_length", config.intermediate_size);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer,
                  with(test::kLlamaBlock, {{"attn_q_norm.weight", "self_attn.query_layernorm.weight"},
                                           {"attn_k_norm.weight", "self_attn.key_layernorm.weight"},
                                           {"ffn_norm.weight", "post_attention_layernorm.weight"},
                                           {"ffn_gate_inp.weight", "mlp.gate.wg.weight"},
                                           {"ffn_gate_shexp.weight", "mlp.shared_mlp.gate_proj.weight"},
                                           {"ffn_up_shexp.weight", "mlp.shared_mlp.up_proj.weight"},
                                           {"ffn_down_shexp.weight", "mlp.shared_mlp.down_proj.weight"}}));
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
  expect_both(to, fixture);
  const test::TemporaryDirectory directory;
  const GgufFiles written(test::write_gguf(fixture, directory));
  for (const char* key : {"expert_shared_count", "expert_shared_feed_forward_length", "rope.freq_base"}) {
    const GgufFiles wanted(directory.write("expected.gguf", to.file()));
    const std::string name = std::string("hunyuan-moe.") + key;
    ASSERT_TRUE(written.metadata().has(name)) << name;
    EXPECT_FLOAT_EQ(written.metadata().number(name), wanted.metadata().number(name)) << name;
  }
}

// The fixture has two thetas, which files can't express.
TEST(GgufYear2026, HasGraniteSwaWithOneTheta) {
  const Fixture fixture = reference::fixture("graniteswa");
  if (!has_heads_for_all(fixture)) GTEST_SKIP() << "fewer heads than ranks";
  nlohmann::json json = test::config_in(fixture.folder);
  json["layer_rope_theta"] = {0, 10000.0, 10000.0, 10000.0};
  const test::TemporaryDirectory directory;
  test::write_checkpoint(directory.path(), json, test::tensors_of(fixture.folder));
  const test::TemporaryDirectory written;
  const std::filesystem::path file = written.path() / "model.gguf";
  test::write_f32(directory.path(), file);
  EXPECT_EQ(GgufFiles(file).metadata().booleans("granite_swa.attention.rope_pattern"),
            (std::vector<bool>{false, true, true, true}));
  const auto logits_of = [&](const std::filesystem::path& model, const WeightSource& source) {
    test::ModelUnderTest decoder(test::world(), load_config(model), source, {.weights = WeightType::f32});
    return decoder.append(fixture.prompt);
  };
  const std::vector<float> expected =
      logits_of(directory.path(), *SafetensorsCheckpoint::open(directory.path()));
  test::expect_same_logits(logits_of(file, *GgufCheckpoint::open(file)), expected);
}

// llama.cpp supports neither the model's factors nor its cache's sizes.
TEST(GgufYear2026, HasMiniCpm3sFactorsInItsTensors) {
  const Fixture fixture = reference::fixture("minicpm3");
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  test::write_f32(fixture.folder, file);
  const GgufFiles files(file);
  EXPECT_NE(files.find("blk.0.attn_kv_b.weight"), nullptr);
  EXPECT_EQ(files.find("blk.0.attn_k_b.weight"), nullptr);
  EXPECT_EQ(files.metadata().whole("minicpm3.attention.key_length"), 20U);
  EXPECT_EQ(files.metadata().whole("minicpm3.attention.value_length"), 8U);
  EXPECT_EQ(files.metadata().whole("minicpm3.attention.head_count_kv"), 8U);
  const CheckpointConfig config = load_config(file);
  EXPECT_EQ(config.embedding_multiplier, 12.0);
  EXPECT_NEAR(config.residual_multiplier, 1.4 / std::sqrt(4.0), 1e-7);
  EXPECT_EQ(config.logits_scaling, 64.0 / 256.0);
}

}  // namespace
}  // namespace tp
