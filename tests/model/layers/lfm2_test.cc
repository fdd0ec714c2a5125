// LFM2's short convolutions and configs: cases that the fixtures do not cover.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using reference::Fixture;

TEST(Lfm2, GivesTheSameLogitsInStepsOfAnyLength) {
  for (const char* const name : {"lfm2", "lfm2moe"}) {
    const Fixture fixture = reference::fixture(name);
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    for (const std::size_t chunk : {1U, 2U, 3U, 7U}) {
      test::ModelUnderTest decoder(test::world(), load_config(fixture.folder), *source,
                                   {.chunk = chunk, .block_size = 4, .weights = WeightType::f32});
      EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-3) << name << chunk;
    }
  }
}

// Two inputs of the convolution for each local channel, rounded up to whole cache lines.
TEST(Lfm2, HoldsTheLastInputsOfARanksChannels) {
  const Fixture fixture = reference::fixture("lfm2");
  ModelSpec spec = make_spec(load_config(fixture.folder));
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  const auto floats = [&](TpRank tp) { return Model::shape_of(spec, *source, tp, {}).state_floats(); };
  EXPECT_EQ(floats({0, 1}), (std::vector<std::size_t>{128, 128, 0, 128, 0}));
  EXPECT_EQ(floats({0, 2})[0] + floats({1, 2})[0], 128U);
  std::size_t all = 0;
  for (std::size_t rank = 0; rank < 8; ++rank) all += floats({rank, 8})[0];
  EXPECT_EQ(all, 128U);
  // With leaves of 16 channels, some ranks have no channels.
  spec.same_bits = true;
  EXPECT_EQ(floats({0, 8})[0], 32U);
  EXPECT_EQ(floats({7, 8})[0], 0U);
}

ModelSpec lfm2_with(const json& fields, const std::string& fixture = "lfm2") {
  json config;
  std::ifstream(reference::fixture(fixture).folder / "config.json") >> config;
  for (const auto& [name, value] : fields.items()) {
    if (value == "absent")
      config.erase(name);
    else
      config[name] = value;
  }
  return make_spec(parse_config(config.dump(), "config.json"));
}

std::vector<bool> convolutions(const ModelSpec& spec) {
  std::vector<bool> layers;
  for (const BlockSpec& block : spec.blocks)
    layers.push_back(std::holds_alternative<ShortConvolutionSpec>(block.attention));
  return layers;
}

TEST(Lfm2, HasTheConfigsConvolutions) {
  EXPECT_EQ(convolutions(lfm2_with({})), (std::vector<bool>{true, true, false, true, false}));
  const json types = {"full_attention", "conv", "conv", "conv", "full_attention"};
  EXPECT_EQ(convolutions(lfm2_with({{"layer_types", types}, {"full_attn_idxs", "absent"}})),
            (std::vector<bool>{false, true, true, true, false}));
}

// round_up(multiplier * (2 * block_ff_dim / 3), block_multiple_of)
TEST(Lfm2, AdjustsTheWidthOfItsMlps) {
  const auto width = [](const json& fields) {
    return std::get<GatedMlpSpec>(lfm2_with(fields).blocks.front().feed_forward).intermediate_size;
  };
  EXPECT_EQ(width({}), 96U);
  EXPECT_EQ(width({{"block_ffn_dim_multiplier", 1.3}}), 128U);
  EXPECT_EQ(width({{"block_ffn_dim_multiplier", nullptr}}), 88U);
  EXPECT_EQ(width({{"block_auto_adjust_ff_dim", false}}), 132U);
  EXPECT_EQ(width({{"block_ff_dim", "absent"}, {"intermediate_size", 144}}), 96U);
  EXPECT_EQ(width({{"block_multiple_of", "absent"}}), 256U);
}

TEST(Lfm2, TiesItsEmbeddingsByDefault) {
  EXPECT_TRUE(lfm2_with({}).tied_embeddings);
  EXPECT_FALSE(lfm2_with({{"tie_embedding", false}}).tied_embeddings);
  EXPECT_FALSE(lfm2_with({{"tie_word_embeddings", false}}).tied_embeddings);
}

TEST(Lfm2, RejectsUnsupportedConfigs) {
  const auto refusal = [](const json& fields, const std::string& fixture = "lfm2") {
    return test::error_of<ConfigError>([&] { lfm2_with(fields, fixture); });
  };
  EXPECT_EQ(
      refusal({{"full_attn_idxs", {2, 5}}}),
      "config.json: full_attn_idxs must be layers below num_hidden_layers, 5, found 5; check config.json");
  EXPECT_EQ(refusal({{"conv_L_cache", 257}}),
            "config.json: conv_L_cache must be at most 256, found 257; check config.json");
  EXPECT_EQ(refusal({{"block_ffn_dim_multiplier", -1}}),
            "config.json: two thirds of block_ff_dim, 88, times block_ffn_dim_multiplier must be at least 1, "
            "found a multiplier of -1 and a block_multiple_of 16; check config.json");
  EXPECT_EQ(
      refusal({{"conv_bias", true}}),
      "config.json: conv_bias must be false for Lfm2ForCausalLM, found true: this variant of the family "
      "is not supported; use a model without it");
  EXPECT_EQ(refusal({{"use_expert_bias", false}}, "lfm2moe"),
            "config.json: use_expert_bias must be true for Lfm2MoeForCausalLM, found false: this variant of "
            "the family is not supported; use a model without it");
}

}  // namespace
}  // namespace tp
