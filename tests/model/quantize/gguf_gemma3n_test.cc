// Gemma 3n's GGUF files. Source of names and metadata: llama.cpp, conversion/gemma.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/model_under_test.h"
#include "tests/model/next_token_checkpoint.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <algorithm>
#include <cstring>
#include <limits>

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

const std::vector<std::pair<std::string, std::string>>& gemma3n_names() {
  static const std::vector<std::pair<std::string, std::string>> names = {
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
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"altup.correct_output_scale", "altup_correct_scale.weight"},
      {"altup.correction_coefs", "altup_correct_coef"},
      {"altup.modality_router", "altup_router"},
      {"altup.prediction_coefs", "altup_predict_coef"},
      {"altup.router_norm", "altup_router_norm"},
      {"laurel.linear_left", "laurel_l"},
      {"laurel.linear_right", "laurel_r"},
      {"laurel.post_laurel_norm", "laurel_post_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  return names;
}

std::string gemma3n_in_gguf(std::string name) {
  for (const auto& [from, to] : gemma3n_names()) {
    if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
  }
  return name;
}

// The fixture, as llama.cpp's converter writes it.
class Gemma3nFile {
 public:
  // `width`: of all MLPs, as one number; 0: the fixture's widths, as a list.
  explicit Gemma3nFile(const Fixture& fixture, std::uint32_t width = 0)
      : text_(test::config_in(fixture.folder).at("text_config")) {
    add_numbers();
    add_lists();
    add_widths(width);
    const Tensors all = test::tensors_of(fixture.folder);
    for (const auto& [name, values] : all) {
      if (name.starts_with("model.language_model.") && name.find("altup_") == name.npos)
        store(gemma3n_in_gguf(name), values);
    }
    for (const auto& [from, to] :
         {std::pair{"altup_projections", "altup_proj"}, {"altup_unembed_projections", "altup_unembd_proj"}}) {
      Values stack;
      for (std::size_t i = 0; i < 3; ++i) {
        const Values& one = all.at(fmt::format("model.language_model.{}.{}.weight", from, i));
        stack.shape = {3, one.shape[0], one.shape[1]};
        stack.elements.insert(stack.elements.end(), one.elements.begin(), one.elements.end());
      }
      store(fmt::format("{}.weight", to), stack);
    }
  }

  std::string bytes() const { return file_.file(); }
  const Tensors& tensors() const { return tensors_; }
  bool has_own_keys(std::size_t layer) const {
    return layer + size("num_kv_shared_layers") < size("num_hidden_layers");
  }

 private:
  std::uint32_t size(const char* field) const { return text_[field].get<std::uint32_t>(); }

  void add_numbers() {
    file_.text("general.architecture", "gemma3n");
    for (const auto& [key, number] :
         {std::pair{"context_length", size("max_position_embeddings")},
          {"embedding_length", size("hidden_size")},
          {"block_count", size("num_hidden_layers")},
          {"attention.head_count", size("num_attention_heads")},
          {"attention.head_count_kv", size("num_key_value_heads")},
          {"attention.key_length", size("head_dim")},
          {"attention.value_length", size("head_dim")},
          {"attention.sliding_window", size("sliding_window")},
          {"attention.shared_kv_layers", size("num_kv_shared_layers")},
          {"embedding_length_per_layer_input", size("hidden_size_per_layer_input")},
          {"altup.active_idx", size("altup_active_idx")},
          {"altup.num_inputs", size("altup_num_inputs")}})
      file_.whole(fmt::format("gemma3n.{}", key), number);
    for (const auto& [key, number] : {std::pair{"attention.layer_norm_rms_epsilon", 1e-6F},
                                      {"final_logit_softcapping", 30.0F},
                                      {"rope.freq_base", 1e6F}})
      file_.value(fmt::format("gemma3n.{}", key), GgufKind::f32, le(number));
  }

  void add_lists() {
    std::vector<std::uint8_t> windows;
    for (const json& type : text_["layer_types"]) windows.push_back(type == "sliding_attention" ? 1 : 0);
    std::vector<float> cutoffs;
    // The quantile for 0.95, as torch computes it in float32.
    for (const double part : text_["activation_sparsity_pattern"])
      cutoffs.push_back(part == 0.95 ? 1.6448533F : -std::numeric_limits<float>::infinity());
    file_.numbers("gemma3n.attention.sliding_window_pattern", GgufKind::boolean, windows);
    file_.numbers("gemma3n.activation_sparsity_scale", GgufKind::f32, cutoffs);
  }

  void add_widths(std::uint32_t width) {
    const char* const key = "gemma3n.feed_forward_length";
    const auto widths = text_["intermediate_size"].get<std::vector<std::int32_t>>();
    if (width == 0)
      file_.numbers(key, GgufKind::i32, widths);
    else
      file_.whole(key, width);
  }

  void store(const std::string& name, const Values& values) {
    file_.tensor(name, {values.shape.begin(), values.shape.end()}, "F32", test::bytes_of(values.elements));
    tensors_[name] = values;
  }

  json text_;
  GgufBuilder file_;
  Tensors tensors_;
};

class GgufGemma3n : public testing::Test {
 protected:
  Fixture fixture_ = reference::fixture("gemma3n");
  Gemma3nFile file_{fixture_};
  test::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.write("model.gguf", file_.bytes());
};

TEST_F(GgufGemma3n, GivesTheLogitsOfTheCheckpoint) {
  const auto source = GgufCheckpoint::open(path_);
  test::ModelUnderTest decoder(test::world(), load_config(path_), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows),
            std::max(1e-4, 4 * fixture_.noise));
  EXPECT_TRUE(decoder.model().unused_tensors().empty());
}

// Compares the file with one of llama.cpp's converter, which also stores keys and values that no layer uses.
TEST_F(GgufGemma3n, IsWrittenAsLlamaCppWritesIt) {
  const std::filesystem::path written = directory_.path() / "written.gguf";
  quantize_model({.model = fixture_.folder, .name = "model", .weights = "f32", .output = written},
                 [](std::uint64_t, std::uint64_t) {});
  const GgufFiles files(written);
  const GgufFiles expected(path_);
  for (const auto& [key, value] : expected.metadata().values()) {
    ASSERT_TRUE(files.metadata().has(key)) << key;
    if (key.ends_with("pattern")) {
      EXPECT_EQ(files.metadata().booleans(key), expected.metadata().booleans(key));
    } else if (key.ends_with("sparsity_scale")) {
      const std::vector<double> found = files.metadata().numbers(key);
      const std::vector<double> wanted = expected.metadata().numbers(key);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i] == wanted[i] || std::abs(found[i] - wanted[i]) < 1e-6) << found[i];
    } else if (value.is_list) {
      EXPECT_EQ(files.metadata().numbers(key), expected.metadata().numbers(key)) << key;
    } else if (key.starts_with("gemma3n.")) {
      EXPECT_EQ(files.metadata().number(key), expected.metadata().number(key)) << key;
    }
  }
  for (const auto& [name, values] : file_.tensors()) {
    const bool is_of_keys = name.find(".attn_k") != name.npos || name.find(".attn_v") != name.npos;
    const bool is_used = !is_of_keys || file_.has_own_keys(std::stoul(name.substr(4)));
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

// Files of models whose MLPs have one width.
TEST_F(GgufGemma3n, MayHaveOneWidthForAllLayers) {
  const auto widths_in = [&](const Gemma3nFile& file) {
    std::vector<std::size_t> widths;
    for (const BlockSpec& block : make_spec(load_config(directory_.write("width.gguf", file.bytes()))).blocks)
      widths.push_back(std::get<GatedMlpSpec>(block.feed_forward).intermediate_size);
    return widths;
  };
  EXPECT_EQ(widths_in(file_), (std::vector<std::size_t>{256, 256, 96, 96, 96, 96}));
  EXPECT_EQ(widths_in(Gemma3nFile(fixture_, 112)), std::vector<std::size_t>(6, 112));
}

// Like llama.cpp, which computes small products in floats.
TEST_F(GgufGemma3n, KeepsSmallMatricesInFloats) {
  const std::filesystem::path written = directory_.path() / "quantized.gguf";
  quantize_model({.model = fixture_.folder, .name = "model", .weights = "q8_0", .output = written},
                 [](std::uint64_t, std::uint64_t) {});
  const GgufFiles files(written);
  for (const auto& [name, entry] : files.tensors()) {
    if (name.find("altup") != name.npos || name.find("laurel") != name.npos) {
      EXPECT_EQ(entry.tensor.type.name, "F32") << name;
    } else if (name.find("ffn_up") != name.npos) {
      EXPECT_EQ(entry.tensor.type.name, "Q8_0") << name;
    }
  }
}

}  // namespace
}  // namespace tp
