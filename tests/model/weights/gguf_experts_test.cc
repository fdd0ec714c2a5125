// Families with experts in the form of llama.cpp's converter: the fixtures' tensors under GGUF's names.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/computed_sequence.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::GgufConversion;
using test::kLlamaBlock;
using test::TensorValues;
using test::write_experts_one_by_one;

void write_gpt_oss(GgufConversion& to) {
  to.whole("attention.sliding_window", to.config().sliding_window);
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", to.config().rope_scaling.factor);
  to.whole("rope.scaling.original_context_length", to.config().rope_scaling.original_max_position_embeddings);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
                          {"attn_sinks.weight", "self_attn.sinks"},
                          {"ffn_gate_inp.weight", "mlp.router.weight"},
                          {"ffn_gate_inp.bias", "mlp.router.bias"},
                          {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"}});
    const std::string experts = fmt::format("model.layers.{}.mlp.experts.", layer);
    const std::string block = fmt::format("blk.{}.", layer);
    const TensorValues gate_up = to.read(experts + "gate_up_proj");
    const TensorValues gate_up_bias = to.read(experts + "gate_up_proj_bias");
    to.write(block + "ffn_gate_exps.weight", transposed(every(gate_up, 0, 2)));
    to.write(block + "ffn_up_exps.weight", transposed(every(gate_up, 1, 2)));
    to.write(block + "ffn_gate_exps.bias", every(gate_up_bias, 0, 2));
    to.write(block + "ffn_up_exps.bias", every(gate_up_bias, 1, 2));
    to.write(block + "ffn_down_exps.weight", transposed(to.read(experts + "down_proj")));
  }
}

void write_deepseek_experts(GgufConversion& to, const std::string& norm) {
  to.whole("expert_shared_count", to.config().experts.n_shared_experts);
  to.whole("leading_dense_block_count", to.config().experts.first_k_dense_replace);
  to.number("expert_weights_scale", to.config().experts.routed_scaling_factor);
  to.boolean("expert_weights_norm", to.config().experts.norm_topk_prob);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{norm, "post_attention_layernorm.weight"}});
    for (const char* part : {"gate", "up", "down"})
      to.stack(layer, fmt::format("ffn_{}_exps.weight", part),
               "mlp.experts.{}." + std::string(part) + "_proj.weight");
  }
}

// The file includes the multi-token prediction layer.
void write_glm4_moe(GgufConversion& to) { write_deepseek_experts(to, "post_attention_norm.weight"); }

void write_olmoe(GgufConversion& to) {
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"}});
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
}

void write_ernie_moe(GgufConversion& to) {
  to.whole("expert_shared_count", to.config().experts.n_shared_experts);
  to.whole("leading_dense_block_count", to.config().experts.moe_layer_start_index);
  to.whole("interleave_moe_layer_step", to.config().experts.moe_layer_interval);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"}});
    to.copy_block(layer, {{"exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias"}});
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
}

void write_phimoe(GgufConversion& to) {
  to.copy("output_norm.bias", "model.norm.bias");
  to.copy("output.bias", "lm_head.bias");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"attn_norm.bias", "input_layernorm.bias"},
                          {"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_norm.bias", "post_attention_layernorm.bias"},
                          {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"}});
    write_experts_one_by_one(to, layer, "block_sparse_moe.experts.", {"w1", "w3", "w2"});
  }
}

void write_granite_moe(GgufConversion& to) {
  to.number("embedding_scale", to.config().embedding_multiplier);
  to.number("residual_scale", to.config().residual_multiplier);
  to.number("attention.scale", to.config().attention_multiplier);
  to.number("logit_scale", to.config().logits_scaling);
  const std::size_t size = to.config().experts.moe_intermediate_size;
  test::BlockTensors names = kLlamaBlock;
  names["ffn_norm.weight"] = "post_attention_layernorm.weight";
  names["ffn_gate_inp.weight"] = "block_sparse_moe.router.layer.weight";
  names["ffn_down_exps.weight"] = "block_sparse_moe.output_linear.weight";
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    interleave_query_key(to, layer);
    const std::string block = fmt::format("blk.{}.", layer);
    const TensorValues both =
        to.read(fmt::format("model.layers.{}.block_sparse_moe.input_linear.weight", layer));
    to.write(block + "ffn_gate_exps.weight", rows_of(both, 0, size));
    to.write(block + "ffn_up_exps.weight", rows_of(both, size, size));
  }
}

void write_minimax(GgufConversion& to) {
  to.whole("expert_gating_func", 2);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                          {"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"}});
    write_experts_one_by_one(to, layer, "block_sparse_moe.experts.", {"w1", "w3", "w2"});
  }
}

// Files contain neither index values nor the width of the shared expert. In published models, this width
// equals the routed experts'.
void write_minimax_m3(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  to.whole("feed_forward_length", config.experts.intermediate_size_mlp);
  to.whole("expert_gating_func", 2);
  to.whole("expert_shared_count", config.experts.n_shared_experts);
  to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  to.whole("leading_dense_block_count", config.experts.first_k_dense_replace);
  to.number("expert_weights_scale", config.experts.routed_scaling_factor);
  to.boolean("expert_weights_norm", true);
  to.whole("attention.indexer.head_count", config.block_indexer.n_heads);
  to.whole("attention.indexer.key_length", config.block_indexer.head_dim);
  to.whole("attention.indexer.top_k", config.block_indexer.topk_blocks);
  to.whole("attention.indexer.block_size", config.block_indexer.block_size);
  to.whole("attention.indexer.local_blocks", config.block_indexer.local_blocks);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string moe = "block_sparse_moe.";
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_inp.weight", moe + "gate.weight"},
                          {"exp_probs_b.bias", moe + "e_score_correction_bias"},
                          {"ffn_gate_shexp.weight", moe + "shared_experts.gate_proj.weight"},
                          {"ffn_up_shexp.weight", moe + "shared_experts.up_proj.weight"},
                          {"ffn_down_shexp.weight", moe + "shared_experts.down_proj.weight"},
                          {"indexer.q_proj.weight", "self_attn.index_q_proj.weight"},
                          {"indexer.k_proj.weight", "self_attn.index_k_proj.weight"},
                          {"indexer.q_norm.weight", "self_attn.index_q_norm.weight"},
                          {"indexer.k_norm.weight", "self_attn.index_k_norm.weight"}});
    write_experts_one_by_one(to, layer, moe + "experts.", {"w1", "w3", "w2"});
  }
  std::vector<std::string> names;
  for (const auto& tensor : to.tensors()) names.push_back(tensor.first);
  for (const std::string& name : names) {
    if (name.ends_with("norm.weight")) to.change(name, test::add_one);
  }
}

// Metadata for RoPE and queries of Mistral 3 and 4; `share` is the part of mscale_all_dim in the file.
void write_mistral_rope(GgufConversion& to, double share) {
  const RopeScaling& scaling = to.config().rope_scaling;
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", scaling.factor);
  to.whole("rope.scaling.original_context_length", scaling.original_max_position_embeddings);
  to.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  to.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  to.number("rope.scaling.yarn_log_multiplier", share);
  to.number("attention.temperature_scale", to.config().llama_4_scaling_beta);
}

void write_mistral3(GgufConversion& to) {
  write_mistral_rope(to, 1.0);
  test::BlockTensors names = kLlamaBlock;
  names["ffn_norm.weight"] = "post_attention_layernorm.weight";
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    interleave_query_key(to, layer);
  }
}

// Latent attention in newer files: a stack each for the projections to keys and to values.
void write_latent_attention(GgufConversion& to, std::size_t layer) {
  const CheckpointConfig& config = to.config();
  to.copy_block(layer, {{"attn_q_a.weight", "self_attn.q_a_proj.weight"},
                        {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
                        {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
                        {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
                        {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"}});
  TensorValues both = to.read(fmt::format("model.layers.{}.self_attn.kv_b_proj.weight", layer));
  both.shape = {config.num_attention_heads, config.latent.qk_nope_head_dim + config.latent.v_head_dim,
                config.latent.kv_lora_rank};
  const std::string block = fmt::format("blk.{}.", layer);
  to.write(block + "attn_k_b.weight", transposed(rows_of(both, 0, config.latent.qk_nope_head_dim)));
  to.write(block + "attn_v_b.weight",
           rows_of(both, config.latent.qk_nope_head_dim, config.latent.v_head_dim));
}

void write_latent_sizes(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  to.whole("rope.dimension_count", config.latent.qk_rope_head_dim);
  to.whole("attention.key_length_mla", config.latent.qk_nope_head_dim + config.latent.qk_rope_head_dim);
  to.whole("attention.value_length_mla", config.latent.v_head_dim);
  to.whole("attention.q_lora_rank", config.latent.q_lora_rank);
  to.whole("attention.kv_lora_rank", config.latent.kv_lora_rank);
}

void write_glm4_moe_lite(GgufConversion& to) {
  write_latent_sizes(to);
  to.whole("expert_gating_func", 2);
  write_deepseek_experts(to, "ffn_norm.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer)
    write_latent_attention(to, layer);
}

// The converter leaves experts unchanged.
void write_mistral4(GgufConversion& to) {
  write_latent_sizes(to);
  write_mistral_rope(to, 0.1);
  to.whole("expert_shared_count", to.config().experts.n_shared_experts);
  to.boolean("expert_weights_norm", true);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    write_latent_attention(to, layer);
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
                          {"ffn_down_exps.weight", "mlp.experts.down_proj"}});
  }
}

void write_indexers(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  to.whole("attention.indexer.head_count", config.indexer.n_heads);
  to.whole("attention.indexer.key_length", config.indexer.head_dim);
  to.whole("attention.indexer.top_k", config.indexer.topk);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
    to.copy_block(layer, {{"indexer.attn_q_b.weight", "self_attn.indexer.wq_b.weight"},
                          {"indexer.attn_k.weight", "self_attn.indexer.wk.weight"},
                          {"indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"},
                          {"indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"},
                          {"indexer.proj.weight", "self_attn.indexer.weights_proj.weight"}});
}

// Experts are chosen from groups. The logarithm's factor is a tenth of mscale_all_dim.
void write_deepseek_v32(GgufConversion& to) {
  write_glm4_moe_lite(to);
  write_indexers(to);
  write_mistral_rope(to, 0.1);
  to.remove("attention.temperature_scale");
  to.whole("expert_group_count", to.config().experts.n_group);
  to.whole("expert_group_used_count", to.config().experts.topk_group);
}

void write_glm_dsa(GgufConversion& to) {
  write_glm4_moe_lite(to);
  write_indexers(to);
}

// Layers that share an indexer are listed as false.
void write_glm_dsa_with_types(GgufConversion& to) {
  write_glm_dsa(to);
  std::vector<std::uint8_t> types;
  for (const std::string& type : to.config().indexer.types) types.push_back(type == "full" ? 1 : 0);
  to.numbers("attention.indexer.types", GgufKind::boolean, types);
}

// One limit for all layers, and experts in separate stacks.
void write_hy4(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  write_glm_dsa_with_types(to);
  to.whole("hyper_connection.count", config.hyper_connection.mult);
  to.number("hyper_connection.epsilon", config.hyper_connection.eps);
  to.number("hyper_connection.magnitude", config.hyper_connection.magnitude);
  to.number("swiglu_clamp_exp", config.experts.swiglu_limit);
  for (const char* const part : {"fn", "base", "scale"}) {
    to.copy(fmt::format("output_hc_{}.weight", part), fmt::format("model.hc_head.hc_head_{}", part));
    for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
      to.copy_block(
          layer, {{fmt::format("hc_attn_{}.weight", part), fmt::format("hc_attn_layer.hc_pre.hc_{}", part)},
                  {fmt::format("hc_ffn_{}.weight", part), fmt::format("hc_mlp_layer.hc_pre.hc_{}", part)}});
  }
  const std::size_t size = config.experts.moe_intermediate_size;
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    to.copy_block(layer, {{"attn_gate.weight", "self_attn.linear_gate.weight"},
                          {"attn_sinks.weight", "self_attn.learnable_sink_param"},
                          {"ffn_down_exps.weight", "mlp.experts.down_proj"}});
    const std::string experts = fmt::format("model.layers.{}.mlp.experts.gate_up_proj", layer);
    if (!to.contains(experts)) continue;
    to.write(block + "ffn_gate_exps.weight", rows_of(to.read(experts), 0, size));
    to.write(block + "ffn_up_exps.weight", rows_of(to.read(experts), size, size));
  }
}

struct Case {
  std::string fixture;
  std::string architecture;
  std::function<void(GgufConversion&)> write;
};

const Case kCases[] = {
    {"gptoss", "gpt-oss", write_gpt_oss},
    {"glm4moe", "glm4moe", write_glm4_moe},
    {"olmoe", "olmoe", write_olmoe},
    {"ernie45moe", "ernie4_5-moe", write_ernie_moe},
    {"phimoe", "phimoe", write_phimoe},
    {"granitemoe", "granitemoe", write_granite_moe},
    {"minimaxm2", "minimax-m2", write_minimax},
    {"minimaxm3", "minimax-m3", write_minimax_m3},
    {"ministral3", "mistral3", write_mistral3},
    {"mistral4", "mistral4", write_mistral4},
    {"glm4moelite", "deepseek2", write_glm4_moe_lite},
    {"deepseekv32", "deepseek32", write_deepseek_v32},
    {"glm5dsa", "glm-dsa", write_glm_dsa},
    {"glm52dsa", "glm-dsa", write_glm_dsa},
    {"glm52dsa", "glm-dsa", write_glm_dsa_with_types},
    {"hyv4", "hy_v4", write_hy4},
    {"dots1", "dots1", [](GgufConversion& to) { write_deepseek_experts(to, "ffn_norm.weight"); }},
};

TEST(GgufExperts, GiveTheLogitsOfTheSameTensorsInACheckpoint) {
  for (const Case& of : kCases) {
    const reference::Fixture fixture = reference::fixture(of.fixture);
    SCOPED_TRACE(of.fixture);
    GgufConversion conversion(fixture, of.architecture);
    of.write(conversion);
    test::expect_logits(conversion, fixture);
  }
}

// Compares the multi-token prediction layer. Its tensors are under blk.N.nextn after the model's N blocks.
void expect_same_next_token_layer(const std::string& name, const std::string& architecture,
                                  void (*write)(GgufConversion& to)) {
  const reference::Fixture fixture = reference::fixture(name);
  for (const bool own_tables : {true, false}) {
    SCOPED_TRACE(name);
    nlohmann::json config = test::config_in(fixture.folder);
    test::Tensors tensors = test::tensors_of(fixture.folder);
    test::add_next_token_layer(config, tensors, own_tables);
    const test::TemporaryDirectory directory;
    test::write_checkpoint(directory.path(), config, tensors);
    const CheckpointConfig expected_config = load_config(directory.path());
    const auto expected_source = SafetensorsCheckpoint::open(directory.path());

    // The converter counts the layer among the blocks.
    const std::size_t layer = config["num_hidden_layers"];
    config["num_hidden_layers"] = layer + 1;
    const test::TemporaryDirectory counted;
    test::write_checkpoint(counted.path(), config, tensors);
    reference::Fixture of_all = fixture;
    of_all.folder = counted.path();
    GgufConversion conversion(of_all, architecture);
    conversion.whole("nextn_predict_layers", 1);
    write(conversion);
    conversion.copy_block(layer, {{"nextn.eh_proj.weight", "eh_proj.weight"},
                                  {"nextn.enorm.weight", "enorm.weight"},
                                  {"nextn.hnorm.weight", "hnorm.weight"},
                                  {"nextn.embed_tokens.weight", "embed_tokens.weight"},
                                  {"nextn.shared_head_head.weight", "shared_head.head.weight"},
                                  {"nextn.shared_head_norm.weight", "shared_head.norm.weight"}});
    const std::filesystem::path file = directory.write("model.gguf", conversion.file());
    const auto source = GgufCheckpoint::open(file);

    Communicator& comm = test::world();
    const auto expected_model =
        test::compute(comm, make_spec(expected_config), *expected_source, fixture.prompt, 128);
    std::vector<const float*> states;
    for (const std::vector<float>& state : expected_model.hidden) states.push_back(state.data());
    const auto logits_of = [&](const CheckpointConfig& of, const WeightSource& from) {
      return test::compute(comm, make_next_token_spec(of), from, fixture.prompt, 128, states).logits;
    };
    EXPECT_EQ(logits_of(load_config(file), *source), logits_of(expected_config, *expected_source));
  }
}

TEST(GgufExperts, HaveGlmsLayerForMultiTokenPrediction) {
  expect_same_next_token_layer("glm4moe", "glm4moe", write_glm4_moe);
  expect_same_next_token_layer("glm4moelite", "deepseek2", write_glm4_moe_lite);
}

}  // namespace
}  // namespace tp
