// Qwen3.5: cases that the fixtures do not cover.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <functional>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::Tensors;
using test::Values;

std::vector<float> logits_of(const std::filesystem::path& folder, const std::vector<TokenId>& prompt) {
  const auto source = SafetensorsCheckpoint::open(folder);
  test::ModelUnderTest decoder(test::world(), load_config(folder), *source, {.weights = WeightType::f32});
  return decoder.append(prompt);
}

// The logits of a fixture with changed tensors.
std::vector<float> changed_logits(const reference::Fixture& fixture,
                                  const std::function<void(Tensors&)>& change) {
  const test::TemporaryDirectory folder;
  Tensors tensors = test::tensors_of(fixture.folder);
  change(tensors);
  test::write_checkpoint(folder.path(), test::config_in(fixture.folder), tensors);
  return logits_of(folder.path(), fixture.prompt);
}

bool is_stack(const std::string& name) { return name.find(".experts.") != name.npos; }

void name_as_layers(Tensors& tensors) {
  Tensors renamed;
  for (auto& [name, values] : tensors) renamed[name + (is_stack(name) ? ".weight" : "")] = std::move(values);
  tensors = std::move(renamed);
}

// Returns `rows` rows of matrix `index` in a stack, beginning with row `first`.
Values part_of(const Values& stack, std::size_t index, std::size_t first, std::size_t rows) {
  const std::size_t columns = stack.columns();
  const auto begin =
      stack.elements.begin() + static_cast<std::ptrdiff_t>((index * stack.shape[1] + first) * columns);
  return {{rows, columns}, {begin, begin + static_cast<std::ptrdiff_t>(rows * columns)}};
}

void store_one_by_one(Tensors& tensors) {
  Tensors stored;
  for (auto& [name, values] : tensors) {
    if (!is_stack(name)) {
      stored[name] = std::move(values);
      continue;
    }
    const std::string experts = name.substr(0, name.rfind('.') + 1);
    for (std::size_t i = 0; i < values.shape[0]; ++i) {
      const std::string expert = experts + std::to_string(i) + ".";
      if (name.ends_with("down_proj")) {
        stored[expert + "down_proj.weight"] = part_of(values, i, 0, values.shape[1]);
        continue;
      }
      const std::size_t rows = values.shape[1] / 2;
      stored[expert + "gate_proj.weight"] = part_of(values, i, 0, rows);
      stored[expert + "up_proj.weight"] = part_of(values, i, rows, rows);
    }
  }
  tensors = std::move(stored);
}

TEST(Qwen35, ReadsExpertsUnderAllTheirNames) {
  const reference::Fixture fixture = reference::fixture("qwen35moe");
  const std::vector<float> expected = logits_of(fixture.folder, fixture.prompt);
  EXPECT_EQ(changed_logits(fixture, name_as_layers), expected);
  EXPECT_EQ(changed_logits(fixture, store_one_by_one), expected);
}

std::string refusal_of(const std::string& field, const json& value) {
  json config = test::config_in(reference::fixture("qwen35").folder);
  test::text_config(config)[field] = value;
  return test::error_of<ConfigError>([&] { make_spec(parse_config(config.dump(), "config.json")); });
}

TEST(Qwen35, RefusesVariantsByTheFieldThatDiffers) {
  EXPECT_CONTAINS(refusal_of("attn_output_gate", false), "attn_output_gate must be true");
  EXPECT_CONTAINS(refusal_of("mtp_use_dedicated_embeddings", true),
                  "mtp_use_dedicated_embeddings must be false");
  EXPECT_CONTAINS(
      refusal_of("layer_types",
                 {"linear_attention", "sliding_attention", "linear_attention", "full_attention"}),
      "layer_types must be full_attention or linear_attention for Qwen3_5ForConditionalGeneration, found "
      "sliding_attention");
}

// Configs of text-only models may omit layer_types.
TEST(Qwen35, HasAttentionInEveryFourthLayerWithoutLayerTypes) {
  json config = test::config_in(reference::fixture("qwen35-bare-bf16").folder);
  const ModelSpec listed = make_spec(parse_config(config.dump(), "config.json"));
  config.erase("layer_types");
  config.erase("full_attention_interval");
  EXPECT_EQ(make_spec(parse_config(config.dump(), "config.json")).blocks, listed.blocks);
}

}  // namespace
}  // namespace tp
