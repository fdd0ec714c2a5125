// GGUF files of models with Mamba-1 and Mamba-2 mixers. Source of names, shapes and values: llama.cpp,
// conversion/mamba.py, jamba.py, granite.py, falcon_h1.py and nemotron.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::GgufConversion;
using test::TensorValues;

std::size_t inner_of(const CheckpointConfig& config) { return config.mamba.inner(); }

void scale_by(double factor, std::size_t begin, std::size_t rows, TensorValues& values) {
  const std::size_t columns = values.elements.size() / values.shape.front();
  for (std::size_t i = begin * columns; i < (begin + rows) * columns; ++i)
    values.elements[i] *= static_cast<float>(factor);
}

// The tensors of a mixer, if the block has one. `prefix`: of the checkpoint's names.
void write_mixer(GgufConversion& to, std::size_t layer, const std::string& prefix) {
  const CheckpointConfig& config = to.config();
  const std::string block = fmt::format("blk.{}.", layer);
  to.copy_block(layer,
                {{"ssm_in.weight", "in_proj.weight"},
                 {"ssm_conv1d.weight", "conv1d.weight"},
                 {"ssm_conv1d.bias", "conv1d.bias"},
                 {"ssm_dt.bias", "dt_bias"},
                 {"ssm_a", "A_log"},
                 {"ssm_d", "D"},
                 {"ssm_out.weight", "out_proj.weight"}},
                prefix);
  if (!to.contains(prefix + "A_log")) return;
  to.change(block + "ssm_a", [](TensorValues& logs) {
    for (float& value : logs.elements) value = -std::exp(value);
  });
  for (const char* const column : {"ssm_a", "ssm_d"})
    to.change(block + column, [&](TensorValues& values) { values.shape = {config.mamba.n_heads, 1}; });
  if (!to.contains(prefix + "norm.weight")) return;
  to.copy(block + "ssm_norm.weight", prefix + "norm.weight");
  to.change(block + "ssm_norm.weight", [&](TensorValues& values) {
    values.shape = {config.mamba.n_groups, inner_of(config) / config.mamba.n_groups};
  });
}

void write_mixer_sizes(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  to.whole("ssm.conv_kernel", config.mamba.d_conv);
  to.whole("ssm.state_size", config.mamba.d_state);
  to.whole("ssm.group_count", config.mamba.n_groups);
  to.whole("ssm.inner_size", inner_of(config));
  to.whole("ssm.time_step_rank", config.mamba.n_heads);
}

// The tensors of a Mamba-1 mixer, if the block has one, and the sizes of all mixers.
void write_mamba1_mixer(GgufConversion& to, std::size_t layer, const std::string& prefix) {
  to.copy_block(layer,
                {{"ssm_in.weight", "in_proj.weight"},
                 {"ssm_conv1d.weight", "conv1d.weight"},
                 {"ssm_conv1d.bias", "conv1d.bias"},
                 {"ssm_x.weight", "x_proj.weight"},
                 {"ssm_dt_norm.weight", "dt_layernorm.weight"},
                 {"ssm_b_norm.weight", "b_layernorm.weight"},
                 {"ssm_c_norm.weight", "c_layernorm.weight"},
                 {"ssm_dt.weight", "dt_proj.weight"},
                 {"ssm_dt.bias", "dt_proj.bias"},
                 {"ssm_a", "A_log"},
                 {"ssm_d", "D"},
                 {"ssm_out.weight", "out_proj.weight"}},
                prefix);
  to.change(fmt::format("blk.{}.ssm_a", layer), [](TensorValues& logs) {
    for (float& value : logs.elements) value = -std::exp(value);
  });
}

void write_mamba1_sizes(GgufConversion& to) {
  const Mamba1Config& mamba = to.config().mamba1;
  to.whole("ssm.conv_kernel", mamba.d_conv);
  to.whole("ssm.inner_size", mamba.d_inner);
  to.whole("ssm.state_size", mamba.d_state);
  to.whole("ssm.time_step_rank", mamba.dt_rank);
}

// Returns the number in layers of this type, and 0 in others.
std::vector<std::int32_t> of_layers(const CheckpointConfig& config, const std::string& type,
                                    std::size_t number) {
  std::vector<std::int32_t> all;
  for (const std::string& other : config.layer_types)
    all.push_back(other == type ? static_cast<std::int32_t>(number) : 0);
  return all;
}

void write_kv_heads_of_layers(GgufConversion& to) {
  to.numbers("attention.head_count_kv", GgufKind::i32,
             of_layers(to.config(), "full_attention", to.config().num_key_value_heads));
}

// The halves of a matrix with gates and ups.
void write_halves(GgufConversion& to, const std::string& block, const std::string& end,
                  const std::string& from) {
  TensorValues both = to.read(from);
  const bool is_stack = both.shape.size() == 3;
  if (!is_stack) both.shape.insert(both.shape.begin(), 1);
  const std::size_t rows = both.shape[1] / 2;
  for (const auto& [name, begin] : {std::pair{"ffn_gate", std::size_t{0}}, {"ffn_up", rows}})
    to.write(block + name + end, rows_of(both, begin, rows));
}

GgufConversion granite_file(const Fixture& fixture) {
  GgufConversion to(fixture, "granitehybrid");
  const CheckpointConfig& config = to.config();
  write_mixer_sizes(to);
  write_kv_heads_of_layers(to);
  to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  to.number("embedding_scale", config.embedding_multiplier);
  to.number("residual_scale", config.residual_multiplier);
  to.number("attention.scale", config.attention_multiplier);
  to.number("logit_scale", config.logits_scaling);
  to.boolean("rope.scaling.finetuned", false);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    to.copy_block(layer, test::kLlamaBlock);
    interleave_query_key(to, layer);
    write_mixer(to, layer, prefix + "mamba.");
    to.copy(block + "ffn_norm.weight", prefix + "post_attention_layernorm.weight");
    to.copy(block + "ffn_gate_inp.weight", prefix + "block_sparse_moe.router.layer.weight");
    to.copy(block + "ffn_down_exps.weight", prefix + "block_sparse_moe.output_linear.weight");
    to.copy(block + "ffn_down_shexp.weight", prefix + "shared_mlp.output_linear.weight");
    write_halves(to, block, "_exps.weight", prefix + "block_sparse_moe.input_linear.weight");
    write_halves(to, block, "_shexp.weight", prefix + "shared_mlp.input_linear.weight");
  }
  return to;
}

GgufConversion bamba_file(const Fixture& fixture) {
  GgufConversion to(fixture, "granitehybrid");
  write_mixer_sizes(to);
  write_kv_heads_of_layers(to);
  to.boolean("rope.scaling.finetuned", true);
  to.copy("output_norm.weight", "model.final_layernorm.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "pre_ff_layernorm.weight"},
                          {"ffn_gate.weight", "feed_forward.gate_proj.weight"},
                          {"ffn_up.weight", "feed_forward.up_proj.weight"},
                          {"ffn_down.weight", "feed_forward.down_proj.weight"}});
    interleave_query_key(to, layer);
    write_mixer(to, layer, fmt::format("model.layers.{}.mamba.", layer));
  }
  return to;
}

// Multiplies the factors into the tensors.
void fold_factors(GgufConversion& to, std::size_t layer) {
  const CheckpointConfig& config = to.config();
  const std::string block = fmt::format("blk.{}.", layer);
  const auto scale = [&](const std::string& name, double factor) {
    to.change(block + name + ".weight",
              [&](TensorValues& values) { scale_by(factor, 0, values.shape.front(), values); });
  };
  scale("ffn_gate", config.mlp_multipliers[0]);
  scale("ffn_down", config.mlp_multipliers[1]);
  scale("attn_k", config.key_multiplier * config.attention_in_multiplier);
  scale("attn_q", config.attention_in_multiplier);
  scale("attn_v", config.attention_in_multiplier);
  scale("attn_output", config.attention_out_multiplier);
  scale("ssm_out", config.mamba.out_multiplier);
  scale("ssm_in", config.mamba.in_multiplier);
  const std::size_t state = config.mamba.n_groups * config.mamba.d_state;
  to.change(block + "ssm_in.weight", [&](TensorValues& values) {
    std::size_t first = 0;
    for (std::size_t part = 0; part < 5; ++part) {
      const std::size_t rows = part < 2 ? inner_of(config) : part < 4 ? state : config.mamba.n_heads;
      scale_by(config.mamba.multipliers[part], first, rows, values);
      first += rows;
    }
  });
}

GgufConversion falcon_h1_file(const Fixture& fixture) {
  GgufConversion to(fixture, "falcon-h1");
  const CheckpointConfig& config = to.config();
  write_mixer_sizes(to);
  to.copy("output_norm.weight", "model.final_layernorm.weight");
  const auto scale_all = [](double factor) {
    return [factor](TensorValues& values) { scale_by(factor, 0, values.shape.front(), values); };
  };
  to.change("token_embd.weight", scale_all(config.embedding_multiplier));
  to.change("output.weight", scale_all(config.logit_scale));
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "pre_ff_layernorm.weight"},
                          {"ffn_gate.weight", "feed_forward.gate_proj.weight"},
                          {"ffn_up.weight", "feed_forward.up_proj.weight"},
                          {"ffn_down.weight", "feed_forward.down_proj.weight"}});
    write_mixer(to, layer, fmt::format("model.layers.{}.mamba.", layer));
    fold_factors(to, layer);
  }
  return to;
}

// Names under "backbone.", and one norm per layer.
void write_backbone(GgufConversion& to) {
  to.copy("token_embd.weight", "backbone.embeddings.weight");
  to.copy("output_norm.weight", "backbone.norm_f.weight");
  write_mixer_sizes(to);
  to.number("attention.layer_norm_rms_epsilon", to.config().layer_norm_eps);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("backbone.layers.{}.", layer);
    to.copy(fmt::format("blk.{}.attn_norm.weight", layer), prefix + "norm.weight");
    write_mixer(to, layer, prefix + "mixer.");
  }
}

GgufConversion mamba2_file(const Fixture& fixture) {
  GgufConversion to(fixture, "mamba2");
  write_backbone(to);
  to.whole("context_length", 1U << 20);
  to.whole("feed_forward_length", 0);
  to.whole("attention.head_count", 0);
  for (const char* key : {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                          "attention.layer_norm_epsilon", "rope.dimension_count", "rope.freq_base"})
    to.remove(key);
  return to;
}

GgufConversion mamba1_file(const Fixture& fixture) {
  GgufConversion to(fixture, "mamba");
  write_mamba1_sizes(to);
  to.copy("token_embd.weight", "backbone.embeddings.weight");
  to.copy("output_norm.weight", "backbone.norm_f.weight");
  to.number("attention.layer_norm_rms_epsilon", to.config().layer_norm_eps);
  to.whole("context_length", 1U << 20);
  to.whole("feed_forward_length", 0);
  to.whole("attention.head_count", 0);
  to.boolean("ssm.dt_b_c_rms", false);
  for (const char* key : {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                          "attention.layer_norm_epsilon", "rope.dimension_count", "rope.freq_base"})
    to.remove(key);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("backbone.layers.{}.", layer);
    to.copy(fmt::format("blk.{}.attn_norm.weight", layer), prefix + "norm.weight");
    write_mamba1_mixer(to, layer, prefix + "mixer.");
  }
  return to;
}

// The metadata doesn't say which layers have experts.
GgufConversion jamba_file(const Fixture& fixture) {
  GgufConversion to(fixture, "jamba");
  write_mamba1_sizes(to);
  write_kv_heads_of_layers(to);
  for (const char* key : {"expert_feed_forward_length", "rope.dimension_count", "rope.freq_base"})
    to.remove(key);
  to.copy("output_norm.weight", "model.final_layernorm.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "pre_ff_layernorm.weight"},
                          {"ffn_gate.weight", "feed_forward.gate_proj.weight"},
                          {"ffn_up.weight", "feed_forward.up_proj.weight"},
                          {"ffn_down.weight", "feed_forward.down_proj.weight"},
                          {"ffn_gate_inp.weight", "feed_forward.router.weight"}});
    for (const std::string part : {"gate", "up", "down"})
      to.stack(layer, "ffn_" + part + "_exps.weight", "feed_forward.experts.{}." + part + "_proj.weight");
    write_mamba1_mixer(to, layer, fmt::format("model.layers.{}.mamba.", layer));
  }
  return to;
}

GgufConversion nemotron_h_file(const Fixture& fixture) {
  const bool has_experts = load_config(fixture.folder).num_experts != 0;
  GgufConversion to(fixture, has_experts ? "nemotron_h_moe" : "nemotron_h");
  const CheckpointConfig& config = to.config();
  write_backbone(to);
  write_kv_heads_of_layers(to);
  to.numbers("feed_forward_length", GgufKind::i32,
             has_experts ? of_layers(config, "moe", config.experts.moe_intermediate_size)
                         : of_layers(config, "mlp", config.intermediate_size));
  to.boolean("rope.scaling.finetuned", false);
  if (has_experts) {
    to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
    to.whole("expert_shared_count", config.experts.n_shared_experts);
    to.boolean("expert_weights_norm", config.experts.norm_topk_prob);
    to.number("expert_weights_scale", config.experts.routed_scaling_factor);
    to.whole("expert_group_count", config.experts.n_group);
    if (config.experts.moe_latent_size != 0) to.whole("moe_latent_size", config.experts.moe_latent_size);
  }
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    to.copy_block(layer,
                  {{"attn_q.weight", "q_proj.weight"},
                   {"attn_k.weight", "k_proj.weight"},
                   {"attn_v.weight", "v_proj.weight"},
                   {"attn_output.weight", "o_proj.weight"},
                   {"ffn_up.weight", "up_proj.weight"},
                   {"ffn_down.weight", "down_proj.weight"},
                   {"ffn_gate_inp.weight", "gate.weight"},
                   {"exp_probs_b.bias", "gate.e_score_correction_bias"},
                   {"ffn_latent_down.weight", "fc1_latent_proj.weight"},
                   {"ffn_latent_up.weight", "fc2_latent_proj.weight"},
                   {"ffn_up_shexp.weight", "shared_experts.up_proj.weight"},
                   {"ffn_down_shexp.weight", "shared_experts.down_proj.weight"}},
                  fmt::format("backbone.layers.{}.mixer.", layer));
    for (const std::string part : {"up", "down"})
      to.stack(layer, "ffn_" + part + "_exps.weight", "mixer.experts.{}." + part + "_proj.weight",
               "backbone.layers.");
  }
  return to;
}

using MakeFile = GgufConversion (*)(const Fixture& fixture);

class GgufMamba : public testing::TestWithParam<std::pair<const char*, MakeFile>> {
 protected:
  void SetUp() override {
    if (load_config(fixture_.folder).num_attention_heads < test::world().size())
      GTEST_SKIP() << "fewer heads than ranks";
  }

  Fixture fixture_ = reference::fixture(GetParam().first);
  GgufConversion file_ = GetParam().second(fixture_);
};

TEST_P(GgufMamba, GivesTheLogitsOfTheCheckpoint) { test::expect_logits(file_, fixture_); }

TEST_P(GgufMamba, IsWrittenAsLlamaCppWritesIt) { test::expect_written_as(file_, fixture_); }

// The layer is a block after the model's layers, which has attention and experts.
TEST(GgufNemotron, MayHaveALayerForMultiTokenPrediction) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  const Fixture fixture = reference::fixture("nemotronh-moe");
  GgufConversion to = nemotron_h_file(fixture);
  const CheckpointConfig& config = to.config();
  std::vector<std::int32_t> kv_heads = of_layers(config, "full_attention", config.num_key_value_heads);
  std::vector<std::int32_t> widths = of_layers(config, "moe", config.experts.moe_intermediate_size);
  kv_heads.push_back(2);
  widths.push_back(32);
  to.numbers("attention.head_count_kv", GgufKind::i32, kv_heads);
  to.numbers("feed_forward_length", GgufKind::i32, widths);
  to.whole("block_count", config.num_hidden_layers + 1);
  to.whole("nextn_predict_layers", 1);
  to.copy(fmt::format("blk.{}.attn_norm.weight", config.num_hidden_layers), "backbone.norm_f.weight");
  const test::TemporaryDirectory directory;
  const std::vector<std::string> unused =
      test::expect_logits_in(directory.write("model.gguf", to.file()), fixture);
  EXPECT_EQ(unused.size(), test::world().is_root() ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, GgufMamba,
    testing::Values(std::pair{"granite4h", &granite_file}, std::pair{"bamba", &bamba_file},
                    std::pair{"falconh1", &falcon_h1_file}, std::pair{"mamba2", &mamba2_file},
                    std::pair{"mamba1", &mamba1_file}, std::pair{"jamba", &jamba_file},
                    std::pair{"nemotronh", &nemotron_h_file}, std::pair{"nemotronh-moe", &nemotron_h_file},
                    std::pair{"nemotronh-latent", &nemotron_h_file}),
    [](const auto& info) {
      std::string name = info.param.first;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace tp
