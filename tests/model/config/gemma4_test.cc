// Gemma 4's configs, and layers that share keys and values: cases that the fixtures do not cover.
#include "model/config/favor_spec.h"
#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

json gemma4_config_of(const std::string& fixture) {
  return json::parse(std::ifstream(reference::fixture(fixture).folder / "config.json"));
}

// The fixture's model with these fields; null removes a field.
ModelSpec gemma4_with(const json& fields, const std::string& fixture = "gemma4") {
  json config = gemma4_config_of(fixture);
  if (!fields.empty()) config["text_config"].merge_patch(fields);
  return test::spec_of(config);
}

const AttentionSpec& gemma4_attention(const ModelSpec& spec, std::size_t layer) {
  return std::get<AttentionSpec>(spec.blocks[layer].attention);
}

std::vector<std::optional<std::size_t>> gemma4_shared_layers(const ModelSpec& spec) {
  std::vector<std::optional<std::size_t>> shared;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer)
    shared.push_back(gemma4_attention(spec, layer).shared_kv_layer);
  return shared;
}

TEST(Gemma4, HasOtherHeadsInLayersWithoutAWindow) {
  const ModelSpec spec = gemma4_with({});
  EXPECT_EQ(gemma4_attention(spec, 0).head_dim, 8U);
  EXPECT_EQ(gemma4_attention(spec, 0).num_key_value_heads, 4U);
  EXPECT_FALSE(gemma4_attention(spec, 0).values_are_keys);
  EXPECT_EQ(gemma4_attention(spec, 2).head_dim, 16U);
  EXPECT_EQ(gemma4_attention(spec, 2).num_key_value_heads, 2U);
  EXPECT_TRUE(gemma4_attention(spec, 2).values_are_keys);
  EXPECT_EQ(gemma4_attention(gemma4_with({{"attention_k_eq_v", false}}), 2).num_key_value_heads, 4U);
}

TEST(Gemma4, ReadsTheSizesOfLayersFromAList) {
  const json sizes = {{"head_dim", 16}, {"num_key_value_heads", 2}};
  const json old_fields = {{"global_head_dim", nullptr}, {"num_global_key_value_heads", nullptr}};
  json fields = old_fields;
  fields["per_layer_config"] = {{"2", sizes}, {"5", sizes}};
  EXPECT_TRUE(gemma4_with(fields).blocks == gemma4_with({}).blocks);
  fields["per_layer_config"] = {{"2", sizes}, {"5", {{"head_dim", 32}}}};
  EXPECT_THROW(gemma4_with(fields), ConfigError);
  fields["per_layer_config"] = {{"2", sizes}, {"3", sizes}, {"5", sizes}};
  EXPECT_THROW(gemma4_with(fields), ConfigError);
}

TEST(Gemma4, SharesKeysAndValuesOfTheLastEarlierLayerOfTheSameType) {
  const ModelSpec spec = gemma4_with({}, "gemma4-e");
  EXPECT_EQ(gemma4_shared_layers(spec),
            (std::vector<std::optional<std::size_t>>{{}, {}, {}, {}, 2, 2, 2, 3}));
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.blocks[3].feed_forward).intermediate_size, 96U);
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.blocks[4].feed_forward).intermediate_size, 192U);
  EXPECT_THROW(gemma4_with({{"num_kv_shared_layers", 5}}, "gemma4-e"), ConfigError) << "no layer without one";
  EXPECT_THROW(gemma4_with({{"num_kv_shared_layers", 8}}, "gemma4-e"), ConfigError);
}

TEST(Gemma4, NeedsNoCacheForLayersThatShareKeysAndValues) {
  const ModelSpec spec = gemma4_with({}, "gemma4-e");
  const auto source = SafetensorsCheckpoint::open(reference::fixture("gemma4-e").folder);
  const Model decoder = Model::shape_of(spec, *source, {0, 1}, {});
  const std::vector<kernels::KvLayout> layouts = decoder.kv_layouts(KvType::f32, 16);
  const CacheGroups groups = CacheGroups::of(spec, 1);
  const KvCache cache(layouts, groups, 3);
  for (std::size_t layer = 4; layer < 8; ++layer) {
    const std::size_t shared = *gemma4_attention(spec, layer).shared_kv_layer;
    EXPECT_EQ(groups.places[layer], groups.places[shared]);
    EXPECT_EQ(cache.layer(layer).base, cache.layer(shared).base);
    EXPECT_EQ(cache.group(layer), cache.group(shared));
  }
  // Three local layers, and a global layer, which has twice as many elements. Values are padded, so two local
  // layers need more bytes.
  EXPECT_EQ(groups.windows, (CacheWindows{8, 8, std::nullopt}));
  EXPECT_EQ(block_bytes(layouts, groups), 2 * layouts[0].block_bytes());
}

TEST(Gemma4, CannotBeDividedIntoStagesIfLayersReadMoreThanTheStream) {
  const auto source = SafetensorsCheckpoint::open(reference::fixture("gemma4-e").folder);
  EXPECT_THROW(Model::shape_of(gemma4_with({}, "gemma4-e"), *source, {0, 1}, {}, {0, 2}), ConfigError);
  const auto other = SafetensorsCheckpoint::open(reference::fixture("gemma4").folder);
  EXPECT_NO_THROW(Model::shape_of(gemma4_with({}), *other, {0, 1}, {}, {0, 2}));
}

TEST(Gemma4, HasNoInputsPerLayerIfTheirSizeIsNullOr0) {
  EXPECT_TRUE(gemma4_with({}, "gemma4-e").per_layer_inputs);
  json config = gemma4_config_of("gemma4-e");
  config["text_config"]["hidden_size_per_layer_input"] = nullptr;
  EXPECT_FALSE(test::spec_of(config).per_layer_inputs);
  EXPECT_FALSE(gemma4_with({{"hidden_size_per_layer_input", 0}}, "gemma4-e").per_layer_inputs);
}

TEST(Gemma4, RejectsUnsupportedValues) {
  EXPECT_THROW(gemma4_with({{"use_bidirectional_attention", "all"}}), ConfigError);
  EXPECT_THROW(gemma4_with({{"enable_moe_block", true}}), ConfigError) << "no experts";
  ModelSpec spec = gemma4_with({{"hidden_size_per_layer_input", 0}}, "gemma4-e");
  EXPECT_THROW(approximate_attention(spec, 16), ConfigError) << "shared keys and values";
}

// Like the original code, whatever layer_types says.
TEST(Gemma4, HasNoWindowInTheLastLayer) {
  const json types = json(std::vector<std::string>(6, "sliding_attention"));
  const ModelSpec spec = gemma4_with({{"layer_types", types}});
  EXPECT_TRUE(gemma4_attention(spec, 4).pattern.window);
  EXPECT_FALSE(gemma4_attention(spec, 5).pattern.window);
  EXPECT_EQ(gemma4_attention(spec, 5).head_dim, 16U);
}

}  // namespace
}  // namespace tp
