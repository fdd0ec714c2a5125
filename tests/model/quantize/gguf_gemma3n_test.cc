// Gemma 3n's GGUF files. Source of names and metadata: llama.cpp, conversion/gemma.py.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/quantize_model.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/reference/fixture.h"

#include <cstdint>
#include <limits>
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

const BlockTensors kGemma3nKeysAndValues = {{"attn_k.weight", "self_attn.k_proj.weight"},
                                            {"attn_v.weight", "self_attn.v_proj.weight"},
                                            {"attn_k_norm.weight", "self_attn.k_norm.weight"}};

const BlockTensors kGemma3nBlock = {{"attn_norm.weight", "input_layernorm.weight"},
                                    {"attn_q.weight", "self_attn.q_proj.weight"},
                                    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
                                    {"attn_output.weight", "self_attn.o_proj.weight"},
                                    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
                                    {"ffn_gate.weight", "mlp.gate_proj.weight"},
                                    {"ffn_up.weight", "mlp.up_proj.weight"},
                                    {"ffn_down.weight", "mlp.down_proj.weight"},
                                    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
                                    {"inp_gate.weight", "per_layer_input_gate.weight"},
                                    {"proj.weight", "per_layer_projection.weight"},
                                    {"post_norm.weight", "post_per_layer_input_norm.weight"},
                                    {"altup_correct_scale.weight", "altup.correct_output_scale"},
                                    {"altup_correct_coef.weight", "altup.correction_coefs.weight"},
                                    {"altup_router.weight", "altup.modality_router.weight"},
                                    {"altup_predict_coef.weight", "altup.prediction_coefs.weight"},
                                    {"altup_router_norm.weight", "altup.router_norm.weight"},
                                    {"laurel_l.weight", "laurel.linear_left.weight"},
                                    {"laurel_r.weight", "laurel.linear_right.weight"},
                                    {"laurel_post_norm.weight", "laurel.post_laurel_norm.weight"}};

void write_gemma3n_metadata(GgufConversion& to) {
  const CheckpointConfig& config = to.config();
  for (const char* const key : {"attention.layer_norm_epsilon", "rope.dimension_count"}) to.remove(key);
  to.whole("attention.sliding_window", config.sliding_window);
  to.whole("attention.shared_kv_layers", config.num_kv_shared_layers);
  to.whole("embedding_length_per_layer_input", config.layer_input.hidden_size);
  to.whole("altup.active_idx", 0);
  to.whole("altup.num_inputs", config.altup.num_inputs);
  to.number("final_logit_softcapping", 30.0);
  std::vector<std::uint8_t> windows;
  for (const std::string& type : config.layer_types) windows.push_back(type == "sliding_attention" ? 1 : 0);
  std::vector<float> cutoffs;
  // The quantile for 0.95, as torch computes it in float32.
  for (const double part : config.activation_sparsity_pattern)
    cutoffs.push_back(part == 0.95 ? 1.6448533F : -std::numeric_limits<float>::infinity());
  const std::vector<std::int32_t> widths(config.intermediate_sizes.begin(), config.intermediate_sizes.end());
  to.numbers("attention.sliding_window_pattern", GgufKind::boolean, windows);
  to.numbers("feed_forward_length", GgufKind::i32, widths);
  to.numbers("activation_sparsity_scale", GgufKind::f32, cutoffs);
}

// The fixture in a file. llama.cpp's converter also stores keys and values that no layer uses.
GgufConversion gemma3n_file(const Fixture& fixture, bool with_unused_keys) {
  GgufConversion to(fixture, "gemma3n");
  write_gemma3n_metadata(to);
  const std::size_t layers = to.config().num_hidden_layers;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    to.copy_block(layer, kGemma3nBlock);
    const bool uses_keys = layer + to.config().num_kv_shared_layers < layers;
    if (uses_keys || with_unused_keys) to.copy_block(layer, kGemma3nKeysAndValues);
  }
  to.copy("per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight");
  to.copy("per_layer_model_proj.weight", "model.per_layer_model_projection.weight");
  to.copy("per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight");
  for (const auto& [from, name] :
       {std::pair{"altup_projections", "altup_proj"}, {"altup_unembed_projections", "altup_unembd_proj"}}) {
    TensorValues stack;
    for (std::size_t i = 0; i < 3; ++i) {
      const TensorValues one = to.read(fmt::format("model.{}.{}.weight", from, i));
      stack.shape = {3, one.shape[0], one.shape[1]};
      stack.elements.insert(stack.elements.end(), one.elements.begin(), one.elements.end());
    }
    to.write(fmt::format("{}.weight", name), stack);
  }
  return to;
}

class GgufGemma3n : public testing::Test {
 protected:
  Fixture fixture_ = reference::fixture("gemma3n");
  test::TemporaryDirectory directory_;
};

TEST_F(GgufGemma3n, GivesTheLogitsOfTheCheckpoint) {
  test::expect_logits(gemma3n_file(fixture_, true), fixture_);
}

TEST_F(GgufGemma3n, IsWrittenAsLlamaCppWritesIt) {
  const GgufConversion file = gemma3n_file(fixture_, false);
  test::expect_written_as(file, fixture_);
  test::expect_metadata_as(file, "gemma3n", fixture_);
}

// Files of models whose MLPs have one width.
TEST_F(GgufGemma3n, MayHaveOneWidthForAllLayers) {
  GgufConversion file = gemma3n_file(fixture_, true);
  const auto widths = [&] {
    std::vector<std::size_t> all;
    for (const BlockSpec& block : make_spec(load_config(directory_.write("model.gguf", file.file()))).blocks)
      all.push_back(std::get<GatedMlpSpec>(block.feed_forward).intermediate_size);
    return all;
  };
  EXPECT_EQ(widths(), (std::vector<std::size_t>{256, 256, 96, 96, 96, 96}));
  file.whole("feed_forward_length", 112);
  EXPECT_EQ(widths(), std::vector<std::size_t>(6, 112));
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
