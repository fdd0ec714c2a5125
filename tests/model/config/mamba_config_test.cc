// Configs of models with Mamba-1 and Mamba-2 mixers: spellings, and variants that the mixer cannot express.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/files/json_node.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// The fixture's config with these fields; null removes a field.
CheckpointConfig mamba_config_with(const std::string& fixture, const json& fields) {
  json config = read_json_file(reference::fixture(fixture).folder / "config.json");
  if (!fields.empty()) config.merge_patch(fields);
  return parse_config(config.dump(), "config.json");
}

ModelSpec mamba_spec_with(const std::string& fixture, const json& fields) {
  return make_spec(mamba_config_with(fixture, fields));
}

std::string mamba_error(const std::string& fixture, const json& fields) {
  return test::error_of<ConfigError>([&] { mamba_spec_with(fixture, fields); });
}

TEST(MambaConfig, HasTheLayersOfNemotronInAPatternOrInAList) {
  const ModelSpec expected = mamba_spec_with("nemotronh", {});
  ASSERT_EQ(expected.blocks.size(), 7U);  // M-M*-M-
  EXPECT_TRUE(keeps_state(expected.blocks[0]) && !keeps_keys(expected.blocks[0]));
  EXPECT_FALSE(keeps_state(expected.blocks[1]) || keeps_keys(expected.blocks[1]));
  EXPECT_TRUE(keeps_keys(expected.blocks[3]) && !keeps_state(expected.blocks[3]));
  EXPECT_FALSE(std::get<AttentionSpec>(expected.blocks[3].attention).rope);
  const auto in_a_list = [&](const std::string& mixer, const std::string& attention) {
    const json list = {mixer, "mlp", mixer, attention, "mlp", mixer, "mlp"};
    return mamba_spec_with("nemotronh", {{"hybrid_override_pattern", nullptr},
                                         {"num_hidden_layers", nullptr},
                                         {"layers_block_type", list}})
        .blocks;
  };
  EXPECT_EQ(in_a_list("mamba", "attention"), expected.blocks);
  EXPECT_EQ(in_a_list("linear_attention", "full_attention"), expected.blocks);
  EXPECT_CONTAINS(mamba_error("nemotronh", {{"hybrid_override_pattern", "M-M*-MX"}}), "found \"X\"");
}

TEST(MambaConfig, HasAKeyPerFamilyForAHeadsSize) {
  EXPECT_EQ(mamba_config_with("granite4h", {{"mamba_d_head", "auto"}}).mamba.d_head, 16U);
  EXPECT_EQ(mamba_config_with("bamba", {{"mamba_d_head", nullptr}}).mamba.d_head, 16U);
  EXPECT_EQ(mamba_config_with("nemotronh", {{"mamba_head_dim", 8}}).mamba.d_head, 8U);
  EXPECT_CONTAINS(mamba_error("granite4h", {{"mamba_d_head", 8}}), "found 128 and 8 x 8");
  EXPECT_CONTAINS(mamba_error("falconh1", {{"mamba_n_groups", 4}}), "found 6 and 4");
}

TEST(MambaConfig, HasRopeInGraniteOnlyIfTheConfigAsks) {
  const auto has_rope = [](const json& fields) {
    return std::get<AttentionSpec>(mamba_spec_with("granite4h", fields).blocks[2].attention).rope.has_value();
  };
  EXPECT_FALSE(has_rope({}));
  EXPECT_TRUE(has_rope({{"position_embedding_type", "rope"}}));
}

// Granite's smaller models have only the shared MLP.
TEST(MambaConfig, HasOneMlpInGraniteWithoutExperts) {
  const ModelSpec spec = mamba_spec_with("granite4h", {{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.blocks[0].feed_forward).intermediate_size, 40U);
  EXPECT_EQ(spec.names.block(0).gate_up_proj, "layers.0.shared_mlp.input_linear");
}

TEST(MambaConfig, HasTheSizesOfMamba1) {
  const Mamba1Config config = mamba_config_with("mamba1", {}).mamba1;
  EXPECT_EQ(config.d_inner, 128U);
  EXPECT_EQ(config.dt_rank, 4U);
  EXPECT_EQ(mamba_config_with("mamba1", {{"time_step_rank", "auto"}, {"hidden_size", 72}}).mamba1.dt_rank,
            5U);
  EXPECT_EQ(mamba_config_with("mamba1", {}).num_attention_heads, 8U) << "units of channels";
  EXPECT_EQ(mamba_config_with("jamba", {}).num_attention_heads, 8U) << "heads";
  EXPECT_CONTAINS(mamba_error("mamba1", {{"expand", 3}}),
                  "intermediate_size must be expand x hidden_size, 192");
  EXPECT_CONTAINS(mamba_error("jamba", {{"attn_layer_offset", 4}}),
                  "less than attn_layer_period, found 4 and 4");
}

TEST(MambaConfig, HasAttentionAndExpertsOfJambaByTheirPeriods) {
  const ModelSpec spec = mamba_spec_with("jamba", {});
  for (std::size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(keeps_keys(spec.blocks[layer]), layer == 2) << layer;
    EXPECT_EQ(experts_in(spec.blocks[layer]) != nullptr, layer % 2 == 1) << layer;
  }
  const ModelSpec one_expert = mamba_spec_with("jamba", {{"num_experts", 1}});
  for (const BlockSpec& block : one_expert.blocks) EXPECT_EQ(experts_in(block), nullptr);
  const ModelSpec usual = mamba_spec_with("jamba", {{"num_hidden_layers", 16},
                                                    {"attn_layer_period", nullptr},
                                                    {"attn_layer_offset", nullptr},
                                                    {"expert_layer_period", nullptr},
                                                    {"expert_layer_offset", nullptr}});
  EXPECT_TRUE(keeps_keys(usual.blocks[4]) && keeps_keys(usual.blocks[12]) && !keeps_keys(usual.blocks[2]));
  EXPECT_TRUE(experts_in(usual.blocks[15]) != nullptr && experts_in(usual.blocks[14]) == nullptr);
}

TEST(MambaConfig, RefusesOtherMixers) {
  for (const auto& [fixture, fields] : std::vector<std::pair<std::string, json>>{
           {"granite4h", {{"mamba_proj_bias", true}}},
           {"bamba", {{"mamba_conv_bias", false}}},
           {"nemotronh", {{"use_bias", true}}},
           {"nemotronh", {{"time_step_limit", {0.001, 0.1}}}},
           {"falconh1", {{"attention_bias", true}}},
           {"mamba1", {{"use_conv_bias", false}}},
           {"mamba1", {{"hidden_act", "gelu"}}},
           {"jamba", {{"mamba_proj_bias", true}}},
           {"jamba", {{"mamba_inner_layernorms", false}}},
           {"jamba", {{"sliding_window", 64}}},
           {"falconh1", {{"mamba_rms_norm", true}, {"mamba_norm_before_gate", true}}},
           {"falconh1", {{"ssm_multipliers", {1.0, 2.0}}}}})
    EXPECT_THROW(mamba_spec_with(fixture, fields), ConfigError) << fixture << ": " << fields;
  EXPECT_NO_THROW(mamba_spec_with("nemotronh", {{"time_step_limit", {0.0, "Infinity"}}}));
  for (const char* const fixture : {"bamba", "falconh1", "granite4h", "mamba2", "nemotronh"}) {
    for (const double limit : {1e308, 1e39, 3.5e38})
      EXPECT_NO_THROW(mamba_spec_with(fixture, {{"time_step_limit", {0.0, limit}}})) << fixture << limit;
    for (const double limit : {-1e308, 3e38, 1e30})
      EXPECT_THROW(mamba_spec_with(fixture, {{"time_step_limit", {0.0, limit}}}), ConfigError) << fixture;
  }
  EXPECT_NO_THROW(mamba_spec_with("falconh1", {{"mamba_rms_norm", true}, {"mamba_norm_before_gate", false}}));
}

}  // namespace
}  // namespace tp
