// GGUF files of LFM2 and Muse Glimmer, with the names and values that llama.cpp's converter writes.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/quantize/changed_model.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ChangedModel;
using test::GgufBuilder;
using test::le;
using test::TestTensor;
using Names = std::vector<std::pair<std::string, std::string>>;

// Converts a tensor's name to GGUF's.
std::string converted_name(std::string name, const Names& names) {
  for (const auto& [from, to] : names) {
    if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
  }
  return name;
}

GgufBuilder described(const std::string& architecture, const std::map<std::string, std::uint32_t>& wholes,
                      const std::map<std::string, float>& numbers) {
  GgufBuilder file;
  file.text("general.architecture", architecture);
  for (const auto& [key, number] : wholes) file.whole(architecture + "." + key, number);
  for (const auto& [key, number] : numbers) file.value(architecture + "." + key, GgufKind::f32, le(number));
  return file;
}

void expect_logits(const std::string& file, const std::string& name) {
  const Fixture fixture = reference::fixture(name);
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", file);
  const ModelConfig config = load_config(path);
  EXPECT_EQ(config.architecture, load_config(fixture.folder).architecture);
  const auto source = GgufCheckpoint::open(path);
  test::DecoderUnderTest decoder(test::world(), config, *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows),
            std::max(1e-4, 4 * fixture.noise));
  EXPECT_TRUE(decoder.decoder().unused_tensors().empty());
}

std::vector<std::uint64_t> extents_of(const TestTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

const Names kLfm2Names = {{"model.embed_tokens", "token_embd"},
                          {"model.embedding_norm", "token_embd_norm"},
                          {"model.layers.", "blk."},
                          {"operator_norm", "attn_norm"},
                          {"conv.in_proj", "shortconv.in_proj"},
                          {"conv.out_proj", "shortconv.out_proj"},
                          {"conv.conv", "shortconv.conv"},
                          {"self_attn.q_layernorm", "attn_q_norm"},
                          {"self_attn.k_layernorm", "attn_k_norm"},
                          {"self_attn.q_proj", "attn_q"},
                          {"self_attn.k_proj", "attn_k"},
                          {"self_attn.v_proj", "attn_v"},
                          {"self_attn.out_proj", "attn_output"},
                          {"feed_forward.expert_bias", "exp_probs_b.bias"},
                          {"feed_forward.gate", "ffn_gate_inp"},
                          {"feed_forward.w1", "ffn_gate"},
                          {"feed_forward.w2", "ffn_down"},
                          {"feed_forward.w3", "ffn_up"}};

// GGUF stacks each of these matrices over all experts.
const Names kExpertNames = {{"w1", "ffn_gate_exps"}, {"w2", "ffn_down_exps"}, {"w3", "ffn_up_exps"}};

void add_lfm2_tensors(const std::string& fixture, GgufBuilder& file) {
  std::map<std::string, std::pair<std::vector<std::uint64_t>, std::string>> stacks;
  const ChangedModel model(fixture);
  for (const TestTensor& tensor : model.tensors()) {
    const std::size_t experts = tensor.name.find("feed_forward.experts.");
    if (experts == std::string::npos) {
      file.tensor(converted_name(tensor.name, kLfm2Names), extents_of(tensor), "F32", tensor.data);
      continue;
    }
    const std::string end = tensor.name.substr(tensor.name.rfind('.', tensor.name.size() - 8) + 1);
    auto& [shape, data] = stacks[converted_name(tensor.name.substr(0, experts), kLfm2Names) +
                                 converted_name(end, kExpertNames)];
    if (shape.empty()) shape = {0, tensor.shape[0], tensor.shape[1]};
    ++shape.front();
    data += tensor.data;
  }
  for (const auto& [name, stack] : stacks) file.tensor(name, stack.first, "F32", stack.second);
}

GgufBuilder lfm2_file(const std::string& architecture, std::map<std::string, std::uint32_t> wholes,
                      const std::vector<std::uint32_t>& kv_heads) {
  wholes.merge(std::map<std::string, std::uint32_t>{{"context_length", 128000},
                                                    {"embedding_length", 64},
                                                    {"block_count", 5},
                                                    {"attention.head_count", 8},
                                                    {"shortconv.l_cache", 3},
                                                    {"vocab_size", 256}});
  GgufBuilder file = described(architecture, wholes,
                               {{"attention.layer_norm_rms_epsilon", 1e-5F}, {"rope.freq_base", 1e6F}});
  file.numbers(architecture + ".attention.head_count_kv", GgufKind::u32, kv_heads);
  return file;
}

TEST(GgufConverted, HasLfm2sConvolutionsWhereThereAreNoKeys) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  GgufBuilder file = lfm2_file("lfm2", {{"feed_forward_length", 96}}, {0, 0, 2, 0, 2});
  add_lfm2_tensors("lfm2", file);
  expect_logits(file.file(), "lfm2");
}

TEST(GgufConverted, HasLfm2sExpertsInStacks) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  GgufBuilder file = lfm2_file("lfm2moe",
                               {{"feed_forward_length", 96},
                                {"expert_count", 8},
                                {"expert_used_count", 2},
                                {"expert_feed_forward_length", 24},
                                {"leading_dense_block_count", 2},
                                {"expert_gating_func", 2}},
                               {0, 0, 2, 0, 0});
  add_lfm2_tensors("lfm2moe", file);
  expect_logits(file.file(), "lfm2moe");
}

TEST(GgufConverted, RefusesLayersWithDifferentHeads) {
  GgufBuilder file = lfm2_file("lfm2", {{"feed_forward_length", 96}}, {0, 0, 2, 0, 4});
  add_lfm2_tensors("lfm2", file);
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", file.file());
  EXPECT_NE(
      test::error_of<CheckpointError>([&] { load_config(path); })
          .find("lfm2.attention.head_count_kv must be a whole number that is not negative, the same for "
                "all layers, found a list of 5 u32"),
      std::string::npos);
}

std::vector<float> floats_of(const TestTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Interleaves each head's rows: row i of the first half, then row i of the second half.
std::vector<float> rows_in_pairs(const TestTensor& tensor, std::size_t head_dim) {
  const std::vector<float> values = floats_of(tensor);
  const std::size_t columns = tensor.shape.back();
  std::vector<float> result;
  for (std::size_t row = 0; row < tensor.shape.front(); ++row) {
    const std::size_t place = row % head_dim;
    const std::size_t from = row - place + place / 2 + place % 2 * head_dim / 2;
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(from * columns);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(columns));
  }
  return result;
}

const Names kMuseNames = {{"model.language_model.embed_tokens", "token_embd"},
                          {"model.language_model.norm", "output_norm"},
                          {"lm_head", "output"},
                          {"model.language_model.layers.", "blk."},
                          {"input_layernorm", "attn_norm"},
                          {"post_attention_layernorm", "post_attention_norm"},
                          {"pre_feedforward_layernorm", "ffn_norm"},
                          {"post_feedforward_layernorm", "post_ffw_norm"},
                          {"self_attn.q_proj", "attn_q"},
                          {"self_attn.k_proj", "attn_k"},
                          {"self_attn.v_proj", "attn_v"},
                          {"self_attn.o_proj", "attn_output"},
                          {"self_attn.gate_proj", "attn_gate"},
                          {"mlp.gate_proj", "ffn_gate"},
                          {"mlp.up_proj", "ffn_up"},
                          {"mlp.down_proj", "ffn_down"}};

// `last_factor`: the gain of the last layer's query norm.
std::string muse_file(float last_factor) {
  GgufBuilder file = described("muse-glimmer",
                               {{"context_length", 131072},
                                {"embedding_length", 64},
                                {"block_count", 6},
                                {"feed_forward_length", 96},
                                {"attention.head_count", 8},
                                {"attention.head_count_kv", 2},
                                {"attention.key_length", 16},
                                {"attention.value_length", 16},
                                {"attention.sliding_window", 8},
                                {"rope.dimension_count", 16}},
                               {{"attention.layer_norm_rms_epsilon", 1e-5F},
                                {"rope.freq_base", 500000.0F},
                                {"final_logit_softcapping", 20.0F},
                                {"logit_scale", 2.0F}});
  file.numbers("muse-glimmer.attention.sliding_window_pattern", GgufKind::boolean,
               std::vector<std::uint8_t>{1, 0, 1, 1, 1, 0});
  const ChangedModel model("museglimmer");
  for (const TestTensor& tensor : model.tensors()) {
    const std::string name = converted_name(tensor.name, kMuseNames);
    std::string data = tensor.data;
    if (tensor.name.ends_with("layernorm.weight")) {
      std::vector<float> gains = floats_of(tensor);
      for (float& gain : gains) gain += 1.0F;
      data = test::bytes_of(gains);
    } else if (name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight")) {
      data = test::bytes_of(rows_in_pairs(tensor, 16));
    }
    file.tensor(name, extents_of(tensor), "F32", data);
  }
  for (int layer = 0; layer < 6; ++layer) {
    const auto norm = [&](const char* which, float gain) {
      file.tensor(fmt::format("blk.{}.attn_{}_norm.weight", layer, which), {16}, "F32",
                  test::bytes_of(std::vector<float>(16, gain)));
    };
    norm("q", layer == 5 ? last_factor : 3.87F);
    norm("k", 1.0F);
  }
  return file.file();
}

TEST(GgufConverted, HasMuseGlimmersScaleAsGainsOfNorms) {
  if (test::world().size() > 8) GTEST_SKIP() << "eight heads";
  expect_logits(muse_file(3.87F), "museglimmer");
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", muse_file(3.0F));
  EXPECT_NE(test::error_of<CheckpointError>([&] { load_config(path); })
                .find("the gains of attn_q_norm and attn_k_norm must be those of layer 0, 3.87, in layer 5, "
                      "found 3; convert the checkpoint to GGUF again"),
            std::string::npos);
}

}  // namespace
}  // namespace tp
