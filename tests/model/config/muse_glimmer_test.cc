// Muse Glimmer: defaults of fields that config.json omits.
#include "tests/error_of.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// Makes the spec after changing the language model's `fields` in the fixture's config.json; "absent" removes
// a field.
ModelSpec muse_with(const json& fields) {
  json config;
  std::ifstream(reference::fixture("museglimmer").folder / "config.json") >> config;
  for (const auto& [name, value] : fields.items()) {
    if (value == "absent")
      config["text_config"].erase(name);
    else
      config["text_config"][name] = value;
  }
  return test::spec_of(config);
}

std::string layers_of(const ModelSpec& spec) {
  std::string layers;
  for (const BlockSpec& block : spec.blocks) {
    const auto& attention = std::get<AttentionSpec>(block.attention);
    layers += attention.pattern.window ? (attention.rope ? 'r' : 'w') : (attention.rope ? 'R' : '-');
  }
  return layers;
}

TEST(MuseGlimmer, HasWindowsAndRopeInThreeOfFourLayers) {
  EXPECT_EQ(layers_of(muse_with({})), "r-rrr-");
  EXPECT_EQ(layers_of(muse_with({{"layer_types", "absent"}, {"layer_rope_theta", "absent"}})), "r-rrr-");
  EXPECT_EQ(layers_of(muse_with(
                {{"num_hidden_layers", 9}, {"layer_types", "absent"}, {"layer_rope_theta", "absent"}})),
            "-rrr-rrr-");
  EXPECT_EQ(layers_of(muse_with({{"layer_rope_theta", {0, 500000, 0, 0, 0, 0}}})), "wRwww-");
}

TEST(MuseGlimmer, HasTheScaleAndNormsOfItsClass) {
  const ModelSpec spec = muse_with({{"qk_scale_factor", "absent"},
                                    {"post_norm_eps", "absent"},
                                    {"output_multiplier", "absent"},
                                    {"final_logit_softcapping", "absent"}});
  const auto& attention = std::get<AttentionSpec>(spec.blocks.front().attention);
  EXPECT_FLOAT_EQ(attention.scale, 3.87F / 4.0F);
  EXPECT_EQ(spec.blocks.front().post_attention_norm, (NormSpec{.eps = 1e-8F, .gain_offset = 1.0F}));
  EXPECT_EQ(spec.blocks.front().input_norm, (NormSpec{.eps = 1e-5F, .gain_offset = 1.0F}));
  EXPECT_EQ(spec.final_norm, NormSpec{.eps = 1e-5F});
  EXPECT_FLOAT_EQ(spec.logit_scale, 1.0F / std::sqrt(6656.0F / 256.0F));
  EXPECT_EQ(spec.logit_softcap, 20.0F);
}

TEST(MuseGlimmer, RejectsLayersWithDifferentRopes) {
  EXPECT_EQ(
      test::error_of<ConfigError>([] {
        muse_with({{"layer_rope_theta", {1e4, 0, 1e4, 1e4, 1e4, 0}}});
      }),
      "config.json: layer_rope_theta must be 0 or rope_theta, 500000, for every layer, found 10000; use a "
      "model whose layers have the same RoPE");
  EXPECT_EQ(test::error_of<ConfigError>([] {
              muse_with({{"layer_rope_theta", {0}}});
            }),
            "config.json: no_rope_layers must have an entry for every layer, expected 6 (num_hidden_layers), "
            "found 1");
}

}  // namespace
}  // namespace tp
