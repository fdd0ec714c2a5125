// GGUF files of Qwen3-Next and Qwen3.5, whose tensors llama.cpp divides and orders differently. Source of
// names, order and values: llama.cpp, conversion/qwen.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/hyperparameters.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/computed_sequence.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::GgufBuilder;
using test::GgufConversion;
using test::le;
using test::TensorValues;

const test::BlockTensors kQwenBlock = {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                       {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
                                       {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
                                       {"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
                                       {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
                                       {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
                                       {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
                                       {"ssm_a", "linear_attn.A_log"},
                                       {"ssm_dt.bias", "linear_attn.dt_bias"},
                                       {"ssm_norm.weight", "linear_attn.norm.weight"},
                                       {"ssm_out.weight", "linear_attn.out_proj.weight"},
                                       {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
                                       {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
                                       {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
                                       {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
                                       {"ffn_down_exps.weight", "mlp.experts.down_proj"}};

void write_sizes(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  if (config.num_experts != 0)
    to.whole("expert_shared_feed_forward_length", config.experts.shared_expert_intermediate_size);
  to.whole("ssm.conv_kernel", config.delta_net.conv_kernel_dim);
  to.whole("ssm.state_size", config.delta_net.key_head_dim);
  to.whole("ssm.group_count", config.delta_net.num_key_heads);
  to.whole("ssm.time_step_rank", config.delta_net.num_value_heads);
  to.whole("ssm.inner_size", config.delta_net.num_value_heads * config.delta_net.value_head_dim);
  to.whole("full_attention_interval", 4);
}

// `prefix`: of the checkpoint's names.
void write_qwen_block(GgufConversion& to, std::size_t layer, const std::string& prefix) {
  const std::string block = fmt::format("blk.{}.", layer);
  to.copy_block(layer, test::kLlamaBlock, prefix);
  to.copy_block(layer, kQwenBlock, prefix);
  for (const char* norm : {"attn_norm", "post_attention_norm", "attn_q_norm", "attn_k_norm"})
    to.change(block + norm + ".weight", test::add_one);
  to.change(block + "ssm_a", [](TensorValues& logs) {
    for (float& value : logs.elements) value = -std::exp(value);
  });
  const std::string experts = prefix + "mlp.experts.gate_up_proj";
  if (!to.contains(experts))
    return test::write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  const TensorValues both = to.read(experts);  // the gate's rows come first
  const std::size_t rows = both.shape[1] / 2;
  to.write(block + "ffn_gate_exps.weight", rows_of(both, 0, rows));
  to.write(block + "ffn_up_exps.weight", rows_of(both, rows, rows));
}

// Qwen3-Next's projection has [query | key | values | gates] for each key head. Files have all queries, then
// all keys and all values in one tensor, and the gates in another one.
void split_projection(GgufConversion& to, std::size_t layer) {
  const CheckpointConfig& config = to.config();
  const std::string name = fmt::format("model.layers.{}.linear_attn.in_proj_qkvz.weight", layer);
  if (!to.contains(name)) return;
  const std::size_t keys = config.delta_net.num_key_heads;
  const std::size_t key = config.delta_net.key_head_dim;
  const std::size_t value = config.delta_net.num_value_heads / keys * config.delta_net.value_head_dim;
  TensorValues all = to.read(name);
  all.shape = {keys, all.shape[0] / keys, all.shape[1]};
  const auto part = [&](std::size_t begin, std::size_t rows) {
    TensorValues of_heads = rows_of(all, begin, rows);
    of_heads.shape = {keys * rows, all.shape[2]};
    return of_heads;
  };
  TensorValues qkv = part(0, key);
  for (const TensorValues& more : {part(key, key), part(2 * key, value)}) {
    qkv.shape[0] += more.shape[0];
    qkv.elements.insert(qkv.elements.end(), more.elements.begin(), more.elements.end());
  }
  to.write(fmt::format("blk.{}.attn_qkv.weight", layer), qkv);
  to.write(fmt::format("blk.{}.attn_gate.weight", layer), part(2 * key + value, value));
}

TEST(GgufQwenNext, HasItsProjectionsInTwoTensorsAsLlamaCppWritesThem) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const Fixture fixture = reference::fixture("qwen3next");
  GgufConversion to(fixture, "qwen3next");
  write_sizes(to);
  to.change("output_norm.weight", test::add_one);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    write_qwen_block(to, layer, fmt::format("model.layers.{}.", layer));
    split_projection(to, layer);
  }
  test::expect_logits(to, fixture);
}

// Reorders Qwen3.5's value heads, each of which has `head` elements, from `begin` on: [key heads, value heads
// per key head] -> [value heads per key head, key heads].
void tile(const CheckpointConfig& config, std::vector<float>& elements, std::size_t begin, std::size_t head) {
  const std::size_t keys = config.delta_net.num_key_heads;
  const std::size_t per_key = config.delta_net.num_value_heads / keys;
  const std::vector<float> grouped = elements;
  for (std::size_t key = 0; key < keys; ++key) {
    for (std::size_t value = 0; value < per_key; ++value) {
      const std::size_t from = begin + (key * per_key + value) * head;
      std::copy_n(grouped.begin() + static_cast<std::ptrdiff_t>(from), head,
                  elements.begin() + static_cast<std::ptrdiff_t>(begin + (value * keys + key) * head));
    }
  }
}

void tile_value_heads(GgufConversion& to, const std::string& block) {
  const CheckpointConfig& config = to.config();
  const std::size_t others = 2 * config.delta_net.num_key_heads * config.delta_net.key_head_dim;
  // `rows` of each value head, after `begin` other rows.
  const auto tile_rows = [&](const std::string& name, std::size_t begin, std::size_t rows) {
    to.change(block + name, [&](TensorValues& values) {
      const std::size_t columns = values.elements.size() / values.shape.front();
      tile(config, values.elements, begin * columns, rows * columns);
    });
  };
  for (const char* name : {"attn_qkv.weight", "ssm_conv1d.weight"})
    tile_rows(name, others, config.delta_net.value_head_dim);
  tile_rows("attn_gate.weight", 0, config.delta_net.value_head_dim);
  for (const char* name : {"ssm_alpha.weight", "ssm_beta.weight", "ssm_a", "ssm_dt.bias"})
    tile_rows(name, 0, 1);
  to.change(block + "ssm_out.weight", [&](TensorValues& values) {
    for (std::size_t row = 0; row < values.shape[0]; ++row)
      tile(config, values.elements, row * values.shape[1], config.delta_net.value_head_dim);
  });
}

GgufConversion qwen35_file(const Fixture& fixture, const std::string& architecture) {
  GgufConversion to(fixture, architecture);
  write_sizes(to);
  to.numbers("rope.dimension_sections", GgufKind::i32, std::vector<std::int32_t>{2, 1, 1, 0});
  to.change("output_norm.weight", test::add_one);
  const std::size_t layers = to.config().num_hidden_layers;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    write_qwen_block(to, layer, fmt::format("model.layers.{}.", layer));
    tile_value_heads(to, fmt::format("blk.{}.", layer));
  }
  // The multi-token prediction layer is a block after the model's layers.
  to.whole("block_count", layers + 1);
  to.whole("nextn_predict_layers", 1);
  write_qwen_block(to, layers, "mtp.layers.0.");
  const std::string last = fmt::format("blk.{}.nextn.", layers);
  to.copy(last + "eh_proj.weight", "mtp.fc.weight");
  for (const auto& [name, from] : {std::pair{"enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
                                   {"hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
                                   {"shared_head_norm.weight", "mtp.norm.weight"}}) {
    to.copy(last + name, from);
    to.change(last + name, test::add_one);
  }
  return to;
}

class GgufQwen35 : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  Fixture fixture_ = reference::fixture(GetParam().first);
  GgufConversion file_ = qwen35_file(fixture_, GetParam().second);
  test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.write("model.gguf", file_.file());
};

TEST_P(GgufQwen35, GivesTheLogitsOfTheCheckpoint) {
  const std::vector<std::string> unused = test::expect_logits_in(path_, fixture_);
  ASSERT_EQ(unused.size(), test::world().is_root() ? 1U : 0U);
  for (const std::string& part : unused) EXPECT_CONTAINS(part, "model.layers.4.* (");
}

TEST_P(GgufQwen35, HasTheLayerForMultiTokenPrediction) {
  const auto checkpoint = SafetensorsCheckpoint::open(fixture_.folder);
  const auto source = GgufCheckpoint::open(path_);
  const ModelSpec spec = make_next_token_spec(load_config(path_));
  const std::vector<float> state(spec.hidden_size, 0.5F);
  const std::vector<TokenId> tokens(fixture_.prompt.begin(), fixture_.prompt.begin() + 9);
  const std::vector<const float*> states(tokens.size(), state.data());
  test::expect_same_logits(test::compute(test::world(), spec, *source, tokens, 4, states).logits,
                           test::compute(test::world(), make_next_token_spec(load_config(fixture_.folder)),
                                         *checkpoint, tokens, 4, states)
                               .logits);
}

// Compares the file itself, because the reader would reverse any order that the writer used.
TEST_P(GgufQwen35, IsWrittenAsLlamaCppWritesIt) {
  const GgufFiles files(test::write_gguf(fixture_, directory_));
  EXPECT_EQ(files.metadata().text("general.architecture"), GetParam().second);
  EXPECT_TRUE(files.metadata().has(fmt::format("{}.rope.dimension_sections", GetParam().second)));
  for (const auto& [name, values] : file_.tensors()) {
    if (name.starts_with("blk.4.")) continue;  // multi-token prediction
    const GgufFiles::Entry* const entry = files.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->tensor.shape, values.shape) << name;
    const std::string bytes = test::bytes_of(values.elements);
    ASSERT_EQ(entry->tensor.bytes.size(), bytes.size()) << name;
    EXPECT_EQ(std::memcmp(entry->file.bytes().data() + entry->tensor.bytes.begin, bytes.data(), bytes.size()),
              0)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufQwen35,
                         testing::Values(std::pair{"qwen35", "qwen35"}, std::pair{"qwen35moe", "qwen35moe"}),
                         [](const auto& info) { return std::string(info.param.first); });

// Connections, indexers and the hash table of Qwen3.8-Flash-Next. Source of names: llama.cpp,
// conversion/qwen4exp.py.
const test::BlockTensors kQwen4Block = {
    {"hc_attn_norm.weight", "attn_hyper_connection.hc_norm.weight"},
    {"hc_attn_down.weight", "attn_hyper_connection.input_mix_weight_down.weight"},
    {"hc_attn_up.weight", "attn_hyper_connection.input_mix_weight_up.weight"},
    {"hc_attn_inject.weight", "attn_hyper_connection.block_inject_weight.weight"},
    {"hc_ffn_norm.weight", "mlp_hyper_connection.hc_norm.weight"},
    {"hc_ffn_down.weight", "mlp_hyper_connection.input_mix_weight_down.weight"},
    {"hc_ffn_up.weight", "mlp_hyper_connection.input_mix_weight_up.weight"},
    {"hc_ffn_inject.weight", "mlp_hyper_connection.block_inject_weight.weight"},
    {"indexer.q_norm.weight", "self_attn.indexer.q_layernorm.weight"},
    {"indexer.k_norm.weight", "self_attn.indexer.k_layernorm.weight"},
    {"ple_key.weight", "ple.key_proj.weight"},
    {"ple_value.weight", "ple.value_proj.weight"},
    {"ple_norm_key.weight", "ple.norm_key.weight"},
    {"ple_norm_query.weight", "ple.norm_query.weight"},
    {"ple_norm_conv.weight", "ple.norm_conv.weight"},
    {"ple_conv1d.weight", "ple.conv1d.weight"}};

void write_qwen4_block(GgufConversion& to, std::size_t layer) {
  const std::string block = fmt::format("blk.{}.", layer);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  write_qwen_block(to, layer, prefix);
  tile_value_heads(to, block);
  to.copy_block(layer, kQwen4Block);
  for (const char* norm : {"hc_attn_norm", "hc_ffn_norm", "indexer.q_norm", "indexer.k_norm", "ple_norm_key",
                           "ple_norm_query", "ple_norm_conv"})
    to.change(block + norm + ".weight", test::add_one);
  const std::string both = prefix + "self_attn.indexer.index_qk_proj.weight";
  if (!to.contains(both)) return;
  TensorValues rows = to.read(both);
  const std::size_t queries = 4 * 16;  // heads of 16
  rows.shape.insert(rows.shape.begin(), 1);
  to.write(block + "indexer.q_proj.weight", rows_of(rows, 0, queries));
  to.write(block + "indexer.k_proj.weight", rows_of(rows, queries, 16));
}

GgufConversion qwen4_file(const Fixture& fixture) {
  GgufConversion to(fixture, "qwen4exp");
  write_sizes(to);
  to.numbers("rope.dimension_sections", GgufKind::i32, std::vector<std::int32_t>{1, 1, 0, 0});
  to.whole("hyper_connection.count", 4);
  to.whole("hyper_connection.low_rank", 12);
  to.whole("attention.indexer.head_count", 4);
  to.whole("attention.indexer.key_length", 16);
  to.whole("attention.indexer.top_k", 12);
  to.numbers("attention.compress_ratios", GgufKind::i32, std::vector<std::int32_t>{0, 0, 0, 4, 0});
  to.numbers("ple.layers", GgufKind::i32, std::vector<std::int32_t>{1});
  to.whole("ple.ngram_size", 3);
  to.whole("ple.heads_per_ngram", 2);
  to.whole("ple.conv_kernel", 4);
  to.whole("ple.eos_token_id", 9);
  to.whole("ple.image_token_id", 236);
  to.whole("embedding_length_per_layer_input", 8);
  // By transformers' function for 240 tokens.
  to.numbers("ple.layer_multipliers", GgufKind::u64,
             std::vector<std::uint64_t>{6697078691025921, 1827739439518885, 36098755079765183});
  to.numbers("ple.head_vocab_sizes", GgufKind::u64, std::vector<std::uint64_t>{101, 103, 107, 109});
  to.numbers("ple.head_offsets", GgufKind::u64, std::vector<std::uint64_t>{0, 101, 204, 311});
  TensorValues table;
  for (std::size_t shard = 0; shard < 4; ++shard) {
    const TensorValues part =
        to.read(fmt::format("model.layers.1.ple.ple_embedding.ngram_embedding.shard_{}.weight", shard));
    table.elements.insert(table.elements.end(), part.elements.begin(), part.elements.end());
  }
  table.shape = {432, 8};
  to.write("per_layer_token_embd.weight", table);
  to.copy("output_hc_norm.weight", "model.hyper_connection_mixer.hc_norm.weight");
  to.change("output_hc_norm.weight", test::add_one);
  to.copy("output_hc_down.weight", "model.hyper_connection_mixer.input_mix_weight_down.weight");
  to.copy("output_hc_up.weight", "model.hyper_connection_mixer.input_mix_weight_up.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) write_qwen4_block(to, layer);
  return to;
}

TEST(GgufQwen4Exp, GivesTheLogitsOfTheCheckpoint) {
  if (test::world().size() > 3) GTEST_SKIP() << "three KV heads";
  const Fixture fixture = reference::fixture("qwen4exp");
  test::expect_logits(qwen4_file(fixture), fixture);
}

TEST(GgufQwen4Exp, IsWrittenAsLlamaCppWritesIt) {
  const Fixture fixture = reference::fixture("qwen4exp");
  GgufConversion file = qwen4_file(fixture);
  test::expect_written_as(file, fixture);
  for (const char* const unused : {"attention.layer_norm_epsilon", "ple.image_token_id"}) file.remove(unused);
  test::expect_metadata_as(file, "qwen4exp", fixture);
  const test::TemporaryDirectory directory;
  const GgufFiles written(test::write_gguf(fixture, directory));
  const GgufMetadata& metadata = written.metadata();
  // Doubles would round them.
  EXPECT_EQ(metadata.exact_wholes("qwen4exp.ple.layer_multipliers"),
            (std::vector<std::uint64_t>{6697078691025921, 1827739439518885, 36098755079765183}));
  EXPECT_EQ(metadata.values().at("qwen4exp.ple.head_offsets").kind, GgufKind::u64);
}

TEST(GgufQwen4Exp, IsNotWrittenWithTwoHashTables) {
  nlohmann::json config = test::config_in(reference::fixture("qwen4exp").folder);
  config["text_config"]["ple_layer_ids"] = {2, 3};
  const ModelSpec spec = make_spec(parse_config(config.dump(), "config.json"));
  GgufValues values;
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] {
                    write_hyperparameters(parse_config(config.dump(), "config.json"), spec, "model", values);
                  }),
                  "expected a hash table in one layer, found 2 tables");
}

// A file that contains only one layer's ssm_out, [2, 4 value heads * 128], with 2 key heads.
std::unique_ptr<GgufCheckpoint> with_two_rows(const test::TemporaryDirectory& directory, const char* type,
                                              const std::string& blocks) {
  GgufBuilder file;
  file.text("general.architecture", "qwen35");
  for (const auto& [key, number] : {std::pair{"embedding_length", 32U},
                                    {"attention.head_count", 1U},
                                    {"ssm.group_count", 2U},
                                    {"ssm.time_step_rank", 4U},
                                    {"ssm.state_size", 128U},
                                    {"ssm.inner_size", 512U}})
    file.whole(fmt::format("qwen35.{}", key), number);
  file.tensor("blk.0.ssm_out.weight", {2, 512}, type, blocks);
  return GgufCheckpoint::open(directory.write("model.gguf", file.file()));
}

const std::string kOutProj = "model.layers.0.linear_attn.out_proj.weight";

TEST(GgufColumns, KeepTheirTypeInAnotherOrderIfGroupsStayTogether) {
  std::string blocks;
  for (std::size_t block = 0; block < 32; ++block) {
    blocks += le(std::uint16_t{0x3C00});  // a scale of 1
    for (std::size_t i = 0; i < 32; ++i) blocks += le(static_cast<std::int8_t>(3 * block + i - 60));
  }
  const test::TemporaryDirectory directory;
  const auto source = with_two_rows(directory, "Q8_0", blocks);
  constexpr Range kColumns{96, 384};  // part of head 0, and heads 1 and 2
  EXPECT_EQ(source->group_type(kOutProj, kColumns), WeightType::int8);
  std::vector<std::int8_t> elements(2 * kColumns.size());
  std::vector<std::uint16_t> scales(elements.size() / 32);
  source->read_groups(kOutProj, {2, 512}, {{0, 2}, kColumns},
                      {{elements.data(), 2, kColumns.size()}, {scales.data(), 2, kColumns.size() / 32}});
  std::vector<float> floats(elements.size());
  source->read(kOutProj, {2, 512}, {{0, 2}, kColumns}, {floats.data(), 2, kColumns.size()});
  const std::size_t in_file[] = {0, 2, 1, 3};  // in the checkpoint, value heads of a key head are adjacent
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = kColumns.begin; column < kColumns.end; ++column) {
      const std::size_t stored = row * 512 + in_file[column / 128] * 128 + column % 128;
      const auto expected = static_cast<std::int8_t>(3 * (stored / 32) + stored % 32 - 60);
      const std::size_t i = row * kColumns.size() + column - kColumns.begin;
      ASSERT_EQ(elements[i], expected) << row << ", " << column;
      ASSERT_EQ(floats[i], expected) << row << ", " << column;
    }
  }
}

TEST(GgufColumns, InAnotherOrderAreNotHeldInSuperBlocks) {
  const test::TemporaryDirectory directory;
  const auto source = with_two_rows(directory, "Q4_K", std::string(4 * 144, '\0'));
  EXPECT_FALSE(source->group_type(kOutProj, {0, 512}).has_value());
  ASSERT_EQ(source->types().size(), 1U);
  EXPECT_EQ(source->types().front().held_as, WeightType::bf16);
  EXPECT_FALSE(source->types().front().exactly);
}

}  // namespace
}  // namespace tp
