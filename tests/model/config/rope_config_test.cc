#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::damage_with;
using test::parse;
using test::refusal_of;
using test::refusal_with;
using test::small_config;

TEST(RopeConfig, ReadsEveryRopeScalingThatIsSupported) {
  json object = small_config();
  object["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  EXPECT_EQ(parse(object).rope_scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(parse(object).rope_scaling.factor, 2.5);

  object["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  RopeScaling scaling = parse(object).rope_scaling;
  EXPECT_EQ(scaling.kind, RopeScaling::Kind::llama3);
  EXPECT_EQ(scaling.factor, 8.0);
  EXPECT_EQ(scaling.low_freq_factor, 1.0);
  EXPECT_EQ(scaling.high_freq_factor, 4.0);
  EXPECT_EQ(scaling.original_max_position_embeddings, 8192U);

  object["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  scaling = parse(object).rope_scaling;
  EXPECT_EQ(scaling.kind, RopeScaling::Kind::yarn);
  EXPECT_EQ(scaling.original_max_position_embeddings, 256U);  // max_position_embeddings
  EXPECT_EQ(scaling.beta_fast, 32.0);
  EXPECT_EQ(scaling.beta_slow, 1.0);
  EXPECT_NEAR(scaling.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-12);
  object["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(parse(object).rope_scaling.attention_factor, 1.5);
  object["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"mscale", 0.5}, {"mscale_all_dim", 1.0}};
  EXPECT_NEAR(parse(object).rope_scaling.attention_factor,
              (0.05 * std::log(4.0) + 1.0) / (0.1 * std::log(4.0) + 1.0), 1e-12);

  object["rope_scaling"] = {{"rope_type", "default"}};
  EXPECT_EQ(parse(object).rope_scaling.kind, RopeScaling::Kind::none);
}

// transformers 5 stores theta and scaling together.
TEST(RopeConfig, ReadsRopeParametersOfNewerConfigs) {
  json object = small_config();
  object["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 3.0}, {"rope_theta", 250000.0}};
  const CheckpointConfig config = parse(object);
  EXPECT_EQ(config.rope_theta, 250000.0);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::linear);
  EXPECT_EQ(config.rope_scaling.factor, 3.0);
}

// Gemma 3 and OLMo 3 have rope parameters for each kind of layer.
TEST(RopeConfig, ReadsRopeParametersOfEveryKindOfLayers) {
  json object = small_config();
  object["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}}};
  const CheckpointConfig config = parse(object);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.rope_scaling.factor, 8.0);
  EXPECT_EQ(config.rope_local_base_freq, 5e3);
  object["rope_parameters"]["sliding_attention"]["rope_type"] = "yarn";
  EXPECT_CONTAINS(refusal_of(object),
                  "layers of sliding_attention must be of the type default, found \"yarn\"");
}

// Tencent's Hunyuan: theta times alpha^(d / (d - 2)), with heads of d = 8.
TEST(RopeConfig, EnlargesThetaByAlpha) {
  json object = small_config();
  object["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  EXPECT_EQ(parse(object).rope_scaling.kind, RopeScaling::Kind::none);
  EXPECT_NEAR(parse(object).rope_theta, 1e4 * 1e4, 1e-4);
  EXPECT_CONTAINS(refusal_with("rope_scaling", {{"type", "dynamic"}, {"alpha", -1.0}}),
                  "alpha must be positive");
}

// InternLM's scaling affects only sequences longer than max_position_embeddings, which no request is. mRoPE
// has three positions, which are equal in texts.
TEST(RopeConfig, NeedsNoScalingThatTextsNeverReach) {
  json object = small_config();
  object["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  EXPECT_EQ(parse(object).rope_scaling.kind, RopeScaling::Kind::none);
  EXPECT_EQ(parse(object).rope_theta, 1e4);
  object["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}};
  EXPECT_EQ(parse(object).rope_scaling.kind, RopeScaling::Kind::none);
}

TEST(RopeConfig, RefusesRopeScalingThatItDoesNotKnow) {
  EXPECT_EQ(refusal_with("rope_scaling",
                         {{"type", "dynamic"}, {"factor", 2.0}, {"original_max_position_embeddings", 16}}),
            "config.json: rope_scaling of type \"dynamic\" is not supported; supported are linear, llama3, "
            "yarn, longrope, proportional, and dynamic that begins at max_position_embeddings");
  EXPECT_EQ(refusal_with("rope_scaling", {{"type", "linear"}, {"factor", 0.5}}),
            "config.json: rope_scaling: factor must be >= 1, found 0.5");
  EXPECT_CONTAINS(damage_with("rope_scaling", {{"type", "linear"}}),
                  "cannot use rope_scaling: found no 'factor' in it");
  EXPECT_EQ(
      refusal_with("rope_scaling",
                   {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 3}}),
      "config.json: rope_scaling: expected 0 < low_freq_factor <= high_freq_factor, found 4 and 3");
}

json longrope() {
  json object = small_config();
  object["architectures"] = {"Phi3ForCausalLM"};
  object["max_position_embeddings"] = 131072;
  object["original_max_position_embeddings"] = 4096;
  object["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", {1, 1.5, 2, 3}}, {"long_factor", {2, 4, 8, 16}}};
  return object;
}

TEST(RopeConfig, ReadsLongropeByBothNames) {
  json object = longrope();
  for (const char* name : {"longrope", "su"}) {
    object["rope_scaling"]["type"] = name;
    const RopeScaling scaling = parse(object).rope_scaling;
    EXPECT_EQ(scaling.kind, RopeScaling::Kind::longrope);
    EXPECT_EQ(scaling.original_max_position_embeddings, 4096U);
    EXPECT_EQ(scaling.short_factor, (std::vector<double>{1, 1.5, 2, 3}));
    EXPECT_EQ(scaling.long_factor, (std::vector<double>{2, 4, 8, 16}));
    EXPECT_NEAR(scaling.attention_factor, std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-12);
  }
  object["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(parse(object).rope_scaling.attention_factor, 1.5);
  object["max_position_embeddings"] = 4096;
  object["rope_scaling"].erase("attention_factor");
  EXPECT_EQ(parse(object).rope_scaling.attention_factor, 1.0);
}

TEST(RopeConfig, CountsLongropesFactorsByWhatIsTurned) {
  json object = longrope();
  object["partial_rotary_factor"] = 0.5;  // rotates half of 8 elements
  EXPECT_EQ(refusal_of(object),
            "config.json: rope_scaling: short_factor must have a number for every rotated pair, "
            "expected 2, found 4");
  object["rope_scaling"]["short_factor"] = {1, 1};
  object["rope_scaling"]["long_factor"] = {2, 0};
  EXPECT_EQ(refusal_of(object), "config.json: rope_scaling: long_factor must be positive, found 0");
}

}  // namespace
}  // namespace tp
