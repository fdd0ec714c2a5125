// Qwen3.5's GGUF files, which have a different order of value heads. Source of names, order and values:
// llama.cpp, conversion/qwen.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/computed_sequence.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/next_token_checkpoint.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using reference::Fixture;
using test::GgufBuilder;
using test::le;
using test::Tensors;
using test::Values;

using NewNames = std::vector<std::pair<std::string, std::string>>;

std::string in_gguf(std::string name) {
  static const NewNames kNames = {{"model.embed_tokens", "token_embd"},
                                  {"model.norm", "output_norm"},
                                  {"lm_head", "output"},
                                  {"model.layers.", "blk."},
                                  {"input_layernorm", "attn_norm"},
                                  {"post_attention_layernorm", "post_attention_norm"},
                                  {"self_attn.q_proj", "attn_q"},
                                  {"self_attn.k_proj", "attn_k"},
                                  {"self_attn.v_proj", "attn_v"},
                                  {"self_attn.o_proj", "attn_output"},
                                  {"self_attn.q_norm", "attn_q_norm"},
                                  {"self_attn.k_norm", "attn_k_norm"},
                                  {"linear_attn.in_proj_qkv", "attn_qkv"},
                                  {"linear_attn.in_proj_z", "attn_gate"},
                                  {"linear_attn.in_proj_b", "ssm_beta"},
                                  {"linear_attn.in_proj_a", "ssm_alpha"},
                                  {"linear_attn.conv1d", "ssm_conv1d"},
                                  {"linear_attn.A_log", "ssm_a"},
                                  {"linear_attn.dt_bias", "ssm_dt.bias"},
                                  {"linear_attn.norm", "ssm_norm"},
                                  {"linear_attn.out_proj", "ssm_out"},
                                  {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                                  {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                  {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                  {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                                  {"mlp.experts.down_proj", "ffn_down_exps.weight"},
                                  {"mlp.gate_proj", "ffn_gate"},
                                  {"mlp.up_proj", "ffn_up"},
                                  {"mlp.down_proj", "ffn_down"},
                                  {"mlp.gate.", "ffn_gate_inp."},
                                  {".eh_proj", ".nextn.eh_proj"},
                                  {".enorm", ".nextn.enorm"},
                                  {".hnorm", ".nextn.hnorm"},
                                  {".shared_head.norm", ".nextn.shared_head_norm"}};
  for (const auto& [from, to] : kNames) {
    if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
  }
  return name;
}

// Like the converter, first renames mtp.* to a block after the model's layers.
std::string behind_the_model(std::string name, std::size_t layers) {
  const std::string block = fmt::format("model.layers.{}.", layers);
  for (const auto& [from, to] : NewNames{{"mtp.layers.0.", block},
                                         {"mtp.fc", block + "eh_proj"},
                                         {"mtp.pre_fc_norm_embedding", block + "enorm"},
                                         {"mtp.pre_fc_norm_hidden", block + "hnorm"},
                                         {"mtp.norm", block + "shared_head.norm"},
                                         {"model.language_model.", "model."}}) {
    if (name.starts_with(from)) return to + name.substr(from.size());
  }
  return name;
}

// A fixture, as llama.cpp's converter writes it.
class Qwen35File {
 public:
  Qwen35File(const Fixture& fixture, const std::string& architecture)
      : text_(test::config_in(fixture.folder).at("text_config")),
        keys_(text_["linear_num_key_heads"]),
        per_key_(text_["linear_num_value_heads"].get<std::size_t>() / keys_),
        key_dim_(text_["linear_key_head_dim"]),
        value_dim_(text_["linear_value_head_dim"]) {
    add_sizes(architecture);
    const std::size_t layers = text_["num_hidden_layers"];
    for (const auto& [name, values] : test::tensors_of(fixture.folder)) {
      if (!name.starts_with("model.visual.")) add(behind_the_model(name, layers), values);
    }
  }

  std::string bytes() const { return file_.file(); }
  const Tensors& tensors() const { return tensors_; }

 private:
  std::uint32_t size(const char* field) const { return text_.value(field, 0U); }

  void add_sizes(const std::string& architecture) {
    file_.text("general.architecture", architecture);
    const auto value_heads = static_cast<std::uint32_t>(keys_ * per_key_);
    for (const auto& [key, number] :
         {std::pair{"context_length", size("max_position_embeddings")},
          {"embedding_length", size("hidden_size")},
          {"block_count", size("num_hidden_layers") + 1},
          {"nextn_predict_layers", 1U},
          {"feed_forward_length", size("intermediate_size")},
          {"rope.dimension_count", size("head_dim") / 4},
          {"attention.head_count", size("num_attention_heads")},
          {"attention.head_count_kv", size("num_key_value_heads")},
          {"attention.key_length", size("head_dim")},
          {"attention.value_length", size("head_dim")},
          {"expert_count", size("num_experts")},
          {"expert_used_count", size("num_experts_per_tok")},
          {"expert_feed_forward_length", size("moe_intermediate_size")},
          {"expert_shared_feed_forward_length", size("shared_expert_intermediate_size")},
          {"ssm.conv_kernel", size("linear_conv_kernel_dim")},
          {"ssm.state_size", size("linear_key_head_dim")},
          {"ssm.group_count", size("linear_num_key_heads")},
          {"ssm.time_step_rank", value_heads},
          {"ssm.inner_size", value_heads * size("linear_value_head_dim")},
          {"full_attention_interval", 4U}}) {
      if (number != 0) file_.whole(fmt::format("{}.{}", architecture, key), number);
    }
    file_.numbers(architecture + ".rope.dimension_sections", GgufKind::i32,
                  std::vector<std::int32_t>{2, 1, 1, 0});
    file_.value(architecture + ".attention.layer_norm_rms_epsilon", GgufKind::f32, le(1e-6F));
    file_.value(architecture + ".rope.freq_base", GgufKind::f32, le(1e7F));
  }

  void add(const std::string& name, Values values) {
    if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight"))
      for (float& value : values.elements) value += 1.0F;
    if (name.ends_with("A_log"))
      for (float& value : values.elements) value = -std::exp(value);
    if (name.ends_with("conv1d.weight")) values.shape = {values.shape.front(), values.shape.back()};
    const auto is = [&](const char* layer) { return name.find(layer) != name.npos; };
    const std::size_t columns = values.shape.size() == 1 ? 1 : values.columns();
    const std::size_t others = 2 * keys_ * key_dim_;  // queries and keys
    if (is("in_proj_qkv") || is("conv1d")) tile(values.elements, others * columns, value_dim_ * columns);
    if (is("in_proj_z")) tile(values.elements, 0, value_dim_ * columns);
    if (is("in_proj_a") || is("in_proj_b") || is("A_log") || is("dt_bias")) tile(values.elements, 0, columns);
    if (is("linear_attn.out_proj")) {
      for (std::size_t row = 0; row < values.shape.front(); ++row)
        tile(values.elements, row * columns, value_dim_);
    }
    if (is("experts.gate_up_proj")) return split(name, values);
    store(in_gguf(name), std::move(values));
  }

  // Reorders heads of `head` elements each, from `begin` on: [key heads, value heads per key head] -> [value
  // heads per key head, key heads].
  void tile(std::vector<float>& elements, std::size_t begin, std::size_t head) const {
    const std::vector<float> grouped = elements;
    for (std::size_t key = 0; key < keys_; ++key) {
      for (std::size_t value = 0; value < per_key_; ++value) {
        const std::size_t from = begin + (key * per_key_ + value) * head;
        std::copy_n(grouped.begin() + static_cast<std::ptrdiff_t>(from), head,
                    elements.begin() + static_cast<std::ptrdiff_t>(begin + (value * keys_ + key) * head));
      }
    }
  }

  // Splits gate_up_proj: the gate rows come first.
  void split(const std::string& name, const Values& values) {
    const std::size_t experts = values.shape[0];
    const std::size_t half = values.shape[1] / 2 * values.shape[2];
    const std::string block = in_gguf(name.substr(0, name.find("mlp.")));
    Values parts[2];
    for (std::size_t i = 0; i < 2 * experts; ++i) {
      const auto begin = values.elements.begin() + static_cast<std::ptrdiff_t>(i * half);
      std::vector<float>& part = parts[i % 2].elements;
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(half));
    }
    for (Values& part : parts) part.shape = {experts, values.shape[1] / 2, values.shape[2]};
    store(block + "ffn_gate_exps.weight", std::move(parts[0]));
    store(block + "ffn_up_exps.weight", std::move(parts[1]));
  }

  void store(const std::string& name, Values values) {
    if (values.shape.size() == 2 && values.shape.front() == 1) values.shape.erase(values.shape.begin());
    file_.tensor(name, {values.shape.begin(), values.shape.end()}, "F32", test::bytes_of(values.elements));
    tensors_[name] = std::move(values);
  }

  json text_;
  std::size_t keys_;
  std::size_t per_key_;  // value heads per key head
  std::size_t key_dim_;
  std::size_t value_dim_;
  GgufBuilder file_;
  Tensors tensors_;
};

void expect_close(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

class GgufQwen35 : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  Fixture fixture_ = reference::fixture(GetParam().first);
  Qwen35File file_{fixture_, GetParam().second};
  test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.write("model.gguf", file_.bytes());
};

TEST_P(GgufQwen35, GivesTheLogitsOfTheCheckpoint) {
  const auto source = GgufCheckpoint::open(path_);
  test::DecoderUnderTest decoder(test::world(), load_config(path_), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows),
            std::max(1e-4, 4 * fixture_.noise));
  const std::vector<std::string>& unused = decoder.decoder().unused_tensors();
  ASSERT_EQ(unused.size(), test::world().is_root() ? 1U : 0U);
  for (const std::string& part : unused) EXPECT_CONTAINS(part, "model.layers.4.* (");
}

TEST_P(GgufQwen35, HasTheLayerForMultiTokenPrediction) {
  const auto checkpoint = SafetensorsCheckpoint::open(fixture_.folder);
  const auto source = GgufCheckpoint::open(path_);
  const DecoderSpec spec = make_next_token_spec(load_config(path_));
  const std::vector<float> state(spec.hidden_size, 0.5F);
  const std::vector<TokenId> tokens(fixture_.prompt.begin(), fixture_.prompt.begin() + 9);
  const std::vector<const float*> states(tokens.size(), state.data());
  expect_close(test::compute(test::world(), spec, *source, tokens, 4, states).logits,
               test::compute(test::world(), make_next_token_spec(load_config(fixture_.folder)), *checkpoint,
                             tokens, 4, states)
                   .logits);
}

// Compares the file itself, because the reader would reverse any order that the writer used.
TEST_P(GgufQwen35, IsWrittenAsLlamaCppWritesIt) {
  const std::filesystem::path written = directory_.path() / "written.gguf";
  quantize_model({.model = fixture_.folder, .name = "model", .weights = "f32", .output = written},
                 [](std::uint64_t, std::uint64_t) {});
  const GgufFiles files(written);
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

TEST(GgufColumns, InAnotherOrderAreHeldAsTheyAreStoredIfGroupsStayTogether) {
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
}

}  // namespace
}  // namespace tp
