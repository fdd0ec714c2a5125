// Gemma 4's GGUF files. Source of names, metadata and RoPE's divisors: llama.cpp, conversion/gemma.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <algorithm>
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

std::string gemma4_in_gguf(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kNames = {
      {"model.language_model.layers.", "blk."},
      {"model.language_model.embed_tokens_per_layer", "per_layer_token_embd"},
      {"model.language_model.per_layer_model_projection", "per_layer_model_proj"},
      {"model.language_model.per_layer_projection_norm", "per_layer_proj_norm"},
      {"model.language_model.embed_tokens", "token_embd"},
      {"model.language_model.norm", "output_norm"},
      {"post_per_layer_input_norm", "post_norm"},
      {"per_layer_input_gate", "inp_gate"},
      {"per_layer_projection", "proj"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
      {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"layer_scalar", "layer_output_scale.weight"},
      {"router.proj", "ffn_gate_inp"},
      {"router.scale", "ffn_gate_inp.scale"},
      {"router.per_expert_scale", "ffn_down_exps.scale"},
      {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
      {"experts.down_proj", "ffn_down_exps.weight"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [from, to] : kNames) {
    if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
  }
  return name;
}

// A fixture, as llama.cpp's converter writes it.
class Gemma4File {
 public:
  explicit Gemma4File(const Fixture& fixture) : text_(test::config_in(fixture.folder).at("text_config")) {
    add_sizes();
    add_lists();
    for (const auto& [name, values] : test::tensors_of(fixture.folder)) {
      if (name.starts_with("model.language_model.")) store(gemma4_in_gguf(name), values);
    }
    const std::size_t pairs = size("global_head_dim") / 2;
    Values divisors{.shape = {pairs}, .elements = std::vector<float>(pairs, 1e30F)};
    std::fill_n(divisors.elements.begin(), pairs / 4, 1.0F);
    store("rope_freqs.weight", divisors);
  }

  std::string bytes() const { return file_.file(); }
  const Tensors& tensors() const { return tensors_; }
  bool has_own_keys(std::size_t layer) const {
    return layer + size("num_kv_shared_layers") < size("num_hidden_layers");
  }

 private:
  std::uint32_t size(const char* field) const {
    return text_[field].is_null() ? 0 : text_[field].get<std::uint32_t>();
  }

  void add_sizes() {
    file_.text("general.architecture", "gemma4");
    for (const auto& [key, number] :
         {std::pair{"context_length", size("max_position_embeddings")},
          {"embedding_length", size("hidden_size")},
          {"block_count", size("num_hidden_layers")},
          {"attention.head_count", size("num_attention_heads")},
          {"attention.key_length", size("global_head_dim")},
          {"attention.value_length", size("global_head_dim")},
          {"attention.key_length_swa", size("head_dim")},
          {"attention.value_length_swa", size("head_dim")},
          {"attention.sliding_window", size("sliding_window")},
          {"attention.shared_kv_layers", size("num_kv_shared_layers")},
          {"embedding_length_per_layer_input", size("hidden_size_per_layer_input")},
          {"rope.dimension_count", size("global_head_dim")},
          {"rope.dimension_count_swa", size("head_dim")}})
      file_.whole(fmt::format("gemma4.{}", key), number);
    for (const auto& [key, number] : {std::pair{"expert_count", size("num_experts")},
                                      {"expert_used_count", size("top_k_experts")},
                                      {"expert_feed_forward_length", size("moe_intermediate_size")}}) {
      if (number != 0) file_.whole(fmt::format("gemma4.{}", key), number);
    }
    for (const auto& [key, number] : {std::pair{"attention.layer_norm_rms_epsilon", 1e-6F},
                                      {"final_logit_softcapping", 30.0F},
                                      {"rope.freq_base", 1e6F},
                                      {"rope.freq_base_swa", 1e4F}})
      file_.value(fmt::format("gemma4.{}", key), GgufKind::f32, le(number));
  }

  void add_lists() {
    std::vector<std::uint8_t> windows;
    std::vector<std::int32_t> kv_heads;
    std::vector<std::int32_t> widths;
    for (const json& type : text_["layer_types"]) {
      const bool is_local = type == "sliding_attention";
      const bool is_wide = text_["use_double_wide_mlp"].get<bool>() && !has_own_keys(windows.size());
      windows.push_back(is_local ? 1 : 0);
      const std::uint32_t own = size("num_global_key_value_heads");
      kv_heads.push_back(static_cast<std::int32_t>(is_local || own == 0 ? size("num_key_value_heads") : own));
      widths.push_back(static_cast<std::int32_t>(size("intermediate_size") * (is_wide ? 2 : 1)));
    }
    file_.numbers("gemma4.attention.sliding_window_pattern", GgufKind::boolean, windows);
    file_.numbers("gemma4.attention.head_count_kv", GgufKind::i32, kv_heads);
    file_.numbers("gemma4.feed_forward_length", GgufKind::i32, widths);
  }

  void store(const std::string& name, const Values& values) {
    file_.tensor(name, {values.shape.begin(), values.shape.end()}, "F32", test::bytes_of(values.elements));
    tensors_[name] = values;
  }

  json text_;
  GgufBuilder file_;
  Tensors tensors_;
};

// A list of equal numbers means the same as one number.
std::vector<double> numbers_of(const GgufMetadata& metadata, const std::string& key) {
  if (!metadata.values().at(key).is_list) return {metadata.number(key)};
  std::vector<double> numbers = metadata.numbers(key);
  const bool are_equal = std::ranges::all_of(numbers, [&](double other) { return other == numbers.front(); });
  if (are_equal) numbers.resize(1);
  return numbers;
}

class GgufGemma4 : public testing::TestWithParam<const char*> {
 protected:
  Fixture fixture_ = reference::fixture(GetParam());
  Gemma4File file_{fixture_};
  test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.write("model.gguf", file_.bytes());
};

TEST_P(GgufGemma4, GivesTheLogitsOfTheCheckpoint) {
  const auto source = GgufCheckpoint::open(path_);
  test::ModelUnderTest decoder(test::world(), load_config(path_), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows),
            std::max(1e-4, 4 * fixture_.noise));
  EXPECT_TRUE(decoder.model().unused_tensors().empty());
}

// Compares the file itself. Keys and values that no layer uses are left out. The experts' gates and ups have
// separate stacks, which llama.cpp reads, too.
TEST_P(GgufGemma4, IsWrittenAsLlamaCppWritesIt) {
  const GgufFiles files(test::write_gguf(fixture_, directory_));
  const GgufFiles expected(path_);
  for (const auto& [key, value] : expected.metadata().values()) {
    if (key == "gemma4.attention.shared_kv_layers" && expected.metadata().whole(key) == 0) continue;
    ASSERT_TRUE(files.metadata().has(key)) << key;
    if (key.ends_with("pattern")) {
      EXPECT_EQ(files.metadata().booleans(key), expected.metadata().booleans(key));
    } else if (key.starts_with("gemma4.")) {
      EXPECT_EQ(numbers_of(files.metadata(), key), numbers_of(expected.metadata(), key)) << key;
    }
  }
  for (const auto& [name, values] : file_.tensors()) {
    const bool is_of_keys = name.find(".attn_k") != name.npos || name.find(".attn_v") != name.npos;
    const bool is_used = !is_of_keys || file_.has_own_keys(std::stoul(name.substr(4)));
    if (name.ends_with("ffn_gate_up_exps.weight")) continue;
    const GgufFiles::Entry* const entry = files.find(name);
    ASSERT_EQ(entry != nullptr, is_used) << name;
    if (!is_used) continue;
    EXPECT_EQ(entry->tensor.shape, values.shape) << name;
    const std::string bytes = test::bytes_of(values.elements);
    ASSERT_EQ(entry->tensor.bytes.size(), bytes.size()) << name;
    EXPECT_EQ(std::memcmp(entry->file.bytes().data() + entry->tensor.bytes.begin, bytes.data(), bytes.size()),
              0)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufGemma4, testing::Values("gemma4", "gemma4-e", "gemma4-moe"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tp
