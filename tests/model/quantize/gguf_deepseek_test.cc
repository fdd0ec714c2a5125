// GGUF files of DeepSeek-V4. Source of names: llama.cpp, src/models/deepseek4.cpp.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::GgufBuilder;
using test::GgufConversion;

const test::BlockTensors kDeepseekBlock = {
    {"attn_norm.weight", "attn_norm.weight"},
    {"ffn_norm.weight", "ffn_norm.weight"},
    {"attn_q_a.weight", "attn.wq_a.weight"},
    {"attn_q_a_norm.weight", "attn.q_norm.weight"},
    {"attn_q_b.weight", "attn.wq_b.weight"},
    {"attn_kv.weight", "attn.wkv.weight"},
    {"attn_kv_a_norm.weight", "attn.kv_norm.weight"},
    {"attn_output_a.weight", "attn.wo_a.weight"},
    {"attn_output_b.weight", "attn.wo_b.weight"},
    {"attn_sinks.weight", "attn.attn_sink"},
    {"attn_compressor_kv.weight", "attn.compressor.wkv.weight"},
    {"attn_compressor_gate.weight", "attn.compressor.wgate.weight"},
    {"attn_compressor_ape.weight", "attn.compressor.ape"},
    {"attn_compressor_norm.weight", "attn.compressor.norm.weight"},
    {"indexer.attn_q_b.weight", "attn.indexer.wq_b.weight"},
    {"indexer.proj.weight", "attn.indexer.weights_proj.weight"},
    {"indexer_compressor_kv.weight", "attn.indexer.compressor.wkv.weight"},
    {"indexer_compressor_gate.weight", "attn.indexer.compressor.wgate.weight"},
    {"indexer_compressor_ape.weight", "attn.indexer.compressor.ape"},
    {"indexer_compressor_norm.weight", "attn.indexer.compressor.norm.weight"},
    {"hc_attn_fn.weight", "hc_attn_fn"},
    {"hc_attn_base.weight", "hc_attn_base"},
    {"hc_attn_scale.weight", "hc_attn_scale"},
    {"hc_ffn_fn.weight", "hc_ffn_fn"},
    {"hc_ffn_base.weight", "hc_ffn_base"},
    {"hc_ffn_scale.weight", "hc_ffn_scale"},
    {"ffn_gate_inp.weight", "ffn.gate.weight"},
    {"exp_probs_b.bias", "ffn.gate.bias"},
    {"ffn_gate_shexp.weight", "ffn.shared_experts.w1.weight"},
    {"ffn_up_shexp.weight", "ffn.shared_experts.w3.weight"},
    {"ffn_down_shexp.weight", "ffn.shared_experts.w2.weight"}};

void write_numbers(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  const CompressedAttentionConfig& compressed = config.compressed;
  to.whole("attention.key_length", compressed.head_dim);
  to.whole("attention.value_length", compressed.head_dim);
  to.whole("attention.q_lora_rank", compressed.q_lora_rank);
  to.whole("attention.output_group_count", compressed.o_groups);
  to.whole("attention.output_lora_rank", compressed.o_lora_rank);
  to.whole("attention.sliding_window", config.sliding_window);
  to.whole("attention.indexer.head_count", config.indexer.n_heads);
  to.whole("attention.indexer.key_length", config.indexer.head_dim);
  to.whole("attention.indexer.top_k", config.indexer.topk);
  std::vector<std::int32_t> ratios(compressed.ratios.begin(), compressed.ratios.end());
  ratios.push_back(0);  // of a layer for multi-token prediction, which the file lacks
  to.numbers("attention.compress_ratios", GgufKind::i32, ratios);
  to.number("attention.compress_rope_freq_base", compressed.rope_theta);
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", config.rope_scaling.factor);
  to.whole("rope.scaling.original_context_length", config.rope_scaling.original_max_position_embeddings);
  to.number("rope.scaling.yarn_beta_fast", config.rope_scaling.beta_fast);
  to.number("rope.scaling.yarn_beta_slow", config.rope_scaling.beta_slow);
  to.whole("hyper_connection.count", config.hyper_connection.mult);
  to.whole("hyper_connection.sinkhorn_iterations", config.hyper_connection.sinkhorn_iters);
  to.number("hyper_connection.epsilon", config.hyper_connection.eps);
  to.whole("hash_layer_count", config.experts.num_hash_layers);
  to.whole("expert_shared_count", config.experts.n_shared_experts);
  to.whole("expert_gating_func", 4);
  to.boolean("expert_weights_norm", true);
  to.number("expert_weights_scale", config.experts.routed_scaling_factor);
  const std::vector<double>& limits = config.experts.swiglu_limits;
  to.numbers("swiglu_clamp_exp", GgufKind::f32, std::vector<float>(limits.begin(), limits.end()));
}

GgufConversion deepseek_file(const Fixture& fixture, const std::string& architecture) {
  GgufConversion to(fixture, architecture);
  write_numbers(to);
  to.copy("token_embd.weight", "embed.weight");
  to.copy("output_norm.weight", "norm.weight");
  to.copy("output.weight", "head.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kDeepseekBlock, fmt::format("layers.{}.", layer));
    for (const auto& [name, part] : {std::pair("gate", "w1"), std::pair("up", "w3"), std::pair("down", "w2")})
      to.stack(layer, fmt::format("ffn_{}_exps.weight", name),
               fmt::format("ffn.experts.{{}}.{}.weight", part), "layers.");
  }
  return to;
}

class GgufDeepseekV4 : public testing::Test {
 protected:
  // The experts of the first layer's tokens are integers.
  GgufDeepseekV4() {
    for (const char* const part : {"fn", "base", "scale"})
      file_.copy(fmt::format("output_hc_{}.weight", part), fmt::format("hc_head_{}", part));
  }
  std::filesystem::path write(const std::string& type = "I32") const {
    GgufBuilder file = file_.builder();
    const std::size_t rows = file_.config().vocab_size;
    const std::size_t columns = file_.config().experts.num_experts_per_tok;
    const std::vector<std::int64_t> experts =
        SafetensorsCheckpoint::open(fixture_.folder)
            ->whole_numbers("layers.0.ffn.gate.tid2eid", {rows, columns}, "");
    const std::string bytes = type == "I64"
                                  ? test::bytes_of(experts)
                                  : test::bytes_of(std::vector<std::int32_t>(experts.begin(), experts.end()));
    file.tensor("blk.0.ffn_gate_tid2eid.weight", {rows, columns}, type, bytes);
    return directory_.write("model.gguf", file.file());
  }

  Fixture fixture_ = reference::fixture("deepseekv4");
  GgufConversion file_ = deepseek_file(fixture_, "deepseek4");
  test::TemporaryDirectory directory_;
};

TEST_F(GgufDeepseekV4, GivesTheLogitsOfTheCheckpoint) {
  EXPECT_EQ(test::expect_logits_in(write(), fixture_), std::vector<std::string>());
}

TEST_F(GgufDeepseekV4, MayHaveLongIntegersAndTheOutputInGroups) {
  const std::size_t groups = file_.config().compressed.o_groups;
  for (std::size_t layer = 0; layer < file_.config().num_hidden_layers; ++layer)
    file_.change(fmt::format("blk.{}.attn_output_a.weight", layer), [&](test::TensorValues& values) {
      values.shape = {groups, values.shape[0] / groups, values.shape[1]};
    });
  EXPECT_EQ(test::expect_logits_in(write("I64"), fixture_), std::vector<std::string>());
}

TEST_F(GgufDeepseekV4, KeepsItsIntegersIfQuantizeCopiesTheFile) {
  const std::filesystem::path copy = directory_.path() / "copy.gguf";
  test::write_f32(write(), copy);
  EXPECT_EQ(GgufFiles(copy).find("blk.0.ffn_gate_tid2eid.weight")->tensor.type.name, "I32");
  EXPECT_EQ(test::expect_logits_in(copy, fixture_), std::vector<std::string>());
}

TEST_F(GgufDeepseekV4, RefusesAnotherTypeOfItsIntegers) {
  const auto source = GgufCheckpoint::open(write());
  const auto error = test::error_of<CheckpointError>([&] {
    source->whole_numbers("layers.0.ffn.gate.tid2eid", {3, 2}, "vocab_size, num_experts_per_tok");
  });
  EXPECT_CONTAINS(error, "blk.0.ffn_gate_tid2eid.weight is [256, 2] of the type I32, expected [3, 2]");
}

TEST_F(GgufDeepseekV4, RefusesAnotherChoiceOfExperts) {
  file_.whole("expert_gating_func", 2);
  const std::filesystem::path path = write();
  const auto error = test::error_of<ConfigError>([&] { load_config(path); });
  EXPECT_CONTAINS(error, "scoring_func must be \"sqrtsoftplus\"");
}

}  // namespace
}  // namespace tp
