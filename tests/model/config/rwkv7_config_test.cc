// Configs of RWKV-7: defaults, and variants that the layers cannot express.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/files/json_node.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// The fixture's config with these fields; null removes a field.
CheckpointConfig rwkv7_with(const json& fields) {
  json config = read_json_file(reference::fixture("rwkv7").folder / "config.json");
  if (!fields.empty()) config.merge_patch(fields);
  return parse_config(config.dump(), "config.json");
}

std::string rwkv7_error(const json& fields) {
  return test::error_or_none<std::exception>([&] { make_spec(rwkv7_with(fields)); });
}

void expect_error(const json& fields, const std::string& text) { EXPECT_CONTAINS(rwkv7_error(fields), text); }

TEST(Rwkv7Config, HasHeadsOfOneSizeAndNoLimitOfPositions) {
  const CheckpointConfig config = rwkv7_with({});
  EXPECT_EQ(config.num_attention_heads, 2U);
  EXPECT_EQ(config.num_key_value_heads, 2U);
  EXPECT_EQ(config.max_position_embeddings, std::size_t{1} << 20);
  const ModelSpec spec = make_spec(config);
  EXPECT_TRUE(std::get<Rwkv7Spec>(spec.blocks[0].attention).is_first);
  EXPECT_FALSE(std::get<Rwkv7Spec>(spec.blocks[1].attention).is_first);
  EXPECT_FLOAT_EQ(std::get<Rwkv7Spec>(spec.blocks[1].attention).norm.eps, 64e-5F);
  EXPECT_EQ(std::get<PlainMlpSpec>(spec.blocks[2].feed_forward).activation, Activation::relu_squared);
  EXPECT_TRUE(keeps_state(spec.blocks[0]) && !keeps_keys(spec.blocks[0]));
  EXPECT_FALSE(can_divide_layers(spec));
  EXPECT_EQ(rwkv7_with({{"head_dim", 32}}).num_attention_heads, 4U);
  EXPECT_EQ(rwkv7_with({{"num_heads", 2}}).num_attention_heads, 2U);
}

TEST(Rwkv7Config, HasAnMlpOfFourTimesTheHiddenSizeByDefault) {
  EXPECT_EQ(rwkv7_with({{"intermediate_size", nullptr}}).intermediate_size, 512U);
  EXPECT_EQ(rwkv7_with({{"intermediate_size", 384}, {"hidden_ratio", 3.0}}).intermediate_size, 384U);
  expect_error({{"intermediate_size", nullptr}, {"hidden_ratio", 3.5}},
               "hidden_ratio must be 4 without an intermediate_size, found 3.5");
}

TEST(Rwkv7Config, RefusesOtherVariants) {
  expect_error({{"attn", {{"layers", {1}}, {"num_heads", 2}}}}, "attn must be null");
  expect_error({{"hidden_act", "silu"}}, "hidden_act must be \"sqrelu\"");
  expect_error({{"norm_first", false}}, "norm_first must be true");
  expect_error({{"norm_bias", false}}, "norm_bias must be true");
  expect_error({{"value_dim", {128, 128, 256}}},
               "value_dim must be hidden_size, 128, in all layers, found 256");
  EXPECT_EQ(rwkv7_error({{"value_dim", {128, 128, 128}}}), "no error");
  expect_error({{"layer_types", {"linear_attention", "sliding_attention", "linear_attention"}}},
               "layer_types must be linear_attention for RWKV7ForCausalLM");
}

TEST(Rwkv7Config, RefusesImpossibleSizes) {
  expect_error({{"head_dim", 48}}, "hidden_size must be a multiple of head_dim, found 128 and 48");
  expect_error({{"num_heads", 3}}, "num_heads must be hidden_size / head_dim, 2, found 3");
  expect_error({{"v_low_rank_dim", nullptr}}, "v_low_rank_dim must be 1 to 65536, found none");
  expect_error({{"gate_low_rank_dim", 1 << 20}}, "gate_low_rank_dim must be 1 to 65536, found 1048576");
  expect_error({{"a_low_rank_dim", "x"}}, "a_low_rank_dim");
  expect_error({{"hidden_size", 1 << 24}, {"head_dim", 65536}},
               "hidden_size times head_dim must be at most 268435456");
}

}  // namespace
}  // namespace tp
