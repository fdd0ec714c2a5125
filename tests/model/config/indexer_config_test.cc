// Configs of models with indexers: the layers with an indexer, and impossible sizes.
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// Makes the spec of a fixture's config with other fields. null removes a field.
ModelSpec indexed_spec_with(const std::string& fixture, const json& fields) {
  json config;
  std::ifstream(reference::seeded_folder("logits", fixture) / "config.json") >> config;
  config.merge_patch(fields);
  return test::spec_of(config);
}

// F for a layer with an indexer, S for one that shares it.
std::string layers_with(const json& fields) {
  std::string letters;
  json all = {{"index_topk_pattern", nullptr}};
  all.update(fields);
  for (const BlockSpec& block : indexed_spec_with("glm52dsa", all).blocks)
    letters += indexer_of(block)->is_shared ? 'S' : 'F';
  return letters;
}

TEST(IndexerConfig, HasAnIndexerInTheLayersThatAListAPatternOrADistanceNames) {
  EXPECT_EQ(layers_with(json::object()), "FFFFF");
  EXPECT_EQ(layers_with({{"indexer_types", {"full", "shared", "full", "shared", "shared"}}}), "FSFSS");
  EXPECT_EQ(layers_with({{"index_topk_pattern", "FSSFSFF"}}), "FSSFS");
  EXPECT_EQ(layers_with({{"index_topk_freq", 1}}), "FFFFF");
  // Layer i has an indexer if max(i - offset + 1, 0) is a multiple of the distance.
  EXPECT_EQ(layers_with({{"index_topk_freq", 2}}), "FFSFS");
  EXPECT_EQ(layers_with({{"index_topk_freq", 3}, {"index_skip_topk_offset", 1}}), "FSSFS");
}

TEST(IndexerConfig, RefusesPatternsWithoutAFirstIndexerAndSizesThatDontFit) {
  for (const json& fields :
       {json{{"index_topk_pattern", "SFFFF"}}, json{{"index_topk_pattern", "FFF"}},
        json{{"index_topk_pattern", "FXFFF"}}, json{{"indexer_types", {"full"}}}, json{{"index_head_dim", 4}},
        json{{"index_topk", 1U << 30}}, json{{"q_lora_rank", nullptr}}})
    EXPECT_THROW(indexed_spec_with("glm52dsa", fields), ConfigError) << fields;
}

TEST(IndexerConfig, PairsHalvesInDeepseekAndNeighboursInGlm) {
  for (const auto& [fixture, is_interleaved] : {std::pair{"deepseekv32", false}, {"glm5dsa", true}}) {
    const ModelSpec spec = indexed_spec_with(fixture, {{"indexer_rope_interleave", nullptr}});
    EXPECT_EQ(indexer_of(spec.blocks.front())->interleaved_rope, is_interleaved) << fixture;
  }
}

TEST(IndexerConfig, KnowsWhetherLayersShareAChoice) {
  for (const auto& [fixture, are_shared] : {std::pair{"glm5dsa", false}, {"glm52dsa", true}}) {
    const ModelSpec spec = indexed_spec_with(fixture, json::object());
    EXPECT_EQ(shares_indexers(spec), are_shared) << fixture;
    EXPECT_EQ(max_chosen(spec), 8U) << fixture;
    EXPECT_TRUE(can_divide_layers(spec)) << fixture;
  }
}

// The config of MiniMax-M3's fixture with other fields of its language model.
ModelSpec block_spec_with(const json& fields) {
  return indexed_spec_with("minimaxm3", {{"text_config", fields}});
}

TEST(BlockIndexerConfig, HasAnIndexerInTheLayersThatAListNames) {
  const auto layers_of = [](const ModelSpec& spec) {
    std::string letters;
    for (const BlockSpec& block : spec.blocks) letters += block_indexer_of(block) != nullptr ? 'B' : '.';
    return letters;
  };
  EXPECT_EQ(layers_of(block_spec_with(json::object())), ".BBB");
  EXPECT_EQ(layers_of(block_spec_with({{"sparse_attention_config",
                                        {{"sparse_attention_freq", {1, 0, 0, 1, 1}},
                                         {"sparse_disable_index_value", {1, 0, 0, 1, 1}}}}})),
            "B..B");
  // The spelling of transformers 5.
  const char* const kSparse = "minimax_m3_sparse";
  const char* const kFull = "full_attention";
  const ModelSpec flat = block_spec_with({{"sparse_attention_config", nullptr},
                                          {"layer_types", {kFull, kSparse, kSparse, kSparse}},
                                          {"index_n_heads", 2},
                                          {"index_head_dim", 16},
                                          {"index_block_size", 4},
                                          {"index_topk_blocks", 3},
                                          {"index_local_blocks", 1}});
  EXPECT_EQ(flat.blocks, block_spec_with(json::object()).blocks);
}

TEST(BlockIndexerConfig, RejectsUnsupportedValues) {
  for (const json& sparse :
       {json{{"sparse_num_index_heads", 4}}, json{{"sparse_index_dim", 4}},
        json{{"sparse_index_dim", 1U << 20}}, json{{"sparse_block_size", 1U << 30}},
        json{{"sparse_topk_blocks", 1U << 30}}, json{{"sparse_local_block", 4}},
        json{{"sparse_attention_freq", {0, 1}}}, json{{"sparse_disable_index_value", {0, 1, 0, 1}}},
        json{{"sparse_init_block", 1}}, json{{"sparse_score_type", "mean"}},
        json{{"use_sparse_attention", false}}})
    EXPECT_THROW(block_spec_with({{"sparse_attention_config", sparse}}), ConfigError) << sparse;
  for (const json& sparse : {json{{"sparse_block_size", 0}}, json{{"sparse_topk_blocks", "3"}}})
    EXPECT_THROW(block_spec_with({{"sparse_attention_config", sparse}}), CheckpointError) << sparse;
  for (const json& fields :
       {json{{"hidden_act", "silu"}}, json{{"swiglu_limit", 6.0}}, json{{"swiglu_alpha", 1.0}},
        json{{"qk_norm_type", "per_layer"}}, json{{"attention_output_gate", true}}})
    EXPECT_THROW(block_spec_with(fields), ConfigError) << fields;
  EXPECT_THROW(indexed_spec_with("minimaxm3", {{"is_causal", false}}), ConfigError);
}

}  // namespace
}  // namespace tp
