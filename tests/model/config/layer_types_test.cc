// layer_types in the spelling of transformers 5, for the configurations of all fixtures.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/files/json_node.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/encoder_fixture.h"
#include "tests/reference/fixture.h"

#include <set>
#include <string>
#include <variant>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using test::spec_of;

// The name of a block's kind in transformers 5. Its `remap_legacy_layer_types` knows two older names: "mamba"
// and "attention".
std::string type_of(const BlockSpec& block) {
  if (block.parallel_mixer) return "hybrid";
  if (std::holds_alternative<MambaSpec>(block.attention) ||
      std::holds_alternative<Mamba1Spec>(block.attention) ||
      std::holds_alternative<Rwkv7Spec>(block.attention) ||
      std::holds_alternative<GatedDeltaNetSpec>(block.attention))
    return "linear_attention";
  if (std::holds_alternative<ShortConvolutionSpec>(block.attention)) return "conv";
  if (indexer_of(block) != nullptr) return "deepseek_sparse_attention";
  if (std::holds_alternative<NoPartSpec>(block.attention))
    return std::holds_alternative<MixtureOfExpertsSpec>(block.feed_forward) ? "moe" : "mlp";
  const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
  if (attention == nullptr || attention->alibi_slopes.size() != 0) return "full_attention";
  if (attention->pattern.chunk) return "chunked_attention";
  return attention->pattern.window ? "sliding_attention" : "full_attention";
}

// The configuration with layer_types instead of the family's older fields for them.
json with_types(json config, const ModelSpec& spec) {
  json& fields = config.contains("text_config") ? config["text_config"] : config;
  for (const char* const older : {"attn_layer_indices", "layers_block_type", "hybrid_override_pattern",
                                  "full_attention_interval", "full_attn_idxs", "attention_types",
                                  "attention_layers", "global_attn_every_n_layers", "attn_layer_period"})
    fields.erase(older);
  fields["layer_types"] = json::array();
  for (const BlockSpec& block : spec.blocks) fields["layer_types"].push_back(type_of(block));
  return config;
}

void expect_same_blocks(const std::filesystem::path& folder, const std::string& name,
                        std::set<std::string>& types) {
  SCOPED_TRACE(name);
  const json config = read_json_file(folder / "config.json");
  const ModelSpec spec = spec_of(config);
  if (spec.recomputes) return;  // Reformer has attn_layers with its own types
  if (std::holds_alternative<CompressedAttentionSpec>(spec.blocks.front().attention))
    return;  // compress_ratios
  const json newer = with_types(config, spec);
  for (const BlockSpec& block : spec.blocks) types.insert(type_of(block));
  EXPECT_EQ(spec_of(newer).blocks, spec.blocks) << newer.dump();
}

TEST(LayerTypes, FromTransformers5GiveEveryFamilyTheSameLayers) {
  std::set<std::string> types;
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures()))
    expect_same_blocks(fixture.folder, fixture.name, types);
  for (const reference::EncoderFixture& fixture : reference::encoder_fixtures()) {
    const std::string architecture = load_config(fixture.folder).architecture;
    if (architecture.starts_with("ModernBert")) expect_same_blocks(fixture.folder, fixture.name, types);
  }
  EXPECT_EQ(types,
            (std::set<std::string>{"chunked_attention", "conv", "deepseek_sparse_attention", "full_attention",
                                   "hybrid", "linear_attention", "mlp", "moe", "sliding_attention"}));
}

TEST(LayerTypes, RejectTypesOfOtherFamilies) {
  json config = test::small_config();
  for (const char* const type :
       {"deepseek_sparse_attention", "hybrid", "linear_attention", "mamba", "conv"}) {
    config["layer_types"] = {"full_attention", type};
    EXPECT_CONTAINS(test::refusal_of(config), std::string("found \"") + type + "\"");
  }
}

}  // namespace
}  // namespace tp
