// Gemma 3n's configs: cases that the fixture does not cover.
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// The fixture's model with these fields; null removes a field.
ModelSpec gemma3n_with(const json& fields) {
  json config = json::parse(std::ifstream(reference::fixture("gemma3n").folder / "config.json"));
  if (!fields.empty()) config["text_config"].merge_patch(fields);
  return test::spec_of(config);
}

const GatedMlpSpec& gemma3n_mlp(const ModelSpec& spec, std::size_t layer) {
  return std::get<GatedMlpSpec>(spec.blocks[layer].feed_forward);
}

TEST(Gemma3n, HasAWidthAndACutoffForEachLayer) {
  const ModelSpec spec = gemma3n_with({});
  EXPECT_EQ(gemma3n_mlp(spec, 1).intermediate_size, 256U);
  EXPECT_EQ(gemma3n_mlp(spec, 2).intermediate_size, 96U);
  // Source: the quantile of the standard normal distribution in tables.
  EXPECT_NEAR(gemma3n_mlp(spec, 1).gate_cutoff.value(), 1.6448536F, 1e-6F);
  EXPECT_FALSE(gemma3n_mlp(spec, 2).gate_cutoff);
  const ModelSpec other = gemma3n_with(
      {{"intermediate_size", 32}, {"activation_sparsity_pattern", {0.5, 0.975, 0, 0, 0.025, 0}}});
  EXPECT_EQ(gemma3n_mlp(other, 0).intermediate_size, 32U);
  EXPECT_NEAR(gemma3n_mlp(other, 0).gate_cutoff.value(), 0.0F, 1e-6F);
  EXPECT_NEAR(gemma3n_mlp(other, 1).gate_cutoff.value(), 1.9599640F, 1e-6F);
  EXPECT_NEAR(gemma3n_mlp(other, 4).gate_cutoff.value(), -1.9599640F, 1e-6F);
}

// Like the original code.
TEST(Gemma3n, CutsOffTheFirstTenLayersGatesByDefault) {
  EXPECT_FALSE(gemma3n_mlp(gemma3n_with({{"activation_sparsity_pattern", nullptr}}), 0).gate_cutoff);
  const ModelSpec spec = gemma3n_with({{"activation_sparsity_pattern", nullptr},
                                       {"num_hidden_layers", 12},
                                       {"intermediate_size", 96},
                                       {"layer_types", nullptr}});
  EXPECT_TRUE(gemma3n_mlp(spec, 9).gate_cutoff);
  EXPECT_FALSE(gemma3n_mlp(spec, 10).gate_cutoff);
  EXPECT_TRUE(std::get<AttentionSpec>(spec.blocks[3].attention).pattern.window);
  EXPECT_FALSE(std::get<AttentionSpec>(spec.blocks[4].attention).pattern.window);
}

TEST(Gemma3n, RejectsUnsupportedValues) {
  const auto error_of = [](const json& fields) -> std::string {
    return test::error_of<ConfigError>([&] { gemma3n_with(fields); });
  };
  const auto names = [&](const json& fields, const char* field) { EXPECT_CONTAINS(error_of(fields), field); };
  names({{"altup_active_idx", 1}}, "altup_active_idx must be 0");
  names({{"altup_correct_scale", false}}, "altup_correct_scale must be true");
  names({{"intermediate_size", {256, 96}}}, "expected 6 (num_hidden_layers), found 2");
  names({{"activation_sparsity_pattern", {0.5}}}, "activation_sparsity_pattern");
  names({{"activation_sparsity_pattern", {0, 0, 0, 0, 0, 1}}}, "activation_sparsity_pattern");
  names({{"num_kv_shared_layers", 4}}, "num_kv_shared_layers");
}

TEST(Gemma3n, HasAtMostSixteenStreams) {
  EXPECT_NO_THROW(count_parameters(gemma3n_with({{"altup_num_inputs", 16}})));
  EXPECT_NO_THROW(count_parameters(gemma3n_with({{"altup_num_inputs", 1}})));
  for (const int streams : {17, 2147483647})
    EXPECT_THROW(count_parameters(gemma3n_with({{"altup_num_inputs", streams}})), ConfigError);
}

TEST(Gemma3n, CannotBeDividedIntoStages) {
  ModelSpec spec = gemma3n_with({{"num_kv_shared_layers", 0}, {"hidden_size_per_layer_input", 0}});
  EXPECT_FALSE(can_divide_layers(spec));
  for (BlockSpec& block : spec.blocks) block.altup.reset();
  EXPECT_TRUE(can_divide_layers(spec)) << "nothing else keeps the layers together";
  spec = gemma3n_with({});
  EXPECT_EQ(streams_of(spec), 4U);
  EXPECT_EQ(state_size(spec), spec.hidden_size);
}

// A step has one sum of the embedding, one of the inputs per layer, two per block, and one for each cutoff.
TEST(Gemma3n, HasOneMoreSumForEachCutoff) {
  const ModelSpec spec = gemma3n_with({});
  const auto source = SafetensorsCheckpoint::open(reference::fixture("gemma3n").folder);
  const StepWork work = Model::shape_of(spec, *source, {0, 2}, WeightType::f32).work(3);
  EXPECT_EQ(work.sums.sums, 2U + 2 * spec.blocks.size() + 2);
  const std::size_t inputs = spec.blocks.size() * spec.per_layer_inputs->size;
  EXPECT_EQ(work.sums.bytes, 3 * ((1 + 2 * spec.blocks.size()) * spec.hidden_size + inputs) * sizeof(float) +
                                 3 * 2 * 2 * sizeof(double));
}

}  // namespace
}  // namespace tp
