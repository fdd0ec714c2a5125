// GGUF files of DeepSeek-V4 and V4.1. Sources of names: llama.cpp, src/models/deepseek4.cpp, and its pull
// request 28696; of files that carry config.json: antirez, ds4, gguf-tools/deepseek41_quantize.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
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
    {"indexer.attn_k.weight", "attn.indexer.wk.weight"},
    {"indexer.k_norm.weight", "attn.indexer.k_norm.weight"},
    {"hc_attn_fn.weight", "hc_attn_fn"},
    {"hc_attn_base.weight", "hc_attn_base"},
    {"hc_attn_scale.weight", "hc_attn_scale"},
    {"hc_ffn_fn.weight", "hc_ffn_fn"},
    {"hc_ffn_base.weight", "hc_ffn_base"},
    {"hc_ffn_scale.weight", "hc_ffn_scale"},
    {"ffn_gate_inp.weight", "ffn.gate.weight"},
    {"exp_probs_b.bias", "ffn.gate.bias"},
    {"exp_probs_b_vl.bias", "ffn.gate.bias_vl"},
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
  ratios.push_back(0);  // the file lacks this layer, for multi-token prediction
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

// Constants of all tables' hashes, one table after the other.
template <class Number>
std::vector<Number> of_tables(const CheckpointConfig& config,
                              std::vector<std::uint64_t> NgramHash::*numbers) {
  const ModelSpec spec = make_spec(config);
  std::vector<Number> all;
  for (const std::size_t layer : config.hash_table.layers) {
    for (const std::uint64_t number : spec.blocks[layer].hash_table.value().hash.*numbers)
      all.push_back(static_cast<Number>(number));
  }
  return all;
}

class GgufDeepseekV41 : public testing::Test {
 protected:
  GgufDeepseekV41() {
    const CheckpointConfig& config = file_.config();
    const CompressedAttentionConfig& compressed = config.compressed;
    const HashTableConfig& table = config.hash_table;
    file_.whole("attention.candidate_source_layer_id", compressed.candidate_source);
    file_.whole("attention.candidate_block_size", compressed.candidate_block_size);
    file_.whole("attention.candidate_topk_blocks", compressed.candidate_blocks);
    file_.numbers("engram.layer_ids", GgufKind::i32,
                  std::vector<std::int32_t>(table.layers.begin(), table.layers.end()));
    file_.whole("engram.head_count", table.heads_per_ngram);
    file_.whole("engram.key_length", table.row_size);
    file_.whole("engram.max_ngram_size", table.ngram_size);
    file_.whole("engram.pad_id", static_cast<std::size_t>(table.token_map[table.boundary.value()]));
    file_.numbers("engram.token_map", GgufKind::i32, table.token_map);
    file_.numbers("engram.multipliers", GgufKind::u64,
                  of_tables<std::uint64_t>(config, &NgramHash::multipliers));
    file_.numbers("engram.primes", GgufKind::u64, of_tables<std::uint64_t>(config, &NgramHash::sizes));
    file_.numbers("engram.offsets", GgufKind::u64, of_tables<std::uint64_t>(config, &NgramHash::offsets));
  }
  // Writes the tensors of hash tables. `projection`, `end_of_gains`: parts of their names. `has_rows`: also
  // the rows.
  void write_tables(const std::string& projection, const std::string& end_of_gains, bool has_rows = true) {
    for (const std::size_t layer : file_.config().hash_table.layers) {
      const std::string prefix = fmt::format("layers.{}.engram.", layer);
      const std::string block = fmt::format("blk.{}.engram_", layer);
      if (has_rows) file_.copy(block + "embd.weight", prefix + "embed.weight");
      file_.copy(block + projection + ".weight", prefix + "wkv.weight");
      file_.copy(block + "k" + end_of_gains, prefix + "k_weight");
      file_.copy(block + "q" + end_of_gains, prefix + "q_weight");
    }
  }
  std::vector<float> logits_of(const std::string& file, std::optional<WeightType> weights) {
    const std::filesystem::path path = directory_.write("model.gguf", file);
    const auto source = GgufCheckpoint::open(path);
    ModelSpec spec = make_spec(load_config(path));
    spec.same_bits = true;
    test::ModelUnderTest decoder(test::world(), spec, *source, {.weights = weights});
    return decoder.append(fixture_.prompt);
  }

  Fixture fixture_ = reference::fixture("deepseekv41");
  GgufConversion file_ = deepseek_file(fixture_, "deepseek41");
  test::TemporaryDirectory directory_;
};

TEST_F(GgufDeepseekV41, GivesTheLogitsOfTheCheckpoint) {
  write_tables("wkv", ".weight");
  test::expect_logits(file_, fixture_);
}

TEST_F(GgufDeepseekV41, HasTheConstantsOfItsHashes) {
  std::vector<std::uint64_t> primes = of_tables<std::uint64_t>(file_.config(), &NgramHash::sizes);
  std::vector<std::uint64_t> offsets = of_tables<std::uint64_t>(file_.config(), &NgramHash::offsets);
  const std::uint64_t last = primes.back();
  primes.back() += 2;
  file_.numbers("engram.primes", GgufKind::u64, primes);
  const CheckpointConfig config = load_config(directory_.write("model.gguf", file_.file()));
  EXPECT_EQ(config.hash_table.sizes, primes);
  EXPECT_EQ(make_spec(config).blocks[4].hash_table.value().hash.sizes.back(), last + 2);
  EXPECT_EQ(make_spec(config).blocks[4].hash_table.value().rows, 608U);
  offsets.back() += 1;
  file_.numbers("engram.offsets", GgufKind::u64, offsets);
  const std::filesystem::path path = directory_.write("model.gguf", file_.file());
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { load_config(path); }), "engram.offsets must be sums");
}

// The file has no other numbers of the model.
TEST_F(GgufDeepseekV41, MayCarryTheConfigOfTheCheckpoint) {
  write_tables("kv", "_norm.weight");
  const CheckpointConfig& config = file_.config();
  GgufBuilder file;
  file.text("general.architecture", "deepseek41");
  file.text("deepseek41.config", test::config_in(fixture_.folder).dump());
  file.numbers("deepseek41.engram.layer_ids", GgufKind::u32, std::vector<std::uint32_t>{1, 4});
  file.numbers(
      "deepseek41.engram.token_map", GgufKind::u32,
      std::vector<std::uint32_t>(config.hash_table.token_map.begin(), config.hash_table.token_map.end()));
  file.numbers("deepseek41.engram.primes", GgufKind::u32,
               of_tables<std::uint32_t>(config, &NgramHash::sizes));
  file.numbers("deepseek41.engram.multipliers", GgufKind::u64,
               of_tables<std::uint64_t>(config, &NgramHash::multipliers));
  for (const auto& [name, values] : file_.tensors())
    file.tensor(name, values.shape, "F32", test::bytes_of(values.elements));
  EXPECT_EQ(test::expect_logits_in(directory_.write("model.gguf", file.file()), fixture_),
            std::vector<std::string>());
}

// A number of F8_E4M3: four bits of an exponent and three of a mantissa.
float value_of(std::uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const int mantissa = byte & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return byte < 128 ? size : -size;
}

// Rows of 32 elements and one scale. The fixture's rows are shorter, so the projection is another one.
TEST_F(GgufDeepseekV41, MayHaveRowsWithTheirScales) {
  constexpr std::size_t kColumns = 32;
  write_tables("wkv", ".weight", /*has_rows=*/false);
  file_.whole("engram.key_length", kColumns);
  const std::vector<std::size_t> layers = file_.config().hash_table.layers;
  for (const std::size_t layer : layers) {
    test::TensorValues projection{{300, 6 * kColumns}, std::vector<float>(300 * 6 * kColumns)};
    for (std::size_t i = 0; i < projection.elements.size(); ++i)
      projection.elements[i] = static_cast<float>(i * 7 % 31) / 256.0F - 0.05F;
    file_.write(fmt::format("blk.{}.engram_wkv.weight", layer), projection);
  }
  file_.text("engram.encoding", "e4m3_e8m0_32_row33");
  GgufBuilder encoded = file_.builder();
  GgufBuilder decoded = file_.builder();
  for (const std::size_t layer : layers) {
    const std::size_t rows = make_spec(file_.config()).blocks[layer].hash_table.value().rows;
    std::string bytes;
    std::vector<float> values;
    for (std::size_t row = 0; row < rows; ++row) {
      const int exponent = static_cast<int>(row % 4) - 6;
      for (std::size_t i = 0; i < kColumns; ++i) {
        const auto byte = static_cast<std::uint8_t>((row * 5 + i * 37) % 0x58 + (row + i) % 2 * 0x80);
        bytes += test::le(byte);
        values.push_back(std::ldexp(value_of(byte), exponent));
      }
      bytes += test::le(static_cast<std::uint8_t>(exponent + 127));
    }
    const std::string name = fmt::format("blk.{}.engram_embd.weight", layer);
    encoded.tensor(name, {rows, kColumns + 1}, "I8", bytes);
    decoded.tensor(name, {rows, kColumns}, "F32", test::bytes_of(values));
  }
  const std::vector<float> expected = logits_of(decoded.file(), WeightType::f32);
  EXPECT_EQ(logits_of(encoded.file(), WeightType::f32), expected);
  EXPECT_EQ(logits_of(encoded.file(), std::nullopt), expected);
}

}  // namespace
}  // namespace tp
